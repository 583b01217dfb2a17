//! Questions to volumes: one answer in time, a row with its value, and pages of a volume's list of unsettled
//! rows.

use std::time::Duration;

use sherd_core::id::{Ballot, RegisterKey, VolumeId};
use sherd_core::message;
use sherd_core::message::{Answer, Target, UnsettledKind, UnsettledRow, ValueLimit};
use sherd_core::register::Vote;

use super::deps::Deps;
use crate::peer::{Pending, VolumeRoute};
use crate::upkeep::limits::{PAGE_PATIENCE, UNSETTLED_PAGE};

/// Waits for an answer, for no longer than `timeout`.
pub(crate) async fn ask<R: Unpin>(pending: Pending<R>, timeout: Duration) -> message::Result<R> {
    let late = || message::Error::Unreachable { reason: "no answer in time".to_owned() };
    tokio::time::timeout(timeout, pending).await.unwrap_or_else(|_elapsed| Err(late()))
}

/// Reads a row with its value. A long one is asked for by its length, so that the volume's node counts it.
pub(crate) async fn read_whole(
    route: &VolumeRoute,
    target: &Target,
    timeout: Duration,
) -> message::Result<Answer<Vote>> {
    let mut values = ValueLimit::USUAL;
    loop {
        let answer = ask(route.peer.read(route.volume, target, values), timeout).await?;
        let row = answer.result.as_ref().ok().and_then(|vote| vote.row.as_ref());
        match row.filter(|row| row.value.is_none()).map(|row| row.value_bytes) {
            None => return Ok(answer),
            Some(bytes) if values.takes(bytes) => return Err(message::Error::Busy),
            Some(bytes) => values = ValueLimit::of(bytes),
        }
    }
}

/// Shows the rows behind a key that a volume does not know to be committed, until the list ends or
/// `show` has seen enough; `false` where the volume does not say.
pub(crate) async fn walk_unsettled(
    deps: &Deps,
    volume: VolumeId,
    behind: Option<&RegisterKey>,
    mut show: impl FnMut(RegisterKey, Ballot) -> bool,
) -> bool {
    let Some(route) = deps.route_to(volume) else { return true };
    let mut after = behind.cloned();
    loop {
        let page = route.peer.unsettled(volume, UnsettledKind::Uncommitted, after.as_ref(), UNSETTLED_PAGE);
        let Ok(page) = ask(page, PAGE_PATIENCE).await else { return false };
        for UnsettledRow { key, ballot } in page.rows {
            if !show(key, ballot) {
                return true;
            }
        }
        after = page.next;
        if after.is_none() {
            return true;
        }
    }
}
