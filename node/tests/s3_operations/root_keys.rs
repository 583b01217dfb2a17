//! The root credentials are replaced while requests go on: either of two pairs is root, and one that is taken
//! out of the file is unknown.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};

use tokio::task::JoinHandle;

use super::*;
use crate::harness::s3::S3;
use crate::harness::tls::put as put_file;
use crate::harness::users::AccessKey;
use crate::harness::wait::{LATER, eventually};

/// Replaces the file at once, as an editor or a kubelet does.
fn replace(file: &Path, text: &str) {
    let new = file.with_extension("next");
    put_file(&new, text);
    std::fs::rename(new, file).expect("the folder is writable");
}

fn lines(pair: &AccessKey, suffix: &str) -> String {
    format!("AWS_ACCESS_KEY_ID{suffix}={}\nAWS_SECRET_ACCESS_KEY{suffix}={}\n", pair.id, pair.secret)
}

/// Writes and reads objects until it is stopped; any failure ends the test.
struct Load {
    stop: Arc<AtomicBool>,
    rounds: Arc<AtomicUsize>,
    task: JoinHandle<()>,
}

impl Load {
    fn start(s3: S3, key: &'static str) -> Self {
        let (stop, rounds) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
        let (until, count) = (Arc::clone(&stop), Arc::clone(&rounds));
        let task = tokio::spawn(async move {
            let client = s3.sdk();
            while !until.load(Ordering::Relaxed) {
                let body = some_bytes(4096);
                put(client, key, body.clone()).await;
                assert_eq!(get(client, key).await, body);
                count.fetch_add(1, Ordering::Relaxed);
            }
        });
        Self { stop, rounds, task }
    }

    async fn goes_on(&self) {
        let before = self.rounds.load(Ordering::Relaxed);
        eventually("the load goes on", LATER, async || {
            assert!(!self.task.is_finished(), "a request failed");
            let now = self.rounds.load(Ordering::Relaxed);
            if now > before + 1 { Ok(()) } else { Err(format!("{now} rounds")) }
        })
        .await;
    }

    async fn end(self) {
        self.stop.store(true, Ordering::Relaxed);
        self.task.await.expect("no request failed");
    }
}

/// Waits until a pair is refused, and returns how.
async fn refusal(s3: &S3, code: &str) {
    eventually(code, LATER, async || {
        let result = s3.sdk().list_objects_v2().bucket(BUCKET).send().await;
        let Err(error) = result else { return Err("it is accepted".to_owned()) };
        let status = error.raw_response().map(|response| response.status().as_u16());
        let found = error.code().unwrap_or_default().to_owned();
        if (status, found.as_str()) == (Some(403), code) { Ok(()) } else { Err(format!("{error:?}")) }
    })
    .await;
}

#[tokio::test]
async fn root_credentials_are_replaced_without_a_failed_request() {
    let (node, client) = a_bucket().await;
    let file: PathBuf = node.dir().join("node/credentials.env");
    let old = AccessKey { id: node.access_key.clone(), secret: node.secret_key.clone() };
    let new = AccessKey { id: "SECONDROOT".to_owned(), secret: "the-second-secret-of-root".to_owned() };
    let (with_old, with_new) = (node.s3_with(&old), node.s3_with(&new));
    refusal(&with_new, "InvalidAccessKeyId").await;
    let old_load = Load::start(with_old.clone(), "old");

    replace(&file, &(lines(&old, "") + &lines(&new, "_SECONDARY")));
    eventually("the second pair is accepted", LATER, async || {
        let listed = with_new.sdk().list_objects_v2().bucket(BUCKET).send().await;
        listed.map(drop).map_err(|error| format!("{error:?}"))
    })
    .await;
    let new_load = Load::start(with_new.clone(), "new");
    for key in [&old, &new] {
        let caller = node.iam_client().with_key(&key.id, &key.secret).caller_identity().await;
        assert!(caller.text("Arn").is_some_and(|arn| arn.ends_with(":root")), "{caller:?}");
    }
    old_load.goes_on().await;
    new_load.goes_on().await;

    // A file that is not whole changes nothing.
    replace(&file, &(lines(&new, "") + "AWS_ACCESS_KEY_ID_SECONDARY=half\n"));
    eventually("the fault is logged", LATER, async || {
        let log = node.log();
        let is_said = log.contains("reload root credentials: those loaded before stay in use");
        if is_said { Ok(()) } else { Err(log) }
    })
    .await;
    old_load.goes_on().await;
    new_load.goes_on().await;
    old_load.end().await;

    replace(&file, &lines(&new, ""));
    refusal(&with_old, "InvalidAccessKeyId").await;
    new_load.goes_on().await;
    new_load.end().await;
    assert_eq!(get(with_new.sdk(), "old").await, some_bytes(4096));
    drop(client);
    let log = node.log();
    for secret in [&old.secret, &new.secret] {
        assert!(!log.contains(secret.as_str()), "a secret is in the log");
    }
    assert_eq!(log.matches("those loaded before stay in use").count(), 1, "{log}");
    let stopped = node.stop().await;
    // The next start reads the pair that is in the file.
    let node = stopped.start().await;
    assert_eq!(node.access_key, new.id);
}
