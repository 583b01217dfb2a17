//! Whether a volume that was opened still has the state that its votes speak for, as its peers
//! remember it.
//!
//! A disk that was away while its volume was rebuilt elsewhere, a restored snapshot, a device that
//! lied about a sync: the log is whole and too old, and nothing in it says so. The peers do. A volume
//! votes only after enough of them answered; those that come later are asked then. What a peer
//! remembers is in its log, so one that was opened can answer before it votes itself: volumes that
//! start together confirm each other. Called by upkeep. Guards I-18.

use std::collections::BTreeMap;

use crate::id::VolumeId;
use crate::register::position::Position;
use crate::register::quorum::{Quorums, Reply};

/// What a volume remembers of its peers.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Memory {
    /// Whether no state of its own is known to be lost. One that lost its state may have remembered more.
    pub is_whole: bool,
    /// The highest position that its log has of each peer.
    pub positions: Vec<(VolumeId, Position)>,
}

/// What the peers' answers say about a volume that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confirmation {
    /// Enough of them answered and none remembers more than it holds: it votes.
    Confirmed,
    /// One of them remembers more: it recovers.
    Lost {
        /// What is remembered.
        remembered: Position,
    },
    /// Too few of them answered.
    Unconfirmed {
        /// How many answers count.
        answers: usize,
        /// How many are needed.
        needed: usize,
    },
}

/// A volume that was opened, and what its own log says.
#[derive(Debug, Clone, Copy)]
pub struct OpenedVolume<'a> {
    /// Which.
    pub volume: VolumeId,
    /// Where its log ends.
    pub position: Position,
    /// What it remembers of its peers itself.
    pub remembers: &'a [(VolumeId, Position)],
}

/// Judges whether a volume may vote, for one of its sets: A - 1 of its peers answered, and nobody
/// remembers a later state of it. What is remembered counts whoever says it; an answer does when its
/// peer has its own state, as far as anybody heard says: one that does not vote yet may be as far
/// behind as the asker.
///
/// Whatever P of its peers noted, a later life above all, at least one of any A - 1 of them noted. Of
/// fewer there may be none, and the old state meets another volume that does not know: an even set
/// reads with half of its volumes.
pub fn confirm(opened: OpenedVolume<'_>, answers: &[Reply<Memory>], quorums: Quorums) -> Confirmation {
    let OpenedVolume { volume, position, remembers } = opened;
    let told = || answers.iter().filter_map(|reply| Some((reply, reply.result.as_ref().ok()?)));
    let remembered = || told().flat_map(|(_, memory)| &memory.positions).chain(remembers).copied();
    if let Some(remembered) = lost_state(volume, position, remembered()) {
        return Confirmation::Lost { remembered };
    }
    let has_state = |reply: &Reply<Memory>| {
        let own = reply.from.position();
        let later = lost_state(reply.volume, own, remembered());
        // The position of one that votes moves on while others answer; its life does not.
        later.is_none_or(|later| reply.from.votes && later.incarnation == own.incarnation)
    };
    let counts = |(reply, memory): &(&Reply<Memory>, &Memory)| {
        reply.volume != volume && memory.is_whole && has_state(reply)
    };
    let (answers, needed) = (told().filter(counts).count(), quorums.accept() - 1);
    if answers >= needed { Confirmation::Confirmed } else { Confirmation::Unconfirmed { answers, needed } }
}

/// What a volume that lost its state remembers when it votes again: the highest position of each peer
/// that its voters remember, their own among them. Where it had been one of P that noted a position,
/// there are P again.
pub fn adopted_memory(volume: VolumeId, voters: &[Reply<Memory>]) -> BTreeMap<VolumeId, Position> {
    let mut adopted = BTreeMap::new();
    for (reply, memory) in voters.iter().filter_map(|reply| Some((reply, reply.result.as_ref().ok()?))) {
        let own = (reply.volume, reply.from.position());
        for (peer, position) in
            memory.positions.iter().copied().chain([own]).filter(|(peer, _)| *peer != volume)
        {
            let known = adopted.entry(peer).or_insert(position);
            *known = (*known).max(position);
        }
    }
    adopted
}

