//! The first pool of a Tenant as the pool of a StorageCluster.

use serde_json::{Map, Value, json};

use super::error::InvalidTenant;
use super::left_out::{Fields, LeftOut};
use super::limits::POOL_NAME_CHARACTERS_MAX;

/// The name of a pool whose own does not fit.
const NAME: &str = "pool-0";
/// Labels that MinIO's operator gives its pods, and no pod of a StorageCluster has.
const LABELS_OF_MINIO: &str = "v1.min.io/";
/// Fields with other names here, or the same, that hold the same.
const SAME: [(&str, &str); 5] = [
    ("resources", "resources"),
    ("nodeSelector", "nodeSelector"),
    ("tolerations", "tolerations"),
    ("annotations", "podAnnotations"),
    ("labels", "podLabels"),
];

/// Converts a pool.
pub(super) fn convert(
    mut pool: Fields,
    priority_class: Option<Value>,
    left_out: &mut Vec<LeftOut>,
) -> Result<Value, InvalidTenant> {
    let mut made = Map::new();
    made.insert("name".to_owned(), json!(name(&mut pool, left_out)));
    let (nodes, volumes) = (count(&mut pool, "servers", 64)?, count(&mut pool, "volumesPerServer", 32)?);
    if !has_default_sets(nodes, volumes) {
        return Err(InvalidTenant::Shape { path: pool.path, nodes, volumes });
    }
    made.insert("nodes".to_owned(), json!(nodes));
    made.insert("volumesPerNode".to_owned(), json!(volumes));
    made.insert("volumeClaimTemplate".to_owned(), claim(&mut pool, left_out)?);
    for (field, here) in SAME {
        if let Some(value) = pool.take(field) {
            made.insert(here.to_owned(), value);
        }
    }
    if let Some(class) = priority_class {
        made.insert("priorityClassName".to_owned(), class);
    }
    if let Some(affinity) = affinity(&mut pool, left_out)? {
        made.insert("affinity".to_owned(), affinity);
    }
    if let Some(constraints) = spread(&mut pool, left_out) {
        made.insert("topologySpreadConstraints".to_owned(), constraints);
    }
    if let Some(context) = security(&mut pool, left_out)? {
        made.insert("podSecurityContext".to_owned(), context);
    }
    pool.leave("containerSecurityContext", "the operator sets it: no root, no capabilities", left_out);
    pool.leave("runtimeClassName", "pods have the default runtime class", left_out);
    pool.leave("reclaimStorage", "claims stay when a StorageCluster is deleted", left_out);
    pool.leave_rest(left_out);
    Ok(Value::Object(made))
}

fn name(pool: &mut Fields, left_out: &mut Vec<LeftOut>) -> String {
    let fits = |name: &str| {
        let is_plain = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit();
        let ends = [name.bytes().next(), name.bytes().last()];
        name.len() <= POOL_NAME_CHARACTERS_MAX
            && name.bytes().all(|byte| is_plain(byte) || byte == b'-')
            && ends.iter().all(|end| end.is_some_and(is_plain))
    };
    match pool.take("name") {
        Some(Value::String(name)) if fits(&name) => name,
        Some(_) => {
            let reason = format!("no name of a pool here has such a form: it is {NAME}");
            left_out.push(LeftOut { path: pool.at("name"), reason });
            NAME.to_owned()
        }
        None => NAME.to_owned(),
    }
}

fn count(pool: &mut Fields, field: &'static str, max: i64) -> Result<i64, InvalidTenant> {
    let count = pool.take(field).and_then(|count| count.as_i64()).filter(|count| (1..=max).contains(count));
    count.ok_or_else(|| InvalidTenant::Count { path: pool.at(field), max })
}

/// Whether the operator has a default geometry for the volumes: up to 7 are one set, else
/// sets have 8 to 16 and spread evenly over the nodes.
fn has_default_sets(nodes: i64, volumes: i64) -> bool {
    let all = nodes * volumes;
    all <= 7 || (8..=16).any(|size| all % size == 0 && (size <= nodes || size % nodes == 0))
}

