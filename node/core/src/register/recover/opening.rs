//! Openings of a volume: the history in its own log, and its peers' memory of them.
//!
//! ```text
//! volume   opens: (opening, where its log ended) is durable -> answers carry (life, opening, sequence)
//! peer     notes per volume, for its highest life, the highest sequence of each opening
//! volume   asks "what do you remember of me?", with its openings
//! peer     answers, drops the notes which those cover, and notes where the asker's opening began
//! ```
//! A peer's memory shows a loss if the log lacks its record: an opening that the log does not name, or
//! records of one behind where the next one found the log to end. The current opening shows nothing: the log
//! grows while its volume asks. Called by [`super::confirm`] and by the volumes. Guards I-18.

use smallvec::SmallVec;

use crate::id::{Life, Sequence};
use crate::limits::{OPENINGS_MAX, PEER_OPENINGS_MAX};
use crate::register::position::{OpeningId, Position};

/// One opening, as the log of its volume names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Opening {
    /// Id of the opening.
    pub id: OpeningId,
    /// The last sequence of the log, synced, when it began.
    pub end: Sequence,
}

/// The openings of one life of a volume, as its log names them: the oldest first, the current one last.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpeningHistory {
    /// The life.
    pub life: Life,
    openings: Vec<Opening>,
}

/// Where an opening begins and ends in a history.
enum OpeningSpan {
    /// The log does not name it.
    Unknown,
    /// Ended: the sequence of its last record.
    Ended(Sequence),
    /// Current: still writes.
    Current,
}

impl OpeningHistory {
    /// The openings of a life, in the log's order. Of more than [`OPENINGS_MAX`] the newest count: should a
    /// peer remember one of the others, the volume is rebuilt without need, and nothing is lost.
    pub fn new(life: Life, mut openings: Vec<Opening>) -> Self {
        openings.drain(..openings.len().saturating_sub(OPENINGS_MAX));
        Self { life, openings }
    }

    /// All of them.
    pub fn openings(&self) -> &[Opening] {
        &self.openings
    }

    /// Where the current opening began; `None` where the log names none.
    pub fn began(&self) -> Option<Position> {
        let Opening { id, end } = *self.openings.last()?;
        Some(Position { life: self.life, opening: id, durable: end })
    }

    /// Whether a position that a peer remembers of this volume shows that its log lacks something: a later
    /// life, an opening that it does not name, or records behind the end that the next opening found.
    pub fn lacks(&self, remembered: &Position) -> bool {
        if remembered.life != self.life {
            return remembered.life > self.life;
        }
        match self.span_of(remembered.opening) {
            OpeningSpan::Unknown => true,
            OpeningSpan::Ended(end) => remembered.durable > end,
            OpeningSpan::Current => false,
        }
    }

    /// Whether this log holds the records up to a position, and so does every copy that names the current
    /// opening.
    fn covers(&self, opening: OpeningId, durable: Sequence) -> bool {
        matches!(self.span_of(opening), OpeningSpan::Ended(end) if durable <= end)
    }

    fn span_of(&self, opening: OpeningId) -> OpeningSpan {
        let next = if opening == OpeningId::NONE {
            0
        } else {
            match self.openings.iter().position(|known| known.id == opening) {
                Some(place) => place + 1,
                None => return OpeningSpan::Unknown,
            }
        };
        self.openings.get(next).map_or(OpeningSpan::Current, |next| OpeningSpan::Ended(next.end))
    }
}

/// Notes about a peer: its highest life, and in that life the highest sequence of each opening.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PeerNotes {
    /// The life.
    pub life: Life,
    /// In the order of the openings, mostly one: each commit of a volume copies the notes that changed.
    notes: SmallVec<[(OpeningId, Sequence); 2]>,
}

impl PeerNotes {
    /// Of a peer in a life, no opening yet.
    pub fn new(life: Life) -> Self {
        Self { life, notes: SmallVec::new() }
    }

