//! The resource definitions that the binary prints are those that the chart installs.

use std::path::Path;

use k8s_openapi::apiextensions_apiserver::pkg::apis::apiextensions::v1::CustomResourceDefinition;
use kube::CustomResourceExt as _;
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
