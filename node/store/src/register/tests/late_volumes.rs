//! Answers that make the answer of a late volume unneeded.

use futures::FutureExt as _;

use sherd_core::id::{Epoch, Life, Timestamp};
use sherd_core::message::Answer;
use sherd_core::register::proposer::{PrepareOutcome, PrepareProgress, after_prepare};
use sherd_core::register::{Answerer, Refusal, Vote};

use super::*;
use crate::peer::scripted::ScriptedPeer;
use crate::peer::{AnswerSender, Pending, UpkeepPeer};
use crate::register::round::Round;

/// A round whose first volume promised and whose second answered this; the third is late, and answers when
/// the test lets it.
async fn round(
    gateway: &Node,
    script: &ScriptedPeer,
    second: Result<Vote, Refusal>,
) -> (Round<Vote>, AnswerSender<Answer<Vote>>, Answerer) {
    let set = gateway.registers().inner.cluster.set_of(&key());
    let mut round = Round::new(Arc::clone(&set), Instant::now() + DEADLINE);
    *script.late.lock() = vec![set.routes[2].volume];
    let mut from = Vec::new();
    for route in &set.routes {
        from.push(script.guarantees(route.volume).await.expect("it serves").from);
    }
    for (place, result) in [(0, Ok(nothing())), (1, second)] {
        round.ask(place, Pending::ready(Ok(Answer { from: from[place].clone(), result })));
    }
    let (late, pending) = Pending::waiting();
    round.ask(2, pending);
    (round, late, from.remove(2))
}

fn nothing() -> Vote {
    Vote { row: None, floor: Ballot::ZERO }
}

#[tokio::test]
async fn a_late_volume_is_waited_for_where_a_refusal_stands_in_the_place_of_a_vote() {
    let directories = Directories::new(3);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let registers = gateway.registers();
    let bound = |ahead_ms: u64| {
        let time = registers.now().plus_ms(ahead_ms);
        Refusal::Below { bound: Ballot { time, proposer: registers.proposer() } }
    };
    let waits = |outcome: &PrepareOutcome| matches!(outcome, PrepareOutcome::Wait);
    let decide = |replies: &[_], progress: PrepareProgress<'_>| after_prepare(replies, &[], progress);
    let far = [
        bound(3_600_000),
        Refusal::TooFarAhead { latest: Timestamp::from_ms(0) },
        Refusal::StaleEpoch { epoch: Epoch(9) },
        Refusal::Sealed,
        Refusal::DataTooOld { floor: Timestamp::from_ms(1) },
        Refusal::Recovering,
    ];
    for refusal in far {
        let (mut round, late, from) = round(&gateway, &script, Err(refusal)).await;
        let mut deciding = Box::pin(round.decide(registers, decide, waits));
        assert!(deciding.as_mut().now_or_never().is_none(), "{refusal:?}: its vote may be needed");
        late.answer(Ok(Answer { from, result: Ok(nothing()) }));
        let outcome = deciding.await.outcome;
        assert!(matches!(outcome, PrepareOutcome::Prepared(_)), "{refusal:?}: {outcome:?}");
    }
    // The next ballot has the second one's promise.
    let (mut near, _late, _) = round(&gateway, &script, Err(bound(1_000))).await;
    let decision = near.decide(registers, decide, waits).now_or_never().expect("at once");
    assert!(matches!(decision.outcome, PrepareOutcome::Retry { .. }), "{:?}", decision.outcome);
    gateway.close().await;
}

/// A volume that takes no part does not say so in its answer, if that is of a life that is over.
#[tokio::test]
async fn a_late_volume_is_waited_for_where_a_vote_is_of_a_life_that_is_over() {
    let directories = Directories::new(3);
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let registers = gateway.registers();
    let (mut round, late, from) = round(&gateway, &script, Ok(nothing())).await;
    let second = round.set.routes[1].volume;
    registers.learn(second, &Answerer { life: Life(from.life.0 + 1), ..from.clone() });
    for _ in 0..2 {
        round.next(registers).await;
    }
    assert!(round.next_needed(registers, 2, 1).now_or_never().is_none());
    late.answer(Ok(Answer { from, result: Ok(nothing()) }));
    round.next_needed(registers, 2, 1).await;
    assert_eq!((round.outstanding(), round.replies.len()), (0, 3));
    gateway.close().await;
}