/// The position that shows that a volume lost state: the highest that a peer remembers of it, where
/// that is above its own.
///
/// A remembered life above one's own was recorded by a voter for a volume that had lost this one's
/// state; whatever this one holds, it has not what it took part in since.
pub fn lost_state(
    volume: VolumeId,
    own: Position,
    remembered: impl IntoIterator<Item = (VolumeId, Position)>,
) -> Option<Position> {
    let of_volume = remembered.into_iter().filter(|(peer, _)| *peer == volume);
    of_volume.map(|(_, position)| position).max().filter(|highest| *highest > own)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::id::{Incarnation, Sequence};
    use crate::register::Answerer;
    use crate::register::quorum::Order;

    const OWN: VolumeId = VolumeId([1; 16]);
    const OTHER: VolumeId = VolumeId([2; 16]);

    fn at(life: u32, durable: u64) -> Position {
        Position { incarnation: Incarnation(life), durable: Sequence(durable) }
    }

    fn answer(peer: u8, is_whole: bool, positions: &[(VolumeId, Position)]) -> Reply<Memory> {
        let positions = positions.to_vec();
        let from = Answerer {
            incarnation: Incarnation(1),
            votes: false,
            peers: Arc::default(),
            durable: Sequence(5),
        };
        let result = Ok(Memory { is_whole, positions });
        Reply { volume: VolumeId([peer; 16]), from, order: Order::default(), result }
    }

    fn confirmed(volumes: usize, answers: &[Reply<Memory>]) -> Confirmation {
        let opened = OpenedVolume { volume: OWN, position: at(2, 10), remembers: &[(OTHER, at(1, 5))] };
        confirm(opened, answers, Quorums::of(volumes))
    }

    #[test]
    fn a_volume_votes_after_as_many_peers_as_make_a_quorum_with_it_answered() {
        assert_eq!(confirmed(1, &[]), Confirmation::Confirmed, "it has no peers");
        let too_few = |answers, needed| Confirmation::Unconfirmed { answers, needed };
        assert_eq!(confirmed(2, &[]), too_few(0, 1));
        assert_eq!(confirmed(4, &[answer(2, true, &[])]), too_few(1, 2));
        assert_eq!(confirmed(4, &[answer(2, true, &[]), answer(3, false, &[])]), too_few(1, 2));
        let both = [answer(2, true, &[(OWN, at(2, 9))]), answer(3, true, &[])];
        assert_eq!(confirmed(4, &both), Confirmation::Confirmed);
        assert_eq!(confirmed(5, &both), Confirmation::Confirmed);
        assert_eq!(confirmed(6, &both), too_few(2, 3));
    }

    #[test]
    fn what_one_peer_remembers_is_enough_to_have_lost_state() {
        let lost = |remembered| Confirmation::Lost { remembered };
        let both = [answer(2, true, &[]), answer(3, false, &[(OWN, at(3, 0))])];
        assert_eq!(confirmed(4, &both), lost(at(3, 0)), "also one that lost its own state");
        assert_eq!(confirmed(4, &[answer(2, true, &[(OWN, at(2, 11))])]), lost(at(2, 11)));
    }

    #[test]
    fn a_volume_that_recovers_remembers_what_its_voters_do() {
        let voters =
            [answer(2, true, &[(OWN, at(3, 3)), (VolumeId([3; 16]), at(1, 9))]), answer(3, true, &[])];
        let adopted = adopted_memory(OWN, &voters);
        assert_eq!(adopted, BTreeMap::from([(OTHER, at(1, 5)), (VolumeId([3; 16]), at(1, 9))]));
    }

    #[test]
    fn an_answer_of_a_peer_that_lost_state_itself_does_not_count() {
        let remembering = |later| confirmed(4, &[answer(2, true, &[]), answer(3, true, &[(OTHER, later)])]);
        assert_eq!(remembering(at(1, 5)), Confirmation::Confirmed);
        let too_few = Confirmation::Unconfirmed { answers: 1, needed: 2 };
        assert_eq!(remembering(at(1, 6)), too_few);
        assert_eq!(remembering(at(2, 0)), too_few);
        let mut voting = [answer(2, true, &[]), answer(3, true, &[(OTHER, at(1, 6))])];
        voting[0].from.votes = true;
        assert_eq!(confirmed(4, &voting), Confirmation::Confirmed, "it was written to meanwhile");
        voting[1] = answer(3, true, &[(OTHER, at(2, 0))]);
        assert_eq!(confirmed(4, &voting), too_few);
    }

    #[test]
    fn a_later_life_or_a_later_sequence_is_lost_state() {
        let lost =
            |remembered: &[(VolumeId, Position)]| lost_state(OWN, at(2, 10), remembered.iter().copied());
        assert_eq!(lost(&[]), None);
        assert_eq!(lost(&[(OWN, at(2, 10))]), None);
        assert_eq!(lost(&[(OWN, at(1, 99))]), None, "an earlier life was longer");
        assert_eq!(lost(&[(OTHER, at(9, 99))]), None, "of another volume");
        assert_eq!(lost(&[(OWN, at(2, 11))]), Some(at(2, 11)));
        assert_eq!(lost(&[(OWN, at(3, 0)), (OWN, at(2, 99))]), Some(at(3, 0)));
    }
}
