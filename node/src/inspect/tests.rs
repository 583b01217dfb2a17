//! A clean cluster is clean; what is broken in it is found and named.

use std::path::PathBuf;
use std::sync::Arc;

use sherd_volume::disk::Disk;
use sherd_volume::disk::real::RealDisk;

use super::*;
use crate::system::SystemClock;
use crate::upkeep::tests::{Directories, body};

fn inspect(directories: &[PathBuf]) -> Result<Report, InspectError> {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    run(&disk, &clock, directories, Wanted { verify: true, json: true }, &mut Vec::new())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn broken_shards_are_named_and_a_healthy_cluster_is_clean() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put("inline", &body(1, 100)).await;
    node.put("packed", &body(2, 100_000)).await;
    node.put("file", &body(3, 2_000_000)).await;
    assert!(matches!(inspect(&directories.paths()), Err(InspectError::Open(OpenError::InUse { .. }))));
    let (register, data) = (node.register("file").await, node.data("file").await);
    let (missing, rotten) = (node.file(&register, &data, 0), node.file(&register, &data, 3));
    node.close().await;

    let clean = inspect(&directories.paths()).expect("readable");
    assert_eq!(clean.problems, Vec::<String>::new());
    assert_eq!((clean.registers, clean.data_ids, clean.shards_elsewhere), (4, 2, 0));
    assert!(clean.volumes.iter().all(|volume| volume.rows == 4));

    let two = inspect(&directories.paths()[..2]).expect("readable");
    assert!(two.is_clean(), "{:?}", two.problems);
    assert_eq!(two.shards_elsewhere, 4);

    std::fs::remove_file(missing).expect("removed");
    let mut stored = std::fs::read(&rotten).expect("read");
    stored[300_000] ^= 1;
    std::fs::write(&rotten, stored).expect("written");
    let broken = inspect(&directories.paths()).expect("readable");
    let about = |index: &str| broken.problems.iter().any(|problem| problem.contains(index));
    assert!(about("shard 0 of") && about("shard 3 of"), "{:?}", broken.problems);

    let arguments = InspectArgs { directories: directories.paths(), verify: true, json: false };
    let (mut out, mut errors) = (Vec::new(), Vec::new());
    let code = super::inspect(&arguments, &mut out, &mut errors);
    assert_eq!(format!("{code:?}"), format!("{:?}", std::process::ExitCode::from(1)));
    let said = String::from_utf8(out).expect("text");
    assert!(said.contains("PROBLEM") && errors.is_empty(), "{said}");
}
