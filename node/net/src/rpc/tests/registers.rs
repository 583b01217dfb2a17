//! Registers through a real connection: what a volume answers arrives as it answered it.

use std::sync::Arc;

use bytes::Bytes;
use futures::future::join_all;

use sherd_core::id::{Ballot, BucketId, Epoch, ProposerId, Sequence, Timestamp};
use sherd_core::message::{
    Control, Error, ListScan, ListedRow, LookScan, PulledRow, RowScan, UnsettledKind, ValueLimit,
};
use sherd_core::record::{Changes, State, Value};
use sherd_core::register::heal::look::PeerCursor;
use sherd_core::register::{Accept, CommitHint, EncodedValue, Prepare, Refusal, RowHead};

use super::{Pair, key, reason, target};
use sherd_store::peer::{Peer, RegisterPeer, UpkeepPeer};

pub(super) fn ballot(n: u64) -> Ballot {
    Ballot { time: Timestamp::from_ms(now_ms() + n), proposer: ProposerId(5) }
}

fn now_ms() -> u64 {
    use sherd_core::env::Clock;
    sherd_store::machine::system::SystemClock::new().wall_ms()
}

fn tombstone() -> EncodedValue {
    let value = Value { changes: Changes::default(), state: State::Tombstone };
    EncodedValue::new(value.encode(), Bytes::new())
}

