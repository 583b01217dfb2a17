//! An operator that takes over a cluster whose pods another one made: it restarts none before the cluster
//! changes or asks for it, and still puts back what is edited.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use super::rollouts::{World, names, path};
use super::*;

const REVISION: &str = "/apis/apps/v1/namespaces/storage/controllerrevisions/demo-pool-0-1-older";
const OLD_CONFIG: &str = "/api/v1/namespaces/storage/configmaps/demo-config-older";

type Change = fn(&World);

/// A cluster as an operator left it that made pods, claims and the configuration otherwise.
async fn made_by_another(has_record: bool) -> World {
    let mut world = World::new().await;
    let server = &world.server;
    let built = config(server);
    let mut config = server.get(&built).expect("made");
    server.delete(&built);
    config["metadata"]["name"] = json!("demo-config-older");
    config["data"]["sherd.toml"] = json!("# as it was");
    server.put(OLD_CONFIG, config);
    let mut set = server.get(STATEFUL_SET).expect("made");
    let template = &mut set["spec"]["template"];
    template["spec"]["terminationGracePeriodSeconds"] = json!(60);
    let container = template["spec"]["containers"][0].as_object_mut().expect("a container");
    container.remove("resources").expect("each pod requests some");
    template["spec"]["volumes"][0]["configMap"]["name"] = json!("demo-config-older");
    template["metadata"]["annotations"]["sherd.dev/config"] = json!("older");
    let claim = &mut set["spec"]["volumeClaimTemplates"][0]["metadata"];
    claim["labels"]["app.kubernetes.io/instance"] = json!("demo");
    claim.as_object_mut().expect("metadata").remove("annotations");
    server.put(STATEFUL_SET, set);
    world.controller(true);
    let server = &world.server;
    for pod in names() {
        let mut found = server.get(&path(&pod)).expect("there");
        found["metadata"]["labels"]["controller-revision-hash"] = json!("demo-pool-0-1-older");
        server.put(&path(&pod), found);
    }
    let mut stored = server.get(CLUSTER).expect("there");
    let rollout = &mut stored["status"]["rollout"];
    rollout["revision"] = json!("demo-pool-0-1-older");
    rollout["lastGood"] = json!("demo-pool-0-1-older");
    if has_record {
        rollout["recorded"]["template"] = json!("as it was built");
        rollout["recorded"]["revision"] = json!("demo-pool-0-1-older");
    } else {
        rollout.as_object_mut().expect("a record").remove("recorded");
    }
    server.put(CLUSTER, stored);
    server.take_deletions();
    world
}

fn template(world: &World) -> Value {
    world.server.get(STATEFUL_SET).expect("made")["spec"]["template"].clone()
}

fn grace(world: &World) -> Value {
    template(world)["spec"]["terminationGracePeriodSeconds"].clone()
}

/// Looks until the pods are replaced, and counts them.
async fn rolls(world: &mut World) -> usize {
    let before = world.uids();
    for _ in 0..12 {
        world.look().await.expect("reconciled");
        world.controller(true);
        world.heal();
    }
    let after = world.uids();
    before.iter().filter(|(pod, uid)| after.get(*pod) != Some(uid)).count()
}

