//! Types that are more than a reader can hold: methods in too many files, or too many methods.

use std::collections::BTreeSet;

use super::arrows::types;
use super::crates::Crate;
use super::figures::Finding;
use super::source::{examples, members};

/// Files among which a type's methods may be spread: what a reader can hold at a sitting.
const FILES_OF_A_TYPE_MAX: usize = 5;

/// Methods of a type, in all its files: about four screens of a list.
const METHODS_OF_A_TYPE_MAX: usize = 40;

/// Types whose `measure`, over their files and their methods, is more than `max`. Methods of traits do not
/// count: a trait divides a type, it does not spread it.
fn types_over(one: &Crate<'_>, max: usize, measure: fn(usize, usize) -> usize, what: &str) -> Vec<Finding> {
    let mut found = Vec::new();
    for ((module, name), blocks) in types(&one.files) {
        let own = blocks.iter().filter(|(_, block)| !block.is_of_trait && !block.methods.is_empty());
        let files: BTreeSet<_> = own.clone().map(|(file, _)| *file).collect();
        let methods: usize = own.map(|(_, block)| block.methods.len()).sum();
        let count = measure(files.len(), methods);
        if count > max {
            let place = one.complaint(&module, name, &format!("{what} of `{name}`: {count}, at most {max}"));
            found.push(Finding { room: format!("{}::{name}", one.room(&module)), count, place });
        }
    }
    found
}

pub(crate) fn files_of_a_type(one: &Crate<'_>) -> Vec<Finding> {
    types_over(one, FILES_OF_A_TYPE_MAX, |files, _| files, "files with methods")
}

pub(crate) fn methods_of_a_type(one: &Crate<'_>) -> Vec<Finding> {
    types_over(one, METHODS_OF_A_TYPE_MAX, |_, methods| methods, "methods")
}

#[test]
fn a_sixth_file_with_methods_of_a_type_is_found_in_every_crate() {
    let part = "use super::A; impl A { fn b(&self) {} }";
    let mut files = vec![
        ("a/mod.rs", "pub struct A; impl A { fn new() {} }"),
        ("a/b.rs", part),
        ("a/c.rs", part),
        ("a/d.rs", part),
        ("a/e.rs", part),
        ("a/f.rs", "use super::A; impl Trait for A { fn f(&self) {} }"),
        ("a/g.rs", "struct A; impl A { fn other_type() {} }"),
        ("a/i.rs", "#[cfg(test)] impl super::A { fn of_tests() {} }"),
    ];
    let counted = |src: &str, files: &[(&str, &str)]| -> Vec<(String, usize)> {
        let sources = examples(src, files);
        let found = files_of_a_type(&Crate::new(src, &sources));
        found.into_iter().map(|found| (found.room, found.count)).collect()
    };
    assert_eq!(counted("src/", &files), []);
    files.push(("a/h.rs", "impl super::A { fn h(&self) {} }"));
    for src in members().iter().map(|member| format!("{member}/src/")) {
        assert_eq!(counted(&src, &files), [(format!("{src}a::A"), 6)]);
    }
}

#[test]
fn methods_of_a_type_are_counted_over_its_files() {
    let methods = |from: usize, to: usize| -> String {
        (from..to).flat_map(|at| ["fn m".to_owned(), at.to_string(), "() {} ".to_owned()]).collect()
    };
    let counted = |more: usize| {
        let one = format!("pub struct A; impl A {{ {} }} impl B for A {{ fn b() {{}} }}", methods(0, 20));
        let two = format!("use crate::a::A; impl A {{ {} }}", methods(20, 40 + more));
        let sources = examples("src/", &[("a.rs", &one), ("b.rs", &two)]);
        methods_of_a_type(&Crate::new("src/", &sources)).first().map(|found| found.count)
    };
    assert_eq!((counted(0), counted(1)), (None, Some(41)));
}
