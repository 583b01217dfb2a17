//! The rules of a specification, once more in Rust: objects that were stored under an older schema,
//! or past a disabled one, come here first. The messages are those of the resource definition.
//!
//! Beside them stand what CEL cannot ask: the same function that nodes form their topology with.

use std::net::IpAddr;
use std::time::Duration;

use bytesize::ByteSize;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;
use sherd_core::topology::{GeometryRequest, PoolShape};

use super::image;
use super::quantity;
use super::remarks::{Remark, memory_remark, remarks};
use super::s3_tls;
use crate::api::{
    EnvironmentVariable, Erasure, Image, NodeSettings, Pool, Reason, ServiceType, StorageCluster, Upgrade,
    message,
};
use crate::limits;
use crate::names::Names;
use crate::rollout::{PoolSets, UpgradeRules};

/// A cluster that breaks no rule. Only [`validate`] makes one, and the later steps take it in place of the
/// object: none of them checks a rule again.
#[derive(Debug, Clone, PartialEq)]
pub struct ValidCluster<'a> {
    cluster: &'a StorageCluster,
    pool: &'a Pool,
    names: Names,
    remarks: Vec<Remark>,
    sets: PoolSets,
    upgrade: UpgradeRules,
}

impl<'a> ValidCluster<'a> {
    /// Returns the object that was validated.
    pub fn cluster(&self) -> &'a StorageCluster {
        self.cluster
    }

    /// Returns its one pool.
    pub fn pool(&self) -> &'a Pool {
        self.pool
    }

    /// Returns the names of its children.
    pub fn names(&self) -> &Names {
        &self.names
    }

    /// Returns the erasure sets of its volumes.
    pub fn sets(&self) -> &PoolSets {
        &self.sets
    }

    /// Returns the rules by which pods are replaced.
    pub fn upgrade(&self) -> UpgradeRules {
        self.upgrade
    }

    /// Returns the limits of the geometry and of the settings, a sentence each.
    pub fn remarks(&self) -> &[Remark] {
        &self.remarks
    }
}

/// Judges a cluster; the messages name every rule that is broken.
///
/// # Errors
/// The messages, at least one.
pub fn validate(cluster: &StorageCluster) -> Result<ValidCluster<'_>, Vec<String>> {
    let mut broken = Vec::new();
    let mut rule = |holds: bool, message: &str| {
        if !holds {
            broken.push(message.to_owned());
        }
    };
    let name = cluster.metadata.name.as_deref().unwrap_or_default();
    rule(name.len() <= 30 && is_label(name), message::NAME);
    rule(cluster.spec.pools.len() == 1, message::ONE_POOL);
    for pool in &cluster.spec.pools {
        rule(is_pool_name(&pool.name), "pool names are 1 to 16 lower-case letters, digits and '-'");
        rule((1..=64).contains(&pool.nodes), "nodes must be 1 to 64");
        rule((1..=32).contains(&pool.volumes_per_node), "volumesPerNode must be 1 to 32");
        rule(pool.erasure.is_none_or(|erasure| erasure.parity < erasure.set_size), message::PARITY);
        rule(is_positive(&pool.volume_claim_template.resources.requests.storage), message::STORAGE);
        let is_reserved = |variable: &EnvironmentVariable| {
            variable.name.starts_with("SHERD_CLUSTER_")
                || EnvironmentVariable::RESERVED.contains(&variable.name.as_str())
        };
        rule(!pool.extra_env.iter().any(is_reserved), message::ENVIRONMENT);
    }
    if let Some(image) = &cluster.spec.image {
        let Image { repository, tag, digest, pull_policy: _, pull_secrets: _, architectures: _ } = image;
        rule(repository.as_deref().is_none_or(image::is_repository), message::IMAGE_REPOSITORY);
        rule(tag.as_deref().is_none_or(image::is_tag), message::IMAGE_TAG);
        rule(digest.as_deref().is_none_or(image::is_digest), message::IMAGE_DIGEST);
    }
    let service = &cluster.spec.gateway.service;
    let is_balanced =
        service.load_balancer_class.is_some() || !service.load_balancer_source_ranges.is_empty();
    rule(service.service_type == ServiceType::LoadBalancer || !is_balanced, message::LOAD_BALANCER);
    let is_outside = service.node_port.is_some() || service.external_traffic_policy.is_some();
    rule(service.service_type != ServiceType::ClusterIP || !is_outside, message::NODE_PORT);
    broken.extend(s3_tls::broken_rules(&cluster.spec.tls).map(str::to_owned));
    let proxies = cluster.spec.config.trusted_proxies.iter().filter(|proxy| !is_network(proxy));
    broken.extend(proxies.map(|proxy| {
        format!("config.trustedProxies {proxy:?} is no address and no network such as 10.0.0.0/8")
    }));
    broken.extend(settings_out_of_range(&cluster.spec.config));
    if !broken.is_empty() {
        return Err(broken);
    }
    let [pool] = cluster.spec.pools.as_slice() else {
        return Err(vec![message::ONE_POOL.to_owned()]);
    };
    let (shape, sets) = shape_of(pool).map_err(|message| vec![message])?;
    let names = Names::new(name, cluster.metadata.namespace.as_deref().unwrap_or_default());
    let mut remarks = remarks(&names, pool, &shape, &sets);
    remarks.extend(memory_remark(&cluster.spec.config, pool));
    let upgrade = upgrade_rules(&cluster.spec.upgrade, &mut remarks);
    Ok(ValidCluster { cluster, pool, names, remarks, sets, upgrade })
}

