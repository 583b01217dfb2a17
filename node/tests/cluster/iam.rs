//! Users and keys through four nodes: what one node changes is in force in the next request through each
//! other one; and `sherd-node user` does the same over certificates.

use std::path::Path;
use std::process::Command;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use sherd_net::tls::{Role, TrustFiles};
use tokio_util::sync::CancellationToken;

use crate::harness::binary;
use crate::harness::cluster::{TestCluster, cluster_of};
use crate::harness::iam::IamClient;
use crate::harness::s3::{done, on_time};

async fn with_iam() -> (TestCluster, Vec<IamClient>) {
    let cluster = cluster_of(4).with_iam().start().await;
    cluster.until_whole().await;
    let roots = cluster.running().map(crate::harness::Node::iam_client).collect();
    (cluster, roots)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_revoked_key_is_refused_by_the_other_nodes_in_the_next_request() {
    let (_cluster, roots) = with_iam().await;
    roots[0].done("CreateUser", &[("UserName", "ada")]).await;
    let key = roots[0].done("CreateAccessKey", &[("UserName", "ada")]).await;
    let id = key.text("AccessKeyId").expect("an id").to_owned();
    let secret = key.text("SecretAccessKey").expect("a secret");
    let users: Vec<_> = roots.iter().map(|root| root.with_key(&id, secret)).collect();
    let statuses = async || {
        let mut statuses = Vec::new();
        for user in &users {
            let answer = on_time(|| user.caller_identity(), |answer| answer.status == 503).await;
            statuses.push(answer.status);
        }
        statuses
    };
    let named = [("UserName", "ada"), ("AccessKeyId", &*id)];
    assert_eq!(statuses().await, [200; 4]);
    for round in 0..8 {
        let by = &roots[round % 4];
        by.done("UpdateAccessKey", &[named[0], named[1], ("Status", "Inactive")]).await;
        assert_eq!(statuses().await, [403; 4], "made inactive through node {round}");
        by.done("UpdateAccessKey", &[named[0], named[1], ("Status", "Active")]).await;
        assert_eq!(statuses().await, [200; 4], "made active through node {round}");
    }
    roots[3].done("DeleteAccessKey", &named).await;
    assert_eq!(statuses().await, [403; 4]);
    assert_eq!(users[0].caller_identity().await.code(), "InvalidClientTokenId");
}

/// Each change has all nodes forget what they know of all keys, so no read of the other user's records is
/// without one in between. Unit tests of the store's views hold the rule that ends such a read; here four
/// real nodes stay of use beside the changes, by the retries that every SDK makes: on a busy machine a read
/// may take longer than the four seconds after which a node says 503.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_that_changes_itself_all_the_time_keeps_no_other_user_waiting() {
    const ATTEMPTS: u32 = 5;
    let (cluster, roots) = with_iam().await;
    let users = cluster.node(0).users();
    let (ada, bob) = (users.user("ada").await, users.user("bob").await);
    let statement = |action: &str, resource: &str| {
        format!(
            r#"{{"Version":"2012-10-17","Statement":[{{"Effect":"Allow","Action":"{action}","Resource":"{resource}"}}]}}"#
        )
    };
    users.put_user_policy("ada", &statement("iam:TagUser", "arn:aws:iam::000000000001:user/ada")).await;
    users.put_user_policy("bob", &statement("s3:*", "*")).await;
    let (done, changes) = (CancellationToken::new(), Arc::new(AtomicUsize::new(0)));
    let loops: Vec<_> = roots
        .iter()
        .map(|root| {
            let (ada, done, changes) =
                (root.with_key(&ada.id, &ada.secret), done.clone(), Arc::clone(&changes));
            tokio::task::spawn(async move {
                while !done.is_cancelled() {
                    let value = changes.fetch_add(1, Ordering::Relaxed).to_string();
                    let tag =
                        [("UserName", "ada"), ("Tags.member.1.Key", "n"), ("Tags.member.1.Value", &value)];
                    ada.call("TagUser", &tag).await;
                }
            })
        })
        .collect();
    let made =
        cluster.node(0).s3_with_attempts(&bob, ATTEMPTS).sdk().create_bucket().bucket("bobs").send().await;
    made.expect("answered while another user changes itself");
    for round in 0..5 {
        for node in cluster.running() {
            let (bob, key) = (node.s3_with_attempts(&bob, ATTEMPTS), format!("k{round}"));
            let put = bob.sdk().put_object().bucket("bobs").key(&key).body(vec![1; 100].into()).send().await;
            put.unwrap_or_else(|error| panic!("{key} through {}: {error:?}", node.endpoint));
            let got = bob.sdk().get_object().bucket("bobs").key(&key).send().await;
            got.unwrap_or_else(|error| panic!("{key} through {}: {error:?}", node.endpoint));
        }
    }
    done.cancel();
    for ended in loops {
        ended.await.expect("it ended");
    }
    assert!(changes.load(Ordering::Relaxed) > 4, "each node made changes");
}

