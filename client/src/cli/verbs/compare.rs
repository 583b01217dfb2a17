//! `sync` and `diff`: two sides in one pass.

use serde_json::json;
use tokio::sync::mpsc;

use super::copy::{CopyOptions, side};
use crate::cli::address::Address;
use crate::cli::arguments::{DiffArgs, SyncArgs};
use crate::cli::exit::Exit;
use crate::cli::session::{Session, VerbError, VerbResult, usage};
use crate::error::{Error, NameFault};
use crate::glob::Filters;
use crate::limits::JOBS_AHEAD_MAX;
use crate::sync::compare::{Merge, Pair, SideError};
use crate::sync::same::{Comparison, is_same};
use crate::sync::side::{Side, SideEntry};
use crate::transfer::delete::delete_keys;
use crate::transfer::engine::blocking;
use crate::transfer::job::{JobEnd, Jobs};
use crate::transfer::progress::Event;

pub(crate) async fn sync(session: &Session, arguments: SyncArgs) -> VerbResult {
    let SyncArgs { source, target, delete, dry_run: _, compare, fsync: _, filters, attributes } = arguments;
    let (source, target) = sides(session, &[source, target])?;
    if target.is_below(&source) || source.is_below(&target) {
        return usage(NameFault::Overlap.to_string());
    }
    let options = CopyOptions { is_move: false, attributes: attributes.given(), filters: filters.filters() };
    let (doomed, keys) = mpsc::channel(JOBS_AHEAD_MAX);
    let plan = async |jobs: Jobs| {
        let mut syncing = Syncer {
            session,
            target: &target,
            options: &options,
            compare,
            doomed: delete.then_some(doomed),
            held: Vec::new(),
            has_source: false,
        };
        syncing.run(&jobs, Merge::new(source.entries(), target.entries())).await;
    };
    let delete_keys = async {
        match &target {
            Side::Prefix { client, scheme, bucket, .. } => {
                delete_keys(&session.engine, client, scheme, bucket, keys).await;
            }
            Side::Folder(_) => drop(keys),
        }
    };
    tokio::join!(session.engine.run(plan), delete_keys);
    Ok(Exit::Done)
}

fn sides(session: &Session, addresses: &[std::ffi::OsString; 2]) -> Result<(Side, Side), VerbError> {
    let [source, target] = addresses.each_ref().map(|text| Address::parse(text));
    let (source, target) = (source.map_err(VerbError::Usage)?, target.map_err(VerbError::Usage)?);
    match (&source, &target) {
        (Address::Standard, _) | (_, Address::Standard) => return usage("`-` is no folder"),
        (Address::Local(_), Address::Local(_)) => return usage("neither side is s3:// or an alias"),
        _ => {}
    }
    for address in [&source, &target] {
        if let Address::Remote(remote) = address
            && remote.bucket.is_empty()
        {
            return usage("a bucket is missing");
        }
    }
    Ok((side(session, source)?, side(session, target)?))
}

/// One pass of `sync`.
struct Syncer<'a> {
    session: &'a Session,
    target: &'a Side,
    options: &'a CopyOptions,
    compare: Comparison,
    /// Takes keys to be removed; none once nothing may be removed any more.
    doomed: Option<mpsc::Sender<(String, u64)>>,
    /// Entries to be removed as soon as the source has shown one of its own.
    held: Vec<SideEntry>,
    has_source: bool,
}

impl Syncer<'_> {
    async fn run(&mut self, jobs: &Jobs, mut merge: Merge) {
        while let Some(pair) = merge.next().await {
            match pair {
                Ok(Pair::Source(entry)) => {
                    self.has_source = true;
                    self.copy(jobs, entry).await;
                }
                Ok(Pair::Both(source, target)) => {
                    self.has_source = true;
                    if !is_same(&source, &target, self.compare).await {
                        self.copy(jobs, source).await;
                    }
                }
                Ok(Pair::Target(entry)) if self.options.filters.take(&entry.name) => self.held.push(entry),
                Ok(Pair::Target(_)) => {}
                Err(SideError { is_source, error }) => {
                    // A name that the source could not show is not missing from it.
                    if is_source {
                        self.doomed = None;
                    }
                    self.session.fail("read", "", error).await;
                    if !is_source {
                        // Without the target's list everything would be copied again.
                        return;
                    }
                }
            }
            if self.has_source {
                self.remove_held().await;
            }
        }
        if !self.has_source && self.doomed.is_some() && !self.held.is_empty() {
            let error = Error::file("read", "the source")(std::io::Error::new(
                std::io::ErrorKind::NotFound,
                "it is empty, so nothing is removed from the target",
            ));
            self.session.fail("delete", "", error).await;
        }
        self.doomed = None;
    }

    async fn copy(&self, jobs: &Jobs, entry: SideEntry) {
        if !self.options.filters.take(&entry.name) {
            return;
        }
        let planned = match self.target.admits(&entry) {
            None => return,
            Some(admitted) => admitted.and_then(|()| self.target.end(&entry.name)),
        };
        match planned {
            Ok(end) => {
                self.session.plan(jobs, self.options.job(entry.end, end, Some(entry.bytes))).await;
            }
            Err(error) => self.session.fail("copy", entry.end.to_string(), error).await,
        }
    }

    async fn remove_held(&mut self) {
        let Some(doomed) = &self.doomed else {
            self.held.clear();
            return;
        };
        for entry in std::mem::take(&mut self.held) {
            let progress = self.session.engine.progress();
            progress.planned(0);
            let source = entry.end.to_string();
            if self.session.is_dry_run {
                let event = Event::Planned { verb: "delete", source, target: None, bytes: entry.bytes };
                progress.report(event).await;
                continue;
            }
            match entry.end {
                JobEnd::Object { object, .. } => {
                    let _deleter_is_gone = doomed.send((object.key, entry.bytes)).await;
                }
                JobEnd::File(path) => {
                    let removed = path.clone();
                    let event = match blocking(move || std::fs::remove_file(removed)).await {
                        Ok(()) => Event::Done { verb: "delete", source, target: None, bytes: entry.bytes },
                        Err(error) => Event::Failed {
                            verb: "delete",
                            source,
                            error: Error::file("remove", path)(error),
                        },
                    };
                    progress.report(event).await;
                }
            }
        }
    }
}

pub(crate) async fn diff(session: &Session, arguments: DiffArgs) -> VerbResult {
    let DiffArgs { source, target, compare, filters } = arguments;
    let filters: Filters = filters.filters();
    let (source, target) = sides(session, &[source, target])?;
    let mut merge = Merge::new(source.entries(), target.entries());
    let mut exit = Exit::Done;
    while let Some(pair) = merge.next().await {
        let (mark, difference, name) = match pair {
            Ok(Pair::Source(entry)) => ('<', "only_in_source", entry.name),
            Ok(Pair::Target(entry)) => ('>', "only_in_target", entry.name),
            Ok(Pair::Both(source, target)) if is_same(&source, &target, compare).await => continue,
            Ok(Pair::Both(source, _)) => ('!', "differs", source.name),
            Err(SideError { error, .. }) => {
                session.fail("read", "", error).await;
                continue;
            }
        };
        if filters.take(&name) {
            exit = Exit::Some;
            session
                .output
                .result(|| json!({ "difference": difference, "name": name }), || format!("{mark} {name}"));
        }
    }
    Ok(exit)
}
