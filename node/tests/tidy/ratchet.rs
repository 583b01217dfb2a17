//! Figures that may only fall: `ratchet.toml` beside this file holds what each room has, and a room that is
//! not in it has zero.
//!
//! A figure that rose is a complaint about the change, with the places that are counted. A figure that fell
//! is lowered in the file by `SHERD_TIDY=lower cargo test -p sherd-node --test tidy ratchet`. Rooms that the
//! file does not name, because code was moved into them, get their figures by the same command as long as the
//! sum over all rooms does not rise; a kind of figure that the file does not have is taken as it is. After a
//! conflict in the file take one side and run the command. `SHERD_TIDY=list` with `-- --nocapture` prints
//! every place.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::fs;

use super::figures::{all_figures, all_rooms};
use super::source::{root, sources};

/// A figure by room. A room without one has zero.
type Figures = BTreeMap<String, usize>;

/// Places that a complaint shows.
const SHOWN_MAX: usize = 40;

const PATH: &str = "node/tests/tidy/ratchet.toml";

const HEAD: &str = "\
# What each room has of what it should have none of; `figures.rs` says how it is counted. A figure may only fall.
# Written by: SHERD_TIDY=lower cargo test -p sherd-node --test tidy ratchet
";

/// Content of the file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Ratchet {
    /// All rooms, also those without a figure.
    rooms: BTreeSet<String>,
    figures: BTreeMap<String, Figures>,
    /// The counted places by figure and room; empty for the file.
    places: BTreeMap<(String, String), Vec<String>>,
}

impl Ratchet {
    fn parse(text: &str) -> Self {
        let table: toml::Table = text.parse().expect("the ratchet is TOML");
        let mut ratchet = Self::default();
        for (what, value) in table {
            match value {
                toml::Value::Array(rooms) => {
                    ratchet.rooms.extend(rooms.iter().filter_map(|room| room.as_str().map(str::to_owned)));
                }
                toml::Value::Table(figures) => {
                    let count = |value: &toml::Value| {
                        value.as_integer().and_then(|count| usize::try_from(count).ok())
                    };
                    let figures =
                        figures.iter().map(|(room, value)| (room.clone(), count(value).expect("a number")));
                    ratchet.figures.insert(what, figures.collect());
                }
                other => panic!("{what} is {other}"),
            }
        }
        ratchet
    }

    fn text(&self) -> String {
        let mut text = format!("{HEAD}\nrooms = [\n");
        for room in &self.rooms {
            writeln!(text, "    \"{room}\",").expect("memory");
        }
        text.push_str("]\n");
        for (what, figures) in &self.figures {
            writeln!(text, "\n[{what}]").expect("memory");
            for (room, count) in figures.iter().filter(|(_, count)| **count > 0) {
                writeln!(text, "\"{room}\" = {count}").expect("memory");
            }
        }
        text
    }

    /// The present figures.
    fn measured() -> Self {
        let mut measured = Self { rooms: all_rooms(sources()), ..Self::default() };
        for (what, findings) in all_figures(sources()) {
            let figures = measured.figures.entry(what.to_owned()).or_default();
            for finding in findings {
                *figures.entry(finding.room.clone()).or_default() += finding.count;
                measured.places.entry((what.to_owned(), finding.room)).or_default().push(finding.place);
            }
        }
        measured
    }

    fn of(&self, what: &str, room: &str) -> usize {
        self.figures.get(what).and_then(|figures| figures.get(room)).copied().unwrap_or(0)
    }

