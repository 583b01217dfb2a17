//! Builds the service of S3 from a valid configuration: the one place that joins protocol and store.
//!
//! [`open`] is called once, after the listeners are bound and before S3 is announced. It returns
//! what the process needs: the service, and how to close the store. Health shows which parts are degraded.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::future::BoxFuture;
use http::{Request, Response, StatusCode};
use http_body_util::Full;
use sherd_front::audit::ErrorCode;
use sherd_front::callers::account::AccountCredentials;
use sherd_front::callers::root_keys::RootKeys;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use sherd_core::env::{Clock, Rng};
use sherd_core::limits::VOUCH_AFTER_MS;
use sherd_core::topology::{GeometryRequest, PoolShape};
use sherd_volume::options::Options;

use crate::audit::AuditLog;
use crate::health::Health;
use crate::process::config::settings::EtagForm;
use crate::process::config::{self, Config};
use crate::process::serve::audited_http::AuditedHttp;
use crate::process::serve::cluster_node::{ClusterError, ClusterNode, NodeMachine};
use crate::process::serve::live::LiveSettings;
use crate::process::serve::reporter::{NodeReporter, ReporterConfig, node_identity, start_reporting};
use crate::process::serve::root_credentials::RootCredentials;
use crate::process::serve::root_http::RootHttp;
use crate::process::serve::store::{ClusterPlace, Machine, Store, StoreConfig, StoreError};
use crate::server::health_paths;
use crate::server::limits::HEAD_BYTES_MAX;
use crate::server::{AllowPage, Refusal, RequestBody};
use sherd_iam::{QueryApi, QueryApiConfig};
use sherd_s3::Gateway;
use sherd_s3::service::{self, Protocol};
use sherd_s3::wire::refusal::{self, Code};
use sherd_store::machine::pulse::ProcessPulse;
use sherd_store::machine::reclaim::Reclaim;
use sherd_store::observe::metrics::{ApiName, Metrics};
use sherd_store::stripe::Thresholds;
use sherd_store::upkeep::{Settings, UpkeepTuning};

/// The node cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The store cannot be opened.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The node cannot take its place among others.
    #[error(transparent)]
    Cluster(#[from] Box<ClusterError>),
}

/// An open store, as the process uses it.
pub struct OpenStore<S> {
    /// Answers every S3 request.
    pub service: S,
    /// The layer behind it, which answers what does not reach it, too.
    pub protocol: Protocol,
    /// Lets pages of other origins read answers that are given in its place.
    pub allow_page: AllowPage,
    /// Answers every request of IAM.
    pub iam: QueryApi,
    /// How the volumes of all nodes are cut into sets.
    pub shape: PoolShape,
    /// How many nodes there are.
    pub nodes: usize,
    /// Where this node serves the others; none where it is alone.
    pub node_address: Option<SocketAddr>,
    /// How reads that wait ask slow connections for their buffers.
    pub reclaim: Reclaim,
    /// Ends background work and syncs the logs; called after the last request ended.
    pub close: Box<dyn FnOnce() -> BoxFuture<'static, ()> + Send>,
}

impl<S> std::fmt::Debug for OpenStore<S> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Opened")
    }
}

/// Opens the volumes and puts the protocol before them. A node among others first waits for the cluster.
///
/// # Errors
/// [`OpenError`] when the directories do not make a node, or the node is not of its cluster.
pub async fn open(
    config: &Config,
    root: &RootCredentials,
    metrics: &Arc<Metrics>,
    health: &Arc<Health>,
    live: &Arc<LiveSettings>,
    audit: Option<AuditLog>,
) -> Result<
    OpenStore<
        impl Fn(Request<RequestBody>) -> BoxFuture<'static, (ApiName, Response<s3s::Body>)>
        + Clone
        + Send
        + Sync
        + 'static,
    >,
    OpenError,
