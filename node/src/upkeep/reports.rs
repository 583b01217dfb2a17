//! What the data path reported, on its way into the volumes' logs.
//!
//! Reports that came meanwhile share a sync of the logs: what was broken goes to the queue of most
//! recent failures, what was replaced to the queue of releases.

use futures::future::join_all;

use super::Context;
use super::mrf::Spare;
use crate::cluster::damage::{Report, Reports};

/// Reports that are made durable together.
const REPORTS_AT_ONCE: usize = 128;

impl Context {
    /// Takes reports until nobody can make any: as many at one time as share a sync of the logs.
    pub(super) async fn take_reports(&self, reports: &mut Reports) {
        let mut taken = Vec::with_capacity(REPORTS_AT_ONCE);
        loop {
            if reports.reports.recv_many(&mut taken, REPORTS_AT_ONCE).await == 0 {
                return;
            }
            let count = taken.iter().filter(|report| matches!(report, Report::Heal(_))).count();
            let in_hand = reports.in_hand(count);
            let heals = taken.drain(..).filter_map(|report| match report {
                Report::Heal(entry) => {
                    let spare = entry.data.map_or(1, |data| data.spare());
                    Some(self.log_heal(entry, Spare(spare)))
                }
                Report::Superseded { key, data, pages } => {
                    self.queue_release(&key, &data, &pages);
                    None
                }
            });
            let logged = join_all(heals).await.into_iter().filter(|is_logged| *is_logged).count();
            in_hand.are_logged(logged);
        }
    }
}
