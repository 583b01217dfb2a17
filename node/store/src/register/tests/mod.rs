//! Writers of one key at one gateway. One thread runs them all, so the writers of a batch are known: every
//! writer has come before the task of the first batch is asked to go on.

mod late_volumes;
mod long_values;
mod lost_answers;
mod lost_reads;
mod repeated_calls;
mod unreadable_rows;

use std::future::{Future, poll_fn};
use std::path::Path;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;

use futures::future::join_all;

use sherd_core::id::{BucketId, ChangeId, RegisterKey, VersionId};
use sherd_core::limits::KEY_WRITERS_MAX;
use sherd_core::message::{Control, ValueLimit};
use sherd_core::record::{Attributes, Body, Content, DataRef, Home, State, Version, VersionKind};
use sherd_core::register::Prepare;

use super::*;
use crate::cluster::damage::Report;
use crate::stripe::StagedData;
use crate::upkeep::tests::{DEADLINE, Directories, Node, body, key_of};

pub(super) fn key() -> RegisterKey {
    RegisterKey::object(BucketId([7; 16]), key_of("hot"))
}

/// A state that differs from all others.
fn numbered(number: u64) -> State {
    versions(Version { id: VersionId::NULL, modified_ms: number, kind: VersionKind::DeleteMarker })
}

fn versions(version: Version) -> State {
    State::Object(Object { versions: vec![version], uploads: Vec::new() })
}

fn number_of(state: Option<&State>) -> Option<u64> {
    state.and_then(State::object).map(|object| object.versions[0].modified_ms)
}

/// Writes without a condition.
fn plain(number: u64) -> Writer<()> {
    Writer::new(move |_| Ok(Proposal::of(numbered(number))))
}

/// Writes in the place of one number only; else says what is there.
fn swap(from: Option<u64>, to: u64) -> Writer<Option<u64>> {
    Writer::new(move |state| {
        let found = number_of(state);
        if found == from { Ok(Proposal::of(numbered(to))) } else { Err(found) }
    })
}

async fn found(node: &Node) -> Value {
    node.registers().read(&key()).await.expect("readable").expect("there").value
}

#[tokio::test]
async fn writers_that_wait_together_share_one_change() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    let outcome =
        join_all((0..16).map(|number| registers.change(registers.begin(&key()), plain(number)))).await;
    assert!(outcome.iter().all(Result::is_ok), "{outcome:?}");
    let value = found(&node).await;
    assert_eq!(number_of(Some(&value.state)), Some(15), "the last of them overwrote the others");
    assert_eq!((value.changes.count, value.changes.recent.len()), (1, 1));
    assert_eq!(value.changes.recent[0].number, 1);
    assert_eq!(registers.inner.writers.keys_count(), 0, "no writer of the key is left");
    node.close().await;
}

#[tokio::test]
async fn each_writer_is_judged_on_what_the_one_before_it_made() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    let swaps = [swap(None, 1), swap(None, 2), swap(Some(1), 3), swap(Some(9), 4), swap(Some(3), 5)];
    let outcomes = join_all(swaps.map(|writer| registers.change(registers.begin(&key()), writer))).await;
    let refused: Vec<_> = outcomes
        .into_iter()
        .map(|outcome| match outcome {
            Ok(()) => None,
            Err(ChangeError::Refused(found)) => found,
            Err(other) => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(refused, [None, Some(1), None, Some(3), None]);
    let value = found(&node).await;
    assert_eq!((number_of(Some(&value.state)), value.changes.count), (Some(5), 1));
    node.close().await;
}

#[tokio::test]
async fn refused_writers_alone_change_nothing() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("a healthy node");
    let accepts = registers.inner.metrics.register.accept_rounds.get();
    let swaps = [swap(Some(2), 3), swap(None, 4)];
    let outcomes = join_all(swaps.map(|writer| registers.change(registers.begin(&key()), writer))).await;
    assert!(
        outcomes.iter().all(|outcome| matches!(outcome, Err(ChangeError::Refused(Some(1))))),
        "{outcomes:?}"
    );
    let written = registers.inner.metrics.register.accept_rounds.get() - accepts;
    assert_eq!(written, 0, "no hint of the commit has come yet, and an accept quorum shows the row");
    assert_eq!(number_of(Some(&found(&node).await.state)), Some(1));
    assert_eq!(registers.inner.writers.keys_count(), 0);
    node.close().await;
}

