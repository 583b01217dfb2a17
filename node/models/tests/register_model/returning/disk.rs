//! Content of a disk of the model: the openings that its log names, and its memory of its peers, which
//! production's `PeerNotes` and `OpeningHistory` change and judge.

use sherd_core::id::{Life, Sequence};
use sherd_core::register::position::{OpeningId, Position};
use sherd_core::register::recover::opening::{Opening, OpeningHistory, PeerNotes};

use super::{OPENINGS, VICTIMS};

/// Notes of one victim: per opening the highest sequence plus one; 0 where it is not noted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub(crate) struct Notes {
    pub(super) life: u8,
    pub(super) after: [u8; OPENINGS + 1],
}

/// Content of a volume's disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub(crate) struct Disk {
    pub(super) life: u8,
    pub(super) record: u8,
    /// The last write that it holds.
    pub(super) holds: u8,
    /// The openings of its life and where the log ended at each; 0 means none.
    pub(super) openings: [(u8, u8); OPENINGS],
    /// Memory of the victims.
    pub(super) knows: [Notes; VICTIMS],
    /// The ghost: what it would, were nothing ever dropped.
    pub(super) heard: [Notes; VICTIMS],
}

pub(super) fn small<T: TryInto<u8>>(number: T) -> u8 {
    number.try_into().ok().expect("few of everything")
}

impl Notes {
    pub(super) const FIRST: Self = Self { life: 1, after: [0; OPENINGS + 1] };

    pub(super) fn of(notes: &PeerNotes) -> Self {
        let mut found = Self { life: small(notes.life.0), ..Self::FIRST };
        for Position { opening, durable, .. } in notes.positions() {
            if opening != OpeningId::NONE {
                found.after[usize::try_from(opening.0).expect("few openings")] = small(durable.0 + 1);
            }
        }
        found
    }

    pub(super) fn production(self) -> PeerNotes {
        let mut notes = PeerNotes::new(Life(self.life.into()));
        for position in self.positions() {
            notes.note(position);
        }
        notes
    }

    pub(super) fn positions(self) -> impl Iterator<Item = Position> {
        let life = Life(self.life.into());
        let noted = self.after.into_iter().enumerate().filter(|(_, after)| *after > 0);
        let notes = noted.map(move |(opening, after)| Position {
            life,
            opening: OpeningId(opening as u64),
            durable: Sequence(u64::from(after) - 1),
        });
        // A first life is not noted.
        (self.life > 1).then_some(Position::life(life)).into_iter().chain(notes)
    }

    /// Changes them as production does.
    pub(super) fn change(&mut self, change: impl FnOnce(&mut PeerNotes) -> bool) -> bool {
        let mut notes = self.production();
        let is_changed = change(&mut notes);
        *self = Self::of(&notes);
        is_changed
    }

    pub(super) fn note(&mut self, position: Position) {
        self.change(|notes| notes.note(position));
    }

    /// The highest sequence of any opening.
    pub(super) fn highest(self) -> Option<u8> {
        self.after.into_iter().max().and_then(|after| after.checked_sub(1))
    }

    /// Whether a copy of a disk, opened as it is, lacks something of what these say. The end that its next
    /// opening finds is where it is.
    pub(super) fn are_behind(self, disk: &Disk) -> bool {
        let mut opened = *disk;
        opened.open(small(OPENINGS + 1));
        self.positions().any(|position| opened.history().lacks(&position))
    }
}

impl Disk {
    pub(super) fn new(opening: u8) -> Self {
        let mut disk =
            Self { knows: [Notes::FIRST; VICTIMS], heard: [Notes::FIRST; VICTIMS], ..Self::default() };
        disk.openings[0] = (opening, 0);
        disk
    }

    pub(super) fn named(&self) -> impl Iterator<Item = (u8, u8)> {
        self.openings.into_iter().take_while(|(opening, _)| *opening > 0)
    }

    pub(super) fn current(&self) -> (u8, u8) {
        self.named().last().unwrap_or_default()
    }

    /// Names an opening. The last place is for one that a copy would have.
    pub(super) fn open(&mut self, opening: u8) {
        let end = self.named().count().min(OPENINGS - 1);
        self.openings[end] = (opening, self.record);
    }

    pub(super) fn begin_life(&mut self, life: u8) {
        let (opening, _) = self.current();
        self.life = life;
        self.openings = [(0, 0); OPENINGS];
        self.openings[0] = (opening, self.record);
    }

    pub(super) fn history(&self) -> OpeningHistory {
        let openings = self
            .named()
            .map(|(opening, end)| Opening { id: OpeningId(opening.into()), end: Sequence(end.into()) });
        OpeningHistory::new(Life(self.life.into()), openings.collect())
    }

    pub(super) fn position(&self) -> Position {
        Position {
            life: Life(self.life.into()),
            opening: OpeningId(self.current().0.into()),
            durable: Sequence(self.record.into()),
        }
    }
}