#[tokio::test]
async fn an_operator_that_makes_pods_otherwise_restarts_none_until_the_cluster_changes() {
    for has_record in [true, false] {
        let mut world = made_by_another(has_record).await;
        let before = (world.uids(), template(&world));
        for _ in 0..3 {
            let status = world.look().await.expect("reconciled");
            world.controller(true);
            says(&status, ConditionType::UpgradeBlocked, "False", "TemplateKept");
            assert!(message(&status, ConditionType::UpgradeBlocked).contains("followOperator"));
            says(&status, ConditionType::Progressing, "False", "AsAsked");
            assert_eq!((world.uids(), template(&world)), before, "{has_record}");
            assert_eq!(world.budget(), json!(1));
        }
        assert_eq!(world.server.take_deletions(), vec![], "neither StatefulSet nor ConfigMap");
        assert!(world.server.get(OLD_CONFIG).is_some());
        // A part that reaches no pod changes nothing.
        change_spec(&world.server, |spec| spec["networkPolicy"] = json!({"enabled": false}));
        assert_eq!(rolls(&mut world).await, 0);
        // An edit of a person is put back to the recorded template.
        let mut set = world.server.get(STATEFUL_SET).expect("made");
        set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("sherd-node:edited");
        world.server.put(STATEFUL_SET, set);
        world.controller(true);
        world.look().await.expect("put back");
        assert_eq!((world.uids(), template(&world)), before);
        let mut config = world.server.get(OLD_CONFIG).expect("kept");
        config["metadata"]["labels"] = json!({});
        world.server.put(OLD_CONFIG, config);
        world.controller(true);
        world.look().await.expect("put back");
        let labels = world.server.get(OLD_CONFIG).expect("kept")["metadata"]["labels"].clone();
        assert_eq!(labels["sherd.dev/cluster"], "demo");
        // A change of the cluster is made as this operator makes it.
        let mut stored = world.server.get(CLUSTER).expect("there");
        stored["metadata"]["annotations"] = json!({"sherd.dev/restart": "now"});
        world.server.put(CLUSTER, stored);
        assert_eq!(rolls(&mut world).await, names().len());
        assert_eq!(grace(&world), json!(90));
        assert!(template(&world)["spec"]["containers"][0]["resources"]["requests"]["memory"].is_string());
        let status = world.look().await.expect("reconciled");
        says(&status, ConditionType::UpgradeBlocked, "False", "NotNeeded");
        assert!(world.server.get(OLD_CONFIG).is_none(), "no pod mounts it any more");
    }
}

#[tokio::test]
async fn a_cluster_that_follows_its_operator_is_rolled() {
    let mut world = made_by_another(true).await;
    assert_eq!(rolls(&mut world).await, 0);
    change_spec(&world.server, |spec| spec["upgrade"] = json!({"followOperator": true}));
    assert_eq!(rolls(&mut world).await, names().len());
    assert_eq!(grace(&world), json!(90));
    // Its template is the recorded one then.
    change_spec(&world.server, |spec| spec["upgrade"] = json!({}));
    assert_eq!(rolls(&mut world).await, 0);
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "False", "NotNeeded");
}

/// The pods of an older operator have the root credentials in their environment.
fn puts_credentials_into_the_environment(world: &World) {
    let data = |name: &str, key: &str| {
        let secret = world.server.get(&format!("/api/v1/namespaces/storage/secrets/{name}")).expect("made");
        STANDARD.decode(secret["data"][key].as_str().expect("a value")).expect("base64")
    };
    let text = |key: &str| String::from_utf8(data("mine", key)).expect("a text");
    let mut mac = Hmac::<Sha256>::new_from_slice(&data("demo-master-key", "master.key")).expect("a key");
    let (id, secret) = (text("AWS_ACCESS_KEY_ID"), text("AWS_SECRET_ACCESS_KEY"));
    mac.update(format!("sherd root credentials {id} {secret}").as_bytes());
    let digest: String = hex::encode(mac.finalize().into_bytes()).chars().take(16).collect();
    let mut set = world.server.get(STATEFUL_SET).expect("made");
    set["spec"]["template"]["metadata"]["annotations"]["sherd.dev/credentials"] = json!(digest);
    let volumes = set["spec"]["template"]["spec"]["volumes"].as_array_mut().expect("volumes");
    volumes.retain(|volume| volume["name"] != "credentials");
    world.server.put(STATEFUL_SET, set);
}

fn mounts_credentials(world: &World) -> bool {
    let template = template(world);
    let mut volumes = template["spec"]["volumes"].as_array().expect("volumes").iter();
    volumes.any(|volume| volume["secret"]["secretName"] == "demo-node-credentials")
}

