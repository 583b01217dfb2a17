//! Answers to writers, and the fate of their data, when questions and answers are lost: a script stands
//! between the registers and their volumes.

use sherd_core::heal::HealEntry;
use sherd_core::id::{DataId, RegisterKey};
use sherd_core::limits::ETAG_BYTES_MAX;
use sherd_core::message;
use sherd_core::message::{Answer, Error, ValueLimit};
use sherd_core::register::proposer::is_skewed;
use sherd_core::register::{Refusal, Vote};

use super::*;
use crate::cluster::damage::Report;
use crate::peer::UpkeepPeer;
use crate::peer::scripted::{Fate, ScriptedPeer, says};

/// A gateway whose tries are soon over.
/// Of a proposer that gives up: late enough for one that is slow to have asked everyone.
pub(super) const IMPATIENT: RegisterTimeouts = RegisterTimeouts {
    round: Duration::from_secs(1),
    operation: Duration::from_secs(3),
    hedge: Duration::from_millis(10),
    commit: Duration::from_millis(20),
};

pub(super) fn lost() -> Error {
    Error::Unreachable { reason: "lost".to_owned() }
}

/// The volumes of the key's set, in their order.
pub(super) fn volumes(node: &Node) -> Vec<VolumeId> {
    node.registers().inner.cluster.set_of(&key()).routes.iter().map(|route| route.volume).collect()
}

/// Answers with a refusal in place of the volume.
async fn refused<R>(script: &ScriptedPeer, volume: VolumeId, refusal: Refusal) -> Answer<R> {
    let from = script.guarantees(volume).await.expect("it serves").from;
    Answer { from, result: Err(refusal) }
}

/// The first accept of every volume has this fate; those at later ballots go through.
fn first_accepts(script: &ScriptedPeer, fate: impl Fn(VolumeId) -> Fate<Answer<()>> + Send + 'static) {
    let mut first = None;
    says(&script.accepts, move |volume, accept| {
        if *first.get_or_insert(accept.ballot) == accept.ballot { fate(volume) } else { Fate::Through }
    });
}

/// Writes this data without a condition.
fn named(staged: StagedData) -> Writer<()> {
    let data = staged.data();
    Writer::new(move |_| Ok(Proposal::of(naming(data, 1)))).naming(Some(staged))
}

/// Everything that a gateway still does for its writes is done then.
pub(super) async fn at_rest(gateway: &Node) {
    gateway.registers().tasks().close();
    tokio::time::timeout(DEADLINE, gateway.registers().tasks().wait()).await.expect("its writes end");
}

pub(super) fn rows_behind(reported: &[Report]) -> usize {
    let row = Report::Heal(HealEntry { key: key(), data: None, since_ms: 0 });
    reported.iter().filter(|report| **report == row).count()
}

fn superseded(reported: Vec<Report>) -> Vec<DataId> {
    let data = reported.into_iter().filter_map(|report| match report {
        Report::Superseded { data, .. } => Some(data),
        Report::Heal(_) => None,
    });
    data.flatten().map(|data| data.id).collect()
}

#[tokio::test]
async fn a_change_whose_answers_were_lost_is_made_once() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    first_accepts(&script, |_| Fate::Unheard(Err(lost())));
    let registers = gateway.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("it was made");
    let value = found(&gateway).await;
    assert_eq!((number_of(Some(&value.state)), value.changes.count), (Some(1), 1));
    assert_eq!(value.changes.recent[0].change.proposer, registers.proposer());
    gateway.close().await;
}

#[tokio::test]
async fn a_change_whose_accepts_were_lost_is_proposed_again() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    first_accepts(&script, |_| Fate::Instead(Err(lost())));
    let registers = gateway.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("it was made");
    let value = found(&gateway).await;
    assert_eq!((number_of(Some(&value.state)), value.changes.recent[0].number), (Some(1), 2));
    gateway.close().await;
}

