//! BucketUsers: their rights to buckets, and their policies.

use http::Method;
use serde_json::{Value, json};
use sherd_operator::api::AccessCondition;
use sherd_policy::{
    BucketRules, Facts, Identity, KeyName, Policy, PolicyForm, Resource, Rights, UserIdentity, Values,
    Verdict,
};

use super::store::StoreFault;
use super::users::{APP, KEY, PHOTOS, READY, a_bucket, a_user, step};
use super::*;
use crate::scripted_api::server::Fault;

const OTHERS: &str = "/apis/sherd.dev/v1alpha1/namespaces/storage/buckets/ledger";
const POLICY: AccessCondition = AccessCondition::PolicyApplied;

/// The policy of its rights, where it has one.
fn rights(store: &ScriptedStore) -> Option<Value> {
    let documents = store.rights("team.app");
    assert!(documents.len() <= 1, "{documents:?}");
    documents.first().map(|text| serde_json::from_str(text).expect("JSON"))
}

fn policy(store: &ScriptedStore, name: &str) -> Option<Value> {
    let user = store.user("team.app")?;
    user.policies.get(name).map(|text| serde_json::from_str(text).expect("JSON"))
}

#[tokio::test]
async fn rights_are_the_documents_that_the_page_promises() {
    for (access, has, has_not) in [
        ("read", vec!["s3:ListBucket", "s3:GetObject"], "s3:PutObject"),
        (
            "write",
            vec!["s3:ListBucket", "s3:ListBucketMultipartUploads", "s3:PutObject"],
            "s3:PutBucketPolicy",
        ),
        ("admin", vec!["s3:*"], "s3:GetObject"),
    ] {
        let (server, store) = a_user();
        change(&server, APP, |user| user["spec"]["buckets"][0]["access"] = json!(access));
        step(&server, &store).await.expect("reconciled");
        let policy = rights(&store).expect("set");
        let [allowed, denied] = policy["Statement"].as_array().expect("statements").as_slice() else {
            panic!("{policy}")
        };
        let actions = allowed["Action"].as_array().expect("actions");
        assert!(has.iter().all(|action| actions.contains(&json!(action))), "{actions:?}");
        assert!(!actions.contains(&json!(has_not)), "{actions:?}");
        assert_eq!(allowed["Resource"], json!(["arn:aws:s3:::photos/*", "arn:aws:s3:::photos"]));
        assert_eq!(
            allowed["Condition"],
            json!({"StringEquals": {"s3:BucketTag/sherd.dev/bucket": ["team/photos/team-0"]}}),
            "a bucket that another makes of its name is another one"
        );
        assert_eq!(denied["Effect"], "Deny");
        assert!(denied["Action"].as_array().expect("actions").contains(&json!("s3:PutBucketTagging")));
        assert_eq!(denied["Resource"], json!(["arn:aws:s3:::photos"]));
    }
}

/// The most that a BucketUser may ask for is taken by IAM: each policy is short enough, and root can attach
/// some more.
#[tokio::test]
async fn sixty_four_buckets_of_the_longest_names_have_any_access() {
    for accesses in [&["read"][..], &["write"], &["admin"], &["read", "write", "admin"]] {
        let (server, store) = a_serving_cluster();
        let mut grants = Vec::new();
        for number in 0..64_usize {
            let name = format!("{number:0>63}");
            // With it a mark is as long as those of the longest names of namespaces.
            let namespace = "n".repeat(49);
            let path = PHOTOS.replace("team", &namespace).replace("photos", &name);
            a_bucket(&server, &store, &path, json!({"allowedNamespaces": ["team"]}));
            let reference = json!({"name": name, "namespace": namespace});
            grants.push(json!({"bucketRef": reference, "access": accesses[number % accesses.len()]}));
        }
        put(&server, APP, "BucketUser", json!({"buckets": grants}));
        step(&server, &store).await.expect("reconciled");
        says(&server, APP, READY, "True", "AsAsked");
        let documents = store.rights("team.app");
        assert!(documents.len() <= 6, "{}", documents.len());
        let all = documents.concat();
        assert!((0..64).all(|number| all.contains(&format!("arn:aws:s3:::{number:0>63}/*"))));
        store.take_changes();
        step(&server, &store).await.expect("reconciled");
        assert_eq!(store.take_changes(), Vec::<String>::new());
        // Fewer buckets need fewer policies.
        change(&server, APP, |user| {
            user["spec"]["buckets"].as_array_mut().expect("rights").truncate(2);
        });
        step(&server, &store).await.expect("reconciled");
        assert!(rights(&store).expect("set").to_string().len() < 6_144);
        assert_eq!(store.state.lock().managed.len(), 1, "none is left over");
        begin_deletion(&server, APP);
        step(&server, &store).await.expect("let go");
        assert!(store.user("team.app").is_none() && store.state.lock().managed.is_empty());
    }
}