/// Such pods go on as they are, and other credentials replace them: once, since the new ones mount a file.
#[tokio::test]
async fn pods_with_credentials_in_their_environment_are_replaced_when_these_change_and_never_again() {
    let mut world = made_by_another(false).await;
    world.server.put(MINE, users_pair("root", "longenough"));
    change_spec(&world.server, |spec| spec["credentials"] = json!({"secretRef": {"name": "mine"}}));
    puts_credentials_into_the_environment(&world);
    assert_eq!(rolls(&mut world).await, 0, "an upgrade of the operator");
    assert!(!mounts_credentials(&world));
    world.server.put(MINE, users_pair("two", "longenough2"));
    assert_eq!(rolls(&mut world).await, names().len());
    assert_eq!(grace(&world), json!(90));
    assert!(mounts_credentials(&world));
    assert!(node_credentials(&world.server).contains("=two\n"));
    assert!(!node_credentials(&world.server).contains("SECONDARY"));
    world.server.put(MINE, users_pair("three", "longenough3"));
    assert_eq!(rolls(&mut world).await, 0);
    assert!(node_credentials(&world.server).contains("=three\n"));
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "False", "NotNeeded");
}

/// A person's edit says nothing about the pods that were made before it.
#[tokio::test]
async fn an_edit_that_mounts_credentials_is_put_back_where_the_recorded_template_has_them_in_the_environment()
{
    let mut world = made_by_another(false).await;
    world.server.put(MINE, users_pair("root", "longenough"));
    change_spec(&world.server, |spec| spec["credentials"] = json!({"secretRef": {"name": "mine"}}));
    puts_credentials_into_the_environment(&world);
    world.controller(true);
    assert_eq!(rolls(&mut world).await, 0);
    let mut set = world.server.get(STATEFUL_SET).expect("made");
    let volumes = set["spec"]["template"]["spec"]["volumes"].as_array_mut().expect("volumes");
    volumes.push(json!({"name": "credentials", "secret": {"secretName": "demo-node-credentials"}}));
    set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("sherd-node:edited");
    world.server.put(STATEFUL_SET, set);
    world.controller(true);
    assert!(mounts_credentials(&world));
    assert_eq!(rolls(&mut world).await, 0);
    assert!(!mounts_credentials(&world));
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "False", "TemplateKept");
}

/// A template that mounts the file is kept by an operator that builds another one, through other credentials.
#[tokio::test]
async fn other_credentials_are_no_reason_to_give_up_a_recorded_template_that_mounts_them() {
    let mut world = World::new().await;
    world.server.put(MINE, users_pair("root", "longenough"));
    change_spec(&world.server, |spec| spec["credentials"] = json!({"secretRef": {"name": "mine"}}));
    assert_eq!(rolls(&mut world).await, 0);
    let mut stored = world.server.get(CLUSTER).expect("there");
    stored["status"]["rollout"]["recorded"]["template"] = json!("as another operator built it");
    world.server.put(CLUSTER, stored);
    world.server.put(MINE, users_pair("two", "longenough2"));
    let mut both = users_pair("two", "longenough2");
    both["data"]["AWS_ACCESS_KEY_ID_SECONDARY"] = json!(STANDARD.encode("one"));
    both["data"]["AWS_SECRET_ACCESS_KEY_SECONDARY"] = json!(STANDARD.encode("longenough1"));
    world.server.put(MINE, both);
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "False", "TemplateKept");
    let lines = "AWS_ACCESS_KEY_ID=two\nAWS_SECRET_ACCESS_KEY=longenough2\n\
                 AWS_ACCESS_KEY_ID_SECONDARY=one\nAWS_SECRET_ACCESS_KEY_SECONDARY=longenough1\n";
    assert!(node_credentials(&world.server).ends_with(lines));
}

/// Each look of a cluster at rest costs no request for its template.
#[tokio::test]
async fn a_recorded_template_is_read_from_the_stateful_set() {
    let world = made_by_another(true).await;
    world.server.take_requests();
    world.look().await.expect("reconciled");
    let requests = world.server.take_requests();
    assert!(!requests.iter().any(|(_, path)| path.contains("controllerrevisions")), "{requests:?}");
}

