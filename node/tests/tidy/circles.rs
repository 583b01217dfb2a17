//! Circles of files: following what files use leads back to where one began.
//!
//! In no crate may imports lead around between files. Two more kinds are counted, and the count may only fall
//! (see `ratchet`): circles of imports between a `mod.rs` and the files below it, and circles that exist only
//! through calls of `self.method`, where the method stands in another file.

use std::collections::BTreeSet;

use super::arrows::{Arrows, around, circles, self_calls, together};
use super::crates::{Crate, crates};
use super::figures::Finding;
use super::reading::Module;
use super::source::examples;

/// The arrows without those between a `mod.rs` and the files below it.
fn between_files<'a>(arrows: &Arrows<'a>) -> Arrows<'a> {
    let mut arrows = arrows.clone();
    for (module, used) in &mut arrows {
        used.retain(|other, _| !other.starts_with(module) && !module.starts_with(other));
    }
    arrows
}

/// The files that lie in a circle of imports, and those that do only when calls through `self` count, too.
fn files_in_circles<'a>(one: &Crate<'a>) -> (BTreeSet<Module<'a>>, BTreeSet<Module<'a>>) {
    let by_imports: BTreeSet<_> = circles(&one.imports).into_iter().flatten().collect();
    let all = circles(&together(one.imports.clone(), self_calls(&one.files)));
    let by_self = all.into_iter().flatten().filter(|module| !by_imports.contains(module)).collect();
    (by_imports, by_self)
}

/// The files in circles of imports.
pub(crate) fn circles_by_imports(one: &Crate<'_>) -> Vec<Finding> {
    findings(one, files_in_circles(one).0)
}

/// The files in circles that need calls through `self`.
pub(crate) fn circles_by_self(one: &Crate<'_>) -> Vec<Finding> {
    findings(one, files_in_circles(one).1)
}

fn findings(one: &Crate<'_>, modules: BTreeSet<Module<'_>>) -> Vec<Finding> {
    let finding = |module: Module<'_>| {
        let place = one.complaint(&module, "", "lies in a circle of files: turn an arrow");
        Finding { room: one.room(&module), count: 1, place }
    };
    modules.into_iter().map(finding).collect()
}

#[test]
fn a_circle_of_files_is_found() {
    for (why, files) in [
        ("two", vec![("a.rs", "use crate::b::B; struct A;"), ("b.rs", "use crate::a::A; struct B;")]),
        ("a path", vec![("a.rs", "fn a() { crate::b::b() }"), ("b.rs", "fn b() -> super::a::A {}")]),
        ("groups", vec![("a.rs", "use crate::{c, b::{self, B}};"), ("b.rs", "use super::a; struct B;")]),
        (
            "three",
            vec![("a.rs", "use crate::b::B;"), ("b.rs", "use crate::c::C;"), ("c.rs", "use crate::a::A;")],
        ),
        (
            "parent and child",
            vec![("a/mod.rs", "mod b; use b::B; struct A;"), ("a/b.rs", "use super::A; struct B;")],
        ),
        (
            "a path into a child",
            vec![("a/mod.rs", "mod b; struct A(b::B);"), ("a/b.rs", "use super::A; struct B;")],
        ),
        (
            "handed out",
            vec![
                ("a/mod.rs", "mod low; pub use low::Low; use crate::b::B;"),
                ("a/low.rs", "use crate::b::B; struct Low;"),
                ("b.rs", "use crate::a::Low; struct B;"),
            ],
        ),
        (
            "handed out under another name, and all of it",
            vec![
                ("lib.rs", "pub use a::*;"),
                ("a.rs", "use crate::b::B; pub struct A;"),
                ("b.rs", "use crate::c::Renamed; struct B;"),
                ("c.rs", "pub use crate::A as Renamed;"),
            ],
        ),
        (
            "handed out from beside it",
            vec![("a.rs", "pub(crate) use crate::b::B;"), ("b.rs", "use crate::a::A; struct B;")],
        ),
        (
            "what one machine has",
            vec![
                ("a.rs", "#[cfg(any(test, unix))] use crate::b::B; struct A;"),
                ("b.rs", "use crate::a::A; struct B;"),
            ],
        ),
        (
            "between test items",
            vec![
                ("a.rs", "#[cfg(test)] fn t() { a[1] } use crate::b::B; #[cfg(test)] mod t { }"),
                ("b.rs", "fn b() { crate::a::a() }"),
            ],
        ),
    ] {
        let sources = examples("src/", &files);
        assert!(!circles(&Crate::new("src/", &sources).imports).is_empty(), "{why}");
    }
}

