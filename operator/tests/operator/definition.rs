//! The resource definition that the binary prints is the one that the chart installs.

use std::path::Path;

use kube::CustomResourceExt as _;
use sherd_operator::api::StorageCluster;

/// The chart wraps the definition in these lines.
const HEAD: &str = "{{- if .Values.crds.install }}\n";
const TAIL: &str = "{{- end }}\n";

#[test]
fn the_chart_installs_what_the_binary_prints() {
    let printed = serde_saphyr::to_string(&StorageCluster::crd()).expect("it is text");
    let wrapped = format!("{HEAD}{printed}{TAIL}");
    let path =
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../charts/sherd/templates/crds/storageclusters.yaml");
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

#[test]
fn the_definition_is_kept_when_the_chart_goes() {
    let definition = StorageCluster::crd();
    let annotations = definition.metadata.annotations.expect("annotated");
    assert_eq!(annotations.get("helm.sh/resource-policy").map(String::as_str), Some("keep"));
}

#[test]
fn no_braces_of_the_definition_are_templates() {
    let printed = serde_saphyr::to_string(&StorageCluster::crd()).expect("it is text");
    assert!(!printed.contains("{{"), "Helm would expand it");
}
