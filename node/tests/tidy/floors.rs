//! Floors of a folder: its parts (files, and folders as one each) stand in an order in which none uses one
//! above it. Where parts use each other in a circle, a knot, no such order exists, and some arrows run up.

use std::collections::BTreeSet;

use super::arrows::{Arrows, circles};
use super::crates::Crate;
use super::figures::Finding;
use super::reading::Module;
use super::source::{examples, members};

/// A folder of a crate, none for its root, with the arrows between its parts.
struct Folder<'a> {
    module: Module<'a>,
    arrows: Arrows<'a>,
}

impl<'a> Folder<'a> {
    /// The part that a module lies in.
    fn part(&self, module: &Module<'a>) -> Option<Module<'a>> {
        let is_below = module.len() > self.module.len() && module.starts_with(&self.module);
        is_below.then(|| module[..=self.module.len()].to_vec())
    }
}

/// The folders of a crate, its root among them.
fn folders<'a>(one: &Crate<'a>) -> Vec<Folder<'a>> {
    let modules =
        one.files.keys().filter_map(|module| module.split_last().map(|(_, folder)| folder.to_vec()));
    let modules: BTreeSet<Module<'a>> = modules.collect();
    let read = |module| {
        let mut folder = Folder { module, arrows: Arrows::new() };
        for (from, used) in &one.imports {
            for to in used.keys() {
                if let (Some(from), Some(to)) = (folder.part(from), folder.part(to))
                    && from != to
                {
                    folder.arrows.entry(from).or_default().entry(to).or_default();
                }
            }
        }
        folder
    };
    modules.into_iter().map(read).collect()
}

/// The arrows between parts that run up, in an order in which few do: the part of a knot that uses most and
/// is used least goes to its top, until no knot is left.
fn upward(mut arrows: Arrows<'_>) -> Vec<(Module<'_>, Module<'_>)> {
    let mut found = Vec::new();
    while let Some(knot) = circles(&arrows).into_iter().next() {
        let uses =
            |from: &Module<'_>, to: &Module<'_>| arrows.get(from).is_some_and(|used| used.contains_key(to));
        let used_by = |part: &Module<'_>| knot.iter().filter(|other| uses(other, part)).count();
        let using = |part: &Module<'_>| knot.iter().filter(|other| uses(part, other)).count();
        let top = knot.iter().min_by_key(|part| (used_by(part) + knot.len() - using(part), (*part).clone()));
        let top = top.expect("a knot has parts").clone();
        for part in &knot {
            if arrows.get_mut(part).and_then(|used| used.remove(&top)).is_some() {
                found.push((part.clone(), top.clone()));
            }
        }
    }
    found
}

/// The parts that lie in a knot.
pub(crate) fn knots(one: &Crate<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for folder in folders(one) {
        for knot in circles(&folder.arrows) {
            let parts: Vec<_> = knot.iter().filter_map(|part| part.last().copied()).collect();
            let what = format!("{} use each other in a circle: give them an order", parts.join(", "));
            let place = one.complaint(&folder.module, "", &what);
            found.push(Finding { room: one.room(&folder.module), count: knot.len(), place });
        }
    }
    found
}

/// The arrows that run up, between the rooms of the crate and between the parts of each folder.
pub(crate) fn upward_arrows(one: &Crate<'_>) -> Vec<Finding> {
    let mut found = Vec::new();
    for folder in folders(one) {
        for (from, to) in upward(folder.arrows.clone()) {
            let all = one
                .imports
                .iter()
                .flat_map(|(user, used)| used.iter().map(move |(used, names)| (user, used, names)));
            let mut upward = all.filter(|(user, used, _)| {
                folder.part(user).as_ref() == Some(&from) && folder.part(used).as_ref() == Some(&to)
            });
            let Some((user, _, names)) = upward.next() else { continue };
            let name = names.first().copied().unwrap_or("");
            let what = format!(
                "{} uses `{name}` of {} above it ({} more files do): move it below, or turn the arrow",
                from.join("::"),
                to.join("::"),
                upward.count()
            );
            let place = one.complaint(user, name, &what);
            found.push(Finding { room: one.room(&folder.module), count: 1, place });
        }
    }
    found
}

/// Arrows that run up and parts in knots, by room.
fn counted(src: &str, files: &[(&str, &str)]) -> [Vec<(String, usize)>; 2] {
    let sources = examples(src, files);
    let one = Crate::new(src, &sources);
    let by_room = |found: Vec<Finding>| found.into_iter().map(|one| (one.room, one.count)).collect();
    [by_room(upward_arrows(&one)), by_room(knots(&one))]
}

#[test]
fn folders_that_use_each_other_are_found_though_no_files_do() {
    let top = ("a/mod.rs", "mod b; mod c; struct A;");
    let low =
        [("a/b/x.rs", "struct X;"), ("a/b/mod.rs", "mod x; mod y;"), ("a/b/y.rs", "use crate::a::c::C;")];
    let one_way = [top, low[0], low[1], low[2], ("a/c.rs", "pub struct C;")];
    assert_eq!(counted("src/", &one_way), [vec![], vec![]]);
    let both = ("a/c.rs", "use super::b::x::X; use super::A; pub struct C;");
    let found = counted("src/", &[top, low[0], low[1], low[2], both]);
    assert_eq!(found, [vec![("src/a".to_owned(), 1)], vec![("src/a".to_owned(), 2)]]);
}

#[test]
fn rooms_of_every_crate_that_use_each_other_are_found() {
    let files = [
        ("lib.rs", "mod a; mod b; mod c;"),
        ("a.rs", "use crate::b::B; struct A;"),
        ("b/mod.rs", "mod d; pub struct B;"),
        ("b/d.rs", "pub(crate) use crate::c::C;"),
        ("c.rs", "fn c() { super::a::a() }"),
    ];
    for member in members() {
        let src = format!("{member}/src");
        assert_eq!(counted(&format!("{src}/"), &files), [vec![(src.clone(), 1)], vec![(src.clone(), 3)]]);
    }
}
