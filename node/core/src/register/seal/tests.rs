//! Tables of a bucket's deletion.

use super::*;
use crate::id::{Life, ProposerId, Sequence, Timestamp, VolumeId};
use crate::register::Answerer;
use crate::register::position::OpeningId;
use crate::register::quorum::Order;

fn deletion(number: u64) -> ChangeId {
    ChangeId { made: Timestamp::from_ms(number), proposer: ProposerId(1) }
}

fn reply<T>(volume: u8, life: u32, asked: u32, value: T) -> Reply<T> {
    let from = Answerer {
        life: Life(life),
        votes: true,
        peers: [].into(),
        opening: OpeningId::NONE,
        durable: Sequence(0),
    };
    Reply {
        volume: VolumeId([volume; 16]),
        from,
        order: Order { asked, arrived: asked + 1 },
        result: Ok(value),
    }
}

const EMPTY: Remains = Remains { live: Vec::new(), unsettled: Vec::new(), is_complete: true };

fn key(name: &str) -> ObjectKey {
    ObjectKey::new(name.to_owned()).expect("a key")
}

fn live(names: &[&str]) -> Remains {
    Remains { live: names.iter().map(|name| key(name)).collect(), ..EMPTY }
}

fn unsettled() -> Remains {
    tombstone(1, false)
}

/// An unsettled tombstone of a ballot.
fn tombstone(time: u64, is_accepted: bool) -> Remains {
    let ballot = Ballot { time: Timestamp::from_ms(time), proposer: ProposerId(1) };
    let row = UnsettledRemains { key: key("a"), ballot, is_tombstone: true, is_accepted };
    Remains { unsettled: vec![row], ..EMPTY }
}

fn decide(seals: &[Reply<()>], remains: &[Reply<Remains>]) -> DeletionDecision {
    decide_deletion(&[SetAnswers { quorums: Quorums::of(3), seals, remains }], &Lives::default())
}

#[test]
fn seals_of_several_deletions_come_and_go_on_their_own() {
    let both = Seals::Open.sealed(deletion(1)).sealed(deletion(2)).sealed(deletion(1));
    assert_eq!(both, Seals::Held(vec![deletion(1), deletion(2)]));
    let one = both.unsealed(deletion(1));
    assert!(one.is_sealed());
    let open = one.clone().unsealed(deletion(2));
    assert!(!open.is_sealed());
    assert_eq!(open.to_stored(), None);
    assert_eq!(Seals::Final.unsealed(deletion(1)).sealed(deletion(3)), Seals::Final);
    assert_eq!(one.clone().merged(&Seals::Final), Seals::Final);
    assert_eq!(one.merged(&Seals::Open), Seals::Held(vec![deletion(2)]));
}

#[test]
fn seals_are_stored_as_the_list_of_their_deletions() {
    for seals in [Seals::Held(vec![deletion(1)]), Seals::Final] {
        assert_eq!(Seals::from_stored(&seals.to_stored().expect("sealed")), seals);
    }
}

#[test]
fn an_empty_bucket_needs_a_volumes_sealed_and_then_listed() {
    let seals = [reply(1, 1, 0, ()), reply(2, 1, 0, ())];
    let remains = [reply(1, 1, 1, EMPTY), reply(2, 1, 1, EMPTY)];
    assert_eq!(decide(&seals, &remains), DeletionDecision::End);
    assert_eq!(decide(&seals, &remains[..1]), DeletionDecision::Unavailable);
    assert_eq!(decide(&seals[..1], &remains), DeletionDecision::Unavailable, "listed and not sealed");
    let others = [reply(2, 1, 1, EMPTY), reply(3, 1, 1, EMPTY)];
    assert_eq!(decide(&seals, &others), DeletionDecision::Unavailable, "no volume's seal is another's");
    let early = [reply(1, 1, 0, EMPTY), reply(2, 1, 1, EMPTY)];
    assert_eq!(decide(&seals, &early), DeletionDecision::Unavailable, "listed before its seal");
    let reborn = [reply(1, 2, 1, EMPTY), reply(2, 1, 1, EMPTY)];
    assert_eq!(decide(&seals, &reborn), DeletionDecision::Unavailable, "sealed in a life that is over");
}

#[test]
fn remaining_rows_keep_the_bucket() {
    let seals = [reply(1, 1, 0, ()), reply(2, 1, 0, ())];
    let left = |first: Remains, second: Remains| [reply(1, 1, 1, first), reply(2, 1, 1, second)];
    let decided = |first, second| decide(&seals, &left(first, second));
    assert_eq!(decided(live(&["a"]), live(&["a", "b"])), DeletionDecision::NotEmpty);
    assert_eq!(
        decided(live(&["a"]), live(&["b"])),
        DeletionDecision::Settle,
        "one may have missed a tombstone"
    );
    assert_eq!(decided(live(&["a"]), EMPTY), DeletionDecision::Settle);
    assert_eq!(decided(EMPTY, unsettled()), DeletionDecision::Settle);
    let [empty, full] = [left(EMPTY, EMPTY), left(live(&["a"]), live(&["a"]))];
    let first = SetAnswers { quorums: Quorums::of(3), seals: &seals, remains: &empty };
    let second = SetAnswers { remains: &full, ..first };
    assert_eq!(decide_deletion(&[first, second], &Lives::default()), DeletionDecision::NotEmpty);
    assert_eq!(decide_deletion(&[first, first], &Lives::default()), DeletionDecision::End);
    assert_eq!(row_fate(true, true), RowFate::Gone);
    assert_eq!(row_fate(true, false), RowFate::Live);
    assert_eq!(row_fate(false, true), RowFate::Unsettled);
    assert_eq!(row_fate(false, false), RowFate::Unsettled);
}