/// A volume that stored the first try may show it to any reader, until the second try commits a value without
/// it: then the data of the writer that was refused is released.
#[tokio::test]
async fn data_that_an_earlier_try_named_is_given_back_when_a_later_one_is_committed() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (mut gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    first_accepts(&script, |_| Fate::Instead(Err(lost())));
    let registers = gateway.registers().clone();
    let staged = stage(&gateway, 1).await;
    let (data, mut tries) = (staged.data(), 0);
    let once: Writer<()> = Writer::new(move |_| {
        tries += 1;
        if tries == 1 { Ok(Proposal::of(naming(data, 2))) } else { Err(()) }
    });
    let first = registers.change(registers.begin(&key()), plain(1));
    let second = registers.change(registers.begin(&key()), once.naming(Some(staged)));
    let outcomes = futures::join!(first, second);
    assert!(matches!(outcomes, (Ok(()), Err(ChangeError::Refused(())))), "{outcomes:?}");
    assert_eq!(number_of(Some(&found(&gateway).await.state)), Some(1));
    assert_eq!(files(&directories, data), 4, "it waits for its grace");
    assert_eq!(superseded(gateway.reported()), [data.id]);
    gateway.close().await;
}

#[tokio::test]
async fn a_write_that_every_volume_refused_has_not_happened_and_leaves_nothing() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    for (error, failure) in [(Error::Full, Failure::Full), (Error::Busy, Failure::Overloaded)] {
        let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
        says(&script.accepts, move |_, _| Fate::Instead(Err(error.clone())));
        let staged = stage(&gateway, 1).await;
        let (registers, data) = (gateway.registers(), staged.data());
        let outcome = registers.change(registers.begin(&key()), named(staged)).await;
        assert!(matches!(outcome, Err(ChangeError::Failed(outcome)) if outcome == failure), "{outcome:?}");
        gone(&directories, &[data]).await;
        at_rest(&gateway).await;
    }
    assert_eq!(node.registers().read(&key()).await.map(|found| found.is_some()), Ok(false));
    node.close().await;
}

/// The one volume may have the write, or a later proposer may find it there.
#[tokio::test]
async fn a_write_that_one_volume_may_have_stored_has_an_unknown_outcome_and_keeps_its_data() {
    type OneFate = fn() -> Fate<Answer<()>>;
    let fates: [OneFate; 4] =
        [|| Fate::Through, || Fate::Unheard(Err(lost())), || Fate::Instead(Err(lost())), || Fate::Silence];
    // At one time, since each takes as long as an operation may.
    let writes = fates.map(async |fate| {
        let directories = Directories::new(4);
        let node = directories.start().await;
        let (mut gateway, script) = node.scripted_gateway(IMPATIENT);
        let one = volumes(&node)[3];
        says(
            &script.accepts,
            move |volume, _| {
                if volume == one { fate() } else { Fate::Instead(Err(Error::Full)) }
            },
        );
        let staged = stage(&gateway, 1).await;
        let (registers, data) = (gateway.registers(), staged.data());
        let outcome = registers.change(registers.begin(&key()), named(staged)).await;
        assert!(matches!(outcome, Err(ChangeError::Failed(Failure::OutcomeUnknown))), "{outcome:?}");
        assert_eq!(files(&directories, data), 4);
        assert_eq!(superseded(gateway.reported()), []);
        assert_eq!(registers_unknown(&gateway), 1);
        gateway.close().await;
    });
    futures::future::join_all(writes).await;
}

/// Two volumes may hold what a third lacks, and a proposer that commits it later cannot know.
#[tokio::test]
async fn an_accept_without_a_known_end_has_its_row_looked_at() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (mut gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let (sent, mut is_sent) = tokio::sync::mpsc::unbounded_channel();
    says(&script.accepts, move |_, _| {
        sent.send(()).expect("the test waits for it");
        Fate::Silence
    });
    let registers = gateway.registers().clone();
    let finishing = tokio::spawn(async move { registers.finish(&key()).await });
    for _ in 0..4 {
        is_sent.recv().await.expect("the script is kept");
    }
    assert_eq!(rows_behind(&gateway.reported()), 0);
    finishing.abort();
    assert!(finishing.await.expect_err("it was dropped").is_cancelled());
    assert_eq!(rows_behind(&gateway.reported()), 1);
    gateway.close().await;
}