/// A prepare would refuse the accept of the gateway that was noticed.
#[tokio::test]
async fn a_refusal_at_a_key_that_others_write_costs_no_prepare() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("a healthy node");
    registers.inner.contention.note(registers.inner.writers.hashed(&key()).hash);
    let rounds = || {
        let metrics = &registers.inner.metrics.register;
        (metrics.prepare_rounds.get(), metrics.accept_rounds.get())
    };
    let before = rounds();
    let outcome = registers.change(registers.begin(&key()), swap(Some(2), 3)).await;
    assert!(matches!(outcome, Err(ChangeError::Refused(Some(1)))), "{outcome:?}");
    assert_eq!(rounds(), before);
    registers.change(registers.begin(&key()), swap(Some(1), 2)).await.expect("its condition holds");
    assert_eq!(rounds(), (before.0 + 1, before.1 + 1));
    assert_eq!(number_of(Some(&found(&node).await.state)), Some(2));
    node.close().await;
}

#[tokio::test]
async fn more_writers_than_may_wait_are_refused_before_anything_is_sent() {
    let directories = Directories::new(1);
    let node = directories.start().await;
    let registers = node.registers();
    let mut waiting = Vec::new();
    // The first of them is at work.
    for number in 0..=KEY_WRITERS_MAX as u64 {
        let mut writer = Box::pin(registers.change(registers.begin(&key()), plain(number)));
        assert!(is_pending(&mut writer).await);
        waiting.push(writer);
    }
    let outcome = registers.change(registers.begin(&key()), plain(0)).await;
    assert!(matches!(outcome, Err(ChangeError::Failed(Failure::Overloaded))), "{outcome:?}");
    assert!(join_all(waiting).await.iter().all(Result::is_ok), "batch after batch");
    assert_eq!(number_of(Some(&found(&node).await.state)), Some(KEY_WRITERS_MAX as u64));
    assert_eq!(registers.inner.writers.keys_count(), 0);
    node.close().await;
}

/// Polls once; says whether it goes on.
async fn is_pending<F: Future>(future: &mut Pin<Box<F>>) -> bool {
    poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_pending())).await
}

#[tokio::test]
async fn a_writer_that_leaves_before_the_accept_is_not_proposed() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    let asked = Arc::new(AtomicBool::new(false));
    let noted = Arc::clone(&asked);
    let leaver: Writer<()> = Writer::new(move |_| {
        noted.store(true, Ordering::Relaxed);
        Ok(Proposal::of(numbered(2)))
    });
    let mut first = Box::pin(registers.change(registers.begin(&key()), plain(1)));
    let mut second = Box::pin(registers.change(registers.begin(&key()), leaver));
    assert!(is_pending(&mut first).await && is_pending(&mut second).await);
    assert_eq!(registers.inner.writers.waiting_count(&key()), 1, "beside the one at work");
    drop(second);
    first.await.expect("a healthy node");
    assert!(!asked.load(Ordering::Relaxed));
    assert_eq!(number_of(Some(&found(&node).await.state)), Some(1));
    node.close().await;
}

#[tokio::test]
async fn a_ticket_that_is_given_up_leaves_no_trace() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    drop(registers.begin(&key()));
    assert_eq!(registers.inner.writers.keys_count(), 0);
    let slow = registers.begin(&key());
    registers.change(registers.begin(&key()), plain(1)).await.expect("no writer waits for a slow body");
    registers.change(slow, plain(2)).await.expect("its prepare was overtaken, and is sent again");
    assert_eq!(number_of(Some(&found(&node).await.state)), Some(2));
    assert_eq!(registers.inner.metrics.register.conflicts.get(), 0);
    assert_eq!(registers.inner.writers.keys_count(), 0);
    node.close().await;
}

pub(crate) fn naming(data: DataRef, number: u64) -> State {
    let content = Content {
        size: data.size,
        etag: number.to_string(),
        attributes: Attributes::default(),
        checksums: sherd_core::record::Checksums::new(),
        upload: None,
        body: Body::Data(data),
        entries: sherd_core::record::Entries::default(),
    };
    versions(Version { id: VersionId::NULL, modified_ms: number, kind: VersionKind::Content(content) })
}