#[tokio::test]
async fn a_policy_that_is_refused_leaves_no_right_that_is_no_longer_wanted() {
    let (server, store) = a_user();
    a_bucket(&server, &store, &PHOTOS.replace("photos", "films"), json!({}));
    change(&server, APP, |user| {
        user["spec"]["policy"] =
            json!({"Statement": {"Effect": "Deny", "Action": "s3:GetObject", "Resource": "*"}});
    });
    step(&server, &store).await.expect("reconciled");
    assert!(rights(&store).is_some() && policy(&store, "policy").is_some());
    change(&server, APP, |user| {
        user["spec"]["buckets"] = json!([{"bucketRef": {"name": "films"}, "access": "read"}]);
        user["spec"]["policy"]["Statement"]["Action"] = json!("s3:PutObject");
    });
    for request in ["CreatePolicyVersion", "PutUserPolicy"] {
        store.fail(request, StoreFault::Refused(409, "LimitExceeded", "too much"));
    }
    step(&server, &store).await.expect("reported");
    says(&server, APP, POLICY, "False", "PolicyRefused");
    assert_eq!((rights(&store), policy(&store, "policy")), (None, None));
    store.mend();
    step(&server, &store).await.expect("reconciled");
    assert!(rights(&store).expect("set").to_string().contains("films"));
    // While a document that allows alone is refused, the rights beside it hold.
    change(&server, APP, |user| {
        user["spec"]["policy"] =
            json!({"Statement": {"Effect": "Allow", "Action": "Nonsense", "Resource": "arn:aws:s3:::films"}});
    });
    step(&server, &store).await.expect("reported");
    says(&server, APP, POLICY, "False", "MalformedPolicy");
    assert!(rights(&store).is_some() && policy(&store, "policy").is_none());
    change(&server, APP, |user| user["spec"]["policy"]["Statement"]["Effect"] = json!("Deny"));
    step(&server, &store).await.expect("reported");
    let message = says(&server, APP, POLICY, "False", "MalformedPolicy");
    assert!(message.contains("no right is in force"), "{message}");
    assert_eq!(rights(&store), None, "they would hold where they are to be denied");
}

fn denied(actions: &[&str]) -> Value {
    json!({"Statement": {"Effect": "Deny", "Action": actions, "Resource": "*"}})
}