fn registers_unknown(gateway: &Node) -> u64 {
    gateway.registers().inner.metrics.register.outcomes_unknown.get()
}

#[tokio::test]
async fn without_promises_nothing_was_proposed() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let said = [
        ([Error::Full, Error::Busy, Error::Busy, Error::Busy], Failure::Full),
        ([Error::Busy, lost(), lost(), lost()], Failure::Overloaded),
        ([lost(), Error::NotFound, lost(), lost()], Failure::Unavailable),
    ];
    for (errors, failure) in said {
        let (gateway, script) = node.scripted_gateway(IMPATIENT);
        let places = volumes(&node);
        says(&script.prepares, move |volume, _| {
            let place = places.iter().position(|place| *place == volume).expect("of the set");
            Fate::Instead(Err(errors[place].clone()))
        });
        let staged = stage(&gateway, 1).await;
        let (registers, data) = (gateway.registers(), staged.data());
        let outcome = registers.change(registers.begin(&key()), named(staged)).await;
        assert!(matches!(outcome, Err(ChangeError::Failed(outcome)) if outcome == failure), "{outcome:?}");
        assert_eq!(registers.inner.metrics.register.accept_rounds.get(), 0);
        gone(&directories, &[data]).await;
        at_rest(&gateway).await;
    }
    node.close().await;
}

/// A bucket may be sealed for a moment only, and the proposal committed after that.
#[tokio::test]
async fn a_writer_that_is_sealed_out_after_its_accept_waits_for_the_end_of_the_seal() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let mut sealed = Vec::new();
    for volume in volumes(&node) {
        sealed.push((volume, refused::<Vote>(&script, volume, Refusal::Sealed).await));
    }
    first_accepts(&script, |_| Fate::Unheard(Err(lost())));
    let mut asked = 0;
    says(&script.prepares, move |volume, _| {
        asked += 1;
        let (_, refusal) = sealed.iter().find(|(sealed, _)| *sealed == volume).expect("of the set");
        // All of the first round promise, and none of the next two.
        if (5..=12).contains(&asked) { Fate::Instead(Ok(refusal.clone())) } else { Fate::Through }
    });
    let registers = gateway.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("it was made");
    assert_eq!(found(&gateway).await.changes.count, 1);
    gateway.close().await;
}

/// A volume that missed a committed write gets it. One that refused it for a newer ballot may never get that
/// newer row.
#[tokio::test]
async fn a_volume_that_missed_a_write_is_reported() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (_, script) = node.scripted_gateway(RegisterTimeouts::default());
    let one = volumes(&node)[2];
    let now = node.registers().now();
    let bound = |ms| Refusal::Below { bound: Ballot { time: now.plus_ms(ms), proposer: ProposerId(1) } };
    let outcomes = [
        (Err(lost()), false, 1),
        (Ok(refused(&script, one, Refusal::TooFarAhead { latest: now }).await), false, 1),
        (Ok(refused(&script, one, Refusal::DataTooOld { floor: now }).await), false, 1),
        (Ok(refused(&script, one, Refusal::Sealed).await), false, 1),
        (Ok(refused(&script, one, bound(3_600_000)).await), false, 1),
        (Ok(refused(&script, one, bound(1)).await), false, 1),
        (Ok(refused(&script, one, bound(1)).await), true, 0),
    ];
    for (outcome, has_it, behind) in outcomes {
        let (mut gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
        let heard = outcome.clone();
        says(&script.accepts, move |volume, _| match (volume == one, has_it) {
            (true, true) => Fate::Unheard(heard.clone()),
            (true, false) => Fate::Instead(heard.clone()),
            (false, _) => Fate::Through,
        });
        let registers = gateway.registers().clone();
        registers.change(registers.begin(&key()), plain(1)).await.expect("three volumes took it");
        at_rest(&gateway).await;
        assert_eq!(rows_behind(&gateway.reported()), behind, "{outcome:?}");
        let is_skewed = matches!(outcome, Ok(Answer { result: Err(refusal), .. }) if is_skewed(refusal, now));
        // Once, whether the refusal came before the three answers that decide or behind them.
        let skewed = gateway.registers().inner.metrics.register.skewed.get();
        assert_eq!(skewed, u64::from(is_skewed), "{outcome:?}");
    }
    node.close().await;
}