/// Without a record, the template counts where the last operator had applied this very cluster and all pods
/// run it.
#[tokio::test]
async fn a_change_that_the_last_operator_did_not_apply_is_made() {
    let changes: [(&str, Change); 5] = [
        ("a specification that it did not see", |world| {
            let mut stored = world.server.get(CLUSTER).expect("there");
            stored["metadata"]["generation"] = json!(2);
            world.server.put(CLUSTER, stored);
        }),
        ("a specification that it could not apply", |world| {
            let mut stored = world.server.get(CLUSTER).expect("there");
            for condition in stored["status"]["conditions"].as_array_mut().expect("conditions") {
                if condition["type"] == "Progressing" {
                    condition["reason"] = json!("ApplyRejected");
                }
            }
            world.server.put(CLUSTER, stored);
        }),
        ("a restart", |world| {
            let mut stored = world.server.get(CLUSTER).expect("there");
            stored["metadata"]["annotations"] = json!({"sherd.dev/restart": "now"});
            world.server.put(CLUSTER, stored);
        }),
        ("other credentials", |world| {
            let mut set = world.server.get(STATEFUL_SET).expect("made");
            set["spec"]["template"]["metadata"]["annotations"]["sherd.dev/credentials"] = json!("other");
            world.server.put(STATEFUL_SET, set);
        }),
        ("a rollout that has not ended", |world| {
            let mut pod = world.server.get(&path("demo-pool-0-0")).expect("there");
            pod["metadata"]["labels"]["controller-revision-hash"] = json!("demo-pool-0-0");
            world.server.put(&path("demo-pool-0-0"), pod);
        }),
    ];
    for (name, change) in changes {
        let world = made_by_another(false).await;
        change(&world);
        world.look().await.expect("reconciled");
        assert_eq!(grace(&world), json!(90), "{name}");
    }
}

/// The same template, of an operator that recorded nothing, is recorded as this operator's own.
#[tokio::test]
async fn a_template_that_is_as_it_would_be_built_is_not_reported_as_kept() {
    let mut world = World::new().await;
    let mut stored = world.server.get(CLUSTER).expect("there");
    stored["status"]["rollout"].as_object_mut().expect("a record").remove("recorded");
    world.server.put(CLUSTER, stored);
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "False", "NotNeeded");
    assert!(status.rollout.expect("a record").recorded.is_some_and(|recorded| recorded.template.is_some()));
    assert_eq!(rolls(&mut world).await, 0);
}

#[tokio::test]
async fn a_template_that_is_gone_is_built() {
    let edit = |world: &World| {
        let mut set = world.server.get(STATEFUL_SET).expect("made");
        set["spec"]["template"]["spec"]["containers"][0]["image"] = json!("sherd-node:edited");
        world.server.put(STATEFUL_SET, set);
    };
    for lost in [OLD_CONFIG, REVISION] {
        let mut world = made_by_another(true).await;
        // Else the StatefulSet itself has it.
        edit(&world);
        world.controller(true);
        world.server.delete(lost);
        world.look().await.expect("reconciled");
        assert_eq!((grace(&world), world.image()), (json!(90), json!("sherd-node:1")), "{lost}");
        assert!(events(&world.server).contains(&"TemplateLost".to_owned()), "{lost}");
        rolls(&mut world).await;
        let status = world.look().await.expect("reconciled");
        says(&status, ConditionType::UpgradeBlocked, "False", "NotNeeded");
    }
}

