//! A batch over a whole node, whose writers leave it midway.

use sherd_core::record::State;

use super::*;
use crate::register::tests::{files, gone, key, stage};
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