/// Runs `sherd-node user` with these words, split at blanks, against a node.
async fn user(cluster: &TestCluster, files: &TrustFiles, words: &str) -> (Option<i32>, String, String) {
    let TrustFiles { ca, cert, key } = files;
    let mut command = Command::new(binary());
    command.arg("user").args(words.split(' ')).args(["--endpoint", &cluster.addresses[1].to_string()]);
    for (flag, path) in [("--ca", ca), ("--cert", cert), ("--key", key)] {
        command.arg(flag).arg(path);
    }
    let output = tokio::task::spawn_blocking(move || command.output()).await;
    let output = output.expect("asking does not panic").expect("the binary was built with the tests");
    let text = |bytes: Vec<u8>| String::from_utf8(bytes).expect("text");
    (output.status.code(), text(output.stdout), text(output.stderr))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_change_users_over_certificates() {
    let (cluster, roots) = with_iam().await;
    let admin = cluster.pki.issue("anna", Role::Admin);
    let done = async |words: &str| {
        let (code, out, error) = user(&cluster, &admin, words).await;
        assert_eq!(code, Some(0), "{words}: {error}");
        out
    };
    let made = done("add ada --path /team/ --with-key").await;
    let value = |name: &str| {
        let line = made.lines().find_map(|line| line.strip_prefix(name));
        line.unwrap_or_else(|| panic!("{name} in {made}")).to_owned()
    };
    let (id, secret) = (value("AWS_ACCESS_KEY_ID="), value("AWS_SECRET_ACCESS_KEY="));
    let ada = roots[3].with_key(&id, &secret);
    assert_eq!(ada.caller_identity().await.status, 200);
    let listed = done("list").await;
    assert!(listed.contains("arn:aws:iam::000000000001:user/team/ada"), "{listed}");
    let json: serde_json::Value = serde_json::from_str(&done("key list ada --json").await).expect("JSON");
    assert_eq!(json["AccessKeyMetadata"][0]["AccessKeyId"], id.as_str());
    assert!(!done("key list ada").await.contains(&secret));

    for bucket in ["bu*", "${aws:username}", "open/pub"] {
        let (code, _, error) =
            user(&cluster, &admin, &format!("policy put ada buckets --read {bucket}")).await;
        assert_eq!((code, error.contains("no name of a bucket")), (Some(1), true), "{error}");
    }
    let (code, _, error) = user(&cluster, &admin, "policy put ada buckets --file /dev/zero").await;
    assert_eq!((code, error.contains("has more than the")), (Some(1), true), "{error}");
    done("policy put ada buckets --read logs --write data").await;
    assert_eq!(done("policy list ada").await, "buckets\n");
    let document: serde_json::Value =
        serde_json::from_str(&done("policy show ada buckets").await).expect("a document");
    assert_eq!(document["Statement"][1]["Resource"][0], "arn:aws:s3:::data/*");
    let file = cluster.node(0).dir().join("policy.json");
    std::fs::write(&file, document.to_string()).expect("the folder is writable");
    done(&format!("policy put ada again --file {}", shown(&file))).await;
    done("policy delete ada again").await;
    let managed = [("PolicyName", "m"), ("PolicyDocument", &*document.to_string())];
    roots[0].done("CreatePolicy", &managed).await;
    done("policy attach ada arn:aws:iam::000000000001:policy/m").await;
    assert_eq!(done("policy list ada").await, "buckets\narn:aws:iam::000000000001:policy/m\n");
    done("policy detach ada arn:aws:iam::000000000001:policy/m").await;

    done("disable ada").await;
    assert_eq!(ada.caller_identity().await.status, 403);
    let ended = done("disable ada --now").await;
    assert_eq!(ended, format!("access key {id} of ada is inactive, and its requests under way have ended\n"));
    done("enable ada").await;
    assert_eq!(ada.caller_identity().await.status, 200);
    done(&format!("key disable ada {id} --now")).await;
    assert_eq!(ada.caller_identity().await.status, 403);
    done(&format!("key enable ada {id}")).await;
    let second = done("key add ada --json").await;
    let second: serde_json::Value = serde_json::from_str(&second).expect("JSON");
    done(&format!("key delete ada {}", second["AccessKey"]["AccessKeyId"].as_str().expect("an id"))).await;

    let (code, _, error) = user(&cluster, &admin, "delete ada").await;
    assert_eq!((code, error.contains("DeleteConflict: Cannot delete entity")), (Some(1), true), "{error}");
    done("delete ada --force").await;
    assert_eq!(ada.caller_identity().await.status, 403);
    let (code, _, error) = user(&cluster, &admin, "key list ada").await;
    assert_eq!(
        (code, error.contains("NoSuchEntity: The user with name ada cannot be found.")),
        (Some(1), true)
    );
    let node = cluster.pki.issue("n4", Role::Node);
    let (code, _, error) = user(&cluster, &node, "list").await;
    assert_eq!((code, error.contains("has the role node")), (Some(1), true), "{error}");
    assert_eq!(user(&cluster, &admin, "policy put ada p").await.0, Some(2), "it names no document");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn people_ask_why_a_key_may_or_may_not() {
    let (cluster, _roots) = with_iam().await;
    let admin = cluster.pki.issue("anna", Role::Admin);
    let ask = async |words: &str| user(&cluster, &admin, &format!("why {words}")).await;
    let why = async |words: &str| {
        let (code, out, error) = ask(words).await;
        assert_eq!(code, Some(0), "{words}: {error}");
        out
    };
    let (node, users) = (cluster.node(0), cluster.node(0).users());
    let key = users.user("ada").await;
    let root = node.s3();
    done("a bucket", || root.sdk().create_bucket().bucket("logs").send()).await;
    let nothing = why(&format!("{} s3:GetObject logs/a", key.id)).await;
    let first = "denied: s3:GetObject on arn:aws:s3:::logs/a by user ada (arn:aws:iam::000000000001:user/ada)\n  no \
                 statement allows it\nbucket logs has no policy; public access block: BlockPublicAcls, IgnorePublicAcls, \
                 BlockPublicPolicy, RestrictPublicBuckets (it binds callers without a signature); ownership: \
                 BucketOwnerEnforced\n";
    assert_eq!(nothing, first);
    let document = r#"{"Version": "2012-10-17", "Statement": [
        {"Effect": "Allow", "Action": "s3:ListBucket", "Resource": "*"},
        {"Sid": "FromHome", "Effect": "Allow", "Action": "s3:Get*", "Resource": "arn:aws:s3:::logs/*",
         "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}}]}"#;
    users.put_user_policy("ada", document).await;
    let near = why("ada s3:GetObject s3://logs/a").await;
    let statement = "Allow in statement 2 FromHome (line 3) of policy own of user ada";
    assert!(near.contains("  no statement allows it\n"), "{near}");
    let not = format!("  not by {statement}: its condition on aws:SourceIp does not hold without it\n");
    assert!(near.contains(&not), "{near}");
    assert!(near.contains("conditions ask for aws:SourceIp, which --context may give"), "{near}");
    let far = why("ada s3:GetObject logs/a --context aws:SourceIp=192.0.2.1").await;
    assert!(far.contains("its condition on aws:SourceIp does not hold for 192.0.2.1"), "{far}");
    let home = why("ada s3:getobject logs/a --context aws:SourceIp=10.1.2.3").await;
    assert!(home.starts_with("allowed: s3:GetObject on arn:aws:s3:::logs/a by user ada"), "{home}");
    assert!(home.contains(&format!("  by {statement}\n")), "{home}");

    let policy = r#"{"Statement":[{"Effect":"Deny","Principal":{"AWS":"arn:aws:iam::000000000001:user/ada"},
        "Action":"s3:*","Resource":"arn:aws:s3:::logs/secret/*"}]}"#;
    done("a policy", || root.sdk().put_bucket_policy().bucket("logs").policy(policy).send()).await;
    let secret = "ada s3:GetObject logs/secret/a --context aws:SourceIp=10.1.2.3";
    let denied = why(secret).await;
    assert!(
        denied.contains("  by Deny in statement 1 (line 1) of the bucket's policy\nbucket logs has a policy"),
        "{denied}"
    );
    let json: serde_json::Value =
        serde_json::from_str(&why(&format!("{secret} --json")).await).expect("JSON");
    assert_eq!((&json["Decision"], &json["User"]), (&"explicitDeny".into(), &"ada".into()));
    assert_eq!(json["Statements"][0]["SourcePolicyId"], "ResourcePolicy");
    assert_eq!(json["Bucket"]["Policy"]["Statement"][0]["Effect"], "Deny");
    assert!(why("ada s3:ListBucket nowhere").await.contains("bucket nowhere is not there"));
    assert!(why("ada iam:GetUser *").await.contains("no statement allows it"));
    users.set_status("ada", &key, "Inactive").await;
    let inactive = why(&format!("{} s3:ListBucket logs", key.id)).await;
    let expected =
        format!("denied: the access key {} is inactive. With an active key of its user:\nallowed: ", key.id);
    assert!(inactive.starts_with(&expected), "{inactive}");

    for (words, reason) in [
        ("bob s3:GetObject logs/a", "bob is no access key and no user of the account"),
        ("ada s3:ReadObject logs/a", "s3:ReadObject: S3 has no such action"),
        ("ada s3:ListBucket logs/a", "s3:ListBucket is about a bucket, and arn:aws:s3:::logs/a is an object"),
        ("ada s3:GetObject logs/a --context here", "is no KEY=VALUE"),
        ("ada GetObject logs/a", "InvalidInput: Invalid action name: GetObject"),
    ] {
        let (code, _, error) = ask(words).await;
        assert_eq!((code, error.contains(reason)), (Some(1), true), "{words}: {error}");
    }
}