/// The last template that worked is kept with its configuration, also by an operator that would build both
/// otherwise.
#[tokio::test]
async fn a_template_that_failed_is_not_tried_again_by_another_operator() {
    let mut world = World::new().await;
    let good = config(&world.server);
    change_spec(&world.server, |spec| spec["config"] = json!({"region": "eu-north-1"}));
    world.change_image("bad").await;
    world.look().await.expect("reconciled");
    world.controller(false);
    world.look().await.expect("it waits");
    world.now = super::rollouts::later;
    world.look().await.expect("it fails");
    world.look().await.expect("it is put back");
    world.controller(true);
    assert_eq!((world.image(), config(&world.server)), (json!("sherd-node:1"), good.clone()));
    let mut edited = world.server.get(&good).expect("kept");
    edited["metadata"]["labels"] = json!({});
    world.server.put(&good, edited);
    world.look().await.expect("reconciled");
    let labels = world.server.get(&good).expect("kept")["metadata"]["labels"].clone();
    assert_eq!(labels["sherd.dev/cluster"], "demo", "it is a child");
    // Another operator builds another template of the same specification.
    for has_record in [true, false] {
        let mut stored = world.server.get(CLUSTER).expect("there");
        let rollout = &mut stored["status"]["rollout"];
        rollout["failed"]["template"] = json!("as it was built");
        if has_record {
            rollout["recorded"]["template"] = json!("as it was built");
        } else {
            rollout.as_object_mut().expect("a record").remove("recorded");
        }
        world.server.put(CLUSTER, stored);
        let status = world.look().await.expect("reconciled");
        says(&status, ConditionType::UpgradeBlocked, "True", "HealthTimeout");
        assert_eq!(world.image(), "sherd-node:1", "{has_record}");
    }
}

const LIVE: &str = "/api/v1/namespaces/storage/configmaps/demo-live";

fn live(world: &World) -> String {
    let live = world.server.get(LIVE).expect("made");
    live["data"]["live.toml"].as_str().expect("text").to_owned()
}

/// Settings that running nodes take change no template.
#[tokio::test]
async fn a_setting_that_running_nodes_take_replaces_no_pod() {
    let mut world = World::new().await;
    let before = template(&world);
    change_spec(&world.server, |spec| spec["config"] = json!({"logLevel": "debug", "queueMax": 7}));
    assert_eq!(rolls(&mut world).await, 0);
    assert_eq!(template(&world), before);
    assert!(live(&world).contains("level = \"debug\"") && live(&world).contains("queue_max = 7"));
    let mut edited = world.server.get(LIVE).expect("made");
    edited["data"]["live.toml"] = json!("edited");
    world.server.put(LIVE, edited);
    world.look().await.expect("put back");
    assert!(live(&world).contains("level = \"debug\""), "an edit is put back");
    // An operator of another version built the template otherwise, with a live file.
    let mut stored = world.server.get(CLUSTER).expect("there");
    stored["status"]["rollout"]["recorded"]["template"] = json!("as it was built");
    world.server.put(CLUSTER, stored);
    change_spec(&world.server, |spec| spec["config"] = json!({"logLevel": "trace"}));
    assert_eq!(rolls(&mut world).await, 0);
    assert_eq!(template(&world), before);
    assert!(live(&world).contains("level = \"trace\""));
    change_spec(&world.server, |spec| spec["config"] = json!({"region": "eu-north-1"}));
    world.look().await.expect("reconciled");
    assert_ne!(template(&world), before, "what needs a start does");
}

/// Pods of an operator that made no live file read all settings from the file that they began with.
#[tokio::test]
async fn a_setting_reaches_pods_without_a_live_file_by_another_template() {
    let mut world = made_by_another(true).await;
    let mut set = world.server.get(STATEFUL_SET).expect("made");
    let variables = &mut set["spec"]["template"]["spec"]["containers"][0]["env"];
    let variables = variables.as_array_mut().expect("variables");
    variables.retain(|variable| variable["name"] != "SHERD_LIVE_CONFIG");
    world.server.put(STATEFUL_SET, set);
    world.controller(true);
    let mut stored = world.server.get(CLUSTER).expect("there");
    let recorded = stored["status"]["rollout"]["recorded"].as_object_mut().expect("a record");
    recorded.remove("fixedInputs");
    world.server.put(CLUSTER, stored);
    assert_eq!(rolls(&mut world).await, 0, "the operator alone replaces none");
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::SettingsLoaded, "True", "TemplateKept");
    change_spec(&world.server, |spec| spec["config"] = json!({"logLevel": "debug"}));
    assert_eq!(rolls(&mut world).await, names().len());
    assert_eq!(grace(&world), json!(90));
    change_spec(&world.server, |spec| spec["config"] = json!({"logLevel": "info"}));
    assert_eq!(rolls(&mut world).await, 0);
}