/// A user that may do everything but delete objects is to read everything but one prefix: at no moment, and
/// wherever the change is cut, it may delete.
#[tokio::test]
async fn what_a_document_denies_is_denied_while_rights_of_before_are_in_force() {
    let admin = |user: &mut Value| {
        user["spec"]["buckets"][0]["access"] = json!("admin");
        user["spec"]["policy"] = denied(&["s3:DeleteObject"]);
    };
    let read = |user: &mut Value| {
        user["spec"]["buckets"][0]["access"] = json!("read");
        user["spec"]["policy"] = denied(&["s3:GetObject"]);
    };
    let nothing = |user: &mut Value| {
        read(user);
        user["spec"].as_object_mut().expect("an object").remove("policy");
    };
    let out_of_bounds = |user: &mut Value| {
        read(user);
        user["spec"]["policy"]["Statement"]["Effect"] = json!("Allow");
    };
    let afterwards: [&dyn Fn(&mut Value); 3] = [&read, &nothing, &out_of_bounds];
    for after in afterwards {
        for cut in 0.. {
            let (server, store) = a_user();
            change(&server, APP, admin);
            step(&server, &store).await.expect("reconciled");
            change(&server, APP, after);
            store.take_changes();
            store.state.lock().lost_at = Some(cut);
            step(&server, &store).await.expect("reported");
            let requests = store.state.lock().calls.len();
            let may_delete = rights(&store).is_some_and(|rights| rights.to_string().contains("s3:*"));
            let document = policy(&store, "policy").map(|found| found.to_string()).unwrap_or_default();
            assert!(!may_delete || document.contains("s3:DeleteObject"), "cut {cut}: {document}");
            store.mend();
            step(&server, &store).await.expect("reconciled");
            let rights = rights(&store).expect("set").to_string();
            assert!(!rights.contains("s3:*") && rights.contains("s3:GetObject"), "{rights}");
            if cut >= requests {
                break;
            }
        }
    }
    // Requests that are refused for the moment are cuts, too.
    for request in ["CreatePolicyVersion", "CreatePolicy", "DetachUserPolicy"] {
        for after in afterwards {
            let (server, store) = a_user();
            change(&server, APP, admin);
            step(&server, &store).await.expect("reconciled");
            change(&server, APP, after);
            store.fail(request, StoreFault::Refused(503, "ServiceUnavailable", "no quorum"));
            step(&server, &store).await.expect("reported");
            let may_delete = rights(&store).is_some_and(|rights| rights.to_string().contains("s3:*"));
            let document = policy(&store, "policy").map(|found| found.to_string()).unwrap_or_default();
            assert!(!may_delete || document.contains("s3:DeleteObject"), "{request}: {document}");
        }
    }
    // A policy of before that can be neither replaced nor removed keeps the document.
    let (server, store) = a_user();
    change(&server, APP, admin);
    step(&server, &store).await.expect("reconciled");
    change(&server, APP, nothing);
    for request in ["CreatePolicyVersion", "DetachUserPolicy"] {
        store.fail(request, StoreFault::Refused(409, "LimitExceeded", "too much"));
    }
    step(&server, &store).await.expect("reported");
    says(&server, APP, READY, "False", "Refused");
    assert!(policy(&store, "policy").is_some());
}

/// A policy's name is unique in the account, of any path.
#[tokio::test]
async fn a_policy_of_another_with_the_name_of_rights_is_named() {
    let (server, store) = a_user();
    store.fail("CreatePolicy", StoreFault::Refused(409, "EntityAlreadyExists", "team.app.buckets-1 exists"));
    step(&server, &store).await.expect("reported");
    let message = says(&server, APP, POLICY, "False", "NameTaken");
    assert!(message.contains("team.app.buckets-1"), "{message}");
    assert_eq!(rights(&store), None);
}

/// The bucket of a request, by its mark.
struct MarkFact(&'static str);

impl Facts for MarkFact {
    fn values(&self, name: KeyName, tag: &str) -> Values<'_> {
        match (name, tag, self.0) {
            (KeyName::BucketTag, "sherd.dev/bucket", mark) if !mark.is_empty() => Values::from(mark),
            _ => Values::Absent,
        }
    }
}

/// As the nodes judge: when the bucket is made again by another, or without a mark, nothing has to be taken
/// away.
#[tokio::test]
async fn rights_and_documents_end_with_the_mark_of_their_bucket() {
    let (server, store) = a_user();
    change(&server, APP, |user| {
        user["spec"]["policy"] = json!({"Version": "2012-10-17", "Statement": {"Effect": "Allow", "Action": "s3:PutBucketPolicy", "Resource": "arn:aws:s3:::photos"}});
    });
    step(&server, &store).await.expect("reconciled");
    let documents = [store.rights("team.app"), vec![policy(&store, "policy").expect("set").to_string()]];
    let parse =
        |text: &String| Arc::new(Policy::parse(text.as_bytes(), PolicyForm::Identity).expect("taken"));
    let identity = Arc::new(Identity::User(UserIdentity {
        arn: "arn:aws:iam::000000000001:user/kubernetes/team/team.app".to_owned(),
        name: "team.app".to_owned(),
        id: "AIDAAPP".to_owned(),
        tags: Vec::new(),
        policies: documents.iter().flatten().map(parse).collect(),
    }));
    let rules = BucketRules { name: "photos".to_owned(), ..BucketRules::default() };
    let rights = Rights::new(&identity, Some(&rules));
    let decide = |action: &'static str, mark: &'static str| {
        let resource = match action {
            "s3:GetObject" => Resource::Object("photos", "k"),
            _ => Resource::Bucket("photos"),
        };
        rights.decide(action, resource, &MarkFact(mark))
    };
    for action in ["s3:GetObject", "s3:ListBucket", "s3:PutBucketPolicy"] {
        assert_eq!(decide(action, "team/photos/team-0"), Verdict::Allowed, "{action}");
        assert_eq!(decide(action, "team/photos/team-1"), Verdict::DeniedImplicitly, "{action}");
        assert_eq!(decide(action, ""), Verdict::DeniedImplicitly, "{action}");
    }
    assert_eq!(decide("s3:DeleteBucket", "team/photos/team-0"), Verdict::DeniedExplicitly);
}

