//! The crates of the workspace, each with its files as the rules about arrows read them.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use super::arrows::{Arrows, imports};
use super::reading::{Files, Module, files, module_of};
use super::scan::all_words;
use super::source::{Source, members, sources};

pub(crate) struct Crate<'a> {
    /// Path of its `src`, with a slash at the end.
    pub(crate) src: String,
    pub(crate) files: Files<'a>,
    pub(crate) imports: Arrows<'a>,
    sources: BTreeMap<Module<'a>, &'a Source>,
}

/// Every member of the workspace, read once.
pub(crate) fn crates() -> &'static [Crate<'static>] {
    static CRATES: LazyLock<Vec<Crate<'static>>> = LazyLock::new(|| {
        members().iter().map(|member| Crate::new(&format!("{member}/src/"), sources())).collect()
    });
    &CRATES
}

impl<'a> Crate<'a> {
    pub(crate) fn new(src: &str, sources: &'a [Source]) -> Self {
        let own = sources.iter().filter_map(|source| Some((source.path.strip_prefix(src)?, source)));
        let own: Vec<_> = own.filter(|(path, _)| *path != "main.rs").collect();
        let code: Vec<_> = own.iter().map(|(path, source)| (*path, source.production.as_str())).collect();
        let sources = own.into_iter().map(|(path, source)| (module_of(path), source)).collect();
        let files = files(&code);
        Self { src: src.to_owned(), imports: imports(&files), files, sources }
    }

    /// The room of a module, by its path; of the crate's root, `src`.
    pub(crate) fn room(&self, module: &Module<'_>) -> String {
        module.first().map_or(self.src.trim_end_matches('/').to_owned(), |room| format!("{}{room}", self.src))
    }

    /// A complaint at the first use of a name in a module.
    pub(crate) fn complaint(&self, module: &Module<'_>, name: &str, what: &str) -> String {
        let Some(source) = self.sources.get(module) else { return format!("{}: {what}", self.room(module)) };
        let named = (!name.is_empty()).then(|| all_words(&source.production, name).next()).flatten();
        source.complaint(named.unwrap_or(0), what)
    }
}