#[test]
fn rows_of_a_volume_beside_a_empty_ones_do_not_count() {
    let seals = [reply(1, 1, 0, ()), reply(2, 1, 0, ()), reply(3, 1, 0, ())];
    for beside in [live(&["a"]), unsettled()] {
        let remains = [reply(1, 1, 1, EMPTY), reply(2, 1, 1, EMPTY), reply(3, 1, 1, beside)];
        assert_eq!(decide(&seals, &remains), DeletionDecision::End);
        assert_eq!(decide(&seals[1..], &remains), DeletionDecision::Settle, "the first one is not sealed");
        assert_eq!(decide(&seals[2..], &remains), DeletionDecision::Settle);
    }
}

#[test]
fn upkeep_removes_a_seal_only_when_its_deletion_was_undone() {
    let (bucket, other) = (BucketId([1; 16]), BucketId([2; 16]));
    let fate = |register, after| seal_fate(bucket, deletion(1), register, after);
    assert_eq!(fate(Some((bucket, BucketPhase::Active)), true), SealFate::Remove);
    assert_eq!(fate(Some((bucket, BucketPhase::Active)), false), SealFate::Keep, "read too early");
    assert_eq!(fate(Some((bucket, BucketPhase::Deleting { deletion: deletion(1) })), true), SealFate::Keep);
    assert_eq!(fate(Some((bucket, BucketPhase::Deleting { deletion: deletion(2) })), true), SealFate::Remove);
    assert_eq!(fate(Some((bucket, BucketPhase::Deleted)), true), SealFate::MakeFinal);
    assert_eq!(fate(Some((other, BucketPhase::Active)), true), SealFate::Keep);
    assert_eq!(fate(None, true), SealFate::Keep);
}

#[test]
fn a_bucket_is_nowhere_when_the_names_of_p_volumes_of_each_set_lead_to_others() {
    let (bucket, other) = (BucketId([1; 16]), BucketId([2; 16]));
    let quorums = Quorums::of(4);
    let replies = [reply(1, 2, 0, ()), reply(2, 1, 0, ()), reply(3, 1, 0, ())];
    let all = NameAnswers { quorums, replies: &replies[..2] };
    let few = NameAnswers { quorums, replies: &replies[..1] };
    let lives = Lives::default();
    let nowhere = |sets: &[NameAnswers<'_>]| is_nowhere(bucket, sets, &[other].into(), &lives);
    assert!(nowhere(&[all]));
    assert!(nowhere(&[all, all]));
    assert!(!nowhere(&[all, few]), "a register of the second set may name it");
    assert!(!nowhere(&[]));
    assert!(!is_nowhere(bucket, &[all], &[bucket, other].into(), &lives), "it is there");
    let mut lost = Lives::default();
    lost.learn(VolumeId([1; 16]), Life(3));
    assert!(!is_nowhere(bucket, &[all], &[other].into(), &lost), "listed in a life that is over");
    let mut mute = replies[..2].to_vec();
    mute[1].from.votes = false;
    assert!(!nowhere(&[NameAnswers { quorums, replies: &mute }]), "its rows may not be all there yet");
}

#[test]
fn a_tombstone_that_a_volumes_accepted_at_one_ballot_is_gone() {
    let decided = |remains: [Remains; 4]| {
        let (seals, remains): (Vec<_>, Vec<_>) =
            (1..).zip(remains).map(|(at, remains)| (reply(at, 1, 0, ()), reply(at, 1, 1, remains))).unzip();
        let set = SetAnswers { quorums: Quorums::of(4), seals: &seals, remains: &remains };
        decide_deletion(&[set], &Lives::default())
    };
    let accepted = || tombstone(5, true);
    let none = || Remains { is_complete: false, ..EMPTY };
    assert_eq!(decided([accepted(), accepted(), accepted(), none()]), DeletionDecision::End);
    assert_eq!(decided([accepted(), accepted(), accepted(), tombstone(5, false)]), DeletionDecision::End);
    assert_eq!(decided([accepted(), accepted(), EMPTY, none()]), DeletionDecision::Settle, "two of three");
    let copy = tombstone(5, false);
    assert_eq!(decided([accepted(), accepted(), copy, none()]), DeletionDecision::Settle, "one is a copy");
    let other = tombstone(6, true);
    assert_eq!(decided([accepted(), accepted(), other, none()]), DeletionDecision::Settle, "another ballot");
    let mut value = accepted();
    value.unsettled[0].is_tombstone = false;
    let values = [value.clone(), value.clone(), value, none()];
    assert_eq!(decided(values), DeletionDecision::Settle, "it holds an object");
    let cut = Remains { is_complete: false, ..accepted() };
    assert_eq!(
        decided([accepted(), accepted(), cut, none()]),
        DeletionDecision::Settle,
        "a list that was cut"
    );
    assert_eq!(decided([EMPTY, EMPTY, none(), none()]), DeletionDecision::Settle, "lists that were cut");
}