/// A name that begins names of services: a label of DNS that begins with a letter.
fn is_label(name: &str) -> bool {
    let bytes = name.as_bytes();
    bytes.first().is_some_and(u8::is_ascii_lowercase)
        && bytes.last().is_some_and(|last| *last != b'-')
        && bytes.iter().all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || *byte == b'-')
}

/// Whether a quantity is at least a byte.
fn is_positive(quantity: &Quantity) -> bool {
    quantity::bytes(quantity).is_some_and(|bytes| bytes > 0)
}

fn is_pool_name(name: &str) -> bool {
    // The letter stands for the cluster's name, which a pool's name follows.
    (1..=16).contains(&name.len()) && !name.starts_with('-') && is_label(&format!("a{name}"))
}

fn shape_of(pool: &Pool) -> Result<(PoolShape, PoolSets), String> {
    let number = |value: i32| usize::try_from(value).unwrap_or(0);
    let request = pool.erasure.map_or_else(GeometryRequest::default, |Erasure { set_size, parity }| {
        GeometryRequest { set_volumes: Some(number(set_size)), parity_shards: Some(number(parity)) }
    });
    let (nodes, volumes) = (number(pool.nodes), number(pool.volumes_per_node));
    let shape = PoolShape::choose(nodes, volumes, request);
    let formed = shape.and_then(|shape| Ok((shape, PoolSets::of(nodes, volumes, request)?)));
    formed.map_err(|error| {
        use sherd_core::topology::FormError::{NoDefaultSetSize, Parity, SetSize};
        match error {
            NoDefaultSetSize { .. } => message::NO_DEFAULT.to_owned(),
            SetSize { .. } => message::SET_SIZE.to_owned(),
            Parity { .. } => message::PARITY.to_owned(),
            other => other.to_string(),
        }
    })
}

fn upgrade_rules(settings: &Upgrade, remarks: &mut Vec<Remark>) -> UpgradeRules {
    let Upgrade { health_timeout, paused, allow_downtime, follow_operator: _ } = settings;
    let health_timeout = match health_timeout {
        None => limits::HEALTH_TIMEOUT,
        Some(text) => {
            let (least, most) = (Duration::from_mins(1), Duration::from_hours(7 * 24));
            let time = humantime::parse_duration(text).ok().filter(|time| (least..=most).contains(time));
            time.unwrap_or_else(|| {
                let text = format!("{}: {text:?} is not, and 15m stand in for it", message::HEALTH_TIMEOUT);
                remarks.push(Remark { reason: Reason::SettingIgnored, text });
                limits::HEALTH_TIMEOUT
            })
        }
    };
    UpgradeRules { health_timeout, is_paused: *paused, allows_downtime: *allow_downtime }
}

