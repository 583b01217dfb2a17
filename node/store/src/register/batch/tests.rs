//! A batch over a whole node, whose writers leave it midway.

use std::sync::Arc;
use std::time::Duration;

use sherd_core::record::State;

use super::*;
use crate::machine::pulse::{ProcessPulse, WholeWrite};
use crate::observe::trace::SlowRequests;
use crate::register::tests::{files, gone, key, naming, stage};
use crate::register::writer::{ChangeError, Writer};
use crate::upkeep::tests::Directories;

/// The writer leaves after an accept of the batch: its value may be what is committed, and then what the page
/// lists goes with the page, which must be read for it.
#[tokio::test]
async fn a_page_that_was_overwritten_within_its_batch_is_there_until_the_batch_ends() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    let (page, other) = (stage(&node, 1).await, stage(&node, 2).await);
    let (page_data, other_data) = (page.data(), other.data());
    let turn = KeyTurn::of(registers, &key());
    let mut run = BatchRun::new(registers, &turn);
    for staged in [page, other] {
        let writer: Writer<()> = Writer::new(|_| Ok(Proposal::of(State::Tombstone)));
        let (member, heard) = Member::new(writer.naming(Some(staged)), 0, run.change.deadline);
        run.members.push(member);
        drop(heard);
    }
    let ballot = registers.inner.ballots.above(Ballot::ZERO);
    run.change.batch.note_accept(ballot, Some(1));
    run.members.iter_mut().for_each(|member| member.note_try(&[], ballot));
    run.tried.push(ReplacedValue {
        data: vec![page_data],
        pages: vec![page_data],
        ..ReplacedValue::default()
    });
    run.let_go();
    assert!(run.members.is_empty());
    assert_eq!((files(&directories, page_data), files(&directories, other_data)), (4, 4));
    run.end(Answer::AsTried { number: 1 }, &CommittedData { ballot, named: Vec::new() });
    drop(run);
    gone(&directories, &[other_data]).await;
    assert_eq!(files(&directories, page_data), 4, "what it lists is given back with it");
    node.close().await;
}

/// A volume that was replaced between its answer and the accept lacks the shard, and its rebuild may have
/// read its rows before the row that names the shard was there.
#[tokio::test]
async fn data_whose_volume_began_another_life_before_it_was_named_is_healed() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    let registers = &node.registers().clone();
    let staged = stage(&node, 1).await;
    let data = staged.data();
    let damage = HealEntry { key: key(), data: Some(data.into()), since_ms: 0 };
    node.outlive(node.volume_ids()[0]).await;
    let writer: Writer<()> = Writer::new(move |_| Ok(Proposal::of(naming(data, 1)))).naming(Some(staged));
    registers.change(registers.begin(&key()), writer).await.expect("three of four are enough");
    assert!(node.reported_heals().contains(&damage.id()));
    node.close().await;

    let node = directories.start().await;
    assert!(node.logged_heals().await.contains(&damage.id()), "it is durable with the row");
    node.close().await;
}

/// The volume may begin another life while the accept is under way as well.
#[tokio::test]
async fn data_whose_volume_began_another_life_while_it_was_named_is_healed() {
    let directories = Directories::new(4);
    let mut node = directories.start().await;
    let registers = &node.registers().clone();
    let staged = stage(&node, 1).await;
    let data = staged.data();
    let turn = KeyTurn::of(registers, &key());
    let mut run = BatchRun::new(registers, &turn);
    let writer: Writer<()> = Writer::new(|_| Ok(Proposal::of(State::Tombstone)));
    let (member, heard) = Member::new(writer.naming(Some(staged)), 0, run.change.deadline);
    run.members.push(member);
    drop(heard);
    let ballot = registers.inner.ballots.above(Ballot::ZERO);
    run.members.iter_mut().for_each(|member| member.note_try(&[data], ballot));
    let answer = |volume| async move {
        let peers = registers.inner.cluster.sets()[0].routes.iter().find(|route| route.volume == volume);
        let answer = peers.expect("in the set").peer.guarantees(volume).await;
        registers.learn(volume, &answer.expect("it serves").from);
    };
    let volumes = node.volume_ids();
    node.outlive(volumes[0]).await;
    answer(volumes[1]).await;
    run.end(Answer::AsTried { number: 1 }, &CommittedData { ballot, named: vec![data] });
    drop(run);
    let damage = HealEntry { key: key(), data: Some(data.into()), since_ms: 0 };
    assert_eq!(node.reported_heals(), [damage.id()]);
    node.close().await;
}

/// The process stood still between the last byte of a write and its first proposal.
#[tokio::test]
async fn a_write_whose_client_has_given_up_is_not_proposed_and_its_batch_goes_on() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    let turn = KeyTurn::of(registers, &key());
    let mut run = BatchRun::new(registers, &turn);
    let pulse = Arc::new(ProcessPulse::new());
    let mut answers = Vec::new();
    for staged in [stage(&node, 1).await, stage(&node, 2).await] {
        let data = staged.data();
        let writer: Writer<()> = Writer::new(move |_| Ok(Proposal::of(naming(data, 1)))).naming(Some(staged));
        let request = RequestTrace::begin(&SlowRequests::after(Duration::ZERO));
        let member = request.scope(async {
            trace::is_whole(WholeWrite::new(Arc::clone(&pulse)));
            Member::new(writer, 0, run.change.deadline)
        });
        let (member, answer) = member.await;
        run.members.push(member);
        answers.push((data, answer));
        if answers.len() == 1 {
            pulse.stood_still();
            assert!(run.members[0].is_given_up());
        }
    }
    run.tries(None).await;
    let [(gone_data, given_up), (data, made)] = answers.try_into().expect("two");
    let given_up = given_up.await.expect("an answer");
    assert!(matches!(given_up, Err(ChangeError::Failed(Failure::Unavailable))), "{given_up:?}");
    made.await.expect("an answer").expect("its client is there");
    gone(&directories, &[gone_data]).await;
    assert_eq!(files(&directories, data), 4);
    node.close().await;
}

/// After a try that came to nothing the next one would overwrite later values.
#[tokio::test]
async fn a_write_whose_client_has_given_up_goes_on_where_an_accept_of_it_may_take_effect() {
    let pulse = Arc::new(ProcessPulse::new());
    let request = RequestTrace::begin(&SlowRequests::after(Duration::ZERO));
    let member = |finishes: bool| {
        let writer: Writer<()> = Writer::new(|_| Ok(Proposal::of(State::Tombstone))).finishing(finishes);
        let made = async move { Member::new(writer, 0, Instant::now()) };
        request.scope(made)
    };
    let work = async { trace::is_whole(WholeWrite::new(Arc::clone(&pulse))) };
    request.scope(work).await;
    let ((mut member, _answer), (mut finishing, _also)) = (member(false).await, member(true).await);
    let found = DecisionBasis::default();
    assert!(member.decide(found, false).is_some());
    member.note_try(&[], Ballot::ZERO);
    pulse.stood_still();
    assert!(member.decide(found, true).is_some());
    assert!(member.decide(found, false).is_none() && member.has_failed() && !member.is_given_up());
    assert!(finishing.decide(found, false).is_some(), "it ends what was begun");
}