/// One hint a volume: it waits a little for the answers that the quorum did not need.
#[tokio::test]
async fn a_hint_says_whether_every_volume_took_the_row() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let one = volumes(&node)[2];
    for (fate, is_everywhere) in [("whole", true), ("late", true), ("lost", false), ("silent", false)] {
        let (gateway, script) = node.scripted_gateway(IMPATIENT_ROUND);
        let registers = gateway.registers();
        // After a start a volume may refuse the first ballot.
        registers.change(registers.begin(&key()), plain(1)).await.expect("it was made");
        at_rest(&gateway).await;
        script.commits.lock().clear();
        says(&script.accepts, move |volume, _| match fate {
            "late" if volume == one => Fate::Late,
            "lost" if volume == one => Fate::Instead(Err(lost())),
            "silent" if volume == one => Fate::Silence,
            _ => Fate::Through,
        });
        registers.change(registers.begin(&key()), plain(2)).await.expect("three volumes took it");
        at_rest(&gateway).await;
        let commits = script.commits.lock().clone();
        // A second one follows where a volume took its time.
        let most = if is_everywhere { 2 } else { 1 };
        for volume in volumes(&node) {
            let said: Vec<bool> =
                commits.iter().filter(|(to, ..)| *to == volume).map(|(.., said)| *said).collect();
            assert_eq!(said.last(), Some(&is_everywhere), "{fate}");
            assert!(said.len() <= most, "{fate}: {said:?}");
        }
    }
    node.close().await;
}

/// Else a deletion of the bucket, say, finds a row that nothing says is committed.
#[tokio::test]
async fn a_hint_does_not_wait_for_a_late_volume() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let one = volumes(&node)[2];
    let (gateway, script) = node.scripted_gateway(IMPATIENT_ROUND);
    let registers = gateway.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("it was made");
    at_rest(&gateway).await;
    script.commits.lock().clear();
    *script.late.lock() = vec![one];
    says(&script.accepts, move |volume, _| if volume == one { Fate::Silence } else { Fate::Through });
    registers.change(registers.begin(&key()), plain(2)).await.expect("three volumes took it");
    let commits = script.commits.lock().clone();
    assert_eq!(commits.len(), 4, "all hints were sent before the writer was answered");
    assert!(commits.iter().all(|(.., is_everywhere)| !is_everywhere));
    at_rest(&gateway).await;
    assert_eq!(script.commits.lock().len(), 4, "and no more than once");
    node.close().await;
}

/// The one that is slow is waited for after the writer was answered.
#[tokio::test]
async fn a_volume_that_never_answers_an_accept_is_reported_when_its_time_is_over() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    for (fate, behind) in [(false, 0), (true, 1)] {
        let (mut gateway, script) = node.scripted_gateway(IMPATIENT_ROUND);
        let one = volumes(&node)[0];
        says(
            &script.accepts,
            move |volume, _| {
                if fate && volume == one { Fate::Silence } else { Fate::Through }
            },
        );
        let registers = gateway.registers().clone();
        registers.change(registers.begin(&key()), plain(1)).await.expect("three volumes took it");
        at_rest(&gateway).await;
        assert_eq!(rows_behind(&gateway.reported()), behind);
    }
    node.close().await;
}

/// As ever, but that a round is over in a second.
const IMPATIENT_ROUND: RegisterTimeouts = RegisterTimeouts {
    round: Duration::from_secs(1),
    operation: Duration::from_secs(20),
    hedge: Duration::from_millis(100),
    commit: Duration::from_millis(60),
};

/// An object whose bytes are in its row.
pub(super) fn inline(content_type: &str, bytes: &'static [u8]) -> Writer<()> {
    let content = Content {
        size: bytes.len() as u64,
        etag: "tag".to_owned(),
        attributes: attributes(content_type),
        checksums: sherd_core::record::Checksums::new(),
        upload: None,
        body: Body::Inline { hash: *blake3::hash(bytes).as_bytes() },
        entries: sherd_core::record::Entries::default(),
    };
    let kind = VersionKind::Content(content);
    let state = versions(Version { id: VersionId::NULL, modified_ms: 1, kind });
    Writer::new(move |_| Ok(Proposal { inline: Inline::New, ..Proposal::of(state.clone()) }))
        .carrying(Bytes::from_static(bytes))
}