    /// Notes a position; whether that changed anything. A later life replaces all that was noted of earlier
    /// ones. Where as many openings are noted as there is room for, another one is not: those stay until the
    /// peer asks, which each of its openings does before it votes.
    pub fn note(&mut self, position: Position) -> bool {
        let Position { life, opening, durable } = position;
        if life < self.life {
            return false;
        }
        let is_later = life > self.life;
        if is_later {
            *self = Self::new(life);
        }
        if opening == OpeningId::NONE && durable == Sequence(0) {
            return is_later;
        }
        self.note_opening(opening, durable) | is_later
    }

    fn note_opening(&mut self, opening: OpeningId, durable: Sequence) -> bool {
        match self.place_of(opening) {
            Ok(place) if self.notes[place].1 < durable => self.notes[place].1 = durable,
            Err(place) if self.notes.len() < PEER_OPENINGS_MAX => {
                self.notes.insert(place, (opening, durable));
            }
            Ok(_) | Err(_) => return false,
        }
        true
    }

    /// The place of an opening among the notes, or where it would stand.
    fn place_of(&self, opening: OpeningId) -> Result<usize, usize> {
        self.notes.binary_search_by_key(&opening, |(known, _)| *known)
    }

    /// Whether it is noted that the peer came so far, or further.
    pub fn has(&self, position: &Position) -> bool {
        let Position { life, opening, durable } = position;
        let is_life = *opening == OpeningId::NONE && *durable == Sequence(0);
        let is_noted = is_life || self.place_of(*opening).is_ok_and(|place| self.notes[place].1 >= *durable);
        self.life > *life || self.life == *life && is_noted
    }

    /// Notes all that other notes have; whether that changed anything.
    pub fn merge(&mut self, other: &Self) -> bool {
        // Not `any`: each of them is noted.
        other.positions().fold(false, |changed, position| self.note(position) | changed)
    }

    /// Drops what the openings of the peer itself cover, and notes in its place where its current one began:
    /// a copy of the peer from before that does not name it, and any other one has what was covered. Whether
    /// that changed anything.
    pub fn cover(&mut self, asker: &OpeningHistory) -> bool {
        let Some(began) = asker.began() else { return false };
        if self.life > asker.life {
            return false;
        }
        if self.life < asker.life {
            return self.note(began);
        }
        let known = self.notes.len();
        self.notes.retain(|(opening, durable)| !asker.covers(*opening, *durable));
        let is_covered = self.notes.len() < known;
        if is_covered {
            self.note(began);
        }
        is_covered
    }

    /// The highest sequence of each opening, in the order of the openings.
    pub fn notes(&self) -> &[(OpeningId, Sequence)] {
        &self.notes
    }