/// A status is written by who may write it, and lasts longer than a bucket.
#[tokio::test]
async fn a_status_gives_no_right_to_a_bucket() {
    let (server, store) = a_user();
    a_bucket(&server, &store, OTHERS, json!({}));
    for name in ["ledger", "unmarked"] {
        store.state.lock().buckets.entry("unmarked".to_owned()).or_default();
        put(&server, PHOTOS, "Bucket", json!({"name": name}));
        change(&server, PHOTOS, |bucket| bucket["status"] = json!({"conditions": [], "bucket": name}));
        for (right, reason) in [
            (json!({"name": name, "access": "admin"}), "BucketNotAllowed"),
            (json!({"bucketRef": {"name": "photos"}, "access": "admin"}), "BucketMissing"),
        ] {
            change(&server, APP, |user| user["spec"]["buckets"] = json!([right]));
            step(&server, &store).await.expect("reported");
            says(&server, APP, READY, "False", reason);
            assert_eq!(rights(&store), None, "{name}");
        }
    }
    // Of a bucket whose mark cannot be read nothing is known.
    store.fail("tagging", StoreFault::Silent);
    step(&server, &store).await.expect("reported");
    says(&server, APP, READY, "Unknown", "NodesSilent");
}

/// The right to write BucketUsers in one namespace gives no bucket of another.
#[tokio::test]
async fn a_namespace_gets_its_own_buckets_and_those_that_others_share() {
    let (server, store) = a_user();
    a_bucket(&server, &store, OTHERS, json!({"allowedNamespaces": ["payroll"]}));
    let grant = |server: &ApiServer, grant: Value| {
        change(server, APP, |user| user["spec"]["buckets"] = json!([grant]));
    };
    let of_ledger = json!({"bucketRef": {"name": "ledger", "namespace": "storage"}, "access": "read"});
    let refused = [
        (of_ledger.clone(), "BucketNotAllowed"),
        (
            json!({"bucketRef": {"name": "none", "namespace": "storage"}, "access": "read"}),
            "BucketNotAllowed",
        ),
        (json!({"bucketRef": {"name": "none"}, "access": "read"}), "BucketMissing"),
        (json!({"name": "ledger", "access": "read"}), "BucketNotAllowed"),
    ];
    for (right, reason) in refused {
        grant(&server, right);
        step(&server, &store).await.expect("reported");
        says(&server, APP, READY, "False", reason);
        assert_eq!(rights(&store), None);
    }
    // A Bucket that names another's bucket and does not have it gives nothing.
    put(&server, &PHOTOS.replace("photos", "mine"), "Bucket", json!({"name": "ledger"}));
    for right in [
        json!({"bucketRef": {"name": "mine"}, "access": "read"}),
        json!({"name": "ledger", "access": "read"}),
    ] {
        grant(&server, right);
        step(&server, &store).await.expect("reported");
        assert_eq!(rights(&store), None);
    }
    grant(&server, json!({"name": "photos", "access": "read"}));
    step(&server, &store).await.expect("reconciled");
    says(&server, APP, READY, "True", "AsAsked");
    change(&server, OTHERS, |bucket| bucket["spec"]["allowedNamespaces"] = json!(["team"]));
    grant(&server, of_ledger.clone());
    step(&server, &store).await.expect("reconciled");
    says(&server, APP, READY, "True", "AsAsked");
    assert!(rights(&store).expect("set").to_string().contains("arn:aws:s3:::ledger"));
    // A right that is withdrawn is taken away.
    change(&server, OTHERS, |bucket| bucket["spec"]["allowedNamespaces"] = json!([]));
    step(&server, &store).await.expect("reported");
    says(&server, APP, READY, "False", "BucketNotAllowed");
    assert_eq!(rights(&store), None);
    change(&server, CLUSTER, |cluster| cluster["spec"]["bucketUsers"] = json!({"anyBucket": ["team"]}));
    grant(&server, json!({"name": "ledger", "access": "read"}));
    step(&server, &store).await.expect("reconciled");
    says(&server, APP, READY, "True", "AsAsked");
}