/// Durable data of this size that nothing names yet.
pub(crate) async fn stage(node: &Node, seed: u64) -> StagedData {
    let bytes = body(seed, 300_000);
    let size = bytes.len() as u64;
    let mut writer =
        node.stripes().write(&node.route(&key()), size, Home::File).await.expect("there is room");
    writer.push(bytes).await.expect("there is room");
    writer.seal().await.expect("written").durable().await.expect("durable")
}

/// Waits until no shard file of data is left.
pub(super) async fn gone(directories: &Directories, data: &[DataRef]) {
    let gone = async {
        while data.iter().any(|data| files(directories, *data) > 0) {
            crate::upkeep::tests::between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, gone).await.expect("removed in time");
}

/// Shard files of data.
pub(crate) fn files(directories: &Directories, data: DataRef) -> usize {
    let shards = |volume: &Path| std::fs::read_dir(volume.join("shards")).into_iter().flatten().flatten();
    let under = |folder: std::fs::DirEntry| std::fs::read_dir(folder.path()).into_iter().flatten().flatten();
    let names = directories.paths().into_iter().flat_map(|volume| shards(&volume).collect::<Vec<_>>());
    let wanted = format!("{}.", data.id);
    names.flat_map(under).filter(|file| file.file_name().to_string_lossy().starts_with(&wanted)).count()
}

/// No accept names data that was overwritten within a batch: it is removed at once. The committed data stays.
#[tokio::test]
async fn data_that_is_overwritten_within_its_batch_goes_at_once() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    let mut staged = Vec::new();
    for _ in 0..3 {
        staged.push(stage(&node, 1).await);
    }
    let data: Vec<DataRef> = staged.iter().map(StagedData::data).collect();
    assert!(data.iter().all(|data| files(&directories, *data) == 4));
    let writers = staged.into_iter().zip(0..).map(|(staged, number)| {
        let named = staged.data();
        let writer: Writer<()> = Writer::new(move |state| {
            if number == 1 && state.is_some() { Err(()) } else { Ok(Proposal::of(naming(named, number))) }
        });
        registers.change(registers.begin(&key()), writer.naming(Some(staged)))
    });
    let outcomes = join_all(writers).await;
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok() && outcomes[1].is_err(), "{outcomes:?}");
    gone(&directories, &data[..2]).await;
    assert_eq!(files(&directories, data[2]), 4);
    assert_eq!(found(&node).await.data_refs(), [data[2]]);
    node.close().await;
}

async fn tell_all(registers: &Registers, control: Control) {
    let route = registers.inner.cluster.sets().iter().flat_map(|set| &set.routes);
    let outcomes = join_all(route.map(|route| route.peer.control(route.volume, control.clone()))).await;
    assert!(
        outcomes.iter().all(|outcome| matches!(outcome, Ok(answer) if answer.result.is_ok())),
        "{outcomes:?}"
    );
}

/// A seal between the prepare and the accept: no volume stored the value, so no row names the data. The
/// writer still has it, to try again or to give up.
#[tokio::test]
async fn an_accept_that_no_volume_took_leaves_the_data_with_its_writer() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    let (bucket, epoch) = (key().bucket, registers.inner.cluster.epoch());
    let deletion = ChangeId { made: registers.inner.clock.tick(), proposer: registers.proposer() };
    let staged = [stage(&node, 1).await, stage(&node, 2).await];
    let data = [staged[0].data(), staged[1].data()];
    let mut sent_back = Vec::new();
    for (staged, number) in staged.into_iter().zip(0..) {
        let named = staged.data();
        let writer: Writer<()> = Writer::new(move |_| Ok(Proposal::of(naming(named, number))));
        let ticket = registers.begin(&key());
        tell_all(registers, Control::Seal { bucket, deletion, epoch }).await;
        let outcome = registers.change(ticket, writer.naming(Some(staged))).await;
        let Err(ChangeError::Sealed(writer)) = outcome else { panic!("not sealed: {outcome:?}") };
        sent_back.push(*writer);
        tell_all(registers, Control::Unseal { bucket, deletion }).await;
    }
    let again = sent_back.remove(1);
    drop(sent_back);
    gone(&directories, &data[..1]).await;
    registers.change(registers.begin(&key()), again).await.expect("the seal is gone");
    assert_eq!(found(&node).await.data_refs(), data[1..]);
    assert_eq!(files(&directories, data[1]), 4);
    node.close().await;
}

