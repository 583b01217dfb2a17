//! `bench`: stores, reads and lists objects of one size for a time, and says how fast and how well.
//!
//! ```text
//! mod    the operations in their order, with what each needs before it
//! load   workers that do one operation until its time is over, and verify what is answered
//! tally  counts, latencies and faults of one operation, as a line
//! ```
//! The load is closed: each worker begins an operation when its last one has ended. A request is sent once,
//! so that no attempt hides in a latency.

mod load;
mod tally;

use std::sync::Arc;
use std::time::Duration;

use tokio_util::sync::CancellationToken;

use self::load::{BenchObjects, run};
use crate::cli::address::Address;
use crate::cli::arguments::{BenchArgs, BenchOperation};
use crate::cli::exit::Exit;
use crate::cli::session::{Session, VerbError, VerbResult, usage};
use crate::client::{Client, random_u64};
use crate::limits::{ATTEMPTS, BENCH_BYTES_MAX, BENCH_OBJECTS_MAX, DELETE_KEYS_MAX};

pub(crate) async fn bench(session: &Session, arguments: BenchArgs) -> VerbResult {
    let BenchArgs { address, operations, size, objects, duration, keep } = arguments;
    let address = Address::parse_remote(&address).map_err(VerbError::Usage)?;
    if address.bucket.is_empty() {
        return usage("the bucket is missing");
    }
    if size.as_u64() > BENCH_BYTES_MAX || !(1..=BENCH_OBJECTS_MAX).contains(&objects) {
        return usage(format!(
            "--size is at most {} MiB, --objects 1 to {BENCH_OBJECTS_MAX}",
            BENCH_BYTES_MAX >> 20
        ));
    }
    let patient = session.remotes.client(&address.scheme)?;
    let cancelled = patient.cancelled().clone();
    let once =
        Client::new(patient.account().clone(), 1, cancelled.clone()).map_err(crate::error::Error::from)?;
    let prefix = format!("{}sherd-bench-{:016x}/", address.prefix(), random_u64());
    let bytes = usize::try_from(size.as_u64()).unwrap_or(usize::MAX);
    let set = Arc::new(BenchObjects::new(address.bucket.clone(), prefix, bytes, objects));
    let measured = measure(session, &[&patient, &once], &set, &operations, duration).await;
    once.finish().await;
    let removed = if keep { Ok(()) } else { remove(&patient, &set).await };
    let is_right = measured?;
    removed?;
    Ok(if is_right { Exit::Done } else { Exit::Some })
}

/// Runs the operations in their order, and says whether all was right.
async fn measure(
    session: &Session,
    [patient, once]: &[&Client; 2],
    set: &Arc<BenchObjects>,
    operations: &[BenchOperation],
    duration: Duration,
) -> Result<bool, VerbError> {
    let workers = session.engine.settings().workers;
    let mut is_right = true;
    for operation in operations {
        if *operation != BenchOperation::Put {
            load::fill(patient, &session.engine, set, workers).await?;
        }
        let tally = run(once, &session.engine, set, *operation, workers, duration).await;
        if patient.cancelled().is_cancelled() {
            break;
        }
        session.output.result(|| tally.json(), || tally.text());
        if let Some(error) = &tally.first_fault {
            is_right = false;
            session.output.failure(operation.name(), "", error);
        }
    }
    Ok(is_right)
}

/// Removes what was stored, also after an interrupt.
async fn remove(patient: &Client, set: &BenchObjects) -> Result<(), VerbError> {
    let account = patient.account().clone();
    let client =
        Client::new(account, ATTEMPTS, CancellationToken::new()).map_err(crate::error::Error::from)?;
    let keys = set.stored_keys();
    for keys in keys.chunks(DELETE_KEYS_MAX) {
        client.delete_many(&set.bucket, keys).await?;
    }
    client.finish().await;
    Ok(())
}
