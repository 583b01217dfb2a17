//! The pings: each second one to every node, this one included, whether the last one was answered or not.
//!
//! So a node that takes 3 s to answer answers each second, and is up. The number of pings is bounded: five of
//! a node are unanswered at most. Started once by the process, for as long as it lives.

use std::sync::Arc;

use futures::future::join_all;
use futures::stream::{FuturesUnordered, StreamExt};
use tokio::time::{Instant, MissedTickBehavior, interval, sleep_until, timeout};
use tokio_util::sync::CancellationToken;

use sherd_core::report::NodeReport;

use super::Membership;
use crate::cluster::asker::{AskError, Asker};
use crate::cluster::limits::{DOWN_AFTER, PING_ANSWER_MAX, PING_EVERY, PINGS_MAX, STOOD_STILL};

impl Membership {
    /// Pings all nodes until `stop`.
    pub async fn run(self: Arc<Self>, asker: Arc<dyn Asker>, stop: CancellationToken) {
        let pings = join_all((0..self.nodes.len()).map(|place| self.keep_asking(place, &*asker)));
        // Cancel-safe: what is unanswered is forgotten.
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            _ = pings => {}
        }
    }

    async fn keep_asking(&self, place: usize, asker: &dyn Asker) {
        let name = &self.nodes[place].0.name;
        let mut ticks = interval(PING_EVERY);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let mut unanswered = FuturesUnordered::new();
        let mut number = 0;
        let mut overdue = Instant::now() + DOWN_AFTER;
        loop {
            // Cancel-safe: the pings stay in `unanswered`, a tick or a time that came is there at the next
            // turn. Answers come first: one that is there speaks against a timer.
            tokio::select! {
                biased;
                Some((ping, answer)) = unanswered.next(), if !unanswered.is_empty() => match answer {
                    Ok(state) => {
                        self.note_answer(place, ping, &state);
                        overdue = Instant::now() + DOWN_AFTER;
                    }
                    Err(error) => self.note_failure(place, &error, false),
                },
                () = sleep_until(overdue) => {
                    let is_late = Instant::now().duration_since(overdue) >= STOOD_STILL;
                    if !is_late {
                        let reason = self.why_silent(place);
                        self.note_failure(place, &AskError::Unreachable { reason }, true);
                    }
                    overdue = Instant::now() + DOWN_AFTER;
                }
                _ = ticks.tick() => if unanswered.len() < PINGS_MAX {
                    number += 1;
                    unanswered.push(ping(asker, name, number, NodeReport::clone(&self.own_report())));
                }
            }
        }
    }

    /// The last reason of a ping that failed, or that no answer came.
    fn why_silent(&self, place: usize) -> String {
        let entry = &self.entries.read()[place];
        if entry.is_up || entry.reason.is_empty() {
            return format!("no answer for {} s", DOWN_AFTER.as_secs());
        }
        entry.reason.clone()
    }
}

async fn ping(
    asker: &dyn Asker,
    name: &str,
    number: u64,
    own: NodeReport,
) -> (u64, Result<NodeReport, AskError>) {
    let answer = timeout(PING_ANSWER_MAX, asker.ping(name, own)).await;
    let late = |_| AskError::Unreachable { reason: format!("no answer for {} s", PING_ANSWER_MAX.as_secs()) };
    (number, answer.map_err(late).flatten())
}