pub(super) fn accept(ballot: Ballot) -> Accept {
    let (introduces, positions) = (Vec::new(), Arc::default());
    let origin = sherd_core::register::ValueOrigin::default();
    Accept { ballot, value: tombstone(), introduces, finishes: false, positions, origin }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_is_prepared_accepted_read_committed_and_listed_over_the_wire() {
    let pair = Pair::new().await;
    let (peer, volume, target) = (&pair.peer, pair.volume, target("a"));
    let ballot = ballot(0);
    let vote =
        peer.prepare(volume, &target, Prepare { ballot }, ValueLimit::USUAL).await.expect("it answers");
    assert!(vote.from.votes);
    assert_eq!(vote.result.expect("a promise").row, None);
    let done = peer.accept(volume, &target, &accept(ballot), None).await.expect("it answers");
    assert_eq!(done.result, Ok(()));
    let refused = peer.prepare(volume, &target, Prepare { ballot: Ballot::ZERO }, ValueLimit::USUAL).await;
    assert!(matches!(refused.expect("it answers").result, Err(Refusal::Below { .. })));

    let read = peer.read(volume, &target, ValueLimit::USUAL).await.expect("it answers");
    assert_eq!(read, pair.local.read(volume, &target, ValueLimit::USUAL).await.expect("it answers"));
    let row = read.result.expect("a vote").row.expect("a row");
    assert_eq!((row.head.ballot, row.value.as_deref()), (ballot, Some(&*tombstone().head)));
    let commit = CommitHint { ballot, is_everywhere: true, positions: Arc::default() };
    peer.commit(volume, &target, &commit);
    let committed = async {
        loop {
            let read = peer.read(volume, &target, ValueLimit::NOTHING).await.expect("it answers");
            if read.result.expect("a vote").row.is_some_and(|row| row.head.committed) {
                return;
            }
        }
    };
    tokio::time::timeout(sherd_store::testing::DEADLINE, committed).await.expect("committed in time");
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_row_is_pulled_over_the_wire_with_its_flag_and_refused_as_its_accept_would_be() {
    let pair = Pair::new().await;
    let (peer, volume, target) = (&pair.peer, pair.volume, target("a"));
    let (value, ballot) = (tombstone(), ballot(0));
    let head = RowHead { ballot, digest: Value::digest(&value.head), committed: true };
    let row = PulledRow { head, value };
    let answer = peer.pull(volume, &target, &row).await.expect("it answers");
    assert!(answer.from.votes);
    assert_eq!(answer.result, Ok(()));
    let read = peer.read(volume, &target, ValueLimit::NOTHING).await.expect("it answers");
    assert_eq!(read.result.expect("a vote").row.expect("a row").head, head);
    let record = Control::RecordEpoch { slot: target.slot, epoch: Epoch(2) };
    peer.control(volume, record).await.expect("it answers").result.expect("recorded");
    let later = Ballot { proposer: ProposerId(6), ..ballot };
    let stale = PulledRow { head: RowHead { ballot: later, ..head }, ..row };
    let refused = peer.pull(volume, &target, &stale).await.expect("it answers").result;
    assert_eq!(refused, Err(Refusal::StaleEpoch { epoch: Epoch(2) }));
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_of_rows_over_the_wire_are_those_of_the_volume() {
    let pair = Pair::new().await;
    let (peer, local, volume) = (&pair.peer, &pair.local, pair.volume);
    for name in ["a", "b/1", "b/2", "c"] {
        let target = target(name);
        let done = peer.accept(volume, &target, &accept(ballot(0)), None).await.expect("it answers");
        assert_eq!(done.result, Ok(()));
    }
    let list = ListScan {
        bucket: BucketId([1; 16]),
        epoch: Epoch::FIRST,
        deletion: None,
        prefix: Bytes::new(),
        from: Bytes::new(),
        delimiter: Some(Bytes::from_static(b"/")),
        limit: 100,
        passed_max: sherd_core::message::LIST_PASSED_MAX,
    };
    let listed = peer.list(volume, &list).await.expect("it answers");
    assert_eq!(listed, local.list(volume, &list).await.expect("it answers"));
    let entries = listed.result.expect("a page").entries;
    assert!(entries.iter().any(|entry| matches!(entry, ListedRow::Row(row) if row.key == key("a"))));
    let scan = RowScan::all(Epoch::FIRST, None, 3);
    let rows = peer.rows(volume, &scan).await.expect("it answers").result.expect("a page");
    assert_eq!(rows, local.rows(volume, &scan).await.expect("it answers").result.expect("a page"));
    assert_eq!(rows.rows.len(), 3);
    let kind = UnsettledKind::Uncommitted;
    let unsettled = peer.unsettled(volume, kind, None, 3).await.expect("it answers");
    assert_eq!(unsettled, local.unsettled(volume, kind, None, 3).await.expect("it answers"));
    assert_eq!(unsettled.rows.len(), 3);
    let life = local.position(volume).await.expect("it answers").life;
    let cursor = Some(PeerCursor { life, sequence: Sequence(0) });
    for cursor in [None, cursor] {
        let scan = LookScan { cursor, epoch: Epoch::FIRST, after: None, limit: 3 };
        let shown = peer.rows_behind(volume, &scan).await.expect("it answers");
        let own = local.rows_behind(volume, &scan).await.expect("it answers");
        assert_eq!((shown.from.life, shown.from.durable), (own.from.life, own.from.durable));
        let shown = shown.result.expect("a page");
        assert_eq!(Ok(&shown), own.result.as_ref());
        assert_eq!((shown.rows.len(), shown.next.is_some()), (3, true));
    }
    let rest = peer.unsettled(volume, kind, unsettled.next.as_ref(), 3).await.expect("it answers");
    assert_eq!((rest.rows.len(), rest.next), (1, None));
    assert_eq!(peer.verify_row(volume, &key("a")).await, Ok(()));
    assert_eq!(peer.verify_row(volume, &key("z")).await, local.verify_row(volume, &key("z")).await);
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn guarantees_and_queues_over_the_wire_are_those_of_the_volume() {
    let pair = Pair::new().await;
    let (peer, local, volume) = (&pair.peer, &pair.local, pair.volume);
    let record = Control::RecordEpoch { slot: target("a").slot, epoch: Epoch(2) };
    let answer = peer.control(volume, record).await.expect("it answers");
    assert!(answer.result.is_ok());
    let stale = peer.read(volume, &target("a"), ValueLimit::USUAL).await.expect("it answers").result;
    assert_eq!(stale, Err(Refusal::StaleEpoch { epoch: Epoch(2) }));
    let guarantees = peer.guarantees(volume).await.expect("it answers");
    assert_eq!(guarantees.result, local.guarantees(volume).await.expect("it answers").result);
    let memory = peer.remembers(volume, None).await.expect("it answers");
    assert_eq!(memory.result, local.remembers(volume, None).await.expect("it answers").result);
    assert_eq!(peer.heals(volume, None, 10).await, Ok(Vec::new()));
    assert_eq!(peer.releases(volume, None, 10).await, Ok(Vec::new()));
    assert!(guarantees.from.durable >= Sequence(0));
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn thousands_of_calls_at_once_are_each_answered_with_their_own_answer() {
    let pair = Pair::new().await;
    let (peer, volume) = (&pair.peer, pair.volume);
    let names: Vec<_> = (0..2_000).map(|n| format!("k{n}")).collect();
    let accepts = names.iter().enumerate().map(|(n, name)| {
        let accepted = peer.accept(volume, &target(name), &accept(ballot(n as u64)), None);
        async move { accepted.await.map(|answer| answer.result) }
    });
    for accepted in join_all(accepts).await {
        assert_eq!(accepted, Ok(Ok(())));
    }
    let reads = join_all(names.iter().map(|name| peer.read(volume, &target(name), ValueLimit::USUAL))).await;
    let mut ballots: Vec<_> = reads
        .into_iter()
        .map(|read| read.expect("it answers").result.expect("a vote").row.expect("a row").head.ballot)
        .collect();
    assert!(ballots.windows(2).all(|pair| pair[0] <= pair[1]), "each call has its own answer");
    ballots.dedup();
    assert!(ballots.len() > 1);
    assert!(pair.metrics.rpc.register.answered.get() >= 4_000);
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_is_not_there_and_a_node_that_forms_say_so() {
    let pair = Pair::new().await;
    let unknown = sherd_core::id::VolumeId([9; 16]);
    let absent = reason(pair.peer.read(unknown, &target("a"), ValueLimit::USUAL).await);
    assert!(absent.contains("not on this node"), "{absent}");
    pair.cell.empty();
    let forming = reason(pair.peer.read(pair.volume, &target("a"), ValueLimit::USUAL).await);
    assert!(forming.contains("forming"), "{forming}");
    assert!(!pair.peer.is_full(pair.volume));
    pair.believe(0, false);
    assert!(pair.peer.is_full(pair.volume));
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_was_decided_about_another_life_is_not_done() {
    let pair = Pair::new().await;
    let (peer, volume, target) = (&pair.peer, pair.volume, target("a"));
    let life = pair.local.life(volume).expect("it is open").0;
    let ballot = ballot(0);
    peer.accept(volume, &target, &accept(ballot), None).await.expect("it answers").result.expect("taken");
    pair.believe(life + 1, true);
    let dropped = reason(peer.drop_row(volume, &target, ballot).await);
    assert!(dropped.contains(&format!("life {life}")), "{dropped}");
    pair.believe(life, true);
    assert!(peer.drop_row(volume, &target, ballot).await.is_ok());
    assert_ne!(peer.drop_row(volume, &target, ballot).await, Err(Error::Busy));
    pair.close().await;
}
