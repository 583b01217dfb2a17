//! BucketUsers whose key a Secret gives that a person wrote: which pairs are read, rotations by another key,
//! Secrets that give none, and ids of others. The Secret is the same bytes after each step.

use std::time::Duration;

use serde_json::{Value, json};
use sherd_operator::buckets::user::given::read;

use super::store::{ScriptedUser, StoreFault};
use super::users::{APP, KEY, READY, a_user, keys, step};
use super::*;

const GIVEN: &str = "/api/v1/namespaces/team/secrets/console";

fn encoded(text: &str) -> Value {
    json!(base64::Engine::encode(&base64::engine::general_purpose::STANDARD, text))
}

/// A Secret with these keys.
fn give(server: &ApiServer, path: &str, data: &[(&str, &str)]) {
    let data: serde_json::Map<_, _> =
        data.iter().map(|(key, text)| ((*key).to_owned(), encoded(text))).collect();
    let name = path.rsplit('/').next().expect("a name");
    let secret = json!({
        "apiVersion": "v1", "kind": "Secret",
        "metadata": {"name": name, "namespace": "team"}, "data": data,
    });
    server.put(path, secret);
}

fn give_console(server: &ApiServer, id: &str, secret: &str) {
    give(server, GIVEN, &[("CONSOLE_ACCESS_KEY", id), ("CONSOLE_SECRET_KEY", secret)]);
}

/// A user of namespace `team` whose key is to come from the Secret `console`.
fn a_given_user() -> (ApiServer, ScriptedStore) {
    let (server, store) = a_user();
    change(&server, APP, |user| user["spec"]["secretRef"] = json!({"name": "console"}));
    (server, store)
}

/// A step, after which no Secret is another one than before.
async fn look(server: &ApiServer, store: &ScriptedStore) {
    let before = server.get(GIVEN);
    server.take_changes();
    step(server, store).await.expect("reported");
    assert_eq!(server.get(GIVEN), before);
    let touched: Vec<_> =
        server.take_changes().into_iter().filter(|(_, at)| at.contains("secrets")).collect();
    assert_eq!(touched, vec![]);
    let status = server.get(APP).map(|user| user["status"].to_string()).unwrap_or_default();
    assert!(!status.contains("minio-secret"), "{status}");
}

#[tokio::test]
async fn a_user_gets_the_key_of_a_secret_and_leaves_it_behind() {
    let (server, store) = a_given_user();
    give_console(&server, "console", "minio-secret-1");
    look(&server, &store).await;
    says(&server, APP, READY, "True", "AsAsked");
    says(&server, APP, KEY, "True", "AsAsked");
    assert_eq!(store.user("team.app").expect("made").keys, [("console".to_owned(), true)]);
    assert_eq!(store.state.lock().given["console"], "minio-secret-1");
    assert_eq!(server.get(APP).expect("there")["status"]["secret"], "console");
    assert_eq!(server.get("/api/v1/namespaces/team/secrets/app"), None, "none of the operator's own");
    store.take_changes();
    // Nor does the annotation for keys that the operator makes ask for another one.
    change(&server, APP, |user| user["metadata"]["annotations"] = json!({"sherd.dev/rotate": "now"}));
    look(&server, &store).await;
    assert_eq!(store.take_changes(), Vec::<String>::new());
    begin_deletion(&server, APP);
    look(&server, &store).await;
    assert_eq!((server.get(APP), store.user("team.app")), (None, None));
    assert!(server.get(GIVEN).is_some());
}

#[tokio::test]
async fn another_key_in_the_secret_is_in_force_before_the_former_one_goes() {
    let (server, store) = a_given_user();
    give_console(&server, "first", "minio-secret-1");
    look(&server, &store).await;
    give_console(&server, "second", "minio-secret-2");
    look(&server, &store).await;
    assert_eq!(keys(&store), ["first", "second"]);
    says(&server, APP, KEY, "True", "Rotating");
    // Another one within the overlap.
    give(
        &server,
        "/api/v1/namespaces/team/secrets/other",
        &[("accesskey", "third"), ("secretkey", "minio-secret-3")],
    );
    change(&server, APP, |user| user["spec"]["secretRef"]["name"] = json!("other"));
    look(&server, &store).await;
    assert_eq!(keys(&store), ["second", "third"]);
    // And back to the one before.
    change(&server, APP, |user| user["spec"]["secretRef"]["name"] = json!("console"));
    look(&server, &store).await;
    assert_eq!(keys(&store), ["second", "third"]);
    assert_eq!(server.get(APP).expect("there")["status"]["formerKey"]["accessKeyId"], "third");
    pass(Duration::from_hours(1));
    look(&server, &store).await;
    assert_eq!(keys(&store), ["second"]);
    says(&server, APP, KEY, "True", "AsAsked");
}

/// Cuts a rotation at each request of the cluster: a key works at every moment, and no key is left over.
#[tokio::test]
async fn a_rotation_by_a_secret_that_is_cut_anywhere_is_gone_on_with() {
    for lost_at in 0.. {
        let (server, store) = a_given_user();
        give_console(&server, "first", "minio-secret-1");
        look(&server, &store).await;
        give_console(&server, "second", "minio-secret-2");
        store.take_changes();
        store.state.lock().lost_at = Some(lost_at);
        look(&server, &store).await;
        let requests = store.state.lock().calls.len();
        assert!(keys(&store).contains(&"first".to_owned()), "cut {lost_at}: pods that run have it");
        store.mend();
        look(&server, &store).await;
        assert_eq!(keys(&store), ["first", "second"], "cut {lost_at}");
        pass(Duration::from_hours(1));
        look(&server, &store).await;
        assert_eq!(keys(&store), ["second"], "cut {lost_at}");
        if lost_at >= requests {
            break;
        }
    }
}