pub(super) async fn read(node: &Node) -> QuorumRow {
    node.registers().read(&key()).await.expect("readable").expect("there")
}

/// A change that is too large for any state of the register holds up no other in its batch.
#[tokio::test]
async fn a_writer_that_asks_for_too_much_is_refused_and_the_others_of_its_batch_are_served() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    let State::Object(Object { mut versions, uploads }) = naming_inline() else { panic!("an object") };
    if let VersionKind::Content(content) = &mut versions[0].kind {
        content.etag = "e".repeat(ETAG_BYTES_MAX + 1);
    }
    let large = || {
        let state = State::Object(Object { versions: versions.clone(), uploads: uploads.clone() });
        Writer::<()>::new(move |_| Ok(Proposal::of(state.clone())))
    };
    let writers = [plain(1), large(), plain(3), large()];
    let outcomes = join_all(writers.map(|writer| registers.change(registers.begin(&key()), writer))).await;
    assert!(outcomes[0].is_ok() && outcomes[2].is_ok(), "{outcomes:?}");
    let is_over_limit = |outcome: &_| matches!(outcome, Err(ChangeError::Failed(Failure::OverLimit(_))));
    assert!(is_over_limit(&outcomes[1]) && is_over_limit(&outcomes[3]), "{outcomes:?}");
    let value = found(&node).await;
    assert_eq!((number_of(Some(&value.state)), value.changes.count), (Some(3), 1));
    node.close().await;
}

fn naming_inline() -> State {
    let content = Content {
        size: 0,
        etag: String::new(),
        attributes: Attributes::default(),
        checksums: sherd_core::record::Checksums::new(),
        upload: None,
        body: Body::Inline { hash: *blake3::hash(b"").as_bytes() },
        entries: sherd_core::record::Entries::default(),
    };
    versions(Version { id: VersionId::NULL, modified_ms: 1, kind: VersionKind::Content(content) })
}

/// Where too few have room, what takes away still comes through, and so does what was admitted with its data.
#[tokio::test]
async fn writes_that_need_room_are_refused_where_too_few_volumes_have_it() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let long = "long".repeat(300);
    let before = || inline(&long, b"some bytes");
    let tombstone = || Writer::<()>::new(|_| Ok(Proposal::of(State::Tombstone)));
    for (full, has_room) in [(1, true), (2, false)] {
        let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
        *script.full.lock() = volumes(&node)[..full].to_vec();
        let staged = stage(&node, 1).await;
        let writers = [
            ("a shorter row with new bytes", inline("short", b"other bytes"), has_room),
            ("a row as long", retyped(&"gnol".repeat(300)), has_room),
            ("a shorter row", retyped("short"), true),
            ("data that is there", named(staged), true),
            ("nothing", tombstone(), true),
        ];
        for (what, writer, is_taken) in writers {
            node.registers().change(node.registers().begin(&key()), before()).await.expect("there is room");
            let registers = gateway.registers();
            let outcome = registers.change(registers.begin(&key()), writer).await;
            assert_eq!(outcome.is_ok(), is_taken, "{what}: {outcome:?}");
            assert!(
                is_taken || matches!(outcome, Err(ChangeError::Failed(Failure::Full))),
                "{what}: {outcome:?}"
            );
        }
        let registers = gateway.registers();
        let writers = [before(), tombstone(), before()];
        let outcomes =
            join_all(writers.map(|writer| registers.change(registers.begin(&key()), writer))).await;
        assert_eq!(outcomes.iter().map(Result::is_ok).collect::<Vec<_>>(), [has_room, true, has_room]);
        at_rest(&gateway).await;
    }
    node.close().await;
}