> {
    let machine = Machine::real(config.index_cache_bytes);
    let (clock, rng) = (Arc::clone(&machine.clock), Arc::clone(&machine.rng));
    let node = join(config, root, &machine, metrics, health, live).await?;
    let (node, place) = node.map_or((None, None), |(node, place)| (Some(node), Some(place)));
    let store = Store::open(store_config(config), machine, metrics, place).await?;
    let (tasks, stop) = (TaskTracker::new(), CancellationToken::new());
    if let Some(node) = &node {
        node.serve(&store);
    } else {
        let identity = node_identity(String::new(), rng.as_ref());
        let (health, clock, live) = (Arc::clone(health), Arc::clone(&clock), Arc::clone(live));
        let reporter = NodeReporter::new(ReporterConfig { identity, health, live, clock, peers: None });
        let reporter = Arc::new(reporter);
        reporter.serve(&store);
        start_reporting(&reporter, &tasks, &stop);
    }
    store.trim_memory();
    let (observed, shown, gauges) = (store.clone(), Arc::clone(health), Arc::downgrade(metrics));
    metrics.on_scrape(move || {
        if let Some(metrics) = gauges.upgrade() {
            observed.observe(&metrics, &shown.moment().report);
        }
    });
    let iam = query_api(config, root.keys(), &store, &clock, &rng);
    let protocol = protocol(config, root.keys(), &store, clock, rng.as_ref());
    let (tuned, bodies) = (store.clone(), protocol.clone());
    live.on_change(move |hot| {
        tuned.tune(tuning(hot.upkeep));
        bodies.set_body_idle(hot.limits.stall_timeout);
    });
    let (shape, reclaim) = (store.shape(), store.reclaim().clone());
    let (nodes, node_address) = (store.topology().nodes().len(), node.as_ref().map(ClusterNode::address));
    let (pages, behind) = (protocol.clone(), protocol.clone());
    if let Some(node) = &node {
        let pulse = Arc::new(ProcessPulse::new());
        let (beats, until) = (Arc::clone(&pulse), stop.clone());
        tasks.spawn(async move { until.run_until_cancelled(beats.go_on()).await });
        let handler = Arc::new(RootHttp::new(protocol.clone(), iam.clone(), pulse));
        node.answer_requests(AuditedHttp::around(handler, audit));
    }
    Ok(OpenStore {
        iam,
        protocol: behind,
        allow_page: Arc::new(move |head, headers| pages.allow_page(head, headers)),
        service: move |request| -> BoxFuture<'static, _> {
            let protocol = protocol.clone();
            Box::pin(async move { protocol.call(request).await })
        },
        shape,
        nodes,
        node_address,
        reclaim,
        close: Box::new(move || {
            Box::pin(async move {
                if let Some(node) = &node {
                    node.end_requests();
                }
                store.close().await;
                // Last: until then its volumes answer what the others began.
                if let Some(node) = node {
                    node.stop().await;
                }
                stop.cancel();
                tasks.close();
                tasks.wait().await;
            })
        }),
    })
}

/// Takes the node's place in its cluster; `None` for a node alone.
async fn join(
    config: &Config,
    root: &RootCredentials,
    machine: &Machine,
    metrics: &Arc<Metrics>,
    health: &Arc<Health>,
    live: &Arc<LiveSettings>,
) -> Result<Option<(ClusterNode, ClusterPlace)>, OpenError> {
    let Some(cluster) = &config.cluster else { return Ok(None) };
    let Machine { disk, clock, rng, .. } = machine.clone();
    let started =
        ClusterNode::start(config, cluster, root, NodeMachine { disk, clock, rng }, metrics, health, live)
            .await;
    let node = started.map_err(Box::new)?;
    let formation = node.form(health).await;
    let peers = node.peers(&formation.topology);
    let (remote, gateways) = (node.remote().clone(), Some(node.gateways()));
    let place = ClusterPlace { formation, remote, peers, gateways };
    Ok(Some((node, place)))
}