    /// The positions that are noted: the life alone if no position is noted.
    pub fn positions(&self) -> impl Iterator<Item = Position> {
        let life = self.life;
        let alone = self.notes.is_empty().then_some(Position::life(life));
        let notes = self.notes.iter().map(move |(opening, durable)| Position {
            life,
            opening: *opening,
            durable: *durable,
        });
        alone.into_iter().chain(notes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(life: u32, opening: u64, durable: u64) -> Position {
        Position { life: Life(life), opening: OpeningId(opening), durable: Sequence(durable) }
    }

    fn history(life: u32, openings: &[(u64, u64)]) -> OpeningHistory {
        let openings = openings.iter().map(|(id, end)| Opening { id: OpeningId(*id), end: Sequence(*end) });
        OpeningHistory::new(Life(life), openings.collect())
    }

    fn notes(positions: &[Position]) -> PeerNotes {
        let mut notes = PeerNotes::new(Life(0));
        for position in positions {
            notes.note(*position);
        }
        notes
    }

    fn noted(notes: &PeerNotes) -> Vec<Position> {
        notes.positions().collect()
    }

    #[test]
    fn gaps_of_a_log_show_in_lives_openings_and_ends() {
        let own = history(2, &[(7, 10), (5, 40)]);
        let lacking = [at(3, 0, 0), at(2, 8, 1), at(2, 7, 41), at(2, 0, 11)];
        assert_eq!(lacking.map(|position| own.lacks(&position)), [true; 4]);
        let held = [at(1, 8, 99), at(2, 7, 40), at(2, 5, 41), at(2, 5, 9999), at(2, 0, 10), at(2, 0, 0)];
        assert_eq!(held.map(|position| own.lacks(&position)), [false; 6]);
    }

    #[test]
    fn a_log_that_names_no_opening_lacks_every_remembered_one() {
        let own = history(1, &[]);
        assert_eq!([at(1, 0, 99), at(1, 4, 1)].map(|position| own.lacks(&position)), [false, true]);
        assert_eq!(own.began(), None);
    }

    #[test]
    fn each_opening_is_noted_for_itself_and_a_later_life_replaces_all() {
        let mut notes = notes(&[at(1, 4, 9), at(1, 3, 20), at(1, 4, 7)]);
        assert_eq!(noted(&notes), [at(1, 3, 20), at(1, 4, 9)]);
        assert!(!notes.note(at(1, 3, 20)) && notes.note(at(1, 3, 21)));
        assert!(notes.note(at(2, 0, 0)) && !notes.note(at(2, 0, 0)) && !notes.note(at(1, 6, 1)));
        assert_eq!(noted(&notes), [at(2, 0, 0)], "its life alone");
        assert!(notes.note(at(2, 6, 0)));
        assert_eq!(noted(&notes), [at(2, 6, 0)]);
        assert!(notes.note(at(4, 6, 1)));
        assert_eq!(noted(&notes), [at(4, 6, 1)]);
    }

    #[test]
    fn notes_that_have_no_room_leave_those_that_are_there() {
        let full: Vec<Position> = (1..=PEER_OPENINGS_MAX as u64).map(|opening| at(1, opening, 5)).collect();
        let mut notes = notes(&full);
        assert!(!notes.note(at(1, 99, 9)) && notes.note(at(1, 1, 6)));
        assert_eq!(notes.positions().count(), PEER_OPENINGS_MAX);
        assert!(notes.note(at(2, 99, 9)));
        assert_eq!(noted(&notes), [at(2, 99, 9)]);
    }

    #[test]
    fn notes_are_merged_by_opening() {
        let mut one = notes(&[at(1, 1, 5), at(1, 2, 5)]);
        assert!(one.merge(&notes(&[at(1, 2, 6), at(1, 3, 1)])) && !one.merge(&notes(&[at(1, 2, 4)])));
        assert_eq!(noted(&one), [at(1, 1, 5), at(1, 2, 6), at(1, 3, 1)]);
        assert!(one.merge(&PeerNotes::new(Life(2))));
        assert_eq!(noted(&one), [at(2, 0, 0)]);
    }

    #[test]
    fn a_question_drops_what_it_covers_and_leaves_where_its_opening_began() {
        let asker = history(1, &[(1, 0), (2, 10), (3, 30)]);
        let mut known = notes(&[at(1, 1, 10), at(1, 2, 30), at(1, 3, 35)]);
        assert!(known.cover(&asker));
        assert_eq!(noted(&known), [at(1, 3, 35)]);
        assert!(!known.cover(&asker), "nothing is left that it covers");
        let mut known = notes(&[at(1, 2, 12)]);
        assert!(known.cover(&asker));
        assert_eq!(noted(&known), [at(1, 3, 30)], "an earlier copy does not name that opening");
    }

    #[test]
    fn a_question_leaves_what_shows_that_its_asker_lost_state() {
        let asker = history(1, &[(1, 0), (3, 10)]);
        for evidence in [at(1, 1, 11), at(1, 2, 1), at(2, 0, 0)] {
            let mut known = notes(&[evidence]);
            assert!(!known.cover(&asker));
            assert_eq!(noted(&known), [evidence]);
        }
        let mut earlier = notes(&[at(0, 9, 9)]);
        assert!(earlier.cover(&asker));
        assert_eq!(noted(&earlier), [at(1, 3, 10)]);
    }

    #[test]
    fn the_newest_openings_of_very_many_count() {
        let many: Vec<(u64, u64)> = (1..=OPENINGS_MAX as u64 + 1).map(|one| (one, one * 2)).collect();
        let own = history(1, &many);
        assert_eq!(own.openings().len(), OPENINGS_MAX);
        assert!(own.lacks(&at(1, 1, 1)) && !own.lacks(&at(1, 2, 6)));
        assert!(!own.lacks(&at(1, 0, 4)), "the log reaches at least there");
    }
}