/// The same object with another content type: its bytes are kept.
fn retyped(content_type: &str) -> Writer<()> {
    let attributes = attributes(content_type);
    Writer::new(move |state| {
        let Some(State::Object(object)) = state else { return Err(()) };
        let mut object = object.clone();
        if let VersionKind::Content(content) = &mut object.versions[0].kind {
            content.attributes = attributes.clone();
        }
        Ok(Proposal { inline: Inline::Kept, ..Proposal::of(State::Object(object)) })
    })
}

fn attributes(content_type: &str) -> Attributes {
    Attributes { pairs: vec![("content-type".to_owned(), content_type.to_owned())] }
}

/// The value that a refusal was judged on must not vanish after it: a later answer would contradict it.
#[tokio::test]
async fn a_refusal_is_sent_when_the_value_it_was_judged_on_is_committed() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(IMPATIENT);
    // Two of four have it: no prepare misses it, and no proposer has committed it.
    let taken = volumes(&node)[..2].to_vec();
    says(
        &script.accepts,
        move |volume, _| {
            if taken.contains(&volume) { Fate::Through } else { Fate::Instead(Err(lost())) }
        },
    );
    let registers = gateway.registers();
    let outcome = registers.change(registers.begin(&key()), plain(1)).await;
    assert!(matches!(outcome, Err(ChangeError::Failed(Failure::OutcomeUnknown))), "{outcome:?}");
    let registers = node.registers();
    let before = registers.inner.metrics.register.accept_rounds.get();
    let outcome = registers.change(registers.begin(&key()), swap(None, 2)).await;
    assert!(matches!(outcome, Err(ChangeError::Refused(Some(1)))), "{outcome:?}");
    assert_eq!(registers.inner.metrics.register.accept_rounds.get() - before, 1, "it is committed first");
    gateway.close().await;
}

/// A writer that came before the prepare may be answered by the value that it showed. A later one may know of
/// a newer value than the promises.
#[tokio::test]
async fn a_writer_that_came_after_the_prepare_is_refused_by_a_read_that_began_later() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("a healthy node");
    until_noted_committed(&node).await;
    let rounds = || {
        let metrics = &registers.inner.metrics.register;
        (metrics.read_rounds.get(), metrics.accept_rounds.get())
    };
    let before = rounds();
    let refused = |outcome: &_| matches!(outcome, Err(ChangeError::Refused(Some(1))));
    let outcome = registers.change(registers.begin(&key()), swap(None, 2)).await;
    assert!(refused(&outcome), "{outcome:?}");
    assert_eq!(rounds(), before);
    let mut first = Box::pin(registers.change(registers.begin(&key()), swap(None, 2)));
    assert!(is_pending(&mut first).await);
    let outcomes = futures::join!(first, registers.change(registers.begin(&key()), swap(None, 3)));
    assert!(refused(&outcomes.0) && refused(&outcomes.1), "{outcomes:?}");
    assert_eq!(rounds(), (before.0 + 1, before.1));
    node.close().await;
}

/// Waits until every volume has the value of the key as committed: the hint rides with the frames of other
/// writes.
pub(super) async fn until_noted_committed(node: &Node) {
    let (registers, other) = (node.registers(), RegisterKey { key: key_of("other"), ..key() });
    let (set, target) = (registers.inner.cluster.set_of(&key()), registers.inner.cluster.target(key()));
    let all_noted = async {
        loop {
            registers.change(registers.begin(&other), plain(1)).await.expect("a healthy node");
            let votes =
                set.routes.iter().map(|route| route.peer.read(route.volume, &target, ValueLimit::NOTHING));
            let is_committed = |vote: message::Result<Answer<Vote>>| {
                let row = vote.expect("answered").result.expect("a vote").row;
                row.is_some_and(|row| row.head.committed)
            };
            if join_all(votes).await.into_iter().all(is_committed) {
                return;
            }
        }
    };
    tokio::time::timeout(DEADLINE, all_noted).await.expect("noted in time");
}

