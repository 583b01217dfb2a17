//! Values that readers get, and volumes that are asked for bytes, when questions and answers are lost.

use std::sync::atomic::AtomicUsize;

use sherd_core::id::Life;
use sherd_core::message::{Answer, Error};
use sherd_core::register::Vote;
use sherd_core::register::proposer::HighestRow;

use super::lost_answers::{
    IMPATIENT, at_rest, inline, lost, read, rows_behind, until_noted_committed, volumes,
};
use super::*;
use crate::peer::UpkeepPeer;
use crate::peer::scripted::{Fate, says};

#[tokio::test]
async fn inline_bytes_go_with_a_row_that_is_proposed_again() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    registers.change(registers.begin(&key()), inline("text", b"some bytes")).await.expect("a healthy node");
    let before = read(&node).await;
    let after = registers.finish(&key()).await.expect("a healthy node").expect("there");
    assert!(after.ballot < read(&node).await.ballot || after.ballot == before.ballot);
    let found = read(&node).await;
    assert!(found.ballot > before.ballot && found.digest == before.digest);
    let bytes = registers.inline(&node.route(&key()), &found).await;
    assert_eq!(bytes, RowAnswer::Given(Bytes::from_static(b"some bytes")));
    node.close().await;
}

#[tokio::test]
async fn a_row_without_inline_bytes_is_proposed_again_without_asking_for_them() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    says(&script.inlines, |_, _| Fate::Instead(Err(lost())));
    let registers = gateway.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("a healthy node");
    registers.finish(&key()).await.expect("nothing is missing");
    gateway.close().await;
}

/// A row counts as replaced only if a volume that showed it reports so; a volume out of reach proves nothing.
#[tokio::test]
async fn inline_bytes_are_read_from_any_volume_that_has_them() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    registers.change(registers.begin(&key()), inline("text", b"some bytes")).await.expect("a healthy node");
    node.commit_everywhere(&key()).await;
    let found = QuorumRow { holders: volumes(&node)[..2].to_vec(), ..read(&node).await };
    let (corrupt, absent) = (|| Some(Error::Corrupt { what: "a row".to_owned() }), || Some(Error::NotFound));
    let (lost, given) = (|| Some(lost()), || RowAnswer::Given(Bytes::from_static(b"some bytes")));
    let said = [
        ([lost(), lost(), None, lost()], given(), 0),
        ([corrupt(), corrupt(), corrupt(), None], given(), 3),
        ([lost(), lost(), lost(), lost()], RowAnswer::Late, 0),
        ([lost(), lost(), absent(), absent()], RowAnswer::Late, 0),
        ([lost(), corrupt(), absent(), absent()], RowAnswer::Corrupt, 1),
        ([lost(), absent(), lost(), lost()], RowAnswer::MovedOn, 0),
        ([corrupt(), absent(), lost(), lost()], RowAnswer::MovedOn, 1),
        ([absent(), absent(), absent(), absent()], RowAnswer::MovedOn, 0),
    ];
    for (errors, heard, damaged) in said {
        let (mut gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
        // The first two showed the row.
        let mut errors = errors.clone().into_iter();
        says(&script.inlines, move |_, _| match errors.next().expect("each volume is asked once") {
            Some(error) => Fate::Instead(Err(error)),
            None => Fate::Through,
        });
        assert_eq!(gateway.registers().inline(&gateway.route(&key()), &found).await, heard);
        assert_eq!(rows_behind(&gateway.reported()), damaged);
    }
    node.close().await;
}

/// The volume that shows a row has a newer one now. That is found at once, without the others' answers.
#[tokio::test]
async fn a_row_that_moved_on_is_not_looked_for_on_late_volumes() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    registers.change(registers.begin(&key()), inline("text", b"some bytes")).await.expect("a healthy node");
    let volumes = volumes(&node);
    let found = QuorumRow { holders: volumes[..2].to_vec(), ..read(&node).await };
    let timeouts = RegisterTimeouts { round: 2 * DEADLINE, ..RegisterTimeouts::default() };
    let (gateway, script) = node.scripted_gateway(timeouts);
    *script.late.lock() = volumes[2..].to_vec();
    let holders = found.holders.clone();
    says(&script.inlines, move |volume, _| {
        if holders.contains(&volume) { Fate::Instead(Err(Error::NotFound)) } else { Fate::Silence }
    });
    let heard =
        tokio::time::timeout(DEADLINE, gateway.registers().inline(&gateway.route(&key()), &found)).await;
    assert_eq!(heard, Ok(RowAnswer::MovedOn));
    let cluster = &gateway.registers().inner.cluster;
    let (target, set) = (cluster.target(key()), cluster.set_of(&key()));
    let QuorumRow { holders, digest, .. } = found;
    let earlier = HighestRow { holders, ballot: Ballot::ZERO, digest, committed: true };
    says(&script.reads, {
        let late = volumes[2..].to_vec();
        move |volume, _| if late.contains(&volume) { Fate::Silence } else { Fate::Through }
    });
    let heard =
        tokio::time::timeout(DEADLINE, gateway.registers().value_of(&[], &set, &target, &earlier)).await;
    assert_eq!(heard.expect("in time"), Ok(RowAnswer::MovedOn));
    node.close().await;
}