/// Whether a node takes a text as an address, or as a network by an address of it and the bits of its prefix.
fn is_network(text: &str) -> bool {
    let (address, bits) = text.split_once('/').map_or((text, None), |(address, bits)| (address, Some(bits)));
    let Ok(address) = address.parse::<IpAddr>() else { return false };
    let bits_max = if address.is_ipv4() { 32 } else { 128 };
    bits.is_none_or(|bits| bits.parse::<u8>().is_ok_and(|bits| bits <= bits_max))
}

/// Compares sizes and times with the ranges of the node, which would refuse to start.
fn settings_out_of_range(settings: &NodeSettings) -> Vec<String> {
    const KIB: u64 = 1 << 10;
    const MIB: u64 = 1 << 20;
    const TIB: u64 = 1 << 40;
    let NodeSettings {
        region: _,
        inline_max,
        pack_max,
        buffer_cap,
        index_cache,
        audit_log: _,
        trusted_proxies: _,
        heal_bandwidth,
        scrub_period,
        log_level: _,
        adopt_after,
        release_grace,
        slow_request,
        connections_max,
        requests_max,
        queue_max,
        idle_timeout,
        stall_timeout,
    } = settings;
    let sizes = [
        ("inlineMax", inline_max, 0, 32 * KIB, "0 to 32KiB"),
        ("packMax", pack_max, 0, 256 * KIB, "0 to 256KiB"),
        ("bufferCap", buffer_cap, 32 * MIB, TIB, "32MiB to 1TiB"),
        ("indexCache", index_cache, 4 * MIB, TIB, "4MiB to 1TiB"),
        ("healBandwidth", heal_bandwidth, MIB, TIB, "1MiB to 1TiB"),
    ];
    let mut broken = Vec::new();
    for (key, value, least, most, range) in sizes {
        let Some(text) = value else { continue };
        let holds = text.parse::<ByteSize>().is_ok_and(|size| (least..=most).contains(&size.as_u64()));
        if !holds {
            broken.push(format!("config.{key} {text:?} is no size from {range}"));
        }
    }
    let (hour, day) = (Duration::from_hours(1), Duration::from_hours(24));
    let second = Duration::from_secs(1);
    let times = [
        ("scrubPeriod", scrub_period, hour, 365 * day, "1h to 365days"),
        ("adoptAfter", adopt_after, Duration::ZERO, day, "0s to 1day"),
        ("releaseGrace", release_grace, Duration::from_mins(2), day, "2m to 1day"),
        ("slowRequest", slow_request, Duration::ZERO, hour, "0s to 1h"),
        ("idleTimeout", idle_timeout, second, hour, "1s to 1h"),
        ("stallTimeout", stall_timeout, second, hour, "1s to 1h"),
    ];
    for (key, value, least, most, range) in times {
        let Some(text) = value else { continue };
        let time = text.parse().map(Duration::from_secs).or_else(|_| humantime::parse_duration(text));
        if !time.is_ok_and(|time| (least..=most).contains(&time)) {
            broken.push(format!("config.{key} {text:?} is no time from {range}"));
        }
    }
    let counts = [
        ("connectionsMax", connections_max, 1),
        ("requestsMax", requests_max, 1),
        ("queueMax", queue_max, 0),
    ];
    for (key, value, least) in counts {
        if value.is_some_and(|value| !(least..=1 << 20).contains(&value)) {
            broken.push(format!("config.{key} is no number from {least} to 1048576"));
        }
    }
    broken
}
