//! Arrows between the files of a crate: what a file imports, and the methods of other files that it calls
//! through `self`.
//!
//! The names that a file uses are read off its `use` trees and its paths (`crate::`, `super::`, `self::`, or
//! a module of its own), each followed through `pub use` to the file that defines the item. That a file has a
//! module, or hands out items from below it, does not count as a use of them.

use std::collections::{BTreeMap, BTreeSet};

use super::reading::{Files, ImplBlock, Module};

/// From each file to others, with the names that it uses of them.
pub(crate) type Arrows<'a> = BTreeMap<Module<'a>, BTreeMap<Module<'a>, BTreeSet<&'a str>>>;

/// A type, by the file that defines it.
pub(crate) type TypeName<'a> = (Module<'a>, &'a str);

/// The `impl` blocks of the types of a crate, each with its file.
pub(crate) type TypeBlocks<'a, 'f> = BTreeMap<TypeName<'a>, Vec<(&'f Module<'a>, &'f ImplBlock<'a>)>>;

/// The file that defines what a path in `module` names; none where that is another crate's.
fn resolve<'a>(files: &Files<'a>, module: &Module<'a>, path: &[&'a str], depth: usize) -> Option<Module<'a>> {
    let mut at = module.clone();
    let mut path = path;
    match path.first()? {
        &"crate" => (at, path) = (vec![], &path[1..]),
        &"self" => path = &path[1..],
        &"super" => {
            while path.first() == Some(&"super") {
                at.pop();
                path = &path[1..];
            }
        }
        name => {
            let is_child = files.contains_key(&[&at[..], &[name]].concat());
            if !is_child {
                return None;
            }
        }
    }
    while let Some(name) = path.first() {
        let below = [&at[..], &[name]].concat();
        if !files.contains_key(&below) {
            break;
        }
        (at, path) = (below, &path[1..]);
    }
    let file = files.get(&at)?;
    let Some(name) = path.first() else { return Some(at) };
    if depth < 8 && !file.defines.contains(name) {
        let handed_out = file.hands_out.iter().filter(|(as_name, _)| as_name == name || *as_name == "*");
        for (as_name, from) in handed_out {
            let from = if *as_name == "*" { &from[..from.len() - 1] } else { &from[..] };
            let found = resolve(files, &at, from, depth + 1);
            if let Some(found) = found.filter(|found| *as_name != "*" || files[found].defines.contains(name))
            {
                return Some(found);
            }
        }
    }
    Some(at)
}

/// The arrows of imports.
pub(crate) fn imports<'a>(files: &Files<'a>) -> Arrows<'a> {
    let mut arrows = Arrows::new();
    for (module, file) in files {
        let imported = file.uses.iter().map(|(_, path)| (path, false));
        let handed_out = file.hands_out.iter().map(|(_, path)| (path, true));
        for (path, is_handed_out) in imported.chain(handed_out) {
            let used = resolve(files, module, path, 0).filter(|used| used != module);
            if let Some(used) = used.filter(|used| !is_handed_out || !used.starts_with(module)) {
                let names = arrows.entry(module.clone()).or_default().entry(used).or_default();
                names.extend(path.last());
            }
        }
    }
    arrows
}

/// The type that an `impl` block is of; none where another crate defines it.
fn type_of<'a>(files: &Files<'a>, module: &Module<'a>, path: &[&'a str]) -> Option<TypeName<'a>> {
    let file = &files[module];
    let name = *path.last()?;
    if path.len() == 1 && file.defines.contains(name) {
        return Some((module.clone(), name));
    }
    let imported = file.uses.iter().find(|(as_name, _)| Some(as_name) == path.first());
    let path = imported.map_or(path.to_vec(), |(_, from)| [from, &path[1..]].concat());
    let name = *path.last()?;
    resolve(files, module, &path, 0)
        .filter(|defining| files[defining].defines.contains(name))
        .map(|defining| (defining, name))
}

/// The types of a crate that have `impl` blocks.
pub(crate) fn types<'a, 'f>(files: &'f Files<'a>) -> TypeBlocks<'a, 'f> {
    let mut types = TypeBlocks::new();
    for (module, file) in files {
        for block in &file.impls {
            if let Some(name) = type_of(files, module, &block.of) {
                types.entry(name).or_default().push((module, block));
            }
        }
    }
    types
}

/// The arrows of calls through `self` to methods that only other files define.
pub(crate) fn self_calls<'a>(files: &Files<'a>) -> Arrows<'a> {
    let mut arrows = Arrows::new();
    for blocks in types(files).values() {
        for (caller, block) in blocks {
            for name in &block.calls {
                let defining = blocks.iter().filter(|(_, other)| other.methods.contains(name));
                let defining: Vec<_> = defining.map(|(module, _)| *module).collect();
                for other in defining.iter().filter(|_| !defining.contains(caller)) {
                    let used = arrows.entry((*caller).clone()).or_default();
                    used.entry((*other).clone()).or_default().insert(*name);
                }
            }
        }
    }
    arrows
}

/// Both kinds of arrows.
pub(crate) fn together<'a>(mut arrows: Arrows<'a>, more: Arrows<'a>) -> Arrows<'a> {
    for (module, used) in more {
        for (other, names) in used {
            arrows.entry(module.clone()).or_default().entry(other).or_default().extend(names);
        }
    }
    arrows
}

/// The circles that arrows make, each the files that lie in it.
pub(crate) fn circles<'a>(arrows: &Arrows<'a>) -> Vec<BTreeSet<Module<'a>>> {
    let reached = |from: &Module<'a>| {
        let (mut seen, mut open) = (BTreeSet::new(), vec![from.clone()]);
        while let Some(next) = open.pop() {
            for used in arrows.get(&next).into_iter().flat_map(|used| used.keys()) {
                if seen.insert(used.clone()) {
                    open.push(used.clone());
                }
            }
        }
        seen
    };
    let reached: BTreeMap<_, _> = arrows.keys().map(|module| (module, reached(module))).collect();
    let leads_back =
        |from: &Module<'a>, to: &Module<'a>| reached.get(from).is_some_and(|all| all.contains(to));
    let mut circles: Vec<BTreeSet<Module<'a>>> = Vec::new();
    for module in arrows.keys().filter(|module| leads_back(module, module)) {
        if !circles.iter().any(|circle| circle.contains(module)) {
            let others = reached[module].iter().filter(|other| leads_back(other, module));
            circles.push(others.cloned().collect());
        }
    }
    circles
}

/// The arrows of a circle: from, to, and the names that are used.
pub(crate) fn around<'a, 'b>(
    arrows: &'b Arrows<'a>,
    circle: &'b BTreeSet<Module<'a>>,
) -> impl Iterator<Item = (&'b Module<'a>, &'b Module<'a>, &'b BTreeSet<&'a str>)> {
    let inside = move |module: &'b Module<'a>| {
        let used = arrows[module].iter().filter(|(used, _)| circle.contains(*used));
        used.map(move |(used, names)| (module, used, names))
    };
    circle.iter().flat_map(inside)
}
