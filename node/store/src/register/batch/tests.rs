//! A batch over a whole node, whose writers leave it midway.

use sherd_core::record::State;

use super::*;
use crate::register::tests::{files, gone, key, naming, stage};
use crate::register::writer::Writer;
use crate::upkeep::tests::Directories;

/// Its writer leaves after an accept of the batch: that may be what is committed, and then what the page
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

/// It may be replaced while the accept is under way as well.
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
