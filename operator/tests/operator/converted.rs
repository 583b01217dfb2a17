//! Documents that `sherd-node convert` prints are resources, without a field that these do not have, and
//! break no rule.

use kube::core::cel::validate_cel;
use serde_json::Value;
use sherd_operator::api::{Bucket, BucketUser, StorageCluster};
use sherd_operator::buckets;
use sherd_operator::reconcile::validate;

fn kinds_of(example: &str) -> Vec<String> {
    let folder =
        std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../node/src/process/convert/testdata");
    let text = std::fs::read_to_string(folder.join(example)).expect("an example");
    let documents: Vec<Value> = serde_saphyr::from_multiple(&text).expect("YAML");
    let judge = |document: Value| {
        let kind = document["kind"].as_str().expect("a kind").to_owned();
        let read = "of the right form";
        let again = match kind.as_str() {
            "StorageCluster" => {
                let cluster: StorageCluster = serde_json::from_value(document.clone()).expect(read);
                validate_cel(&cluster).expect("accepted");
                validate::validate(&cluster).expect("accepted");
                serde_json::to_value(&cluster)
            }
            "Bucket" => {
                let bucket: Bucket = serde_json::from_value(document.clone()).expect(read);
                validate_cel(&bucket).expect("accepted");
                buckets::validate::bucket(&bucket).expect("accepted");
                serde_json::to_value(&bucket)
            }
            "BucketUser" => {
                let user: BucketUser = serde_json::from_value(document.clone()).expect(read);
                validate_cel(&user).expect("accepted");
                buckets::validate::user(&user).expect("accepted");
                serde_json::to_value(&user)
            }
            kind => panic!("{kind} is no resource of Sherd"),
        };
        assert_eq!(crate::rules::missing(&document, &again.expect("JSON")), Vec::<String>::new(), "{kind}");
        kind
    };
    documents.into_iter().map(judge).collect()
}

#[test]
fn what_is_converted_from_a_tenant_is_accepted() {
    let all = ["StorageCluster", "Bucket", "Bucket", "BucketUser"];
    assert_eq!(kinds_of("tenant.converted.yaml"), all);
    assert_eq!(kinds_of("minimal.converted.yaml"), ["StorageCluster"]);
}