/// The API server is sent no request for such a name, and the other rights are judged.
#[tokio::test]
async fn a_right_that_can_name_nothing_keeps_no_withdrawn_one() {
    let names = |name: &str, namespace: &str| json!({"bucketRef": {"name": name, "namespace": namespace}, "access": "read"});
    for (name, namespace) in
        [("a b", "storage"), ("..", "storage"), ("%zz", "storage"), ("a", "a/b"), ("A", "team")]
    {
        let (server, store) = a_user();
        a_bucket(&server, &store, OTHERS, json!({"allowedNamespaces": ["team"]}));
        let shared = names("ledger", "storage");
        change(&server, APP, |user| user["spec"]["buckets"] = json!([shared]));
        step(&server, &store).await.expect("reconciled");
        assert!(rights(&store).is_some());
        change(&server, APP, |user| user["spec"]["buckets"] = json!([shared, names(name, namespace)]));
        change(&server, OTHERS, |bucket| bucket["spec"]["allowedNamespaces"] = json!([]));
        step(&server, &store).await.expect("reported");
        says(&server, APP, READY, "False", "SpecInvalid");
        assert_eq!(rights(&store), None, "{name} {namespace}");
    }
}

/// A tenant that edits an object without end, and drops its finalizer, keeps no right by that.
#[tokio::test]
async fn an_object_whose_finalizer_cannot_be_set_keeps_no_withdrawn_right() {
    let (server, store) = a_user();
    a_bucket(&server, &store, OTHERS, json!({"allowedNamespaces": ["team"]}));
    let shared = json!({"bucketRef": {"name": "ledger", "namespace": "storage"}, "access": "read"});
    change(&server, APP, |user| user["spec"]["buckets"] = json!([shared]));
    step(&server, &store).await.expect("reconciled");
    assert!(rights(&store).is_some());
    change(&server, OTHERS, |bucket| bucket["spec"]["allowedNamespaces"] = json!([]));
    change(&server, APP, |user| user["metadata"]["finalizers"] = json!([]));
    server.fail(Method::PATCH, "bucketusers/app", Fault::Code(409));
    step(&server, &store).await.expect_err("it changes meanwhile");
    assert_eq!(rights(&store), None);
}

