//! A Tenant among the documents of a file, and the documents that it becomes.

use std::collections::BTreeSet;

use serde_json::{Map, Value, json};
use sherd_core::iam::{AccessKeyId, KeyStatus};
use sherd_s3::head::names::is_bucket_name;
use sherd_store::iam::GivenKey;

use super::error::{API, InvalidTenant};
use super::left_out::{Fields, LeftOut};
use super::limits::{DOMAINS_MAX, NAME_CHARACTERS_MAX, RIGHTS_MAX};
use super::secrets::{Secrets, texts_of};
use super::variables::{CREDENTIALS, MinioVariables};
use super::{pool, tls};

/// Fields of the specification that have no place here, each with the reason.
const LEFT: [(&str, &str); 25] = [
    ("image", "it is an image of MinIO: the operator has one of its own"),
    ("credsSecret", CREDENTIALS),
    ("externalCaCertSecret", "clients show no certificates, and nodes trust the cluster's CA alone"),
    ("externalClientCertSecret", "nodes ask no KES"),
    ("externalClientCertSecrets", "nodes ask no KES"),
    ("kes", "objects are not encrypted by a key service"),
    ("prometheusOperator", "scrapes are set up by the operator's chart (monitoring)"),
    ("logging", "nodes log as JSON; config.logLevel and config.auditLog choose what"),
    ("sideCars", "pods have one container"),
    ("initContainers", "pods have one container"),
    ("additionalVolumes", "pods mount no further volumes"),
    ("additionalVolumeMounts", "pods mount no further volumes"),
    ("serviceAccountName", "nodes have a service account without rights"),
    ("podManagementPolicy", "the operator starts and replaces pods"),
    ("hostNetwork", "pods have addresses of their own"),
    ("minioContainerPort", "nodes listen on 9000; gateway.service.port is the Service's"),
    ("consoleContainerPort", "there is no console"),
    ("mountPath", "volumes are mounted at /data"),
    ("subPath", "a volume is used whole"),
    ("liveness", "the operator sets the probes"),
    ("readiness", "the operator sets the probes"),
    ("startup", "the operator sets the probes"),
    ("poolsMetadata", "pods have the labels and annotations of their pool"),
    ("additionalVolumesMounts", "pods mount no further volumes"),
    ("exposeConsole", "there is no console"),
];
/// Fields of a Tenant that become nothing: those of every object, and what MinIO's operator observes.
const OF_ANY_OBJECT: [&str; 3] = ["apiVersion", "kind", "status"];

/// A Tenant as documents of Sherd.
#[derive(Debug)]
pub(super) struct ConvertedTenant {
    /// Kind and name, for the head of the output.
    pub(super) title: String,
    pub(super) documents: Vec<Value>,
    pub(super) left_out: Vec<LeftOut>,
}

/// Converts the Tenant among these documents.
pub(super) fn convert(documents: Vec<Value>, name: Option<&str>) -> Result<ConvertedTenant, InvalidTenant> {
    let mut left_out = Vec::new();
    let (tenant, secrets) = sort(documents, &mut left_out)?;
    let mut tenant = Fields::of("tenant", tenant).map_err(|_| InvalidTenant::NoTenant)?;
    let mut metadata = tenant.object("metadata")?;
    let called = metadata.take("name").and_then(|name| name.as_str().map(str::to_owned)).unwrap_or_default();
    let name = name.unwrap_or(&called).to_owned();
    if !is_cluster_name(&name) {
        return Err(InvalidTenant::Name { name });
    }
    let place = DocumentNames { name, namespace: metadata.take("namespace") };
    metadata.take_added();
    metadata.leave("labels", "they belong to what made the Tenant", &mut left_out);
    metadata.leave("annotations", "they belong to what made the Tenant", &mut left_out);
    metadata.leave_rest(&mut left_out);
    let mut scheduler = tenant.object("scheduler")?;
    scheduler.leave("name", "pods have the default scheduler", &mut left_out);
    scheduler.leave_rest(&mut left_out);
    let spec = tenant.take_or_null("spec");
    let mut spec = Fields::of("spec", spec)
        .map_err(|_| InvalidTenant::Field { path: "spec".to_owned(), expected: "an object" })?;
    for field in OF_ANY_OBJECT {
        let _taken = tenant.take(field);
    }
    tenant.leave_rest(&mut left_out);
    let buckets = buckets(&place, &mut spec, &mut left_out)?;
    let users = users(&place, &mut spec, &buckets, &secrets, &mut left_out)?;
    let cluster = cluster(&place, &mut spec, &secrets, &mut left_out)?;
    spec.leave_rest(&mut left_out);
    let documents = [vec![cluster], buckets, users].concat();
    Ok(ConvertedTenant { title: format!("Tenant {called:?}"), documents, left_out })
}