/// A prepare that overtakes an accept in a volume's queue makes the volume refuse it; if that prepare's own
/// write fails, no newer row ever comes.
#[tokio::test]
async fn a_volume_that_promised_more_and_got_nothing_is_known_to_lack_the_row() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    let registers = node.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("a healthy node");
    let set = registers.inner.cluster.set_of(&key());
    let (target, late) = (registers.inner.cluster.target(key()), set.routes[0].clone());
    let row_on_it = async || {
        let answer = late.peer.read(late.volume, &target, ValueLimit::NOTHING).await.expect("it answers");
        answer.result.expect("it votes").row.map(|row| row.head.ballot)
    };
    // Three of four were enough for the change: the fourth may still be about it.
    let arrives = async {
        while row_on_it().await.is_none() {
            crate::upkeep::tests::between_looks().await;
        }
    };
    tokio::time::timeout(DEADLINE, arrives).await.expect("it takes the row, too");
    let before = row_on_it().await;
    let time = registers.now().plus_ms(30_000);
    let prepare = Prepare { ballot: Ballot { time, proposer: registers.proposer() } };
    let promised =
        late.peer.prepare(late.volume, &target, prepare, ValueLimit::NOTHING).await.expect("it answers");
    promised.result.expect("no higher ballot was promised");
    registers.change(registers.begin(&key()), plain(2)).await.expect("three of four take it");
    assert_eq!(row_on_it().await, before);
    let report = tokio::time::timeout(DEADLINE, node.next_report()).await.expect("reported in time");
    assert!(
        matches!(&report, Report::Heal(entry) if entry.key == key() && entry.data.is_none()),
        "{report:?}"
    );
    node.close().await;
}

#[tokio::test]
async fn a_writer_that_panics_does_not_close_its_key() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    let panics: Writer<()> = Writer::new(|_| panic!("a defect of a verb"));
    let outcome = registers.change(registers.begin(&key()), panics).await;
    assert!(matches!(outcome, Err(ChangeError::Failed(Failure::OutcomeUnknown))), "{outcome:?}");
    assert_eq!(registers.inner.writers.keys_count(), 0);
    let next = registers.change(registers.begin(&key()), plain(1));
    tokio::time::timeout(DEADLINE, next).await.expect("no batch is at work").expect("a healthy node");
    node.close().await;
}

#[tokio::test]
async fn a_writer_is_answered_at_once_that_its_bucket_is_sealed() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    let deletion = ChangeId { made: registers.inner.clock.tick(), proposer: registers.proposer() };
    let (bucket, epoch) = (key().bucket, registers.inner.cluster.epoch());
    tell_all(registers, Control::Seal { bucket, deletion, epoch }).await;
    let outcome = registers.change(registers.begin(&key()), plain(1)).await;
    assert!(matches!(outcome, Err(ChangeError::Sealed(_))), "{outcome:?}");
    let counts = &registers.inner.metrics.register;
    assert_eq!((counts.prepare_rounds.get(), counts.accept_rounds.get()), (1, 0));
    node.close().await;
}

#[tokio::test]
async fn a_writer_that_is_alone_at_its_key_sends_its_prepare_with_its_ticket() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    let prepares = || registers.inner.metrics.register.prepare_rounds.get();
    let first = registers.begin(&key());
    assert_eq!(prepares(), 1);
    let second = registers.begin(&key());
    assert_eq!(prepares(), 1, "it would overtake the first one's");
    let mut at_work = Box::pin(registers.change(first, plain(1)));
    assert!(is_pending(&mut at_work).await);
    drop(second);
    let third = registers.begin(&key());
    assert_eq!(prepares(), 1, "a batch is at work");
    drop(third);
    at_work.await.expect("a healthy node");
    assert_eq!((prepares(), registers.inner.metrics.register.accept_rounds.get()), (1, 1));
    node.close().await;
}