/// The store's part of a configuration.
pub fn store_config(config: &Config) -> StoreConfig {
    StoreConfig {
        volumes: config.volumes.clone(),
        geometry: GeometryRequest { set_volumes: None, parity_shards: config.parity.map(usize::from) },
        options: Options { durability: config.durability, ..Options::of_segments(config.segment_bytes) },
        thresholds: Thresholds {
            inline_bytes_max: config.inline_bytes_max,
            pack_bytes_max: config.pack_bytes_max,
        },
        fast_etags: config.etag == EtagForm::Fast,
        buffer_bytes_max: usize::try_from(config.buffer_bytes_max).unwrap_or(usize::MAX),
        upkeep: Settings {
            heal_bytes_per_second: config.upkeep.heal_bytes_per_second,
            release_grace: config.upkeep.release_grace,
            scrub_pass: config.upkeep.scrub_period,
            adopt_after: config.upkeep.adopt_after,
            vouch_after: config.vouch.then_some(Duration::from_millis(VOUCH_AFTER_MS)),
            ..Settings::default()
        },
        master_key: config.master_key.clone(),
        formed: config.formed,
    }
}

/// The part of a configuration's background work that may change.
fn tuning(upkeep: config::Upkeep) -> UpkeepTuning {
    let config::Upkeep { release_grace, scrub_period, heal_bytes_per_second, adopt_after } = upkeep;
    UpkeepTuning { heal_bytes_per_second, release_grace, scrub_pass: scrub_period, adopt_after }
}

/// Puts the protocol, as a configuration wants it, before a store.
pub fn protocol(
    config: &Config,
    root: RootKeys,
    store: &Store,
    clock: Arc<dyn Clock>,
    rng: &dyn Rng,
) -> Protocol {
    let credentials = Arc::new(AccountCredentials::of_s3(root, store.iam().clone()));
    let limits = service::Limits { body_idle: config.limits.stall_timeout, ..service::Limits::default() };
    let protocol = service::Config {
        region: config.region.clone(),
        domains: config.domains.clone(),
        host_id: format!("{:016x}", rng.next_u64()),
        request_id_seed: rng.next_u64(),
        sigv2_presigned: config.s3.sigv2_presigned,
        unsupported_acl: config.s3.unsupported_acl,
        reserved_buckets: if config.s3.health_paths { &health_paths::BUCKETS } else { &[] },
        limits,
    };
    Gateway::serve(store.objects().clone(), store.iam().clone(), protocol, credentials, clock)
}

/// Puts the query API of IAM, as a configuration wants it, before a store.
fn query_api(
    config: &Config,
    root: RootKeys,
    store: &Store,
    clock: &Arc<dyn Clock>,
    rng: &Arc<dyn Rng>,
) -> QueryApi {
    let (iam, region) = (store.iam().clone(), config.region.clone());
    let credentials = Arc::new(AccountCredentials::of_iam(root.clone(), iam.clone()));
    let (clock, rng) = (Arc::clone(clock), Arc::clone(rng));
    QueryApi::new(QueryApiConfig { iam, root, credentials, region, clock, rng })
}

/// The answer of S3 where no layer above could give one.
pub fn refuse(protocol: &Protocol, refusal: Refusal) -> Response<Full<Bytes>> {
    let code = match refusal {
        Refusal::Overloaded => Code::SlowDown,
        Refusal::Panicked => Code::InternalError,
    };
    let mut response = protocol.refuse(&refusal::Refusal::new(code)).map(Full::from);
    response.extensions_mut().insert(ErrorCode(code.name()));
    response
}

/// The answer of S3 to a head that HTTP refuses with this status.
pub fn refuse_head(protocol: &Protocol, status: StatusCode) -> Response<Bytes> {
    protocol.refuse(&match status {
        StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE => {
            let refusal = refusal::Refusal::new(Code::RequestHeaderSectionTooLarge);
            refusal.with("MaxSizeAllowed", HEAD_BYTES_MAX.to_string())
        }
        StatusCode::URI_TOO_LONG => refusal::Refusal::new(Code::RequestURITooLong),
        _ => refusal::Refusal::says(Code::BadRequest, "An error occurred when parsing the HTTP request."),
    })
}