/// The batch's final value alone decides: data that entered and left again within the batch is neither
/// replaced nor damaged.
#[tokio::test]
async fn a_batch_reports_what_it_replaced_and_what_its_last_writer_wants_mended() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    let registers = node.registers().clone();
    let old = stage(&node, 0).await;
    let replaced = old.data();
    registers.change(registers.begin(&key()), named(old)).await.expect("a healthy node");
    node.reported();
    let mut wanted = Vec::new();
    let mut writers = Vec::new();
    for number in 1..=2 {
        let staged = stage(&node, number).await;
        let data = staged.data();
        let heal = HealEntry { key: key(), data: Some(data.into()), since_ms: number };
        wanted.push(heal.clone());
        let writer: Writer<()> = Writer::new(move |_| {
            Ok(Proposal { heal: Some(heal.clone()), ..Proposal::of(naming(data, number)) })
        });
        writers.push(writer.naming(Some(staged)));
    }
    let outcome =
        join_all(writers.into_iter().map(|writer| registers.change(registers.begin(&key()), writer)));
    assert!(outcome.await.iter().all(Result::is_ok));
    at_rest(&node).await;
    let reported = node.reported();
    let heals =
        reported.iter().filter(|report| matches!(report, Report::Heal(entry) if entry.data.is_some()));
    assert_eq!(heals.collect::<Vec<_>>(), [&Report::Heal(wanted[1].clone())]);
    assert_eq!(superseded(reported), [replaced.id]);
    node.close().await;
}

/// Volumes compare the positions that they have of each other's logs with the log of a peer that comes back.
#[tokio::test]
async fn an_accept_says_how_far_the_logs_of_those_are_that_promised() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let said = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&said);
    says(&script.accepts, move |_, accept| {
        heard.lock().push(accept.positions.iter().map(|(volume, _)| *volume).collect::<Vec<_>>());
        Fate::Through
    });
    let registers = gateway.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("a healthy node");
    registers.finish(&key()).await.expect("a healthy node");
    let known = volumes(&node);
    for volumes in said.lock().iter() {
        assert!(volumes.len() >= 3 && volumes.iter().all(|volume| known.contains(volume)), "{volumes:?}");
    }
    assert_eq!(said.lock().len(), 8);
    gateway.close().await;
}

#[tokio::test]
async fn a_value_to_be_finished_is_tried_again_until_its_time_is_over() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let registers = gateway.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("a healthy node");
    first_accepts(&script, |_| Fate::Instead(Err(lost())));
    let found = registers.finish(&key()).await.expect("at the second try").expect("there");
    assert_eq!(number_of(Some(&found.value.state)), Some(1));
    assert!(found.committed);
    at_rest(&gateway).await;
    let (gateway, script) = node.scripted_gateway(IMPATIENT);
    says(&script.accepts, |_, _| Fate::Instead(Err(lost())));
    let key = key();
    let found = tokio::time::timeout(DEADLINE, gateway.registers().finish(&key)).await;
    assert_eq!(found.expect("it ends in time"), Err(Failure::Unavailable));
    node.close().await;
}

/// A committed value can be read without the full volume; only a value that may not be known as committed is
/// urgent.
#[tokio::test]
async fn only_rows_that_may_be_uncommitted_may_use_the_reserve_of_a_volume() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let urgent = Arc::new(Mutex::new(Vec::new()));
    let said = Arc::clone(&urgent);
    says(&script.accepts, move |_, accept| {
        said.lock().push(accept.finishes);
        Fate::Through
    });
    let finished = async || {
        gateway.registers().finish(&key()).await.expect("a healthy node");
        urgent.lock().drain(..).collect::<Vec<_>>()
    };
    assert_eq!(finished().await, [true; 4], "nothing is there");
    let registers = node.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("a healthy node");
    until_noted_committed(&node).await;
    assert_eq!(finished().await, [false; 4]);
    gateway.close().await;
}

#[tokio::test]
async fn answers_that_take_a_moment_are_waited_for() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    says(&script.prepares, |_, _| Fate::Late);
    says(&script.accepts, |_, _| Fate::Late);
    says(&script.reads, |_, _| Fate::Late);
    let registers = gateway.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("a healthy node");
    assert_eq!(number_of(Some(&found(&gateway).await.state)), Some(1));
    let counts = &registers.inner.metrics.register;
    let rounds = (counts.prepare_rounds.get(), counts.accept_rounds.get(), counts.read_rounds.get());
    assert_eq!(rounds, (1, 1, 1));
    gateway.close().await;
}