/// The claim of a volume: its size and class.
fn claim(pool: &mut Fields, left_out: &mut Vec<LeftOut>) -> Result<Value, InvalidTenant> {
    let mut template = pool.object("volumeClaimTemplate")?;
    for field in ["apiVersion", "kind", "status"] {
        let _taken = template.take(field);
    }
    let mut metadata = template.object("metadata")?;
    metadata.take_added();
    for field in ["name", "labels", "annotations"] {
        metadata.leave(field, "the operator names and labels the claims", left_out);
    }
    let mut spec = template.object("spec")?;
    let mut resources = spec.object("resources")?;
    let mut requests = resources.object("requests")?;
    let storage = match requests.take("storage") {
        Some(Value::String(size)) => size,
        Some(Value::Number(bytes)) => bytes.to_string(),
        _ => {
            let path = requests.at("storage");
            return Err(InvalidTenant::Field { path, expected: "the size of a volume" });
        }
    };
    let mut claim = json!({"resources": {"requests": {"storage": storage}}});
    match spec.take_present("storageClassName") {
        None => {}
        // The definition of a StorageCluster refuses it.
        Some(Value::String(class)) if class.is_empty() => left_out.push(LeftOut::new(
            spec.at("storageClassName"),
            "claims of no class cannot be asked for: without a name here they are of the default class",
        )),
        Some(class) => claim["storageClassName"] = class,
    }
    // The operator asks for this mode, too.
    let modes = spec.take("accessModes").filter(|modes| *modes != json!(["ReadWriteOnce"]));
    if modes.is_some() {
        let reason = "a volume is of one node: ReadWriteOnce".to_owned();
        left_out.push(LeftOut { path: spec.at("accessModes"), reason });
    }
    let mode = spec.take("volumeMode").filter(|mode| mode != "Filesystem");
    if mode.is_some() {
        let reason = "volumes are filesystems".to_owned();
        left_out.push(LeftOut { path: spec.at("volumeMode"), reason });
    }
    for rest in [metadata, requests, resources, spec, template] {
        rest.leave_rest(left_out);
    }
    Ok(claim)
}

/// Affinities but those to pods of MinIO: one that is required would keep all pods from any host.
fn affinity(pool: &mut Fields, left_out: &mut Vec<LeftOut>) -> Result<Option<Value>, InvalidTenant> {
    let mut affinity = pool.object("affinity")?;
    let mut made = Map::new();
    for field in ["nodeAffinity", "podAffinity", "podAntiAffinity"] {
        match affinity.take(field) {
            Some(value) if field != "nodeAffinity" && names_minio(&value) => left_out.push(LeftOut {
                path: affinity.at(field),
                reason: "it names labels of MinIO's pods; each node has a host of its own anyway".to_owned(),
            }),
            Some(value) => {
                made.insert(field.to_owned(), value);
            }
            None => {}
        }
    }
    affinity.leave_rest(left_out);
    Ok((!made.is_empty()).then_some(Value::Object(made)))
}

/// Constraints without selectors of MinIO's pods: without one the pool's own pods are counted.
fn spread(pool: &mut Fields, left_out: &mut Vec<LeftOut>) -> Option<Value> {
    let path = pool.at("topologySpreadConstraints");
    let mut constraints = pool.take("topologySpreadConstraints")?;
    for (at, constraint) in constraints.as_array_mut().into_iter().flatten().enumerate() {
        let Some(constraint) = constraint.as_object_mut() else { continue };
        if constraint.get("labelSelector").is_some_and(names_minio) {
            constraint.remove("labelSelector");
            let reason = "it names labels of MinIO's pods: the pods of the pool are counted";
            left_out.push(LeftOut::new(format!("{path}[{at}].labelSelector"), reason));
        }
    }
    Some(constraints)
}

fn names_minio(value: &Value) -> bool {
    value.to_string().contains(LABELS_OF_MINIO)
}

fn security(pool: &mut Fields, left_out: &mut Vec<LeftOut>) -> Result<Option<Value>, InvalidTenant> {
    let mut context = pool.object("securityContext")?;
    let mut made = Map::new();
    let ids = ["runAsUser", "runAsGroup", "fsGroup"].map(|field| (field, context.take_present(field)));
    let is_root = ids.iter().any(|(field, id)| *field == "runAsUser" && *id == Some(json!(0)));
    for (field, id) in ids {
        match id {
            None => {}
            // A container with a group and without a user does not start.
            Some(_) if is_root && field != "fsGroup" => {
                let reason = "no node runs as root: the image has a user of its own";
                left_out.push(LeftOut::new(context.at(field), reason));
            }
            Some(id) => {
                made.insert(field.to_owned(), id);
            }
        }
    }
    // The operator sets these for every pod.
    for (field, ours) in [("runAsNonRoot", json!(true)), ("fsGroupChangePolicy", json!("OnRootMismatch"))] {
        if context.take_present(field).is_some_and(|value| value != ours) {
            left_out.push(LeftOut::new(context.at(field), format!("it is {ours} for every pod")));
        }
    }
    context.leave_rest(left_out);
    Ok((!made.is_empty()).then_some(Value::Object(made)))
}
