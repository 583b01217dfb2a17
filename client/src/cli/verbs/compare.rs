//! `sync` and `diff`: two sides in one pass.

use std::sync::atomic::Ordering;

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
use crate::sync::doomed::{DoomedName, DoomedNames};
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
    let state = session.engine.settings().state.clone().unwrap_or_default();
    let mut doomed = delete.then(|| DoomedNames::new(state));
    let plan = async |jobs: Jobs| {
        let mut syncing =
            Syncer { session, target: &target, options: &options, compare, doomed: doomed.take() };
        match syncing.run(&jobs, Merge::new(source.entries(), target.entries_of_target())).await {
            Ok(()) => doomed = syncing.doomed,
            Err(error) => session.fail("read", "", error).await,
        }
    };
    session.engine.run(plan).await;
    let failed = session.engine.progress().counters().failed.load(Ordering::Relaxed);
    if let Some(doomed) = doomed.filter(|_| failed == 0) {
        remove(session, &target, doomed).await?;
    }
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
    /// Names that are to be removed; none once nothing may be removed.
    doomed: Option<DoomedNames>,
}

impl Syncer<'_> {
    /// Goes through both sides. An error ends it before their end.
    async fn run(&mut self, jobs: &Jobs, mut merge: Merge) -> Result<(), Error> {
        let is_empty = !merge.has_source().await;
        while let Some(pair) = merge.next().await {
            match pair {
                Ok(Pair::Source(entry)) => self.copy(jobs, entry).await?,
                Ok(Pair::Both(source, target)) => {
                    if !is_same(&source, &target, self.compare).await {
                        self.copy(jobs, source).await?;
                    }
                }
                Ok(Pair::Target(entry)) if self.options.filters.take(&entry.name) => {
                    let Some(doomed) = &mut self.doomed else { continue };
                    if is_empty {
                        // A source that is not mounted, or misspelt, would empty the target.
                        let reason =
                            std::io::Error::other("it is empty, so nothing is removed from the target");
                        return Err(Error::file("read", "the source")(reason));
                    }
                    let SideEntry { name, bytes, is_behind_link, .. } = entry;
                    doomed.push(DoomedName { name, bytes, is_behind_link })?;
                }
                Ok(Pair::Target(_)) => {}
                // Without the target's list everything would be copied again.
                Err(SideError { is_source: false, error }) => return Err(error),
                Err(SideError { is_source: true, error }) => {
                    // A name that the source could not show is not missing from it.
                    self.doomed = None;
                    self.session.fail("read", "", error).await;
                }
            }
        }
        Ok(())
    }

    async fn copy(&self, jobs: &Jobs, entry: SideEntry) -> Result<(), Error> {
        if !self.options.filters.take(&entry.name) {
            return Ok(());
        }
        let planned = match self.target.admits(&entry) {
            None => return Ok(()),
            Some(admitted) => admitted.and_then(|()| self.target.end(&entry.name)),
        };
        match planned {
            Ok(end) => self.session.plan(jobs, self.options.job(entry.end, end, Some(entry.bytes))).await,
            Err(error) => {
                self.session.fail("copy", entry.end.to_string(), error).await;
                Ok(())
            }
        }
    }
}

/// Removes names from the target.
async fn remove(session: &Session, target: &Side, doomed: DoomedNames) -> Result<(), Error> {
    let (sender, keys) = mpsc::channel(JOBS_AHEAD_MAX);
    let delete_keys = async {
        match target {
            Side::Prefix { client, scheme, bucket, .. } => {
                delete_keys(&session.engine, client, scheme, bucket, keys).await;
            }
            Side::Folder(_) => drop(keys),
        }
    };
    let send = async {
        // Moved in, so that the channel ends with the names.
        let sender = sender;
        for name in doomed.read()? {
            if session.output.is_stopped() {
                return Err(Error::Cancelled);
            }
            remove_one(session, target, name?, &sender).await?;
        }
        Ok(())
    };
    tokio::join!(send, delete_keys).0
}

async fn remove_one(
    session: &Session,
    target: &Side,
    doomed: DoomedName,
    keys: &mpsc::Sender<(String, u64)>,
) -> Result<(), Error> {
    let DoomedName { name, bytes, is_behind_link } = doomed;
    let end = target.end(&name)?;
    let (source, progress) = (end.to_string(), session.engine.progress());
    if is_behind_link {
        session.fail("delete", &source, Error::name(&source, NameFault::BehindLink)).await;
        return Ok(());
    }
    progress.planned(0);
    let event = match end {
        _ if session.is_dry_run => Event::Planned { verb: "delete", source, target: None, bytes },
        JobEnd::Object { object, .. } => {
            return keys.send((object.key, bytes)).await.map_err(|_| Error::Cancelled);
        }
        JobEnd::File(path) => {
            let removed = path.clone();
            match blocking(move || std::fs::remove_file(removed)).await {
                Ok(()) => Event::Done { verb: "delete", source, target: None, bytes },
                Err(error) => {
                    Event::Failed { verb: "delete", source, error: Error::file("remove", path)(error) }
                }
            }
        }
    };
    progress.report(event).await;
    Ok(())
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
