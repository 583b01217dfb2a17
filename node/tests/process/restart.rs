//! Starts of a node over all kinds of folders.
//!
//! After a clean stop everything is there. A volume that is missing or empty does not keep the node from
//! starting: the node serves without it, and rebuilds it where an empty folder stands; nor does one that
//! cannot be written, unless no other can. A folder that is not this node's — another cluster's volume, one
//! volume twice, folders of a running process, an unknown format, another parity, a configuration with a
//! typing mistake — is refused with an exit code and a line that says which and why.

use std::fs;
use std::path::Path;
use std::process::Command;

use crate::harness::data::{Body, Dice, Home};
use crate::harness::mounts::Mounts;
use crate::harness::wait::{LATER, eventually};
use crate::harness::{Refused, Stopped, empty, volumes};
use crate::load::{Load, Step};

/// The configuration was refused.
const CONFIGURATION: Option<i32> = Some(2);
/// The volumes were refused.
const VOLUMES: Option<i32> = Some(5);

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_clean_stop_keeps_everything() {
    let mut dice = Dice::of_this_run("clean stop");
    let load = Load::new("clean/");
    let mut node = empty().start().await;
    node.with_bucket().await;
    let keys: Vec<_> = (0..12).map(|key| load.key(key)).collect();
    for _ in 0..3 {
        let s3 = node.s3();
        for (key, step) in keys.iter().zip(steps().into_iter().cycle()) {
            load.step_settled(&s3, &mut dice, key, step).await;
        }
        // A volume that opened after the others has missed writes until it is healed.
        node.until_whole().await;
        let stopped = node.stop().await;
        stopped.is_clean();
        node = stopped.start().await;
        node.until_ready().await;
        // After a clean stop no replay is needed.
        assert!(!node.log().contains("torn_tail: true"), "a clean stop leaves no torn tail");
        load.read_all(&node.s3(), &keys).await;
        load.list_all(&node.s3(), &keys).await;
    }
    load.recorder.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_start_without_some_volumes_serves_and_rebuilds() {
    let mut dice = Dice::of_this_run("lost volumes");
    let load = Load::new("lost/");
    let keys: Vec<_> = (0..12).map(|key| load.key(key)).collect();
    let mut stopped = {
        let node = empty().start().await;
        let s3 = node.with_bucket().await;
        for (key, step) in keys.iter().zip(steps().into_iter().cycle()) {
            load.step_settled(&s3, &mut dice, key, step).await;
        }
        node.until_whole().await;
        node.stop().await
    };
    // One wiped, another missing, then both kinds at once: each time others than before, so that
    // what was rebuilt is what is read from.
    for (wiped, missing) in [(vec![1], vec![]), (vec![], vec![2]), (vec![3], vec![4])] {
        for number in &wiped {
            volumes::wipe(&stopped.volume(*number));
        }
        for number in &missing {
            volumes::remove(&stopped.volume(*number));
        }
        let node = stopped.start().await;
        // With two of four gone the others vote once no further one came.
        for number in
            (1..=node.volumes().len()).filter(|number| !wiped.contains(number) && !missing.contains(number))
        {
            node.until_state(number, "online").await;
        }
        load.read_all(&node.s3(), &keys).await;
        node.until_whole().await;
        node.until_ready().await;
        let key = load.key(format_args!("after/{wiped:?}"));
        load.step_settled(&node.s3(), &mut dice, &key, Step::Put(Home::Packed)).await;
        load.read_all(&node.s3(), &keys).await;
        stopped = node.stop().await;
        stopped.is_clean();
    }
    load.recorder.check();
}

/// Nothing in the folder says that it is old: the other volumes do, before it votes.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_from_before_its_volume_was_rebuilt_recovers_before_it_votes() {
    let mut dice = Dice::of_this_run("old folder");
    let load = Load::new("old/");
    let keys: Vec<_> = (0..12).map(|key| load.key(key)).collect();
    let node = empty().start().await;
    node.with_bucket().await;
    node.until_whole().await;
    let stopped = node.stop().await;
    let (volume, old) = (stopped.volume(3), stopped.dir().join("old"));
    let copied = Command::new("cp").arg("-a").args([&volume, &old]).status();
    assert!(copied.expect("cp is everywhere").success());

    volumes::wipe(&volume);
    let node = stopped.start().await;
    node.until_whole().await;
    for (key, step) in keys.iter().zip(steps().into_iter().cycle()) {
        load.step_settled(&node.s3(), &mut dice, key, step).await;
    }
    node.until_whole().await;
    let stopped = node.stop().await;
    volumes::remove(&volume);
    fs::rename(&old, &volume).expect("folders of one filesystem");

    let node = stopped.start().await;
    eventually("the old volume is known for what it is", LATER, async || {
        if node.log().contains("volume has lost state") { Ok(()) } else { Err("nothing is said".to_owned()) }
    })
    .await;
    load.read_all(&node.s3(), &keys).await;
    node.until_whole().await;
    node.stop().await.is_clean();
    load.recorder.check();
}

