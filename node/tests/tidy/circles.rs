//! Circles of files: following what files use leads back to where one began.
//!
//! In no crate may imports lead around between files. Two more kinds are counted, and the count may only fall
//! (see `ratchet`): circles of imports between a `mod.rs` and the files below it, and circles that exist only
//! through calls of `self.method`, where the method stands in another file.

use std::collections::BTreeSet;

use super::arrows::{Arrows, around, circles, imports, self_calls, together, types};
use super::reading::{Files, Module, files as read_files};
use super::source::{Source, members, sources};

/// Files among which a type's methods may be spread: what a reader can hold at a sitting.
pub(crate) const FILES_OF_A_TYPE_MAX: usize = 5;

/// The files of a crate below its `src`, each with its path there and its code.
pub(crate) fn code_of<'a>(all: &'a [Source], src: &str) -> Vec<(&'a str, &'a str)> {
    all.iter().filter_map(|source| Some((source.path.strip_prefix(src)?, source.code.as_str()))).collect()
}

/// The arrows without those between a `mod.rs` and the files below it.
fn between_files<'a>(arrows: &Arrows<'a>) -> Arrows<'a> {
    let mut arrows = arrows.clone();
    for (module, used) in &mut arrows {
        used.retain(|other, _| !other.starts_with(module) && !module.starts_with(other));
    }
    arrows
}

/// The files that lie in a circle of imports, and those that do only when calls through `self` count, too.
pub(crate) fn files_in_circles<'a>(files: &Files<'a>) -> (BTreeSet<Module<'a>>, BTreeSet<Module<'a>>) {
    let imports = imports(files);
    let by_imports: BTreeSet<_> = circles(&imports).into_iter().flatten().collect();
    let all = circles(&together(imports, self_calls(files)));
    let by_self = all.into_iter().flatten().filter(|module| !by_imports.contains(module)).collect();
    (by_imports, by_self)
}

/// The types with methods in more files than they may have, each with their number. Traits' methods do not
/// count: what a trait asks for is not spread, but divided.
pub(crate) fn spread_types<'a>(files: &Files<'a>) -> Vec<(Module<'a>, &'a str, usize)> {
    let mut spread = Vec::new();
    for ((module, name), blocks) in types(files) {
        let own = blocks.iter().filter(|(_, block)| !block.is_of_trait && !block.methods.is_empty());
        let count = own.map(|(module, _)| module).collect::<BTreeSet<_>>().len();
        if count > FILES_OF_A_TYPE_MAX {
            spread.push((module, name, count));
        }
    }
    spread
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
            "between test items",
            vec![
                ("a.rs", "#[cfg(test)] fn t() { a[1] } use crate::b::B; #[cfg(test)] mod t { }"),
                ("b.rs", "fn b() { crate::a::a() }"),
            ],
        ),
    ] {
        assert!(!circles(&imports(&read_files(&files))).is_empty(), "{why}");
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
        assert_eq!(circles(&imports(&read_files(&files))), [], "{why}");
    }
}

#[test]
fn a_circle_through_self_is_found() {
    let files = [
        ("a/mod.rs", "mod b; mod c; pub struct A;"),
        ("a/b.rs", "use super::A; impl A { fn b(&self) { self.c() } fn last(&self) {} }"),
        ("a/c.rs", "use super::A; impl<T: Fn() -> u8> A where T: Copy { fn c(&self) { Self::last(self) } }"),
    ];
    let read = read_files(&files);
    let (by_imports, by_self) = files_in_circles(&read);
    assert_eq!((by_imports.len(), by_self.len()), (0, 2));

    for (why, b) in [
        (
            "a trait's method",
            "use crate::a; impl Trait for a::A { fn b(&self) { self.c() } fn last(&self) {} }",
        ),
        ("a renamed type", "use super::A as B; impl B { fn b(&self) { self.c::<u8>() } fn last(&self) {} }"),
    ] {
        let files = [files[0], ("a/b.rs", b), files[2]];
        assert_eq!(files_in_circles(&read_files(&files)).1.len(), 2, "{why}");
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
        assert!(files_in_circles(&read_files(&files)).1.is_empty(), "{why}");
    }
}

#[test]
fn a_sixth_file_with_methods_of_a_type_is_found() {
    let part = "use super::A; impl A { fn b(&self) {} }";
    let mut files = vec![
        ("a/mod.rs", "pub struct A; impl A { fn new() {} }"),
        ("a/b.rs", part),
        ("a/c.rs", part),
        ("a/d.rs", part),
        ("a/e.rs", part),
        ("a/f.rs", "use super::A; impl Trait for A { fn f(&self) {} }"),
        ("a/g.rs", "struct A; impl A { fn other_type() {} }"),
    ];
    assert_eq!(spread_types(&read_files(&files)), []);
    files.push(("a/h.rs", "impl super::A { fn h(&self) {} }"));
    assert_eq!(spread_types(&read_files(&files)), [(vec!["a"], "A", 6)]);
}

#[test]
fn imports_lead_around_between_no_files() {
    let all = sources();
    let mut complaints = Vec::new();
    for member in members() {
        let src = format!("{member}/src/");
        let code = code_of(&all, &src);
        assert!(!code.is_empty(), "{src} has files");
        let arrows = between_files(&imports(&read_files(&code)));
        for circle in circles(&arrows) {
            complaints.extend(around(&arrows, &circle).into_iter().map(|one| format!("{src}: {one}")));
        }
    }
    assert!(complaints.is_empty(), "\n{}\n", complaints.join("\n"));
}
