//! Users whose right ended otherwise than by their BucketUser's end.

use std::time::Duration;

use http::Method;
use serde_json::json;
use sherd_operator::buckets::sweep::{SweepError, SweptUsers, sweep};

use super::store::{ScriptedUser, StoreFault};
use super::users::{APP, KEY, READY, a_user, step};
use super::*;
use crate::scripted_api::server::Fault;

const EVENTS: &str = "/apis/events.k8s.io/v1/namespaces/storage/events/";
const ENDED: &str = "sherd.dev/ended";

async fn swept(server: &ApiServer, store: &ScriptedStore) -> Result<SweptUsers, SweepError> {
    let cluster = serde_json::from_value(server.get(CLUSTER).expect("there")).expect("decodes");
    sweep(&context(server, store), &cluster).await
}

fn active(store: &ScriptedStore) -> usize {
    let keys = store.user("team.app").expect("there").keys;
    keys.into_iter().filter(|(_, active)| *active).count()
}

fn keys(store: &ScriptedStore) -> usize {
    store.user("team.app").expect("there").keys.len()
}

/// The notes of the events of sweeps.
fn notes(server: &ApiServer) -> Vec<String> {
    let events = server.paths().into_iter().filter(|path| path.starts_with(EVENTS));
    let events = events.filter_map(|path| server.get(&path)).filter(|event| event["reason"] == "UserEnded");
    events.map(|event| event["note"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A user that works, beside one of a person and one that a person made below the same path.
async fn a_working_user() -> (ApiServer, ScriptedStore) {
    let (server, store) = a_user();
    step(&server, &store).await.expect("reconciled");
    for (name, path) in [("ada", "/"), ("people.ada", "/people/"), ("by-hand", "/kubernetes/team/")] {
        let keys = vec![(format!("AKIA{name}"), true)];
        let user = ScriptedUser { path: path.to_owned(), keys, ..ScriptedUser::default() };
        store.state.lock().users.insert(name.to_owned(), user);
    }
    assert_eq!(active(&store), 1);
    store.take_changes();
    (server, store)
}

#[track_caller]
fn others_are_as_they_were(store: &ScriptedStore) {
    for name in ["ada", "people.ada", "by-hand"] {
        assert_eq!(store.user(name).expect("there").keys, [(format!("AKIA{name}"), true)]);
    }
}

/// The end of the object of a user.
type Ending = fn(&ApiServer);

/// The finalizer is removed by hand, or replaced, and the object is deleted; its namespace goes with it; the
/// cluster is deleted before it, and adopted.
const ENDINGS: [(&str, Ending); 4] = [
    ("vanished", |server| server.delete(APP)),
    ("kept by another finalizer", |server| {
        change(server, APP, |user| user["metadata"]["finalizers"] = json!(["example.com/mine"]));
        begin_deletion(server, APP);
    }),
    ("its namespace is gone", |server| {
        server.delete(APP);
        server.delete("/api/v1/namespaces/team");
        change(server, CLUSTER, |cluster| cluster["spec"]["bucketNamespaces"] = json!([]));
    }),
    ("of another cluster", |server| {
        change(server, APP, |user| user["spec"]["cluster"]["name"] = json!("other"));
    }),
];

#[tokio::test]
async fn a_user_without_its_object_loses_its_keys_at_once_and_for_good_after_the_overlap() {
    for (ending, end) in ENDINGS {
        let (server, store) = a_working_user().await;
        assert_eq!(swept(&server, &store).await.expect("done"), SweptUsers { left: 0 });
        assert_eq!((store.take_changes(), notes(&server).len()), (vec![], 0), "{ending}");
        end(&server);
        assert_eq!(swept(&server, &store).await.expect("done"), SweptUsers { left: 1 });
        assert_eq!((active(&store), keys(&store)), (0, 1), "{ending}");
        let [note] = &notes(&server)[..] else { panic!("{:?}", notes(&server)) };
        assert!(note.contains("user team.app has no BucketUser app in namespace team"), "{note}");
        store.take_changes();
        pass(Duration::from_mins(59));
        assert_eq!(swept(&server, &store).await.expect("done"), SweptUsers { left: 1 });
        assert_eq!((store.take_changes(), notes(&server).len()), (vec![], 1), "{ending}");
        // Root may have made it active again.
        store.state.lock().users.get_mut("team.app").expect("there").keys[0].1 = true;
        swept(&server, &store).await.expect("done");
        assert_eq!(active(&store), 0, "{ending}");
        pass(Duration::from_mins(1));
        assert_eq!(swept(&server, &store).await.expect("done"), SweptUsers { left: 0 });
        assert_eq!(keys(&store), 0, "{ending}");
        others_are_as_they_were(&store);
    }
}

/// The story of an application that is pruned whole and comes back later.
#[tokio::test]
async fn a_cluster_that_is_deleted_before_its_users_and_adopted_gives_them_nothing() {
    let (server, store) = a_working_user().await;
    let cluster = server.get(CLUSTER).expect("there");
    server.delete(CLUSTER);
    begin_deletion(&server, APP);
    step(&server, &store).await.expect("let go");
    assert_eq!((server.get(APP), active(&store)), (None, 1));
    assert!(matches!(
        sweep(&context(&server, &store), &decoded(&cluster)).await,
        Err(SweepError::NotReady(_))
    ));
    server.put(CLUSTER, cluster);
    change(&server, CLUSTER, |cluster| cluster["metadata"]["uid"] = json!("another"));
    swept(&server, &store).await.expect("done");
    assert_eq!(active(&store), 0);
    others_are_as_they_were(&store);
}

fn decoded(cluster: &Value) -> sherd_operator::api::StorageCluster {
    serde_json::from_value(cluster.clone()).expect("decodes")
}

/// Each request of the cluster in turn is carried out and its answer lost, and each of the API server is
/// refused: the next sweep goes on, and no key that was taken works again.
#[tokio::test]
async fn a_sweep_that_is_cut_at_any_request_is_gone_on_with() {
    for (ending, end) in ENDINGS {
        for lost_at in 0.. {
            let (server, store) = a_working_user().await;
            end(&server);
            store.state.lock().lost_at = Some(lost_at);
            let _ = swept(&server, &store).await;
            let requests = store.state.lock().calls.len();
            store.mend();
            swept(&server, &store).await.expect("done");
            assert_eq!(active(&store), 0, "{ending}, cut {lost_at}");
            assert_eq!(notes(&server).len(), 1, "{ending}, cut {lost_at}");
            pass(Duration::from_hours(1));
            store.state.lock().calls.clear();
            store.state.lock().lost_at = Some(lost_at);
            let _ = swept(&server, &store).await;
            store.mend();
            swept(&server, &store).await.expect("done");
            assert_eq!(keys(&store), 0, "{ending}, cut {lost_at}");
            others_are_as_they_were(&store);
            if lost_at >= requests {
                break;
            }
        }
    }
    for path in
        ["leases", "storageclusters", "secrets/demo-ca", "/pods", "v1alpha1/bucketusers", "bucketusers/app"]
    {
        for fault in [Fault::Code(500), Fault::Broken] {
            let (server, store) = a_working_user().await;
            server.delete(APP);
            server.fail(Method::GET, path, fault);
            swept(&server, &store).await.expect_err(path);
            assert_eq!((store.take_changes(), active(&store)), (vec![], 1), "{path}");
            server.mend();
            swept(&server, &store).await.expect("done");
            assert_eq!(active(&store), 0, "{path}");
        }
    }
}

/// Of a list that was refused nothing follows for the users that it may have held.
#[tokio::test]
async fn what_cannot_be_looked_at_takes_nothing_from_users_that_may_have_it() {
    let (server, store) = a_working_user().await;
    server.fail(Method::GET, "v1alpha1/bucketusers", Fault::Code(403));
    swept(&server, &store).await.expect("done");
    assert_eq!(store.take_changes(), Vec::<String>::new(), "it is there, as a look at it alone says");
    server.fail(Method::GET, "bucketusers/app", Fault::Code(403));
    server.delete(APP);
    swept(&server, &store).await.expect("done");
    assert_eq!(store.take_changes(), Vec::<String>::new());
    // A namespace that is not listed any more takes the right, and so does one that is gone.
    change(&server, CLUSTER, |cluster| cluster["spec"]["bucketNamespaces"] = json!([]));
    swept(&server, &store).await.expect("done");
    assert_eq!((active(&store), keys(&store)), (0, 1));
    let (server, store) = a_working_user().await;
    for path in ["v1alpha1/bucketusers", "bucketusers/app"] {
        server.fail(Method::GET, path, Fault::Code(403));
    }
    server.delete("/api/v1/namespaces/team");
    assert_eq!(swept(&server, &store).await.expect("done"), SweptUsers { left: 1 });
    assert_eq!(active(&store), 0);
}

/// A list is older than the look at the object: one that is made in between is there.
#[tokio::test]
async fn a_user_that_is_made_while_the_sweep_runs_keeps_its_key() {
    let (server, store) = a_working_user().await;
    let object = server.get(APP).expect("there");
    server.delete(APP);
    server.fail(Method::GET, "v1alpha1/bucketusers", Fault::Late(Duration::from_secs(1)));
    let (done, ()) = tokio::join!(swept(&server, &store), async {
        // The list was taken without it by now, and its answer is on its way.
        tokio::task::yield_now().await;
        while !server.take_requests().iter().any(|(_, at)| at.ends_with("v1alpha1/bucketusers")) {
            tokio::task::yield_now().await;
        }
        server.put(APP, object);
    });
    assert_eq!(done.expect("done"), SweptUsers { left: 0 });
    assert_eq!(store.take_changes(), Vec::<String>::new());
}

/// The reconcile of the new object may not have come that far, or may not for a long time.
#[tokio::test]
async fn an_object_that_is_made_again_ends_the_right_of_the_one_before() {
    let (server, store) = a_working_user().await;
    change(&server, APP, |user| {
        user["metadata"]["uid"] = json!("another");
        user["metadata"].as_object_mut().expect("an object").remove("finalizers");
        user.as_object_mut().expect("an object").remove("status");
    });
    swept(&server, &store).await.expect("done");
    assert_eq!(active(&store), 0);
    // Of the same tenant, with its Secret: the key works again.
    step(&server, &store).await.expect("reconciled");
    says(&server, APP, READY, "True", "AsAsked");
    let user = store.user("team.app").expect("there");
    assert_eq!(user.tags, [("sherd.dev/bucket-user".to_owned(), "team-0/another".to_owned())].into());
    assert_eq!((active(&store), keys(&store)), (1, 1));
    swept(&server, &store).await.expect("done");
    assert_eq!(active(&store), 1);
}

#[tokio::test]
async fn a_namespace_that_nothing_reconciles_loses_its_right_and_gets_it_back() {
    let (server, store) = a_working_user().await;
    let before = store.user("team.app").expect("there").keys;
    change(&server, CLUSTER, |cluster| cluster["spec"]["bucketNamespaces"] = json!(["other"]));
    assert_eq!(swept(&server, &store).await.expect("done"), SweptUsers { left: 0 });
    assert_eq!(active(&store), 0);
    assert!(notes(&server)[0].contains("namespace team may not use the cluster"), "{:?}", notes(&server));
    // A key that is not left stays for as long as its object does.
    pass(Duration::from_hours(100));
    swept(&server, &store).await.expect("done");
    change(&server, CLUSTER, |cluster| cluster["spec"]["bucketNamespaces"] = json!(["team"]));
    step(&server, &store).await.expect("reconciled");
    says(&server, APP, KEY, "True", "AsAsked");
    let user = store.user("team.app").expect("there");
    assert_eq!((user.keys, user.tags.contains_key(ENDED)), (before, false));
}

/// A reconcile begins with what the watch saw last.
#[tokio::test]
async fn keys_that_were_taken_are_not_given_back_to_an_object_that_is_remembered() {
    let (server, store) = a_working_user().await;
    let remembered = serde_json::from_value(server.get(APP).expect("there")).expect("decodes");
    server.delete(APP);
    swept(&server, &store).await.expect("done");
    let _ = sherd_operator::buckets::user::reconcile(&context(&server, &store), &remembered).await;
    assert_eq!(active(&store), 0);
}

#[tokio::test]
async fn another_installation_sweeps_its_own_cluster() {
    let (server, store) = a_working_user().await;
    server.delete(APP);
    server.put(
        "/apis/coordination.k8s.io/v1/namespaces/storage/leases/sherd-clusters",
        json!({
            "apiVersion": "coordination.k8s.io/v1", "kind": "Lease",
            "metadata": {"name": "sherd-clusters", "namespace": "storage", "resourceVersion": "0"},
            "spec": {"holderIdentity": "other/sherd-operator", "leaseDurationSeconds": 120},
        }),
    );
    swept(&server, &store).await.expect("left alone");
    assert_eq!((store.take_changes(), active(&store)), (vec![], 1));
}

/// One user that the store refuses keeps no other from being looked at.
#[tokio::test]
async fn a_user_that_is_refused_holds_up_no_other() {
    let (server, store) = a_working_user().await;
    server.delete(APP);
    let keys = vec![("AKIAzoe".to_owned(), true)];
    let zoe = ScriptedUser { path: "/kubernetes/team/".to_owned(), keys, ..ScriptedUser::default() };
    store.state.lock().users.insert("team.zoe".to_owned(), zoe);
    store.fail("TagUser", StoreFault::Refused(409, "LimitExceeded", "fifty tags"));
    assert!(matches!(swept(&server, &store).await, Err(SweepError::Call(_))));
    for name in ["team.app", "team.zoe"] {
        assert!(!store.user(name).expect("there").keys[0].1, "{name}");
    }
}

/// The list of namespaces changes while the sweep lists BucketUsers.
#[tokio::test(start_paused = true)]
async fn a_namespace_that_is_listed_or_withdrawn_amid_a_sweep_is_judged_as_it_is_then() {
    for (before, then, expected) in [(json!([]), json!(["team"]), 1), (json!(["team"]), json!([]), 0)] {
        let (server, store) = a_working_user().await;
        change(&server, CLUSTER, |cluster| cluster["spec"]["bucketNamespaces"] = before.clone());
        server.fail(Method::GET, "/apis/sherd.dev/v1alpha1/bucketusers", Fault::Late(Duration::from_secs(2)));
        let meanwhile = async {
            tokio::time::sleep(Duration::from_secs(1)).await;
            change(&server, CLUSTER, |cluster| cluster["spec"]["bucketNamespaces"] = then.clone());
        };
        let (ended, ()) = tokio::join!(swept(&server, &store), meanwhile);
        ended.expect("done");
        assert_eq!(active(&store), expected, "{before} {then}");
    }
}
