//! A write that was cut short, on volumes that show its row and cannot give it: the key goes on without it.

use sherd_core::id::RegisterKey;
use sherd_core::message::{Error, ValueLimit};

use super::lost_answers::{IMPATIENT, inline, lost, read, until_noted_committed, volumes};
use super::*;
use crate::peer::scripted::{Fate, ScriptedPeer, says};

/// Longer than every round, shorter than an operation is tried ([`PATIENT`]).
const SOON: Duration = Duration::from_mins(1);
/// Of the gateways that must not need another try.
const PATIENT: RegisterTimeouts = RegisterTimeouts {
    round: Duration::from_secs(5),
    operation: Duration::from_mins(5),
    hedge: Duration::from_millis(100),
    commit: Duration::from_millis(60),
};

fn corrupt() -> Error {
    Error::Corrupt { what: "a row".to_owned() }
}

/// A write of a gateway that is killed when only these volumes have taken it.
async fn cut_short(node: &Node, taken: &[VolumeId], writer: Writer<()>) {
    let (gateway, script) = node.scripted_gateway(IMPATIENT);
    let taken = taken.to_vec();
    says(
        &script.accepts,
        move |volume, _| {
            if taken.contains(&volume) { Fate::Through } else { Fate::Instead(Err(lost())) }
        },
    );
    let registers = gateway.registers();
    let outcome = registers.change(registers.begin(&key()), writer).await;
    assert!(matches!(outcome, Err(ChangeError::Failed(Failure::OutcomeUnknown))), "{outcome:?}");
}

/// A gateway to volumes of which one cannot read what it holds of the key.
fn with_rot_on(node: &Node, rotten: VolumeId) -> (Node, Arc<ScriptedPeer>) {
    let (gateway, script) = node.scripted_gateway(PATIENT);
    let fate = move |volume| volume == rotten;
    says(
        &script.inlines,
        move |volume, _| {
            if fate(volume) { Fate::Instead(Err(corrupt())) } else { Fate::Through }
        },
    );
    says(&script.reads, move |volume, values| {
        if fate(volume) && values != ValueLimit::NOTHING {
            Fate::Instead(Err(corrupt()))
        } else {
            Fate::Through
        }
    });
    (gateway, script)
}

fn content_type(found: Option<&QuorumRow>) -> Option<String> {
    let object = found?.object()?;
    let VersionKind::Content(content) = &object.versions[0].kind else { return None };
    Some(content.attributes.pairs[0].1.clone())
}

/// Whichever volume it is: its promise may be among the first ones or not.
#[tokio::test]
async fn a_key_whose_last_write_cannot_be_read_has_its_earlier_value() {
    for at in 0..4 {
        let directories = Directories::new(4);
        let node = directories.start().await;
        let (registers, rotten) = (node.registers(), volumes(&node)[at]);
        registers.change(registers.begin(&key()), inline("first", b"bytes")).await.expect("a healthy node");
        cut_short(&node, &[rotten], inline("second", b"other bytes")).await;
        let (reader, _script) = with_rot_on(&node, rotten);
        let found = tokio::time::timeout(SOON, reader.registers().finish(&key())).await;
        let found = found.expect("it ends in time").expect("three of four can be read");
        assert_eq!(content_type(found.as_ref()).as_deref(), Some("first"));
        // The rotten volume has it, too, in the position of the other.
        until_noted_committed(&node).await;
        let found = read(&node).await;
        assert_eq!(content_type(Some(&found)).as_deref(), Some("first"));
        let bytes = node.registers().inline(&node.route(&key()), &found).await;
        assert_eq!(bytes, RowAnswer::Given(Bytes::from_static(b"bytes")));
        node.close().await;
    }
}

#[tokio::test]
async fn a_key_whose_only_write_cannot_be_read_is_absent() {
    for at in 0..4 {
        let directories = Directories::new(4);
        let node = directories.start().await;
        let rotten = volumes(&node)[at];
        cut_short(&node, &[rotten], inline("first", b"bytes")).await;
        let (reader, _script) = with_rot_on(&node, rotten);
        let found = tokio::time::timeout(SOON, reader.registers().finish(&key())).await;
        assert_eq!(found.expect("it ends in time"), Ok(None));
        node.close().await;
    }
}

/// The heads of objects with many parts are not in the index: what is to be changed cannot be read either.
#[tokio::test]
async fn a_key_whose_last_head_cannot_be_read_is_written_all_the_same() {
    for at in 0..4 {
        let directories = Directories::new(4);
        let node = directories.start().await;
        let (registers, rotten) = (node.registers(), volumes(&node)[at]);
        registers.change(registers.begin(&key()), plain(1)).await.expect("a healthy node");
        cut_short(&node, &[rotten], plain(2)).await;
        let (gateway, script) = with_rot_on(&node, rotten);
        // A prepare that wants the value with the promise fails with it.
        let start = usize::from(registers.inner.cluster.target(key()).slot.0) % 4;
        says(&script.prepares, move |volume, _| {
            if at == start && volume == rotten { Fate::Instead(Err(corrupt())) } else { Fate::Through }
        });
        let registers = gateway.registers();
        let outcome = tokio::time::timeout(SOON, registers.change(registers.begin(&key()), swap(Some(1), 3)));
        assert!(matches!(outcome.await, Ok(Ok(()))), "it was 1 for all that is left");
        assert_eq!(number_of(Some(&found(&node).await.state)), Some(3));
        node.close().await;
    }
}

