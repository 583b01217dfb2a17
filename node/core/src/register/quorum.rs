//! How many volumes it takes, and whose replies count.
//!
//! Two accept quorums intersect, and every prepare or read quorum intersects every accept quorum. Which
//! replies may be counted at all is decided in one place, [`voters`]: refusals, volumes that do not vote yet
//! and former lives are left out. Every other rule of the register starts from what [`voters`] leaves. Guards
//! I-1 and I-2.

use std::collections::BTreeMap;

use crate::id::{Life, VolumeId};
use crate::register::{Answerer, Refusal};

/// The quorum sizes of a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Quorums {
    /// N: the volumes of the set, 1 to [`crate::limits::SET_VOLUMES_MAX`].
    pub volumes: usize,
}

impl Quorums {
    /// The quorums of a set of `volumes`.
    pub const fn of(volumes: usize) -> Self {
        Self { volumes }
    }

    /// A = floor(N/2) + 1: that many durable accepts commit a value, and that many promises are
    /// needed before an accept is sent.
    ///
    /// Promises from a prepare quorum would do against crashes, but not against a lost volume: it
    /// forgets its promise, and the volumes it recovers from must contain another that gave it.
    pub const fn accept(self) -> usize {
        self.volumes / 2 + 1
    }

    /// P = N - A + 1: that many votes see every committed value, and recover a lost volume.
    pub const fn prepare(self) -> usize {
        self.volumes - self.accept() + 1
    }
}

/// When, in the asker's own count of events, a question left and its answer came.
///
/// The asker counts arrivals: a question carries the count at which it was sent, an answer the
/// count after it arrived. So "asked after that answer had come" is a comparison of two numbers
/// and never of two clocks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash, PartialOrd, Ord)]
pub struct Order {
    /// Arrivals counted when the question was sent.
    pub asked: u32,
    /// Arrivals counted when the answer was there, itself included.
    pub arrived: u32,
}

impl Order {
    /// Whether this question was sent after the other's answer had come.
    pub const fn asked_after(self, other: Self) -> bool {
        self.asked >= other.arrived
    }
}

/// An answer as the asker holds it. A volume that did not answer, or could not read its row, has none: a row
/// that cannot be read does not count as a vote for an empty register.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reply<T> {
    /// Volume that answers.
    pub volume: VolumeId,
    /// Life and position of the volume at its answer.
    pub from: Answerer,
    /// When.
    pub order: Order,
    /// Vote or refusal.
    pub result: Result<T, Refusal>,
}

/// Highest life of each volume that this process has seen: only ever grows.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Lives {
    known: BTreeMap<VolumeId, Life>,
}

impl Lives {
    /// Notes that a volume is at least in this life.
    pub fn learn(&mut self, volume: VolumeId, life: Life) {
        let known = self.known.entry(volume).or_insert(life);
        *known = (*known).max(life);
    }

    /// Notes everything that an answer says about lives: the answerer's own and its peers'.
    pub fn learn_from(&mut self, volume: VolumeId, from: &Answerer) {
        self.learn(volume, from.life);
        for (peer, life) in from.peers.iter() {
            self.learn(*peer, *life);
        }
    }

    /// The highest life seen of the volume; `None` if it never answered and was never mentioned.
    pub fn of(&self, volume: VolumeId) -> Option<Life> {
        self.known.get(&volume).copied()
    }

    /// Whether an answer counts, by the lives that this process has seen: its volume votes, in its current
    /// life. Several answers together may say more: add the lives from all of them first.
    pub fn counts(&self, volume: VolumeId, from: &Answerer) -> bool {
        from.votes && !self.is_over(volume, from.life)
    }

    /// Whether an answer comes from a life that is over.
    pub fn is_over(&self, volume: VolumeId, life: Life) -> bool {
        self.of(volume).is_some_and(|known| known > life)
    }
}

/// The replies that count: at most one per volume, from volumes that vote, in their current life.
///
/// A life is over when `lives` or any reply beside it names a later one. Without this filter a volume that
/// accepted, lost its state and came back is counted for what it no longer holds: a write is acknowledged
/// that one more loss erases, or a read misses it.
///
/// Programmer error: two replies of one volume.
pub fn voters<'a, T>(
    replies: &'a [Reply<T>],
    lives: &'a Lives,
) -> impl Iterator<Item = (&'a Reply<T>, &'a T)> + Clone {
    debug_assert!(
        replies
            .iter()
            .enumerate()
            .all(|(at, reply)| replies.iter().take(at).all(|r| r.volume != reply.volume)),
        "one reply per volume"
    );
    replies.iter().filter_map(move |reply| {
        let counts = lives.counts(reply.volume, &reply.from) && is_current(reply, replies, lives);
        reply.result.as_ref().ok().filter(|_| counts).map(|vote| (reply, vote))
    })
}