/// A cluster with settings that running nodes take was recorded by an operator that counted them.
#[tokio::test]
async fn a_record_of_an_older_operator_counts_for_a_cluster_with_such_settings() {
    let mut world = World::new().await;
    change_spec(&world.server, |spec| spec["config"] = json!({"scrubPeriod": "7days"}));
    assert_eq!(rolls(&mut world).await, 0);
    let mut stored = world.server.get(CLUSTER).expect("there");
    let recorded = stored["status"]["rollout"]["recorded"].as_object_mut().expect("a record");
    recorded.remove("fixedInputs").expect("recorded");
    recorded.insert("template".to_owned(), json!("as it was built"));
    world.server.put(CLUSTER, stored);
    assert_eq!(rolls(&mut world).await, 0);
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "False", "TemplateKept");
}

/// One warning, until the definition was there: the status is written again at each look.
#[tokio::test]
async fn a_definition_that_drops_what_is_recorded_is_named_once() {
    let world = World::new().await;
    let context = world.context();
    let outdated = || {
        let server = &world.server;
        let events = server.paths().into_iter().filter(|path| path.contains("/events/"));
        let events = events.map(|path| server.get(&path).expect("there"));
        events.filter(|event| event["reason"] == "DefinitionOutdated").collect::<Vec<Value>>()
    };
    let look = async || reconcile(&context, &cluster(&world.server)).await.expect("reconciled");
    look().await;
    assert_eq!(outdated(), Vec::<Value>::new());
    for time in 1..=2 {
        world.server.drop_field(Some(("/status/rollout", "recorded")));
        let mut stored = world.server.get(CLUSTER).expect("there");
        stored["status"]["rollout"].as_object_mut().expect("a record").remove("recorded");
        world.server.put(CLUSTER, stored);
        for _ in 0..3 {
            look().await;
            assert!(world.server.get(CLUSTER).expect("there")["status"]["rollout"]["recorded"].is_null());
        }
        world.server.drop_field(None);
        look().await;
        let found = outdated();
        let counts: Vec<&Value> = found.iter().map(|event| &event["series"]["count"]).collect();
        assert!(found[0]["note"].as_str().expect("a note").contains("status.rollout.recorded:"), "{found:?}");
        assert_eq!(counts, [&if time == 1 { Value::Null } else { json!(2) }]);
    }
}

/// A specification that names no image any more brings back none of before.
#[tokio::test]
async fn an_image_that_the_status_alone_names_is_said() {
    let world = World::new().await;
    let spec_valid = ConditionType::SpecValid;
    says(&world.look().await.expect("reconciled"), spec_valid, "True", "Valid");
    let mut stored = world.server.get(CLUSTER).expect("there");
    stored["status"]["recordedImage"] = json!({"repository": "sherd-node", "tag": "2"});
    world.server.put(CLUSTER, stored);
    let status = world.look().await.expect("reconciled");
    says(&status, spec_valid, "True", "ImageFromStatus");
    let said = message(&status, spec_valid);
    assert!(said.contains("sherd-node:2") && said.contains("sherd-node:1"), "{said}");
    for upgrade in [json!({"image": {"tag": "2"}}), json!({"upgrade": {"followOperator": true}})] {
        let before = world.server.get(CLUSTER).expect("there");
        change_spec(&world.server, |spec| {
            spec.as_object_mut().expect("fields").extend(upgrade.as_object().expect("fields").clone());
        });
        says(&world.look().await.expect("reconciled"), spec_valid, "True", "Valid");
        world.server.put(CLUSTER, before);
    }
}
