//! The look-up of a view for a request: a remembered one, or a read that requests share.
//!
//! ```text
//! view younger than 1 s -> taken
//! from 1 s on           -> taken, and refreshed in the background, once
//! 2 s old, or none      -> read, together with requests that came at most 1 s later
//! ```
//! A request takes a view of another one's read, and no failure: what could not be read when the other began,
//! it reads itself.

use std::sync::Arc;

use futures::FutureExt;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::ViewSource;
use super::cache::{LookupUnderWay, SharedLookup};
use crate::observe::trace;
use crate::register::Failure;

/// The view of a name, if one is remembered that may be taken.
pub(crate) fn remembered<S: ViewSource>(source: &S, name: &S::Name) -> Option<S::View> {
    let (view, is_due) = source.views().get(name)?;
    if is_due {
        refresh(source, name);
    }
    Some(view)
}

/// The view of a name: a remembered one, or what is read now.
pub(crate) async fn look_up<S: ViewSource>(source: &S, name: &S::Name) -> Result<S::View, S::Error> {
    if let Some(view) = remembered(source, name) {
        return Ok(view);
    }
    let (read, is_joined) = begin_read(source, name, None);
    match read.await {
        Err(_) if is_joined => source.read_view(name, source.views().start(name)).await,
        read => read,
    }
}

fn refresh<S: ViewSource>(source: &S, name: &S::Name) {
    match Arc::clone(&source.views().refreshes).try_acquire_owned() {
        Ok(place) => drop(begin_read(source, name, Some(place))),
        Err(_full) => source.views().refresh_later(name),
    }
}

/// Takes part in a read of the view that is under way, or begins one. It ends when its last request is
/// dropped, so that a client that asks and leaves has no read done for it; a refresh goes on. Says whether it
/// was under way.
fn begin_read<S: ViewSource>(
    source: &S,
    name: &S::Name,
    refresh: Option<OwnedSemaphorePermit>,
) -> (SharedLookup<S>, bool) {
    let mut lookups = source.views().lookups.lock();
    let start = source.views().start(name);
    let known = lookups.get(name).filter(|known| known.start.may_be_joined_by(start));
    if let Some(outcome) = known.and_then(|known| known.outcome.upgrade()) {
        return (outcome, true);
    }
    let (mut done, outcome) = oneshot::channel();
    let ended = |read: Result<_, _>| read.unwrap_or_else(|_| Err(Failure::Unavailable.into()));
    let outcome: SharedLookup<S> = outcome.map(ended).boxed().shared();
    let waited_for = outcome.downgrade().expect("it was not polled yet");
    lookups.insert(name.clone(), LookupUnderWay { start, outcome: waited_for });
    drop(lookups);
    let kept = refresh.map(|place| (place, outcome.clone()));
    let (reader, name) = (source.clone(), name.clone());
    source.tasks().spawn(trace::inherited(async move {
        let _kept = kept;
        // Cancel-safe: a read holds nothing, and a channel that closed stays closed.
        let read = tokio::select! {
            biased;
            read = reader.read_view(&name, start) => Some(read),
            () = done.closed() => None,
        };
        let mut lookups = reader.views().lookups.lock();
        if lookups.get(&name).is_some_and(|known| known.start == start) {
            lookups.remove(&name);
        }
        drop(lookups);
        if let Some(read) = read {
            drop(done.send(read));
        }
    }));
    (outcome, false)
}