/// Whether no later life of the reply's volume is known, to `lives` or to any of the replies.
pub fn is_current<T, U>(reply: &Reply<T>, beside: &[Reply<U>], lives: &Lives) -> bool {
    let life = reply.from.life;
    let over_beside = |other: &Reply<U>| {
        (other.volume == reply.volume && other.from.life > life)
            || other.from.peers.iter().any(|(peer, known)| *peer == reply.volume && *known > life)
    };
    !lives.is_over(reply.volume, life) && !beside.iter().any(over_beside)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::id::Sequence;
    use crate::limits::SET_VOLUMES_MAX;
    use crate::register::position::OpeningId;

    #[test]
    fn quorums_meet_in_every_set_size() {
        for volumes in 1..=SET_VOLUMES_MAX {
            let (accept, prepare) = (Quorums::of(volumes).accept(), Quorums::of(volumes).prepare());
            assert!(accept >= 1 && prepare >= 1 && accept <= volumes && prepare <= accept);
            assert!(accept + accept > volumes, "two accept quorums meet");
            assert!(prepare + accept > volumes, "a prepare quorum intersects every accept quorum");
            assert!(accept + prepare == volumes + 1, "no larger than they need to be");
            // A lost volume recovers from P of the others; they meet the others of every A that it was in.
            assert!(prepare + (accept - 1) > volumes - 1, "what a lost volume accepted is found again");
            // P volumes that recorded one life meet P that are asked for the highest life.
            assert!(2 * prepare > volumes - 1, "a life is never given twice");
        }
    }

    fn reply(volume: u8, life: u32, peers: &[(u8, u32)]) -> Reply<u8> {
        let peers = peers.iter().map(|(v, i)| (VolumeId([*v; 16]), Life(*i))).collect();
        let from =
            Answerer { life: Life(life), votes: true, peers, opening: OpeningId::NONE, durable: Sequence(0) };
        Reply { volume: VolumeId([volume; 16]), from, order: Order::default(), result: Ok(volume) }
    }

    fn counted(replies: &[Reply<u8>], lives: &Lives) -> Vec<u8> {
        voters(replies, lives).map(|(_, vote)| *vote).collect()
    }

    #[test]
    fn a_life_that_a_peer_recorded_as_over_does_not_vote() {
        let lives = Lives::default();
        assert_eq!(counted(&[reply(1, 1, &[]), reply(2, 1, &[])], &lives), [1, 2]);
        assert_eq!(counted(&[reply(1, 1, &[]), reply(2, 1, &[(1, 2)])], &lives), [2]);
        assert_eq!(counted(&[reply(1, 2, &[]), reply(2, 1, &[(1, 2)])], &lives), [1, 2]);
    }

    #[test]
    fn a_reply_is_over_when_its_volume_answers_another_question_in_a_later_life() {
        let lives = Lives::default();
        let earlier = [reply(1, 1, &[]), reply(2, 9, &[])];
        assert!(is_current(&reply(1, 1, &[]), &earlier, &lives));
        assert!(is_current(&reply(1, 2, &[]), &earlier, &lives));
        assert!(!is_current(&reply(1, 1, &[]), &[reply(1, 2, &[])], &lives));
    }

    #[test]
    fn a_life_that_was_seen_once_stays_noted() {
        let mut lives = Lives::default();
        lives.learn_from(VolumeId([2; 16]), &reply(2, 3, &[(1, 2)]).from);
        lives.learn(VolumeId([1; 16]), Life(1));
        assert_eq!(counted(&[reply(1, 1, &[]), reply(2, 3, &[])], &lives), [2]);
        assert_eq!(lives.of(VolumeId([1; 16])), Some(Life(2)));
    }

    #[test]
    fn neither_a_refusal_nor_a_recovering_volume_votes() {
        let mut refused = reply(1, 1, &[]);
        refused.result = Err(Refusal::Sealed);
        let mut recovering = reply(2, 2, &[]);
        recovering.from.votes = false;
        assert_eq!(counted(&[refused, recovering, reply(3, 1, &[])], &Lives::default()), [3]);
    }

    #[test]
    fn asked_after_compares_sending_with_arrival() {
        let first = Order { asked: 0, arrived: 2 };
        assert!(!Order { asked: 1, arrived: 3 }.asked_after(first));
        assert!(Order { asked: 2, arrived: 3 }.asked_after(first));
    }
}