/// Separates the Tenant and the Secrets from all else.
fn sort(documents: Vec<Value>, left_out: &mut Vec<LeftOut>) -> Result<(Value, Secrets), InvalidTenant> {
    let (mut tenants, mut found) = (Vec::new(), Vec::new());
    let all = documents.into_iter().flat_map(|mut document| match document.get_mut("items") {
        Some(Value::Array(listed)) => std::mem::take(listed),
        _ => vec![document],
    });
    for document in all.filter(|document| !document.is_null()) {
        let text = |field: &str| document[field].as_str().unwrap_or_default();
        let (api, kind) = (text("apiVersion"), text("kind"));
        let name = document["metadata"]["name"].as_str().unwrap_or_default();
        match (api, kind) {
            (API, "Tenant") => tenants.push(document),
            ("v1", "Secret") => found.push(document),
            _ => left_out.push(LeftOut {
                path: format!("{kind} {name}"),
                reason: format!("it is no Tenant of {API} and no Secret"),
            }),
        }
    }
    match tenants.len() {
        0 => Err(InvalidTenant::NoTenant),
        1 => {
            let tenant = tenants.remove(0);
            let secrets = secrets_of(&tenant, &found, left_out);
            Ok((tenant, secrets))
        }
        count => Err(InvalidTenant::Several { count }),
    }
}

/// The Secrets of the Tenant's namespace.
fn secrets_of(tenant: &Value, found: &[Value], left_out: &mut Vec<LeftOut>) -> Secrets {
    let namespace = &tenant["metadata"]["namespace"];
    let mut secrets = Secrets::new();
    for secret in found {
        let metadata = &secret["metadata"];
        let name = metadata["name"].as_str().unwrap_or_default();
        if !metadata["namespace"].is_null() && !namespace.is_null() && metadata["namespace"] != *namespace {
            left_out.push(LeftOut::new(format!("Secret {name}"), "it is of another namespace"));
            continue;
        }
        secrets.insert(name.to_owned(), texts_of(secret));
    }
    secrets
}

/// Name and namespace of the documents.
struct DocumentNames {
    name: String,
    namespace: Option<Value>,
}

impl DocumentNames {
    fn document(&self, kind: &str, name: &str, spec: &Value) -> Value {
        let mut metadata = json!({"name": name});
        if let Some(namespace) = &self.namespace {
            metadata["namespace"] = namespace.clone();
        }
        json!({"apiVersion": "sherd.dev/v1alpha1", "kind": kind, "metadata": metadata, "spec": spec})
    }
}

fn is_cluster_name(name: &str) -> bool {
    let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
    name.len() <= NAME_CHARACTERS_MAX
        && name.bytes().all(|byte| is_plain(byte) || byte == b'-')
        && name.bytes().next().is_some_and(|byte| byte.is_ascii_lowercase())
        && name.bytes().last().is_some_and(is_plain)
}

/// The StorageCluster.
fn cluster(
    place: &DocumentNames,
    spec: &mut Fields,
    secrets: &Secrets,
    left_out: &mut Vec<LeftOut>,
) -> Result<Value, InvalidTenant> {
    let mut made = Map::new();
    let class = spec.take("priorityClassName");
    let mut pools = spec.list("pools")?.into_iter();
    let missing = || InvalidTenant::Field { path: spec.at("pools"), expected: "a list with a pool" };
    let first = pool::convert(pools.next().ok_or_else(missing)?, class, left_out)?;
    made.insert("pools".to_owned(), json!([first]));
    for further in pools {
        let reason = "a StorageCluster has one pool".to_owned();
        left_out.push(LeftOut { path: further.path, reason });
    }
    let variables = MinioVariables::of(spec, secrets, left_out)?;
    made.insert("tls".to_owned(), tls::convert(spec, left_out)?);
    let gateway = gateway(spec, &variables.domains, left_out)?;
    if gateway != json!({}) {
        made.insert("gateway".to_owned(), gateway);
    }
    if let Some(region) = variables.region {
        made.insert("config".to_owned(), json!({"region": region}));
    }
    let mut image = Map::new();
    if let Some(policy) = spec.take("imagePullPolicy") {
        image.insert("pullPolicy".to_owned(), policy);
    }
    let mut pull_secret = spec.object("imagePullSecret")?;
    if let Some(name) = pull_secret.take("name") {
        image.insert("pullSecrets".to_owned(), json!([{"name": name}]));
    }
    pull_secret.leave_rest(left_out);
    if !image.is_empty() {
        made.insert("image".to_owned(), Value::Object(image));
    }
    for (field, reason) in LEFT {
        spec.leave(field, reason, left_out);
    }
    Ok(place.document("StorageCluster", &place.name, &Value::Object(made)))
}