/// One id has one secret, so that none works beside it.
#[tokio::test]
async fn another_secret_of_the_same_id_takes_the_place_of_the_one_before() {
    let (server, store) = a_given_user();
    give_console(&server, "console", "minio-secret-1");
    look(&server, &store).await;
    give_console(&server, "console", "minio-secret-2");
    store.take_changes();
    look(&server, &store).await;
    let changes = store.take_changes();
    assert!(changes.iter().all(|change| change.starts_with("ImportAccessKey")), "in one step: {changes:?}");
    assert_eq!((changes.len(), keys(&store)), (1, vec!["console".to_owned()]));
    assert_eq!(store.state.lock().given["console"], "minio-secret-2");
    says(&server, APP, KEY, "True", "AsAsked");
}

#[tokio::test]
async fn a_secret_that_gives_no_key_leaves_those_in_force() {
    let (server, store) = a_given_user();
    look(&server, &store).await;
    let message = says(&server, APP, KEY, "False", "SecretMissing");
    assert_eq!(message, "Secret console is not there");
    says(&server, APP, READY, "False", "SecretMissing");
    assert_eq!(keys(&store), Vec::<String>::new());
    give_console(&server, "first", "minio-secret-1");
    look(&server, &store).await;
    give_console(&server, "second", "minio-secret-2");
    look(&server, &store).await;
    let broken: [(&[(&str, &str)], &str); 4] = [
        (&[("other", "minio-secret")], "has none of the pairs of keys AWS_ACCESS_KEY_ID and"),
        (&[("accesskey", "third")], "has the key accesskey and no key secretkey"),
        (
            &[("CONSOLE_ACCESS_KEY", "third\n"), ("CONSOLE_SECRET_KEY", "minio-secret-3")],
            "has under the key CONSOLE_ACCESS_KEY no id: 3 to 64 of the characters",
        ),
        (
            &[("accesskey", "third"), ("secretkey", "short")],
            "has under the key secretkey no secret: 8 to 128",
        ),
    ];
    for (data, expected) in broken {
        give(&server, GIVEN, data);
        look(&server, &store).await;
        let message = says(&server, APP, KEY, "False", "SecretMalformed");
        assert!(message.starts_with("Secret console") && message.contains(expected), "{message}");
        assert!(!message.contains("third") && !message.contains("short"), "{message}");
        assert_eq!(keys(&store), ["first", "second"]);
    }
    // Suspended keys come back, and the overlap ends, without the Secret, too.
    server.delete(GIVEN);
    let active = || store.user("team.app").expect("there").keys.iter().filter(|(_, active)| *active).count();
    change(&server, APP, |user| user["spec"]["suspended"] = json!(true));
    look(&server, &store).await;
    assert_eq!(active(), 0);
    change(&server, APP, |user| user["spec"]["suspended"] = json!(false));
    look(&server, &store).await;
    assert_eq!(active(), 2);
    pass(Duration::from_hours(1));
    look(&server, &store).await;
    assert_eq!(keys(&store), ["second"]);
}

#[tokio::test]
async fn an_id_of_another_user_is_not_taken() {
    let (server, store) = a_given_user();
    give_console(&server, "first", "minio-secret-1");
    look(&server, &store).await;
    let other = ScriptedUser { keys: vec![("theirs".to_owned(), true)], ..ScriptedUser::default() };
    store.state.lock().users.insert("other".to_owned(), other.clone());
    give_console(&server, "theirs", "minio-secret-2");
    look(&server, &store).await;
    let message = says(&server, APP, KEY, "False", "KeyTaken");
    assert!(message.contains("Secret console") && !message.contains("theirs"), "{message}");
    assert_eq!((keys(&store), store.user("other")), (vec!["first".to_owned()], Some(other)));
    // Nodes that know no such request refuse it, and nothing is changed.
    store.fail("ImportAccessKey", StoreFault::Refused(400, "InvalidAction", "no such action"));
    look(&server, &store).await;
    says(&server, APP, READY, "False", "Refused");
    assert_eq!(keys(&store), ["first"]);
}

/// The first whole pair of one Secret counts.
#[test]
fn pairs_are_read_in_their_order() {
    let pairs = [
        ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"),
        ("accesskey", "secretkey"),
        ("CONSOLE_ACCESS_KEY", "CONSOLE_SECRET_KEY"),
    ];
    for at in 0..pairs.len() {
        let mut data: serde_json::Map<String, Value> = pairs[at..]
            .iter()
            .flat_map(|(id, secret)| {
                [((*id).to_owned(), encoded(id)), ((*secret).to_owned(), encoded(secret))]
            })
            .collect();
        if at > 0 {
            data.insert(pairs[at - 1].0.to_owned(), encoded("half"));
        }
        let secret = serde_json::from_value(json!({"metadata": {}, "data": data})).expect("a Secret");
        let key = read(&secret).expect("whole");
        assert_eq!((key.id.as_str(), key.secret.0.as_str()), pairs[at]);
    }
}
