//! Reports of the data path, on their way into the volumes' logs.
//!
//! Reports that came meanwhile share a sync of the logs: what was broken goes to the queue of most recent
//! failures, what was replaced to the queue of releases. Data that was given up before an accept named it is
//! removed by its writer; where that did not reach a volume, or a shard may come behind it, the data is
//! released like replaced data, again and again until each volume has said that its shard is gone. Guards
//! I-8.

use std::sync::Arc;

use futures::StreamExt;
use futures::future::join_all;
use futures::stream::FuturesUnordered;
use tokio::sync::mpsc;
use tokio::time::Instant;

use sherd_core::id::RegisterKey;
use sherd_core::record::DataRef;

use super::pages::ask;
use super::queue::HealQueue;
use super::queue::entries::Spare;
use super::release::Releaser;
use crate::cluster::damage::{GivenUpData, Report, Reports};
use crate::upkeep::limits::{REMOVAL_PATIENCE, REMOVALS_MAX, REPORTS_AT_ONCE};

/// Takes what the data path reports, and makes it durable.
#[derive(Debug)]
pub(crate) struct ReportTaker {
    queue: Arc<HealQueue>,
    releaser: Arc<Releaser>,
}

impl ReportTaker {
    pub(crate) fn new(queue: &Arc<HealQueue>, releaser: &Arc<Releaser>) -> Self {
        Self { queue: Arc::clone(queue), releaser: Arc::clone(releaser) }
    }

    /// Takes reports until no sender is left: as many at one time as share a sync of the logs.
    pub(crate) async fn take_reports(&self, reports: &mut Reports) {
        let mut taken = Vec::with_capacity(REPORTS_AT_ONCE);
        loop {
            if reports.received.recv_many(&mut taken, REPORTS_AT_ONCE).await == 0 {
                return;
            }
            let is_heal = |(_, report): &&(Instant, Report)| matches!(report, Report::Heal(_));
            let count = taken.iter().filter(is_heal).count();
            let in_hand = reports.in_hand(count, taken.iter().find(is_heal).map(|(made, _)| *made));
            let heals = taken.drain(..).filter_map(|(made, report)| match report {
                Report::Heal(entry) => {
                    let spare = entry.data.map_or(1, |data| data.spare());
                    Some(self.queue.log(entry, Spare(spare), made))
                }
                Report::Superseded { key, data, pages } => {
                    self.releaser.queue_release(&key, &data, &pages);
                    None
                }
            });
            let logged = join_all(heals).await.into_iter().filter(|is_logged| *is_logged).count();
            in_hand.are_logged(logged);
        }
    }

    /// Looks after data that was given up until no sender is left.
    pub(crate) async fn follow_given_up(&self, given_up: &mut mpsc::Receiver<GivenUpData>) {
        let mut removing: FuturesUnordered<_> = FuturesUnordered::new();
        loop {
            // Cancel-safe: what is removed stays among the futures until it is taken, and so does what was
            // received.
            tokio::select! {
                biased;
                Some(removed) = removing.next(), if !removing.is_empty() => {
                    let (key, data, is_gone): (RegisterKey, DataRef, bool) = removed;
                    if !is_gone {
                        self.releaser.queue_release(&key, &[data], &[]);
                    }
                }
                next = given_up.recv(), if removing.len() < REMOVALS_MAX => match next {
                    Some(next) => removing.push(removed(next)),
                    None => return,
                },
            }
        }
    }
}

/// Waits for the removals of data that was given up; whether every shard is gone, and none comes later.
async fn removed(given_up: GivenUpData) -> (RegisterKey, DataRef, bool) {
    let GivenUpData { key, data, removals, may_come_late } = given_up;
    if may_come_late {
        return (key, data, false);
    }
    let removals = removals.into_iter().map(|removal| ask(removal, REMOVAL_PATIENCE));
    let is_gone = join_all(removals).await.iter().all(Result::is_ok);
    (key, data, is_gone)
}