/// The Service and the domains of buckets.
fn gateway(
    spec: &mut Fields,
    further: &[String],
    left_out: &mut Vec<LeftOut>,
) -> Result<Value, InvalidTenant> {
    let mut gateway = json!({});
    let mut exposed = spec.object("exposeServices")?;
    if exposed.take("minio").is_some() {
        gateway["service"]["type"] = json!("LoadBalancer");
    }
    exposed.leave("console", "there is no console", left_out);
    exposed.leave_rest(left_out);
    let mut metadata = spec.object("serviceMetadata")?;
    if let Some(annotations) = metadata.take("minioServiceAnnotations") {
        gateway["service"]["annotations"] = annotations;
    }
    for field in ["consoleServiceLabels", "consoleServiceAnnotations"] {
        metadata.leave(field, "there is no console", left_out);
    }
    metadata.leave("minioServiceLabels", "the operator sets the labels of its Services", left_out);
    metadata.leave_rest(left_out);
    let mut features = spec.object("features")?;
    let mut domains = features.object("domains")?;
    let mut hosts = Vec::new();
    let path = domains.at("minio");
    for domain in domains.texts("minio", left_out).iter().chain(further) {
        match tls::host(domain) {
            Some(host) if hosts.contains(&host) => {}
            Some(host) => hosts.push(host),
            None => {
                left_out
                    .push(LeftOut { path: path.clone(), reason: format!("{domain:?} is no name of a host") });
            }
        }
    }
    tls::cut(&mut hosts, DOMAINS_MAX, &path, left_out);
    if !hosts.is_empty() {
        gateway["domains"] = json!(hosts);
    }
    domains.leave("console", "there is no console", left_out);
    domains.leave_rest(left_out);
    let within = "hosts of buckets are below gateway.domains: name the Service's own there, or use paths";
    features.leave("bucketDNS", within, left_out);
    features.leave("enableSFTP", "S3 alone is spoken", left_out);
    features.leave_rest(left_out);
    Ok(gateway)
}

/// The Buckets.
fn buckets(
    place: &DocumentNames,
    spec: &mut Fields,
    left_out: &mut Vec<LeftOut>,
) -> Result<Vec<Value>, InvalidTenant> {
    let (mut made, mut names) = (Vec::new(), BTreeSet::new());
    for mut bucket in spec.list("buckets")? {
        let Some(Value::String(name)) = bucket.take("name") else {
            return Err(InvalidTenant::Field { path: bucket.at("name"), expected: "a name" });
        };
        bucket.leave("region", "all buckets are of the cluster's region, config.region", left_out);
        bucket.leave("objectLock", "no bucket has object lock: objects in it can be deleted", left_out);
        let path = bucket.at("name");
        bucket.leave_rest(left_out);
        if !is_bucket_name(&name) || !names.insert(name.clone()) {
            let reason = "no bucket of S3 has this name, or another one here";
            left_out.push(LeftOut::new(path, format!("{name}: {reason}")));
            continue;
        }
        made.push(place.document("Bucket", &name, &json!({"cluster": {"name": place.name}})));
    }
    Ok(made)
}

/// The BucketUsers, each with its Secret as it is and all rights to the Buckets.
fn users(
    place: &DocumentNames,
    spec: &mut Fields,
    buckets: &[Value],
    secrets: &Secrets,
    left_out: &mut Vec<LeftOut>,
) -> Result<Vec<Value>, InvalidTenant> {
    let right =
        |bucket: &Value| json!({"bucketRef": {"name": bucket["metadata"]["name"]}, "access": "admin"});
    let rights: Vec<Value> = buckets.iter().take(RIGHTS_MAX).map(right).collect();
    let (mut made, mut names) = (Vec::new(), BTreeSet::new());
    for mut user in spec.list("users")? {
        let Some(Value::String(name)) = user.take("name") else {
            return Err(InvalidTenant::Field { path: user.at("name"), expected: "the name of a Secret" });
        };
        left_out.push(LeftOut {
            path: user.path.clone(),
            reason: "the policy consoleAdmin: the user has all rights to the Buckets of this file, and to no other"
                .to_owned(),
        });
        let (path, path_of_name) = (user.path.clone(), user.at("name"));
        user.leave_rest(left_out);
        if !names.insert(name.clone()) {
            left_out.push(LeftOut::new(path_of_name, format!("{name} is named twice")));
            continue;
        }
        let texts = secrets.get(&name);
        for (key, is_valid) in
            [("CONSOLE_ACCESS_KEY", is_id as fn(&str) -> bool), ("CONSOLE_SECRET_KEY", is_secret)]
        {
            let fault = match texts.map(|texts| texts.get(key)) {
                None => continue,
                Some(None) => "has no text with the key",
                Some(Some(text)) if is_valid(text) => continue,
                Some(Some(_)) => "has what Sherd takes for no id or no secret with the key",
            };
            left_out.push(LeftOut::new(
                path.as_str(),
                format!("Secret {name} {fault} {key}: the BucketUser waits for it"),
            ));
        }
        let mut wanted = json!({"cluster": {"name": place.name}, "secretRef": {"name": name}});
        if !rights.is_empty() {
            wanted["buckets"] = json!(rights);
        }
        made.push(place.document("BucketUser", &name, &wanted));
    }
    if buckets.len() > RIGHTS_MAX && !made.is_empty() {
        let reason = format!("users have rights to the first {RIGHTS_MAX} alone");
        left_out.push(LeftOut { path: spec.at("buckets"), reason });
    }
    Ok(made)
}

/// Whether a key of a user may have this id.
fn is_id(text: &str) -> bool {
    AccessKeyId::parse(text).is_some()
}

/// Whether a key of a user may have this secret.
fn is_secret(text: &str) -> bool {
    GivenKey::parse("any", text, KeyStatus::Active).is_ok()
}
