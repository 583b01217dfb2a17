//! An operator that takes over a cluster whose pods another one made: it restarts none before the cluster
//! changes or asks for it, and still puts back what is edited.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use super::rollouts::{World, names, path};
use super::*;

const REVISION: &str = "/apis/apps/v1/namespaces/storage/controllerrevisions/demo-pool-0-1-older";
const OLD_CONFIG: &str = "/api/v1/namespaces/storage/configmaps/demo-config-older";

/// A cluster as an operator left it that made pods, claims and the configuration otherwise.
async fn made_by_another() -> World {
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
    rollout["recorded"]["template"] = json!("as it was built");
    rollout["recorded"]["revision"] = json!("demo-pool-0-1-older");
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
    let mut world = made_by_another().await;
    let before = (world.uids(), template(&world));
    for _ in 0..3 {
        let status = world.look().await.expect("reconciled");
        world.controller(true);
        says(&status, ConditionType::UpgradeBlocked, "False", "TemplateKept");
        assert!(message(&status, ConditionType::UpgradeBlocked).contains("followOperator"));
        says(&status, ConditionType::Progressing, "False", "AsAsked");
        assert_eq!((world.uids(), template(&world)), before);
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

#[tokio::test]
async fn a_cluster_that_follows_its_operator_is_rolled() {
    let mut world = made_by_another().await;
    assert_eq!(rolls(&mut world).await, 0);
    change_spec(&world.server, |spec| spec["upgrade"] = json!({"followOperator": true}));
    assert_eq!(rolls(&mut world).await, names().len());
    assert_eq!(grace(&world), json!(90));
    // The template that this operator builds is the recorded one then.
    change_spec(&world.server, |spec| spec["upgrade"] = json!({}));
    assert_eq!(rolls(&mut world).await, 0);
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "False", "NotNeeded");
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
    let world = made_by_another().await;
    world.server.take_requests();
    world.look().await.expect("reconciled");
    let requests = world.server.take_requests();
    assert!(!requests.iter().any(|(_, path)| path.contains("controllerrevisions")), "{requests:?}");
}

/// A record that is lost is made again.
#[tokio::test]
async fn a_template_that_is_as_it_would_be_built_is_not_reported_as_kept() {
    let mut world = World::new().await;
    let mut stored = world.server.get(CLUSTER).expect("there");
    stored["status"]["rollout"].as_object_mut().expect("a record").remove("recorded");
    world.server.put(CLUSTER, stored);
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "False", "NotNeeded");
    assert!(status.rollout.expect("a record").recorded.is_some());
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
        let mut world = made_by_another().await;
        // The template is edited, so that the StatefulSet itself does not have the recorded one.
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
    let mut stored = world.server.get(CLUSTER).expect("there");
    let rollout = &mut stored["status"]["rollout"];
    rollout["failed"]["template"] = json!("as it was built");
    rollout["recorded"]["template"] = json!("as it was built");
    world.server.put(CLUSTER, stored);
    let status = world.look().await.expect("reconciled");
    says(&status, ConditionType::UpgradeBlocked, "True", "HealthTimeout");
    assert_eq!(world.image(), "sherd-node:1");
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