/// Bytes that are kept go with the row that they are kept from.
#[tokio::test]
async fn a_change_that_keeps_bytes_which_cannot_be_read_is_made_of_the_earlier_value() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    registers.change(registers.begin(&key()), inline("first", b"bytes")).await.expect("a healthy node");
    for rotten in volumes(&node) {
        cut_short(&node, &[rotten], inline("second", b"other bytes")).await;
        let (gateway, _script) = with_rot_on(&node, rotten);
        let registers = gateway.registers();
        let keeps: Writer<()> = Writer::new(|state| {
            let state = state.cloned().expect("there");
            Ok(Proposal { inline: Inline::Kept, ..Proposal::of(state) })
        });
        let outcome = tokio::time::timeout(SOON, registers.change(registers.begin(&key()), keeps)).await;
        outcome.expect("it ends in time").expect("three of four can be read");
        let found = read(&node).await;
        assert_eq!(content_type(Some(&found)).as_deref(), Some("first"));
        let bytes = node.registers().inline(&node.route(&key()), &found).await;
        assert_eq!(bytes, RowAnswer::Given(Bytes::from_static(b"bytes")));
    }
    node.close().await;
}

/// Two of four do not tell what was committed: with one away, the rotten row may be it.
#[tokio::test]
async fn a_row_that_cannot_be_read_is_left_out_only_where_enough_promises_are_left() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (registers, volumes) = (node.registers(), volumes(&node));
    registers.change(registers.begin(&key()), inline("first", b"bytes")).await.expect("a healthy node");
    let (rotten, away) = (volumes[0], volumes[3]);
    cut_short(&node, &[rotten], inline("second", b"other bytes")).await;
    let (gateway, script) = with_rot_on(&node, rotten);
    says(
        &script.prepares,
        move |volume, _| {
            if volume == away { Fate::Instead(Err(lost())) } else { Fate::Through }
        },
    );
    let found = tokio::time::timeout(SOON, gateway.registers().finish(&key())).await;
    assert_eq!(found.expect("it ends in time"), Err(Failure::Unavailable));
    assert_eq!(gateway.registers().inner.metrics.register.accept_rounds.get(), 0, "nothing is proposed");
    node.close().await;
}

/// One volume missed a write that is committed, the next one cannot read it, and the others hold a later one
/// that was cut short.
#[tokio::test]
async fn a_read_of_a_committed_row_that_cannot_be_read_finds_the_later_one() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let start = usize::from(node.registers().inner.cluster.target(key()).slot.0) % 4;
    let mut places = volumes(&node);
    places.rotate_left(start);
    let [behind, rotten, third, fourth] = places.try_into().expect("four volumes");
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    says(
        &script.accepts,
        move |volume, _| {
            if volume == behind { Fate::Instead(Err(lost())) } else { Fate::Through }
        },
    );
    let registers = gateway.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("three of four");
    let (set, target) = (registers.inner.cluster.set_of(&key()), registers.inner.cluster.target(key()));
    let route = set.routes.iter().find(|route| route.volume == rotten).expect("of the set");
    let row = async || {
        let vote = route.peer.read(rotten, &target, ValueLimit::NOTHING).await.expect("it answers");
        vote.result.expect("it votes").row.map(|row| row.head)
    };
    let all_noted = async {
        while row().await.is_none_or(|head| !head.committed) {
            crate::upkeep::tests::between_looks().await;
            let ballot = read(&node).await.ballot;
            let positions = sherd_core::register::Positions::default();
            let commit = sherd_core::register::CommitHint { ballot, is_everywhere: false, positions };
            route.peer.commit(rotten, &target, &commit);
            let other = RegisterKey { key: key_of("other"), ..key() };
            node.registers().change(node.registers().begin(&other), plain(1)).await.expect("a healthy node");
        }
    };
    tokio::time::timeout(DEADLINE, all_noted).await.expect("in time");
    cut_short(&node, &[third, fourth], plain(2)).await;
    let (reader, _script) = with_rot_on(&node, rotten);
    let found = tokio::time::timeout(SOON, reader.registers().read(&key())).await;
    let found = found.expect("it ends in time").expect("readable").expect("there");
    assert_eq!((number_of(Some(&found.value.state)), found.committed), (Some(2), true));
    node.close().await;
}