    /// Every figure that one of both has: what, room, held, measured.
    fn beside<'a>(&'a self, measured: &'a Self) -> BTreeSet<(&'a str, &'a str, usize, usize)> {
        let both = self.figures.iter().chain(&measured.figures);
        let names =
            both.flat_map(|(what, figures)| figures.keys().map(move |room| (what.as_str(), room.as_str())));
        names.map(|(what, room)| (what, room, self.of(what, room), measured.of(what, room))).collect()
    }

    /// Figures that rose, or that the file should lower.
    fn complaints(&self, measured: &Self) -> Vec<String> {
        let mut complaints = Vec::new();
        for (what, room, held, now) in self.beside(measured) {
            if now > held {
                complaints.push(measured.risen(what, room, held));
            } else if now < held {
                complaints.push(format!("{what} of {room}: {held} in {PATH}, lower it to {now}"));
            }
        }
        complaints
    }

    /// The complaint about a figure above the one in the file, with the places to look for the new one.
    fn risen(&self, what: &str, room: &str, held: usize) -> String {
        let places = self.places.get(&(what.to_owned(), room.to_owned())).map_or(&[][..], Vec::as_slice);
        let mut text = format!("{what} of {room}: {}, and {held} is allowed", self.of(what, room));
        places.iter().take(SHOWN_MAX).for_each(|place| write!(text, "\n    {place}").expect("memory"));
        if places.len() > SHOWN_MAX {
            write!(text, "\n    and {} more: SHERD_TIDY=list", places.len() - SHOWN_MAX).expect("memory");
        }
        text
    }

    /// The file that follows, or what keeps it from following.
    fn lowered(&self, measured: &Self) -> Result<Self, Vec<String>> {
        let is_known = |room: &str| self.rooms.contains(room.split("::").next().unwrap_or(room));
        let risen = self.beside(measured).into_iter().filter(|(what, room, held, now)| {
            now > held && is_known(room) && self.figures.contains_key(*what)
        });
        let mut complaints: Vec<_> =
            risen.map(|(what, room, held, _)| measured.risen(what, room, held)).collect();
        let sum = |ratchet: &Self, what: &str| -> usize {
            ratchet.figures.get(what).map_or(0, |figures| figures.values().sum())
        };
        for what in measured.figures.keys().filter(|what| self.figures.contains_key(*what)) {
            let (held, now) = (sum(self, what), sum(measured, what));
            if now > held {
                complaints.push(format!("{what} of all rooms: {now}, and {held} is allowed"));
            }
        }
        if complaints.is_empty() { Ok(measured.clone()) } else { Err(complaints) }
    }
}

#[test]
fn the_figures_of_the_ratchet_only_fall() {
    let path = root().join(PATH);
    let held = Ratchet::parse(&fs::read_to_string(&path).expect("the ratchet is a file"));
    let measured = Ratchet::measured();
    let complaints = match std::env::var("SHERD_TIDY").as_deref() {
        Ok("lower") => {
            let lowered = held.lowered(&measured);
            lowered.map(|lowered| fs::write(&path, lowered.text()).expect("the ratchet is written")).err()
        }
        Ok("list") => {
            for ((what, _), places) in &measured.places {
                for place in places {
                    println!("{what} {place}");
                }
            }
            None
        }
        _ => Some(held.complaints(&measured)),
    };
    let complaints = complaints.unwrap_or_default();
    assert!(complaints.is_empty(), "\n{}\n\n{HEAD}", complaints.join("\n"));
}

#[test]
fn a_ratchet_falls_and_never_rises() {
    let ratchet = |text: &str| Ratchet::parse(text);
    let held = ratchet("rooms = [\"a\", \"b\"]\n[words]\na = 3\n");
    assert_eq!(ratchet(&held.text()), held);
    assert!(held.complaints(&held).is_empty());

    let fallen = ratchet("rooms = [\"a\", \"b\"]\n[words]\na = 2\n");
    let complaints = held.complaints(&fallen);
    assert_eq!(complaints.len(), 1);
    assert!(complaints[0].ends_with("lower it to 2"), "{complaints:?}");
    assert_eq!(held.lowered(&fallen), Ok(fallen.clone()));
    assert_eq!(fallen.complaints(&held), ["words of a: 3, and 2 is allowed"]);
    assert!(fallen.lowered(&held).is_err());

    let elsewhere = ratchet("rooms = [\"a\", \"b\"]\n[words]\na = 1\nb = 1\n");
    assert!(held.lowered(&elsewhere).is_err(), "a room that is in the file");
    let moved = ratchet("rooms = [\"b\", \"c\"]\n[words]\nc = 3\n");
    assert_eq!(held.complaints(&moved).len(), 2);
    assert_eq!(held.lowered(&moved), Ok(moved));
    let grown = ratchet("rooms = [\"b\", \"c\"]\n[words]\nc = 4\n");
    assert!(held.lowered(&grown).is_err());

    let new_kind = ratchet("rooms = [\"a\", \"b\"]\n[words]\na = 3\n[more]\nb = 2\n");
    assert_eq!(held.complaints(&new_kind), ["more of b: 2, and 0 is allowed"]);
    assert_eq!(held.lowered(&new_kind), Ok(new_kind.clone()));
    assert!(new_kind.lowered(&ratchet("rooms = [\"a\"]\n[words]\na = 3\n[more]\nb = 3\n")).is_err());

    let mut counted = held.clone();
    let places = (0..SHOWN_MAX + 2).map(|line| format!("a.rs:{line}: mend it")).collect();
    counted.places.insert(("words".to_owned(), "a".to_owned()), places);
    let complaint = &fallen.complaints(&counted)[0];
    assert!(complaint.contains("\n    a.rs:1: mend it\n"), "{complaint}");
    assert!(complaint.ends_with("and 2 more: SHERD_TIDY=list"), "{complaint}");
}
