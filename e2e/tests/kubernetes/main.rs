//! One story on a real Kubernetes cluster: the operator is installed, a StorageCluster comes up, serves,
//! loses a pod and its operator under load, is rolled and drained, scraped, deleted and adopted again.
//!
//! It needs SHERD_E2E=1, a KUBECONFIG whose hosts hold the images `sherd-node:TAG` and `sherd-operator:TAG`,
//! and SHERD_E2E_TAG. `e2e/run` prepares all that on kind. Without SHERD_E2E the story is skipped with a
//! message; two long cases run with SHERD_E2E_LONG=1 alone, as in .ci/long.

mod buckets;
mod cases;
mod drift;
mod rollouts;

use std::time::Instant;

use cases::{CaseResult, Story};

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn a_storage_cluster_lives_on_kubernetes() {
    let on = std::env::var("SHERD_E2E").is_ok_and(|value| value == "1");
    let tag = std::env::var("SHERD_E2E_TAG");
    let (true, Ok(tag), Ok(_)) = (on, tag, std::env::var("KUBECONFIG")) else {
        eprintln!(
            "SKIPPED: the e2e story needs SHERD_E2E=1, SHERD_E2E_TAG and KUBECONFIG; e2e/run sets them"
        );
        return;
    };
    let mut story = Story::new(tag);
    let mut failed = Vec::new();
    macro_rules! case {
        ($name:ident) => {{
            let begun = Instant::now();
            let ended: CaseResult = story.$name().await;
            let seconds = begun.elapsed().as_secs_f64();
            match ended {
                Ok(note) => eprintln!("e2e {}: ok in {seconds:.1} s {note}", stringify!($name)),
                Err(error) => {
                    eprintln!("e2e {}: FAILED in {seconds:.1} s: {error}", stringify!($name));
                    failed.push(format!("{}: {error}", stringify!($name)));
                }
            }
        }};
    }
    let is_long = std::env::var("SHERD_E2E_LONG").is_ok_and(|value| value == "1");
    macro_rules! long_case {
        ($name:ident) => {
            if is_long {
                case!($name);
            } else {
                eprintln!("e2e {}: SKIPPED: it runs with SHERD_E2E_LONG=1", stringify!($name));
            }
        };
    }
    case!(installs_until_ready);
    assert!(failed.is_empty(), "without a cluster that is ready nothing else can be seen: {failed:?}");
    case!(puts_and_gets_through_the_service);
    case!(gives_a_pod_its_bucket_and_no_other);
    case!(passes_the_charts_test);
    case!(refuses_contradictions);
    case!(repairs_drift);
    long_case!(puts_every_field_of_every_child_back);
    case!(loses_nothing_with_a_pod_and_the_operator);
    case!(replaces_pods_under_load);
    long_case!(puts_the_last_template_back);
    case!(drains_host_after_host);
    case!(is_scraped_by_prometheus);
    case!(keeps_data_when_it_is_deleted_and_adopts_it_again);
    case!(leaves_data_and_definition_when_the_chart_goes);
    assert!(failed.is_empty(), "{} cases failed: {failed:#?}", failed.len());
}
