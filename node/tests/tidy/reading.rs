//! Reads a crate's files as far as the rules about arrows need: what each defines, uses and hands out, the
//! methods of its `impl` blocks, and what these call through `self`.

use std::collections::{BTreeMap, BTreeSet};

use super::scan::is_name;

/// A module's names below its crate; none for the root.
pub(crate) type Module<'a> = Vec<&'a str>;

/// A file: what it defines, uses, and hands out from elsewhere.
#[derive(Default)]
pub(crate) struct File<'a> {
    pub(crate) defines: BTreeSet<&'a str>,
    /// Each with the name that it has in the file; none for a path inside code.
    pub(crate) uses: Vec<(&'a str, Vec<&'a str>)>,
    /// Under which name, and whose; `*` is all.
    pub(crate) hands_out: Vec<(&'a str, Vec<&'a str>)>,
    pub(crate) impls: Vec<ImplBlock<'a>>,
}

/// An `impl` block of a type, with or without a trait.
pub(crate) struct ImplBlock<'a> {
    /// The path of the type.
    pub(crate) of: Vec<&'a str>,
    pub(crate) is_of_trait: bool,
    pub(crate) methods: BTreeSet<&'a str>,
    /// Names that are called as `self.name(` or `Self::name(`.
    pub(crate) calls: BTreeSet<&'a str>,
}

pub(crate) type Files<'a> = BTreeMap<Module<'a>, File<'a>>;

const DECLARATIONS: [&str; 9] =
    ["struct", "enum", "trait", "type", "fn", "const", "static", "union", "macro_rules"];

/// Names, `::`, `->`, and every other character alone.
fn tokens(code: &str) -> Vec<&str> {
    let mut tokens = Vec::new();
    let mut rest = code;
    while let Some(first) = rest.chars().next() {
        let length = match rest.bytes().take_while(|&byte| is_name(byte)).count() {
            0 if rest.starts_with("::") || rest.starts_with("->") => 2,
            0 => first.len_utf8(),
            length => length,
        };
        if !first.is_whitespace() {
            tokens.push(&rest[..length]);
        }
        rest = &rest[length..];
    }
    tokens
}

/// The place behind the bracket that closes the one at `open`.
fn closed(tokens: &[&str], open: usize) -> usize {
    let mut depth = 0_usize;
    for (at, token) in tokens.iter().enumerate().skip(open) {
        match *token {
            "{" | "(" | "[" => depth += 1,
            "}" | ")" | "]" => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            return at + 1;
        }
    }
    tokens.len()
}

/// The paths of a `use` tree, each with the name that it ends as. Returns the place behind the tree.
fn use_tree<'a>(
    tokens: &[&'a str],
    mut at: usize,
    prefix: &[&'a str],
    found: &mut Vec<(&'a str, Vec<&'a str>)>,
) -> usize {
    let mut path = prefix.to_vec();
    loop {
        match tokens.get(at) {
            // Of another crate, even if a module here has its name: no file has this name.
            Some(&"::") if path.is_empty() => (path, at) = (vec!["::"], at + 1),
            Some(&"::") => at += 1,
            Some(&"{") => {
                at += 1;
                while tokens.get(at).is_some_and(|token| *token != "}") {
                    at = use_tree(tokens, at, &path, found);
                    at += usize::from(tokens.get(at) == Some(&","));
                }
                return at + 1;
            }
            Some(&"as") => {
                found.push((tokens[at + 1], path));
                return at + 2;
            }
            Some(name) if !matches!(*name, "," | ";" | "}") => {
                path.push(name);
                at += 1;
            }
            _ => {
                if path.len() > 1 && path.last() == Some(&"self") {
                    path.pop();
                }
                found.extend(path.last().copied().map(|name| (name, path.clone())));
                return at;
            }
        }
    }
}

/// Reads a file. `children` are the modules below it.
fn file<'a>(tokens: &[&'a str], children: &BTreeSet<&str>) -> File<'a> {
    let mut file = File::default();
    let mut at = 0;
    let mut is_public = false;
    while at < tokens.len() {
        let (token, before) = (tokens[at], at.checked_sub(1).map_or("", |before| tokens[before]));
        let next = |ahead: usize| tokens.get(at + ahead).copied().unwrap_or("");
        match token {
            "pub" => {
                is_public = true;
                at = if next(1) == "(" { closed(tokens, at + 1) } else { at + 1 };
                continue;
            }
            // `use<'a>` in a type is not an import.
            "use" if next(1) != "<" => {
                let mut found = Vec::new();
                at = use_tree(tokens, at + 1, &[], &mut found);
                if is_public {
                    file.hands_out.append(&mut found);
                } else {
                    file.uses.append(&mut found);
                }
            }
            _ if before != "::" && next(1) == "::" && is_own_root(token, children) => {
                let mut path = if children.contains(token) { vec!["self"] } else { vec![] };
                while tokens.get(at).is_some_and(|token| token.bytes().all(is_name)) {
                    path.push(tokens[at]);
                    at += 1;
                    if tokens.get(at) != Some(&"::") {
                        break;
                    }
                    at += 1;
                }
                file.uses.push(("", path));
            }
            "impl" if matches!(before, "" | "}" | "{" | ";" | "]" | "unsafe") => {
                file.impls.extend(impl_block(tokens, at));
                at += 1;
            }
            keyword if DECLARATIONS.contains(&keyword) => {
                file.defines.insert(if next(1) == "!" { next(2) } else { next(1) });
                at += 1;
            }
            _ => at += 1,
        }
        is_public = false;
    }
    file
}