#[test]
fn what_leads_back_to_nothing_is_no_circle() {
    for (why, files) in [
        ("one way", vec![("a.rs", "use crate::b::B;"), ("b.rs", "use std::a::A; struct B;")]),
        (
            "a parent that only has its child, and hands it out",
            vec![("a/mod.rs", "mod b; pub use b::B; struct A;"), ("a/b.rs", "use super::A; struct B;")],
        ),
        (
            "what is handed out is its own file's",
            vec![
                ("a/mod.rs", "mod low; mod high; pub use low::Low; use high::High;"),
                ("a/low.rs", "struct Low;"),
                ("a/high.rs", "use crate::a::Low; struct High;"),
            ],
        ),
        ("who may see it", vec![("a/mod.rs", "mod b; use b::B;"), ("a/b.rs", "pub(in crate::a) struct B;")]),
        (
            "tests",
            vec![
                ("a.rs", "use crate::b::B; struct A;"),
                ("b.rs", "#[cfg(test)] mod tests { use crate::a::A; } struct B;"),
                ("c/mod.rs", "#[cfg(any(test, fuzzing))] mod t; use crate::a::A; pub struct C;"),
                ("c/t.rs", "use super::C;"),
            ],
        ),
    ] {
        let sources = examples("src/", &files);
        assert_eq!(circles(&Crate::new("src/", &sources).imports), [], "{why}");
    }
}

#[test]
fn a_circle_through_self_is_found() {
    let files = [
        ("a/mod.rs", "mod b; mod c; pub struct A;"),
        ("a/b.rs", "use super::A; impl A { fn b(&self) { self.c() } fn last(&self) {} }"),
        ("a/c.rs", "use super::A; impl<T: Fn() -> u8> A where T: Copy { fn c(&self) { Self::last(self) } }"),
    ];
    let count = |files: &[(&str, &str)]| {
        let sources = examples("src/", files);
        let (by_imports, by_self) = files_in_circles(&Crate::new("src/", &sources));
        (by_imports.len(), by_self.len())
    };
    assert_eq!(count(&files), (0, 2));

    for (why, b) in [
        (
            "a trait's method",
            "use crate::a; impl Trait for a::A { fn b(&self) { self.c() } fn last(&self) {} }",
        ),
        ("a renamed type", "use super::A as B; impl B { fn b(&self) { self.c::<u8>() } fn last(&self) {} }"),
    ] {
        let files = [files[0], ("a/b.rs", b), files[2]];
        assert_eq!(count(&files), (0, 2), "{why}");
    }
    for (why, b) in [
        ("one way", "use super::A; impl A { fn b(&self) { self.c() } }"),
        (
            "its own method",
            "use super::A; impl A { fn b(&self) { self.c() } fn c(&self) {} fn last(&self) {} }",
        ),
        (
            "another type's",
            "struct B; impl B { fn b(&self) { self.c() } } impl super::A { fn last(&self) {} }",
        ),
        ("a field's", "use super::A; impl A { fn b(&self) { self.d.c() } fn last(&self) {} }"),
        (
            "tests",
            "use super::A; #[cfg(test)] impl A { fn b(&self) { self.c() } } impl A { fn last(&self) {} }",
        ),
    ] {
        let files = [files[0], ("a/b.rs", b), files[2]];
        assert_eq!(count(&files), (0, 0), "{why}");
    }
}

#[test]
fn imports_lead_around_between_no_files() {
    let mut complaints = Vec::new();
    for one in crates() {
        let arrows = between_files(&one.imports);
        for circle in circles(&arrows) {
            let lines = around(&arrows, &circle).map(|(from, to, names)| {
                let name = names.first().copied().unwrap_or("");
                let what =
                    format!("uses `{name}` of {}, which leads back here: turn an arrow", to.join("::"));
                one.complaint(from, name, &what)
            });
            complaints.extend(lines);
        }
    }
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
