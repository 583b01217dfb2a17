//! Whether a volume that was opened still has the state that its votes speak for, as its peers
//! remember it.
//!
//! A disk that was away while its volume was rebuilt elsewhere, a restored snapshot, a device that lied about
//! a sync: the log is whole and too old, and nothing in it shows that. The peers' memory does. A volume votes
//! only after enough of them answered; those that come later are asked then. A peer's memory is in its log,
//! so one that was opened can answer before it votes itself: volumes that start together confirm each other.
//! [`lost_state`] defines a loss: for a volume that asks, for one that votes and finds out late, and for the
//! peers that answer. Called by upkeep. Guards I-18.

use std::collections::BTreeMap;

use crate::id::VolumeId;
use crate::register::position::Position;
use crate::register::quorum::{Quorums, Reply};
use crate::register::recover::opening::{OpeningHistory, PeerNotes};

/// A volume's memory of its peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// Whether no state of its own is known to be lost. One that lost its state may have remembered more.
    pub is_whole: bool,
    /// From its log, for each peer: of its highest life, one position for each opening.
    pub positions: Vec<(VolumeId, Position)>,
    /// Openings of the volume itself: others may remember more of it than it has.
    pub openings: OpeningHistory,
}

/// A volume that asks a peer what it remembers of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asker {
    /// Volume that asks.
    pub volume: VolumeId,
    /// Openings of that volume: notes that they cover need not be kept any more.
    pub openings: OpeningHistory,
}

/// Result of the peers' answers about a volume that was opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Confirmation {
    /// Enough of them answered and none remembers more than it holds: it votes.
    Confirmed,
    /// A peer remembers more: the volume recovers.
    Lost {
        /// The remembered position that its log lacks.
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
    /// The opened volume.
    pub volume: VolumeId,
    /// The openings that its log names.
    pub openings: &'a OpeningHistory,
    /// The volume's notes of its peers.
    pub remembers: &'a [(VolumeId, Position)],
}

/// Judges whether a volume may vote, for one of its sets: A - 1 of its peers answered, and no memory shows a
/// loss. A memory counts from any peer. An answer counts if, by everything that was received, its peer still
/// has its own state: a peer may have been rolled back as far as the asker, whether it votes or not.
///
/// Of the P peers that noted an event, a later life above all, any A - 1 peers include at least one. Fewer
/// answers may include none, and the old state could then form a quorum with another volume that lacks the
/// event: an even set reads with half of its volumes.
pub fn confirm(opened: OpenedVolume<'_>, answers: &[Reply<Memory>], quorums: Quorums) -> Confirmation {
    let OpenedVolume { volume, openings, remembers } = opened;
    let memories = || answers.iter().filter_map(|reply| Some((reply, reply.result.as_ref().ok()?)));
    let remembered = || memories().flat_map(|(_, memory)| &memory.positions).chain(remembers).copied();
    if let Some(remembered) = lost_state(volume, openings, remembered()) {
        return Confirmation::Lost { remembered };
    }
    let counts = |(reply, memory): &(&Reply<Memory>, &Memory)| {
        let has_state = || lost_state(reply.volume, &memory.openings, remembered()).is_none();
        reply.volume != volume && memory.is_whole && has_state()
    };
    let (answers, needed) = (memories().filter(counts).count(), quorums.accept() - 1);
    if answers >= needed { Confirmation::Confirmed } else { Confirmation::Unconfirmed { answers, needed } }
}