fn is_own_root(token: &str, children: &BTreeSet<&str>) -> bool {
    matches!(token, "crate" | "super" | "self") || children.contains(token)
}

/// The module of a file below `src`.
pub(crate) fn module_of(path: &str) -> Module<'_> {
    let path = path.trim_end_matches(".rs");
    let mut names: Vec<_> = path.split('/').collect();
    if matches!(names.last(), Some(&("mod" | "lib" | "main"))) {
        names.pop();
    }
    names
}

/// Reads the `impl` block that begins at `at`; none where it is of no path, as that of a tuple.
fn impl_block<'a>(tokens: &[&'a str], at: usize) -> Option<ImplBlock<'a>> {
    let mut of = Vec::new();
    let (mut depth, mut is_of_trait, mut is_type) = (0_usize, false, true);
    let mut open = at + 1;
    while open < tokens.len() && (depth > 0 || tokens[open] != "{") {
        match tokens[open] {
            "<" => depth += 1,
            ">" => depth = depth.saturating_sub(1),
            _ if depth > 0 => {}
            "where" => is_type = false,
            "for" => (is_of_trait, of) = (true, Vec::new()),
            "::" | "dyn" | "mut" => {}
            name if is_type && name.bytes().all(is_name) => of.push(name),
            _ => {}
        }
        open += 1;
    }
    let body = &tokens[open..closed(tokens, open)];
    let (mut methods, mut calls) = (BTreeSet::new(), BTreeSet::new());
    let mut depth = 0_usize;
    for window in body.windows(4) {
        match *window {
            ["{", ..] => depth += 1,
            ["}", ..] => depth = depth.saturating_sub(1),
            ["fn", name, ..] if depth == 1 => drop(methods.insert(name)),
            ["self", ".", name, "(" | "::"] | ["Self", "::", name, "("] => drop(calls.insert(name)),
            _ => {}
        }
    }
    (!of.is_empty()).then_some(ImplBlock { of, is_of_trait, methods, calls })
}

/// Reads the files of a crate, by their paths below `src`, without the root of its program.
pub(crate) fn files<'a>(crate_files: &[(&'a str, &'a str)]) -> Files<'a> {
    let library = crate_files.iter().filter(|(path, _)| *path != "main.rs");
    let read: BTreeMap<Module<'_>, Vec<&str>> =
        library.map(|(path, code)| (module_of(path), tokens(code))).collect();
    let children_of = |module: &Module<'_>| -> BTreeSet<&str> {
        let below = read.keys().filter(|one| one.len() == module.len() + 1 && one.starts_with(module));
        below.filter_map(|one| one.last().copied()).collect()
    };
    read.iter().map(|(module, tokens)| (module.clone(), file(tokens, &children_of(module)))).collect()
}