/// A moment of writes is missing, and the kill left no volume time to write down its peers' positions.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_lacks_a_moment_of_writes_recovers_before_it_votes() {
    let mut dice = Dice::of_this_run("lacks a moment");
    let load = Load::new("moment/");
    let keys: Vec<_> = (0..4).map(|key| load.key(key)).collect();
    let node = empty().start().await;
    node.with_bucket().await;
    let stopped = node.stop().await;
    let (volume, old) = (stopped.volume(3), stopped.dir().join("old"));
    let copied = Command::new("cp").arg("-a").args([&volume, &old]).status();
    assert!(copied.expect("cp is everywhere").success());

    let node = stopped.start().await;
    node.until_ready().await;
    for (key, step) in keys.iter().zip(steps().into_iter().cycle()) {
        load.step_settled(&node.s3(), &mut dice, key, step).await;
    }
    let stopped = node.kill().await;
    volumes::remove(&volume);
    fs::rename(&old, &volume).expect("folders of one filesystem");

    let node = stopped.start().await;
    eventually("the old volume is known for what it is", LATER, async || {
        if node.log().contains("volume has lost state") { Ok(()) } else { Err("nothing is said".to_owned()) }
    })
    .await;
    load.read_all(&node.s3(), &keys).await;
    node.until_whole().await;
    node.stop().await.is_clean();
    load.recorder.check();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_of_another_cluster_is_refused() {
    let (ours, theirs) = (formed().await, formed().await);
    volumes::remove(&ours.volume(2));
    fs::rename(theirs.volume(2), ours.volume(2)).expect("folders of one filesystem");
    let refused = ours.refused().await;
    says(&refused, VOLUMES, &[&shown(&ours.volume(2)), "cluster"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_volume_in_two_places_is_refused() {
    let stopped = formed().await;
    volumes::remove(&stopped.volume(3));
    let copied = Command::new("cp").arg("-a").args([stopped.volume(1), stopped.volume(3)]).status();
    assert!(copied.expect("cp is everywhere").success());
    let refused = stopped.refused().await;
    says(&refused, VOLUMES, &[&shown(&stopped.volume(1)), &shown(&stopped.volume(3))]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_folder_under_two_names_is_refused() {
    let stopped = formed().await.serve("");
    volumes::remove(&stopped.volume(4));
    std::os::unix::fs::symlink(stopped.volume(1), stopped.volume(4)).expect("a new link");
    let refused = stopped.refused().await;
    says(&refused, CONFIGURATION, &[&shown(&stopped.volume(1)), &shown(&stopped.volume(4)), "same"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn folders_of_a_running_process_are_refused_and_left_alone() {
    let mut dice = Dice::of_this_run("twin");
    let load = Load::new("twin/");
    let node = empty().start().await;
    let s3 = node.with_bucket().await;
    let key = load.key("key");
    load.step_settled(&s3, &mut dice, &key, Step::Put(Home::Packed)).await;
    let refused = node.twin().refused().await;
    says(&refused, VOLUMES, &[&shown(&node.volume(1)), "use"]);
    load.step_settled(&s3, &mut dice, &key, Step::Put(Home::File)).await;
    load.read_all(&s3, &[key]).await;
    load.recorder.check();
    node.until_whole().await;
    node.stop().await.is_clean();
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_unknown_format_version_is_refused() {
    let stopped = formed().await;
    let file = stopped.volume(2).join("volume.json");
    let text = fs::read_to_string(&file).expect("a volume says who it is");
    let newer = text.replacen("\"format\":1", "\"format\":2", 1);
    assert_ne!(text, newer, "the version stands where it should");
    fs::write(&file, newer).expect("my own file");
    let refused = stopped.refused().await;
    says(&refused, VOLUMES, &[&shown(&stopped.volume(2)), "version 2"]);
}

/// A disk whose filesystem went read-only, as the kernel does it after an error: the others serve without it,
/// it says why, and comes back without a restart. A node none of whose folders can be written has nothing to
/// serve with.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_that_cannot_be_written_is_an_offline_volume_until_it_can() {
    let stopped = formed().await.serve("");
    let all: Vec<usize> = (1..=stopped.volumes().len()).collect();
    let folders: Vec<_> = all.iter().map(|number| stopped.volume(*number)).collect();
    let Some(mounts) = Mounts::over(folders) else {
        eprintln!("SKIPPED: this user cannot mount");
        return;
    };
    mounts.are_writable(&all, false);
    let refused = stopped.refused().await;
    says(&refused, CONFIGURATION, &[&shown(&stopped.volume(1)), "cannot be written"]);

    mounts.are_writable(&[1, 3, 4], true);
    let node = stopped.start().await;
    node.until_ready().await;
    node.until_state(2, "offline").await;
    let degraded = node.readiness().await["degraded_volumes"].to_string();
    assert!(degraded.contains("Read-only file system"), "{degraded}");
    let s3 = node.with_bucket().await;
    let body = Body { id: 1, len: 1 << 20 };
    s3.put_settled("without one", body).await;

    mounts.are_writable(&[2], true);
    node.until_whole().await;
    assert_eq!(s3.get_settled("without one").await, Some(body));
    let stopped = node.stop().await;
    drop(mounts);
    stopped.is_clean();
}

/// The engine of the index asks for the working directory whenever an index is opened.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_working_directory_that_is_removed_keeps_no_volume_from_being_opened() {
    let removed = tempfile::TempDir::new().expect("a temporary folder");
    let node = empty().started_in(removed.path()).start().await;
    let s3 = node.with_bucket().await;
    removed.close().expect("it is empty");
    volumes::wipe(&node.volume(2));
    let identity = node.volume(2).join("volume.json");
    eventually("the empty folder becomes a volume", LATER, async || {
        if identity.exists() { Ok(()) } else { Err("no identity yet".to_owned()) }
    })
    .await;
    node.until_whole().await;
    s3.put_settled("after", Body { id: 1, len: 1 << 20 }).await;
    node.stop().await.is_clean();
}

/// A cluster keeps the geometry that it was formed with: an operator who asks for more parity must not
/// believe that it is there.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_parity_than_the_clusters_is_refused() {
    let shown = "geometry=3+1";
    let node = empty().serve("parity = 1").start().await;
    assert_eq!((node.log_lines(shown) > 0, node.log_lines("geometry=2+2")), (true, 0), "{}", node.log());
    let stopped = node.stop().await;
    let refused = stopped.clone().serve("parity = 2").refused().await;
    says(&refused, VOLUMES, &["2 parity", "formed with 1", "3+1", "ask for 1"]);
    for lines in ["parity = 1", ""] {
        let node = stopped.clone().serve(lines).start().await;
        assert_eq!(node.log_lines("geometry=2+2"), 0, "the log names the cluster's, not the default");
        node.stop().await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_key_with_a_typing_mistake_is_refused() {
    let refused = empty_folders().serve("[limits]\nrequest_max = 4").refused().await;
    says(&refused, CONFIGURATION, &["sherd.toml", "request_max"]);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_folder_with_other_peoples_files_is_never_formatted() {
    let stopped = empty_folders().serve("");
    let file = stopped.volume(2).join("holiday.jpg");
    fs::write(&file, b"sea").expect("my own folder");
    let refused = stopped.refused().await;
    says(&refused, VOLUMES, &[&shown(&stopped.volume(2)), "holiday.jpg"]);
    assert_eq!(fs::read(&file).expect("left alone"), b"sea");
    for volume in stopped.volumes() {
        assert!(!volume.join("volume.json").exists(), "nothing was formed in {}", volume.display());
    }
}

/// A node that ran once.
async fn formed() -> Stopped {
    empty().start().await.stop().await
}

/// A node that never ran, with folders for its volumes.
fn empty_folders() -> Stopped {
    let stopped = empty();
    for volume in stopped.volumes() {
        fs::create_dir_all(volume).expect("a temporary folder is writable");
    }
    stopped
}

fn shown(path: &Path) -> String {
    path.display().to_string()
}

/// Asserts how a start was refused: in one line on stderr, behind the log, that names what is wrong.
#[track_caller]
fn says(refused: &Refused, code: Option<i32>, words: &[&str]) {
    assert_eq!(refused.code, code, "{}", refused.said);
    let line = refused.said.lines().rev().find(|line| line.starts_with("sherd-node: "));
    let line = line.unwrap_or_else(|| panic!("no reason is given: {}", refused.said));
    for word in words {
        assert!(line.contains(word), "{line:?} does not say {word:?}");
    }
}

fn steps() -> Vec<Step> {
    let puts = [Home::Inline, Home::Packed, Home::File, Home::Packed, Home::Inline].map(Step::Put);
    [&puts[..], &[Step::Upload, Step::Delete]].concat()
}