#[tokio::test]
async fn a_document_goes_no_further_than_the_buckets() {
    let allow =
        |resource: Value| json!({"Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": resource}});
    let refused = [
        allow(json!("*")),
        allow(json!("arn:aws:s3:::*")),
        allow(json!("arn:aws:s3:::photos*")),
        allow(json!("arn:aws:s3:::photo?")),
        allow(json!("arn:aws:s3:::${aws:username}/*")),
        allow(json!("arn:*:s3:::photos")),
        allow(json!(["arn:aws:s3:::photos/*", "arn:aws:s3:::ledger/*"])),
        allow(json!("arn:aws:iam::000000000001:user/*")),
        allow(json!(null)),
        json!({"Statement": [{"Effect": "Allow", "Action": "s3:*", "NotResource": "arn:aws:s3:::photos"}]}),
        json!({"Statement": [{"Effect": "Allow", "Action": "s3:*"}]}),
        json!({"Statement": [{"effect": "Allow", "Action": "s3:*", "Resource": "*"}]}),
        json!({"Statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "arn:aws:s3:::photos", "resource": "*"}]}),
        json!({"statement": [{"Effect": "Allow", "Action": "s3:*", "Resource": "*"}]}),
        json!("{\"Statement\": {\"Effect\": \"Allow\""),
    ];
    for document in refused {
        let (server, store) = a_user();
        change(&server, APP, |user| user["spec"]["policy"] = document.clone());
        step(&server, &store).await.expect("reported");
        let message = says(&server, APP, POLICY, "False", "PolicyOutOfBounds");
        assert_eq!(policy(&store, "policy"), None, "{document}: {message}");
        let is_plain = |statement: &Value| statement["Effect"] == "Allow";
        let may_deny = match &document["Statement"] {
            Value::Array(statements) => !statements.iter().all(is_plain),
            statement => !is_plain(statement),
        };
        assert_eq!(rights(&store).is_none(), may_deny, "{document}: rights hold without what bounds them");
        change(&server, CLUSTER, |cluster| cluster["spec"]["bucketUsers"] = json!({"anyBucket": ["*"]}));
        step(&server, &store).await.expect("reconciled");
        says(&server, APP, POLICY, "True", "AsAsked");
    }
    let of_mark = json!({"StringEquals": {"s3:BucketTag/sherd.dev/bucket": "team/other"}});
    let (server, store) = a_user();
    change(&server, APP, |user| {
        user["spec"]["policy"] = allow(json!("arn:aws:s3:::photos"));
        user["spec"]["policy"]["Statement"]["Condition"] = of_mark;
    });
    step(&server, &store).await.expect("reported");
    says(&server, APP, POLICY, "False", "PolicyOutOfBounds");
    let taken = [
        allow(json!(["arn:aws:s3:::photos", "arn:aws:s3:::photos/${aws:username}/*"])),
        json!({"Version": "2012-10-17", "Id": "a", "Statement": [{"Effect": "Deny", "Action": "s3:*", "Resource": "*"}]}),
    ];
    for document in taken {
        let (server, store) = a_user();
        change(&server, APP, |user| user["spec"]["policy"] = document.clone());
        step(&server, &store).await.expect("reconciled");
        says(&server, APP, POLICY, "True", "AsAsked");
        let mut bound = document.clone();
        if document["Statement"]["Effect"] == "Allow" {
            // The policy ends with the bucket, as the right does.
            bound["Statement"]["Condition"] =
                json!({"StringEquals": {"s3:BucketTag/sherd.dev/bucket": ["team/photos/team-0"]}});
        }
        assert_eq!(policy(&store, "policy"), Some(bound));
        // With the right the document goes, though it was taken before.
        change(&server, APP, |user| user["spec"]["buckets"] = json!([]));
        step(&server, &store).await.expect("reported");
        assert_eq!(rights(&store), None);
    }
}

/// Readers of a text that has a key twice may each take another one of them.
#[tokio::test]
async fn a_document_is_sent_as_it_was_judged() {
    let (server, store) = a_user();
    let text = r#"{"Statement": {"Effect": "Allow", "Action": "s3:*", "Resource": "*", "Resource": "arn:aws:s3:::photos"}}"#;
    change(&server, APP, |user| user["spec"]["policy"] = json!(text));
    step(&server, &store).await.expect("reconciled");
    let sent = store.user("team.app").expect("made").policies["policy"].clone();
    assert_eq!(sent.matches("Resource").count(), 1, "{sent}");
    assert!(!sent.contains("\"*\""), "{sent}");
}

#[tokio::test]
async fn policies_are_put_back_and_a_malformed_one_is_reported() {
    let (server, store) = a_user();
    change(&server, APP, |user| {
        user["spec"]["policy"] = json!({"Statement": {"Effect": "Allow", "Action": "Nonsense", "Resource": "arn:aws:s3:::photos"}});
    });
    step(&server, &store).await.expect("reported");
    let message = says(&server, APP, POLICY, "False", "MalformedPolicy");
    assert_eq!(message, "MalformedPolicyDocument: Syntax errors in policy.");
    says(&server, APP, KEY, "True", "AsAsked");
    change(&server, APP, |user| {
        user["spec"].as_object_mut().expect("an object").remove("policy");
    });
    {
        let mut state = store.state.lock();
        state.managed.values_mut().for_each(|versions| versions.push((2, "{}".to_owned())));
        let user = state.users.get_mut("team.app").expect("made");
        user.policies.insert("by-hand".to_owned(), "{}".to_owned());
        user.attached.push("arn:aws:iam::000000000001:policy/by-hand".to_owned());
    }
    step(&server, &store).await.expect("reconciled");
    assert!(rights(&store).expect("set").to_string().contains("photos"));
    assert_eq!(store.user("team.app").expect("there").attached.len(), 2, "what another attached stays");
    assert!(policy(&store, "by-hand").is_some(), "what another attached stays");
}