#[tokio::test]
async fn the_volumes_that_showed_a_row_are_asked_for_its_bytes_first() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let set = node.registers().inner.cluster.set_of(&key());
    let volumes = volumes(&node);
    assert_eq!(holders_first(&set, &[volumes[3], volumes[1]]), [1, 3, 0, 2]);
    node.close().await;
}

#[tokio::test]
async fn a_read_asks_the_others_where_the_first_volumes_do_not_answer() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("a healthy node");
    until_noted_committed(&node).await;
    for silent in [true, false] {
        let timeouts = RegisterTimeouts { round: 2 * DEADLINE, ..RegisterTimeouts::default() };
        let (gateway, script) = node.scripted_gateway(timeouts);
        let asked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&asked);
        says(&script.reads, move |_, _| match count.fetch_add(1, Ordering::Relaxed) {
            0 | 1 if silent => Fate::Silence,
            0 | 1 => Fate::Instead(Err(lost())),
            _ => Fate::Through,
        });
        let found = tokio::time::timeout(DEADLINE, gateway.registers().read(&key())).await;
        let found = found.expect("two volumes are enough").expect("readable").expect("there");
        assert_eq!(number_of(Some(&found.value.state)), Some(1));
    }
    node.close().await;
}

/// The volumes vote, and have moved on when they are asked for the value.
#[tokio::test]
async fn a_read_whose_row_moves_on_reads_again_until_its_time_is_over() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("a healthy node");
    at_rest(&node).await;
    for (moves, is_read) in [(5, true), (usize::MAX, false)] {
        let timeouts = if is_read { RegisterTimeouts::default() } else { IMPATIENT };
        let (gateway, script) = node.scripted_gateway(timeouts);
        let from = script.guarantees(volumes(&node)[0]).await.expect("it serves").from;
        let nothing = Answer { from, result: Ok(Vote { row: None, floor: Ballot::ZERO }) };
        let mut moved = 0;
        says(&script.reads, move |_, values| {
            if values == ValueLimit::NOTHING || moved >= moves {
                return Fate::Through;
            }
            moved += 1;
            Fate::Instead(Ok(nothing.clone()))
        });
        let found = tokio::time::timeout(DEADLINE, gateway.registers().read(&key())).await;
        let found = found.expect("it ends in time").map(|found| found.expect("there").value);
        assert_eq!(found.is_ok(), is_read, "{found:?}");
        assert!(is_read || found == Err(Failure::Unavailable));
    }
    node.close().await;
}

/// A volume may have lost the votes of an earlier life. Peers have recorded that, although none of them may
/// be among those that answer.
#[tokio::test]
async fn a_volume_whose_life_is_over_has_no_vote() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    for lives_over in [1, 2] {
        let (gateway, script) = node.scripted_gateway(IMPATIENT);
        let (registers, volumes) = (gateway.registers(), volumes(&node));
        registers.change(registers.begin(&key()), plain(1)).await.expect("a healthy node");
        at_rest(&gateway).await;
        let from = script.guarantees(volumes[3]).await.expect("it serves").from;
        let life = Life(from.life.0 + 1);
        // The loss of one is named by its peer, that of the other by itself.
        registers.learn(volumes[3], &Answerer { peers: [(volumes[0], life)].into(), ..from.clone() });
        if lives_over == 2 {
            registers.learn(volumes[1], &Answerer { life, peers: [].into(), ..from });
        }
        let outcome = registers.change(registers.begin(&key()), plain(2)).await;
        assert_eq!(outcome.is_ok(), lives_over == 1, "three of four are enough: {outcome:?}");
        assert!(lives_over == 1 || matches!(outcome, Err(ChangeError::Failed(Failure::Unavailable))));
    }
    node.close().await;
}

/// A client may have got success for it, and no other proposer may come: it is as good as committed, so the
/// read commits it.
#[tokio::test]
async fn a_read_finishes_a_write_that_its_writer_left() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(IMPATIENT);
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
    // A silent volume may have the write, too.
    let (reader, script) = node.scripted_gateway(RegisterTimeouts::default());
    let silent = volumes(&node)[3];
    says(
        &script.reads,
        move |volume, _| {
            if volume == silent { Fate::Instead(Err(lost())) } else { Fate::Through }
        },
    );
    let found = tokio::time::timeout(DEADLINE, read(&reader)).await.expect("it ends in time");
    assert_eq!((number_of(Some(&found.value.state)), found.committed), (Some(1), true));
    assert_eq!(reader.registers().inner.metrics.register.accept_rounds.get(), 1);
    gateway.close().await;
}

/// The tombstone went after the first volume had shown what it replaced: "nothing" is the newer answer, and
/// only a volume that was asked after it had come may contradict it.
#[tokio::test]
async fn a_row_below_the_floor_of_a_nothing_is_asked_for_once_more() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    registers.change(registers.begin(&key()), plain(1)).await.expect("a healthy node");
    until_noted_committed(&node).await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let from = script.guarantees(volumes(&node)[0]).await.expect("it serves").from;
    let floor = read(&node).await.ballot;
    let nothing = Answer { from, result: Ok(Vote { row: None, floor }) };
    let mut asked = 0;
    says(&script.reads, move |_, _| {
        asked += 1;
        if asked == 1 { Fate::Through } else { Fate::Instead(Ok(nothing.clone())) }
    });
    assert_eq!(gateway.registers().read(&key()).await, Ok(None));
    gateway.close().await;
}
