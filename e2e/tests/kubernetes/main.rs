//! One story on a real Kubernetes cluster: the operator is installed, a StorageCluster comes up, serves,
//! loses a pod and its operator under load, is rolled and drained, scraped, deleted and adopted again.
//!
//! It needs SHERD_E2E=1, a KUBECONFIG whose hosts hold the images `sherd-node:TAG` and `sherd-operator:TAG`,
//! and SHERD_E2E_TAG. `e2e/run` prepares all that on kind. Without SHERD_E2E the story is skipped with a
//! message.
//!
//! Each case has a label. As it comes, the story is all cases but the long ones. SHERD_E2E_LABELS names
//! others, separated by commas (`all` for each); the installation always runs. With SHERD_E2E_SECONDS_MAX the
//! story fails when its cases took longer together, as the long ones of a label may not.

mod buckets;
mod cases;
mod claims;
mod credentials;
mod drift;
mod growth;
mod hot;
mod monitoring;
mod one_host;
mod operator_kill;
mod operator_upgrade;
mod plugin;
mod quota;
mod rollouts;
mod tls;
mod trust;
mod watched;
mod withdrawal;

use std::time::Instant;

use cases::{CaseResult, Story};
use operator_upgrade::OlderRelease;

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
    let labels = Labels::from_environment();
    let seconds_max = seconds_max();
    let story_begun = Instant::now();
    let older = OlderRelease::from_environment().filter(|_| labels.names("operator-upgrade"));
    let failed = cases_of(&mut Story::new(tag, older), &labels).await;
    let seconds = story_begun.elapsed().as_secs();
    eprintln!("e2e: all cases in {seconds} s");
    assert!(failed.is_empty(), "{} cases failed: {failed:#?}", failed.len());
    let is_over = seconds_max.filter(|max| seconds > *max);
    assert!(is_over.is_none(), "the cases took {seconds} s, and may take {seconds_max:?}");
}

/// Runs the cases that are wanted, and returns those that failed.
async fn cases_of(story: &mut Story, labels: &Labels) -> Vec<String> {
    let mut failed = Vec::new();
    macro_rules! case {
        ($label:literal, $name:ident, $is_wanted:expr) => {
            let (name, label) = (stringify!($name), $label);
            if $is_wanted {
                let begun = Instant::now();
                let ended: CaseResult = story.$name().await;
                let seconds = begun.elapsed().as_secs_f64();
                match ended {
                    Ok(note) => eprintln!("e2e {name}: ok in {seconds:.1} s {note}"),
                    Err(error) => {
                        eprintln!("e2e {name}: FAILED in {seconds:.1} s: {error}");
                        story.keep_logs(name);
                        failed.push(format!("{name}: {error}"));
                    }
                }
            } else {
                eprintln!("e2e {name}: SKIPPED: it runs with SHERD_E2E_LABELS={label}");
            }
        };
        ($label:literal, $name:ident) => {
            case!($label, $name, labels.has($label));
        };
    }
    macro_rules! long_case {
        ($label:literal, $name:ident) => {
            case!($label, $name, labels.names($label));
        };
    }
    case!("install", installs_until_ready, true);
    assert!(failed.is_empty(), "without a cluster that is ready nothing else can be seen: {failed:?}");
    case!("install", puts_and_gets_through_the_service, true);
    case!("plugin", looks_at_it_by_the_plugin);
    long_case!("operator-upgrade", upgrades_the_operator_under_load);
    case!("buckets", gives_a_pod_its_bucket_and_no_other);
    case!("install", passes_the_charts_test);
    case!("install", refuses_contradictions);
    case!("quota", says_that_a_quota_forbids_pods);
    long_case!("grow", grows_claims);
    case!("drift", repairs_drift);
    long_case!("drift", puts_every_field_of_every_child_back);
    long_case!("one-host", keeps_an_object_on_one_host);
    long_case!("credentials", replaces_root_credentials_under_load);
    long_case!("hot", changes_settings_under_load);
    case!("kill", loses_nothing_with_a_pod_and_the_operator);
    case!("rollout", replaces_pods_under_load);
    long_case!("bad-image", puts_the_last_template_back);
    long_case!("operator-kill", survives_kills_in_a_rollout);
    long_case!("kill-put-back", survives_kills_in_a_put_back);
    long_case!("kill-rotation", survives_kills_in_a_rotation);
    long_case!("kill-install", survives_kills_in_an_installation);
    long_case!("rotate-ca", rotates_the_ca_under_load);
    long_case!("lost-ca", makes_another_ca_when_it_is_lost);
    case!("drain", drains_host_after_host);
    long_case!("tls", serves_s3_over_tls);
    case!("metrics", is_scraped_by_prometheus);
    long_case!("withdrawal", takes_withdrawn_rights_away);
    case!("adopt", keeps_data_when_it_is_deleted_and_adopts_it_again);
    long_case!("claims", names_what_lost_claims_cost);
    case!("adopt", leaves_data_and_definition_when_the_chart_goes);
    failed
}

/// How long all cases may take together, by SHERD_E2E_SECONDS_MAX.
fn seconds_max() -> Option<u64> {
    let given = std::env::var("SHERD_E2E_SECONDS_MAX").ok().filter(|given| !given.is_empty())?;
    Some(given.parse().expect("SHERD_E2E_SECONDS_MAX is a number"))
}

/// The labels whose cases run; absent: each case that is not long.
struct Labels(Option<Vec<String>>);

impl Labels {
    fn from_environment() -> Self {
        let labels = std::env::var("SHERD_E2E_LABELS").ok().filter(|labels| !labels.is_empty());
        Self(labels.map(|labels| labels.split(',').map(|label| label.trim().to_owned()).collect()))
    }

    /// Whether a label is named.
    fn names(&self, label: &str) -> bool {
        self.0.iter().flatten().any(|named| named == label || named == "all")
    }

    /// Whether a case with this label runs that is not long.
    fn has(&self, label: &str) -> bool {
        self.0.is_none() || self.names(label)
    }
}