/// Memory that a volume which lost its state takes over before it votes again: all that its voters remember
/// of each peer, and their own positions. A position that it had noted as one of P is noted by P volumes
/// again.
pub fn adopted_memory(volume: VolumeId, voters: &[Reply<Memory>]) -> Vec<(VolumeId, Position)> {
    let mut adopted: BTreeMap<VolumeId, PeerNotes> = BTreeMap::new();
    for (reply, memory) in voters.iter().filter_map(|reply| Some((reply, reply.result.as_ref().ok()?))) {
        let own = (reply.volume, reply.from.position());
        let noted = memory.positions.iter().copied().chain([own]);
        for (peer, position) in noted.filter(|(peer, _)| *peer != volume) {
            adopted.entry(peer).or_insert_with(|| PeerNotes::new(position.life)).note(position);
        }
    }
    let positions_of = |(peer, notes): (&VolumeId, &PeerNotes)| {
        notes.positions().map(|position| (*peer, position)).collect::<Vec<_>>()
    };
    adopted.iter().flat_map(positions_of).collect()
}

/// The position that shows that a volume lost state: the highest of those that peers remember of it and its
/// openings lack.
///
/// A remembered life above its own was recorded by a voter for a volume that had lost this one's state; this
/// one lacks every decision that the volume took part in since. Of its own life see
/// [`OpeningHistory::lacks`].
pub fn lost_state(
    volume: VolumeId,
    own: &OpeningHistory,
    remembered: impl IntoIterator<Item = (VolumeId, Position)>,
) -> Option<Position> {
    let of_volume = remembered.into_iter().filter(|(peer, _)| *peer == volume);
    let lacking = of_volume.map(|(_, position)| position).filter(|position| own.lacks(position));
    lacking.max_by_key(|position| (position.life, position.durable))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::id::{Life, Sequence};
    use crate::register::Answerer;
    use crate::register::position::OpeningId;
    use crate::register::quorum::Order;
    use crate::register::recover::opening::Opening;

    const OWN: VolumeId = VolumeId([1; 16]);
    const OTHER: VolumeId = VolumeId([2; 16]);

    fn at(life: u32, opening: u64, durable: u64) -> Position {
        Position { life: Life(life), opening: OpeningId(opening), durable: Sequence(durable) }
    }

    fn history(life: u32, openings: &[(u64, u64)]) -> OpeningHistory {
        let openings = openings.iter().map(|(id, end)| Opening { id: OpeningId(*id), end: Sequence(*end) });
        OpeningHistory::new(Life(life), openings.collect())
    }

    /// Of a peer in its first life and its second opening, which began at 3.
    fn answer(peer: u8, is_whole: bool, positions: &[(VolumeId, Position)]) -> Reply<Memory> {
        let openings = history(1, &[(1, 0), (2, 3)]);
        let from = Answerer {
            life: openings.life,
            votes: false,
            peers: Arc::default(),
            opening: OpeningId(2),
            durable: Sequence(5),
        };
        let result = Ok(Memory { is_whole, positions: positions.to_vec(), openings });
        Reply { volume: VolumeId([peer; 16]), from, order: Order::default(), result }
    }

    /// Of a volume in its second life and its second opening, which began at 10.
    fn confirmed(volumes: usize, answers: &[Reply<Memory>]) -> Confirmation {
        let openings = history(2, &[(1, 0), (2, 10)]);
        let opened = OpenedVolume { volume: OWN, openings: &openings, remembers: &[(OTHER, at(1, 1, 3))] };
        confirm(opened, answers, Quorums::of(volumes))
    }

    #[test]
    fn a_volume_votes_after_as_many_peers_as_make_a_quorum_with_it_answered() {
        assert_eq!(confirmed(1, &[]), Confirmation::Confirmed, "it has no peers");
        let too_few = |answers, needed| Confirmation::Unconfirmed { answers, needed };
        assert_eq!(confirmed(2, &[]), too_few(0, 1));
        assert_eq!(confirmed(4, &[answer(2, true, &[])]), too_few(1, 2));
        assert_eq!(confirmed(4, &[answer(2, true, &[]), answer(3, false, &[])]), too_few(1, 2));
        let both = [answer(2, true, &[(OWN, at(2, 1, 10))]), answer(3, true, &[])];
        assert_eq!(confirmed(4, &both), Confirmation::Confirmed);
        assert_eq!(confirmed(5, &both), Confirmation::Confirmed);
        assert_eq!(confirmed(6, &both), too_few(2, 3));
    }

    #[test]
    fn the_memory_of_one_peer_is_enough_to_have_lost_state() {
        let lost = |remembered| Confirmation::Lost { remembered };
        let both = [answer(2, true, &[]), answer(3, false, &[(OWN, at(3, 0, 0))])];
        assert_eq!(confirmed(4, &both), lost(at(3, 0, 0)), "also one that lost its own state");
        assert_eq!(confirmed(4, &[answer(2, true, &[(OWN, at(2, 1, 11))])]), lost(at(2, 1, 11)));
    }

    /// The log went on since: what is remembered of another opening is not compared with where it is by now.
    #[test]
    fn records_since_the_opening_do_not_stand_for_lacking_ones() {
        let remembered = [(OWN, at(2, 2, 9999)), (OWN, at(2, 7, 11))];
        assert_eq!(confirmed(2, &[answer(2, true, &remembered[..1])]), Confirmation::Confirmed);
        let lost = Confirmation::Lost { remembered: at(2, 7, 11) };
        assert_eq!(confirmed(2, &[answer(2, true, &remembered)]), lost);
    }

    #[test]
    fn a_volume_that_recovers_remembers_what_its_voters_do() {
        let third = VolumeId([3; 16]);
        let voters = [
            answer(2, true, &[(OWN, at(3, 1, 3)), (third, at(1, 1, 9)), (third, at(1, 9, 4))]),
            answer(3, true, &[(OTHER, at(1, 7, 2))]),
        ];
        let adopted = adopted_memory(OWN, &voters);
        let third_openings = [at(1, 1, 9), at(1, 2, 5), at(1, 9, 4)].map(|position| (third, position));
        assert_eq!(adopted[..2], [(OTHER, at(1, 2, 5)), (OTHER, at(1, 7, 2))]);
        assert_eq!(adopted[2..], third_openings);
    }

    #[test]
    fn an_answer_of_a_peer_that_lost_state_itself_does_not_count() {
        let remembering = |known| {
            let mut answers = [answer(2, true, &[]), answer(3, true, &[(OTHER, known)])];
            let unconfirmed = confirmed(4, &answers);
            answers[0].from.votes = true;
            assert_eq!(confirmed(4, &answers), unconfirmed, "whether it votes or not");
            unconfirmed
        };
        assert_eq!(remembering(at(1, 1, 3)), Confirmation::Confirmed);
        assert_eq!(remembering(at(1, 2, 99)), Confirmation::Confirmed, "it was written to meanwhile");
        let too_few = Confirmation::Unconfirmed { answers: 1, needed: 2 };
        assert_eq!(remembering(at(1, 1, 4)), too_few);
        assert_eq!(remembering(at(1, 3, 1)), too_few);
        assert_eq!(remembering(at(2, 0, 0)), too_few);
    }

    #[test]
    fn a_later_life_or_what_an_earlier_opening_wrote_behind_its_end_is_lost_state() {
        let own = history(2, &[(1, 0), (2, 10)]);
        let lost = |remembered: &[(VolumeId, Position)]| lost_state(OWN, &own, remembered.iter().copied());
        assert_eq!(lost(&[]), None);
        assert_eq!(lost(&[(OWN, at(2, 1, 10))]), None);
        assert_eq!(lost(&[(OWN, at(1, 5, 99))]), None, "an earlier life was longer");
        assert_eq!(lost(&[(OTHER, at(9, 1, 99))]), None, "of another volume");
        assert_eq!(lost(&[(OWN, at(2, 1, 11)), (OWN, at(2, 3, 4))]), Some(at(2, 1, 11)));
        assert_eq!(lost(&[(OWN, at(3, 0, 0)), (OWN, at(2, 1, 99))]), Some(at(3, 0, 0)));
    }
}
