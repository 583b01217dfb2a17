//! A load on S3 whose history is checked: writers with keys of their own put, read back and overwrite,
//! and every acknowledged object must come back with its bytes.
//!
//! A key has one writer, so its value is the last acknowledged one or one of the writes after it whose
//! outcome the client does not have. A key without an acknowledged write may be absent.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use aws_sdk_s3::Client;
use aws_sdk_s3::error::DisplayErrorContext;
use aws_sdk_s3::primitives::ByteStream;
use tokio::sync::watch;
use tokio::task::JoinHandle;

/// Keys of one writer; it goes round them.
const KEYS: usize = 64;
/// How long [`Load::goes_on_for`] waits: every request of an SDK client ends before.
const GOES_ON: Duration = Duration::from_mins(5);
/// Sizes of objects: in the row, packed in the log, in files, and cut in several stripes.
const SIZES: [usize; 4] = [512, 20 << 10, 300 << 10, 2 << 20];

/// A load that runs.
#[derive(Debug)]
pub struct Load {
    writers: Vec<JoinHandle<WriterHistory>>,
    stop: Arc<AtomicBool>,
    /// Writes that ended, well or not.
    ended: watch::Sender<u64>,
}

#[derive(Debug, Default, Clone)]
struct WriterHistory {
    writer: usize,
    /// By key: the versions that may be the value.
    possible: Vec<Vec<u64>>,
    /// By key: whether any version was acknowledged, so that it must be there.
    is_kept: Vec<bool>,
    acknowledged: u64,
    read: u64,
    errors: Vec<String>,
    slowest: Duration,
}

/// Result of a load.
#[derive(Debug, Default)]
pub struct LoadReport {
    /// Writes that were acknowledged.
    pub acknowledged: u64,
    /// Objects that were read back, under load and after it.
    pub read: u64,
    /// Requests that failed after all their tries.
    pub errors: Vec<String>,
    /// Objects that were lost or came back with other bytes.
    pub wrong: Vec<String>,
    /// The slowest request, with all its tries.
    pub slowest: Duration,
}

impl Load {
    /// Starts writers that write to this bucket.
    pub fn start(client: &Client, bucket: &str, writers: usize) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let ended = watch::Sender::new(0);
        let writers = (0..writers).map(|writer| {
            let (client, bucket, stop) = (client.clone(), bucket.to_owned(), Arc::clone(&stop));
            let ended = ended.clone();
            tokio::spawn(async move { write_until(client, bucket, writer, stop, ended).await })
        });
        Self { writers: writers.collect(), stop, ended }
    }

    /// Waits until `writes` more writes have ended, well or not.
    ///
    /// # Errors
    /// They did not within five minutes.
    pub async fn goes_on_for(&self, writes: u64) -> Result<(), String> {
        let mut ended = self.ended.subscribe();
        let wanted = *ended.borrow() + writes;
        let reached = tokio::time::timeout(GOES_ON, ended.wait_for(|ended| *ended >= wanted)).await;
        match reached {
            Ok(_) => Ok(()),
            Err(_) => Err(format!("{writes} writes did not end within {} s", GOES_ON.as_secs())),
        }
    }

    /// Stops the writers and reads every object back.
    pub async fn finish(self, client: &Client, bucket: &str) -> LoadReport {
        self.stop.store(true, Ordering::Relaxed);
        let mut report = LoadReport::default();
        for writer in self.writers {
            match writer.await {
                Ok(history) => check(client, bucket, history, &mut report).await,
                Err(error) => report.errors.push(format!("a writer ended: {error}")),
            }
        }
        report
    }
}

async fn write_until(
    client: Client,
    bucket: String,
    writer: usize,
    stop: Arc<AtomicBool>,
    ended: watch::Sender<u64>,
) -> WriterHistory {
    let mut history = WriterHistory {
        writer,
        possible: vec![vec![]; KEYS],
        is_kept: vec![false; KEYS],
        ..WriterHistory::default()
    };
    let mut version = 0_u64;
    while !stop.load(Ordering::Relaxed) {
        version += 1;
        let object = usize::try_from(version).unwrap_or(0) % KEYS;
        let begun = Instant::now();
        let put = client
            .put_object()
            .bucket(&bucket)
            .key(key(writer, object))
            .body(ByteStream::from(body(writer, object, version)))
            .send()
            .await;
        history.slowest = history.slowest.max(begun.elapsed());
        ended.send_modify(|ended| *ended += 1);
        match put {
            Ok(_) => {
                history.acknowledged += 1;
                history.possible[object] = vec![version];
                history.is_kept[object] = true;
            }
            Err(error) => {
                history.possible[object].push(version);
                history.errors.push(format!("put {}: {}", key(writer, object), DisplayErrorContext(&error)));
            }
        }
        if !history.is_kept[object] {
            continue;
        }
        // An acknowledged write must be there, through whichever node answers.
        let begun = Instant::now();
        match read(&client, &bucket, writer, object, &history.possible[object]).await {
            Ok(()) => history.read += 1,
            Err(error) => history.errors.push(error),
        }
        history.slowest = history.slowest.max(begun.elapsed());
    }
    history
}

async fn check(client: &Client, bucket: &str, history: WriterHistory, report: &mut LoadReport) {
    let WriterHistory { writer, possible, is_kept, acknowledged, read: reads, errors, slowest } = history;
    report.acknowledged += acknowledged;
    report.read += reads;
    report.errors.extend(errors);
    report.slowest = report.slowest.max(slowest);
    for (object, possible) in possible.iter().enumerate().filter(|(object, _)| is_kept[*object]) {
        match read(client, bucket, writer, object, possible).await {
            Ok(()) => report.read += 1,
            Err(error) => report.wrong.push(error),
        }
    }
}

async fn read(
    client: &Client,
    bucket: &str,
    writer: usize,
    object: usize,
    possible: &[u64],
) -> Result<(), String> {
    let key = key(writer, object);
    let failed = |error: String| format!("get {key}: {error}");
    let got = client.get_object().bucket(bucket).key(&key).send().await;
    let got = got.map_err(|error| failed(DisplayErrorContext(&error).to_string()))?;
    let bytes = got.body.collect().await.map_err(|error| failed(error.to_string()))?.into_bytes();
    if possible.iter().any(|version| bytes.as_ref() == body(writer, object, *version).as_slice()) {
        return Ok(());
    }
    Err(format!("{key}: {} bytes are none of the versions {possible:?}", bytes.len()))
}

fn key(writer: usize, object: usize) -> String {
    format!("writer-{writer}/object-{object:03}")
}

/// Bytes that no other version of any key has (xorshift).
fn body(writer: usize, object: usize, version: u64) -> Vec<u8> {
    let length = SIZES[(object + usize::try_from(version).unwrap_or(0)) % SIZES.len()];
    let seed =
        (u64::try_from(writer).unwrap_or(0) << 48) ^ (u64::try_from(object).unwrap_or(0) << 32) ^ version;
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut bytes = Vec::with_capacity(length + 8);
    while bytes.len() < length {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        bytes.extend_from_slice(&state.to_le_bytes());
    }
    bytes.truncate(length);
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_two_versions_have_the_same_bytes() {
        let bodies: Vec<Vec<u8>> = (0..3)
            .flat_map(|writer| {
                (0..4).flat_map(move |object| (1..9).map(move |version| body(writer, object, version)))
            })
            .collect();
        for (index, one) in bodies.iter().enumerate() {
            assert!(!bodies.iter().skip(index + 1).any(|other| other == one));
        }
        assert_eq!(body(1, 2, 3), body(1, 2, 3));
    }
}
