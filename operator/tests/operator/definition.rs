//! The resource definitions that the binary prints are those that the chart installs.

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
use serde_json::{Value, json};
use sherd_operator::api::{Bucket, BucketUser, StorageCluster};

/// The chart wraps the definition in these lines.
const HEAD: &str = "{{- if .Values.crds.install }}\n";
const TAIL: &str = "{{- end }}\n";

fn definitions() -> [CustomResourceDefinition; 3] {
    [StorageCluster::crd(), Bucket::crd(), BucketUser::crd()]
}

#[test]
fn the_chart_installs_what_the_binary_prints() {
    for definition in definitions() {
        let printed = serde_saphyr::to_string(&definition).expect("it is text");
        let wrapped = format!("{HEAD}{printed}{TAIL}");
        let plural = &definition.spec.names.plural;
        let path = Path::new(env!("CARGO_MANIFEST_DIR"))
            .join(format!("../charts/sherd/templates/crds/{plural}.yaml"));
        if std::env::var_os("SHERD_BLESS").is_some() {
            std::fs::create_dir_all(path.parent().expect("a folder")).expect("made");
            std::fs::write(&path, &wrapped).expect("written");
        }
        let installed = std::fs::read_to_string(&path).expect("the chart has the definition");
        assert!(
            installed == wrapped,
            "renew {} with SHERD_BLESS=1 cargo test -p sherd-operator --test operator definition",
            path.display()
        );
    }
}

#[test]
fn the_definitions_are_kept_when_the_chart_goes() {
    for definition in definitions() {
        let annotations = definition.metadata.annotations.expect("annotated");
        assert_eq!(annotations.get("helm.sh/resource-policy").map(String::as_str), Some("keep"));
    }
}

#[test]
fn no_braces_of_the_definitions_are_templates() {
    for definition in definitions() {
        let printed = serde_saphyr::to_string(&definition).expect("it is text");
        assert!(!printed.contains("{{"), "Helm would expand it");
    }
}

/// Fields of a definition that a closed schema of values lacks, each as its path.
fn missing(defined: &Value, values: &Value, path: &str) -> Vec<String> {
    let Some(known) = values["properties"].as_object() else {
        let (defined, known) = (&defined["items"], &values["items"]);
        return if known.is_object() { missing(defined, known, &format!("{path}[]")) } else { Vec::new() };
    };
    let fields = defined["properties"].as_object().into_iter().flatten();
    let of_field = |(name, field): (&String, &Value)| match known.get(name) {
        Some(known) => missing(field, known, &format!("{path}.{name}")),
        None => vec![format!("{path}.{name}")],
    };
    fields.flat_map(of_field).collect()
}

#[test]
fn the_chart_of_a_cluster_takes_every_field_of_its_specification() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/sherd-cluster/values.schema.json");
    let values: Value =
        serde_json::from_slice(&std::fs::read(path).expect("the chart has a schema")).expect("JSON");
    let definition = serde_json::to_value(StorageCluster::crd()).expect("JSON");
    let schema = &definition["spec"]["versions"][0]["schema"]["openAPIV3Schema"];
    let (defined, values) = (&schema["properties"]["spec"], &values["properties"]["spec"]);
    assert_eq!(missing(defined, values, "spec"), Vec::<String>::new());
    let mut closed = values.clone();
    closed["properties"]["gateway"] = json!({"properties": {"service": {"properties": {}}}});
    assert!(missing(defined, &closed, "spec").contains(&"spec.gateway.service.nodePort".to_owned()));
}