/// The user makes a key whenever it has one less than it may, so that the first list of its keys is seldom
/// the last.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_user_is_disabled_although_it_makes_keys_meanwhile() {
    let (cluster, roots) = with_iam().await;
    let admin = cluster.pki.issue("anna", Role::Admin);
    let key = cluster.node(0).users().user("eve").await;
    let policy = r#"{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"iam:*AccessKey*","Resource":"*"}]}"#;
    cluster.node(0).users().put_user_policy("eve", policy).await;
    let eve = roots[2].with_key(&key.id, &key.secret);
    // A key is active, or was made and is used by now, until none of them is good.
    let stays = tokio::task::spawn(async move {
        let mut eve = eve;
        loop {
            let made = eve.call("CreateAccessKey", &[("UserName", "eve")]).await;
            match (made.text("AccessKeyId"), made.text("SecretAccessKey")) {
                (Some(id), Some(secret)) => {
                    let next = eve.with_key(id, secret);
                    eve.call("DeleteAccessKey", &[("UserName", "eve"), ("AccessKeyId", &eve.access_key)])
                        .await;
                    eve = next;
                }
                _ if made.status == 403 => return,
                _ => {}
            }
        }
    });
    let (code, _, error) = user(&cluster, &admin, "disable eve").await;
    assert_eq!(code, Some(0), "{error}");
    let listed = roots[0].done("ListAccessKeys", &[("UserName", "eve")]).await;
    assert!(!listed.body.contains("<Status>Active</Status>"), "{}", listed.body);
    stays.await.expect("it has no good key");
}

/// The clients name a good key and send nearly nothing of their bodies.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn root_and_an_admin_are_answered_while_clients_send_no_bodies() {
    let (cluster, _) = with_iam().await;
    let admin = cluster.pki.issue("anna", Role::Admin);
    let root = cluster.node(1).iam_client();
    let mut stalled = Vec::new();
    for _ in 0..3 {
        for _ in 0..100 {
            stalled.push(root.stall(60_000).await);
        }
        let (signed, (code, _, error)) =
            tokio::join!(root.call("ListUsers", &[]), user(&cluster, &admin, "list"));
        assert_eq!(code, Some(0), "{error}");
        assert_eq!(signed.status, 200, "{}", signed.body);
    }
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}
