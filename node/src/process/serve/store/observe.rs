//! The state of a store at one moment: for health, for metrics, and for the other nodes; and the
//! orders that an admin gives about its volumes.

use std::time::Duration;

use prometheus::IntCounter;
use tokio::sync::watch;

use sherd_core::id::VolumeId;
use sherd_core::report::{NodeReport, SetReport, VolumeCondition, VolumeReport};

use super::Store;
use sherd_store::observe::metrics::Metrics;
use sherd_store::peer::VolumeRoute;
use sherd_store::upkeep::OpeningStatus;
use sherd_store::volumes::{HealPace, PaceReason, VolumeState, VolumeStatus};

/// The part of the store in a moment of the node.
#[derive(Debug, Default)]
pub struct StoreReport {
    /// The volumes of this node. Whether they are healed is not judged.
    pub volumes: Vec<VolumeReport>,
    /// Every erasure set.
    pub sets: Vec<SetReport>,
    /// Why sets do not come back by themselves, and what ends that.
    pub stuck: Vec<String>,
    /// Damage that is reported or queued on this node and not healed.
    pub damage_count: u64,
    /// For how long the oldest of it waits; `None` where none does.
    pub damage_age: Option<Duration>,
}

impl Store {
    /// Reports this moment; `node` is the name of this node.
    ///
    /// Waits for no disk and no other node. Each lock on the way is held for as long as memory is read or
    /// written: those of the states of volumes, of a volume's
    /// [figures](sherd_volume::read::reader::Reader::status), which do not ask its index, of the last reports
    /// of other nodes' volumes, of the recoveries, and of the queue of heals.
    pub fn report(&self, node: &str) -> StoreReport {
        let status = self.volumes.status();
        let sets = self.set_reports(&status);
        // Before the damage is counted: what a volume lacks is queued before it is known of the volume.
        let volumes = status.iter().map(|volume| self.volume_report(node, volume)).collect();
        let stuck = self.upkeep.stuck_sets().iter().map(ToString::to_string).collect();
        let (damage_count, damage_age) = self.damage();
        StoreReport { volumes, sets, stuck, damage_count, damage_age }
    }

    /// Counts the changes of the states of this node's volumes.
    pub(crate) fn volume_changes(&self) -> watch::Receiver<u64> {
        self.volumes.changes()
    }

    /// Waits for damage where none waited, or that could not be reported. For one task. Cancel-safe.
    pub(crate) async fn damage_begins(&self) {
        self.reports.damage_begins().await;
    }

    fn set_reports(&self, status: &[VolumeStatus]) -> Vec<SetReport> {
        let remote = self.cluster.remote();
        let votes = |id: VolumeId| match status.iter().find(|volume| volume.id == id) {
            Some(volume) => volume.state.votes(),
            None => remote.volume(id).is_some_and(|volume| volume.report.votes()),
        };
        let has_room = |route: &&VolumeRoute| !route.peer.is_full(route.volume);
        let is_there = |id: VolumeId| match self.volumes.get(id) {
            Some(volume) => volume.serving().is_ok(),
            None => remote.volume(id).is_some_and(|volume| volume.report.is_open),
        };
        self.cluster
            .sets()
            .iter()
            .map(|set| SetReport {
                set: set.id.0,
                volumes: set.routes.len(),
                voting: set.routes.iter().filter(|route| votes(route.volume)).count(),
                with_room: set.routes.iter().filter(has_room).count(),
                taking_shards: set
                    .routes
                    .iter()
                    .filter(has_room)
                    .filter(|route| is_there(route.volume))
                    .count(),
                shards_needed: set.durable_enough(),
                write_quorum: set.quorums().accept(),
                read_quorum: set.quorums().prepare(),
            })
            .collect()
    }

    /// A volume's state as health and metrics name it, and why it is not online. A volume votes again
    /// before it is known what it lacks, and before its shards are rebuilt; until then it is shown as
    /// what it is to an operator: on its way back, so that the next one is not taken away.
    fn condition(&self, volume: &VolumeStatus) -> (VolumeCondition, String) {
        let standing = self.upkeep.standing(volume.id, volume.opened_count);
        let shown = match (&volume.state, standing) {
            (
                VolumeState::Online | VolumeState::Suspect { .. } | VolumeState::Recovering,
                OpeningStatus::Recovering(recovery),
            ) => return (VolumeCondition::Recovering, recovery.to_string()),
            (VolumeState::Online, OpeningStatus::Unknown) => {
                return (
                    VolumeCondition::Opening,
                    "it is compared with its peers: what it lacks is not known yet".to_owned(),
                );
            }
            (VolumeState::Online, _) if volume.open.as_ref().is_some_and(|open| open.full) => {
                VolumeCondition::Full
            }
            (VolumeState::Online, _) => VolumeCondition::Online,
            (VolumeState::Opening | VolumeState::Unconfirmed { .. }, _) => VolumeCondition::Opening,
            (VolumeState::Suspect { .. }, _) => VolumeCondition::Suspect,
            (VolumeState::Recovering, _) => VolumeCondition::Recovering,
            (VolumeState::Failed { .. }, _) => VolumeCondition::Failed,
            (VolumeState::Vacant { .. } | VolumeState::Offline { .. } | VolumeState::Closed, _) => {
                VolumeCondition::Offline
            }
        };
        (shown, volume.state.reason().unwrap_or_default().to_owned())
    }

    /// How much damage waits, and for how long the oldest.
    fn damage(&self) -> (u64, Option<Duration>) {
        // Before the queue: a report is in the one or the other.
        let (waiting_count, oldest_waiting) =
            (self.reports.waiting_heals_count(), self.reports.oldest_waiting());
        let queue = self.upkeep.mrf();
        let oldest = [oldest_waiting, queue.oldest_found].into_iter().flatten().min();
        ((queue.len + waiting_count) as u64, oldest.map(|oldest| oldest.elapsed()))
    }

    fn volume_report(&self, node: &str, volume: &VolumeStatus) -> VolumeReport {
        let (condition, reason) = self.condition(volume);
        let serving = self.volumes.get(volume.id).and_then(|volume| volume.serving().ok());
        let is_full = volume.open.as_ref().is_some_and(|open| open.full);
        let ordinal = self.topology().volume(volume.id).map_or(0, |volume| volume.ordinal);
        VolumeReport {
            volume: volume.id,
            node: node.to_owned(),
            ordinal: ordinal.into(),
            path: volume.path.display().to_string(),
            condition: Some(condition),
            reason,
            life: serving.as_ref().map(|serving| serving.reader.answerer().life),
            standing: volume.state.standing(),
            is_open: serving.is_some(),
            has_room: !is_full,
            total_bytes: volume.open.as_ref().map_or(0, |open| open.total_bytes),
            free_bytes: volume.open.as_ref().map_or(0, |open| open.free_bytes),
            healed_since_ms: None,
        }
    }

    /// Rebuilds a volume in its empty directory without waiting for its disk.
    ///
    /// # Errors
    /// Why not, in words.
    pub(crate) fn replace_volume(&self, volume: VolumeId) -> Result<(), String> {
        let local = self.volumes.get(volume).ok_or_else(|| not_here(volume))?;
        // Before its state: one that is opened meanwhile needs another order.
        let opened_count = local.opened_count();
        match local.state() {
            VolumeState::Vacant { .. } => {
                self.upkeep.adopt_now(volume, opened_count);
                Ok(())
            }
            state => {
                Err(format!("volume {volume} is {}, and only an empty directory is replaced", state.name()))
            }
        }
    }

    /// Lets a volume vote that too few of its peers confirm.
    ///
    /// # Errors
    /// Why not, in words.
    pub(crate) fn vouch(&self, volume: VolumeId) -> Result<(), String> {
        let local = self.volumes.get(volume).ok_or_else(|| not_here(volume))?;
        let opened_count = local.opened_count();
        match local.state() {
            VolumeState::Unconfirmed { .. } => {
                self.upkeep.vouch(volume, opened_count);
                Ok(())
            }
            state => Err(format!("volume {volume} is {}, and waits for no confirmation", state.name())),
        }
    }

    /// Sets the gauges that mirror the store's state. The states of volumes are those of the node's report;
    /// counts are of this moment, as the counters beside them.
    pub fn observe(&self, metrics: &Metrics, report: &NodeReport) {
        for volume in self.volumes.status() {
            let gauges = metrics.volume(&volume.path.display().to_string());
            let reported = report.volumes.iter().find(|reported| reported.volume == volume.id);
            if let Some(condition) = reported.and_then(|reported| reported.condition) {
                gauges.set_state(condition);
            }
            if let Some(open) = &volume.open {
                gauges.bytes.set(gauge(open.total_bytes));
                gauges.free_bytes.set(gauge(open.free_bytes));
                gauges.index_pending_bytes.set(gauge(open.index_pending_bytes));
                gauges.index_unmerged.set(gauge(open.index_unmerged as u64));
                gauges.missed_rows.set(gauge(open.missed_rows));
                if gauges.show_unlisted(open.unlisted_rows) {
                    tracing::warn!(volume = %volume.id, count = open.unlisted_rows, "another volume of the set missed more rows than are remembered here; its looks and the scrubber find the rest");
                }
                gauges.sync_duration.show(open.sync_us.clone());
                gauges.batch_records.show(open.frame_records.clone());
            }
            if let Some(queue_us) = volume.queue_us {
                gauges.queue_duration.show(queue_us);
            }
            for (fault, count) in volume.faults {
                gauges.show_errors(fault, count);
            }
        }
        let usage = self.pool.usage();
        metrics.buffer.cap_bytes.set(gauge(usage.cap_bytes as u64));
        metrics.buffer.used_bytes.set(gauge(usage.in_use_bytes as u64));
        metrics.mrf.queue_length.set(gauge(self.damage().0));
        let upkeep = self.upkeep.status();
        let oldest = upkeep.mrf.oldest_ms.map_or(0, |since| self.wall.wall_ms().saturating_sub(since));
        metrics.mrf.oldest_age_seconds.set(Duration::from_millis(oldest).as_secs_f64());
        catch_up(&metrics.mrf.healed, upkeep.mrf.healed_count);
        catch_up(&metrics.mrf.healed_bytes, upkeep.mrf.healed_bytes);
        let HealPace { bytes_per_second, reason, rests: _ } = upkeep.heal_pace;
        metrics.mrf.bandwidth_bytes_per_second.set(gauge(bytes_per_second.unwrap_or(0)));
        for other in PaceReason::ALL {
            let reasons = &metrics.mrf.pace_reasons;
            reasons.with_label_values(&[other.as_str()]).set(i64::from(other == reason));
        }
        catch_up(&metrics.mrf.failed, upkeep.mrf.failed_count);
        catch_up(&metrics.buffer.waits, usage.waits);
        catch_up(&metrics.scrub.verified, upkeep.scrub.rows_count + upkeep.scrub.shards_count);
        catch_up(&metrics.scrub.verified_bytes, upkeep.scrub.bytes_count);
        metrics.scrub.progress_ratio.set(f64::from(upkeep.scrub.done_permille) / 1000.0);
        let ended = Duration::from_millis(upkeep.scrub.ended_ms);
        metrics.scrub.last_pass_timestamp_seconds.set(ended.as_secs_f64());
        catch_up(&metrics.scrub.damaged, upkeep.scrub.findings_count);
        catch_up(&metrics.scrub.passes, upkeep.scrub.passes_count);
        catch_up(&metrics.upkeep.panics, upkeep.panics_count);
        metrics.upkeep.release_queue_length.set(gauge(upkeep.release.len as u64));
        catch_up(&metrics.upkeep.leases_refused, upkeep.leases_refused_count);
        catch_up(&metrics.upkeep.looked_at, upkeep.looks.rows_count);
        catch_up(&metrics.upkeep.pulled, upkeep.looks.pulled_count);
        catch_up(&metrics.upkeep.released, upkeep.release.released_count);
        catch_up(&metrics.mrf.dropped, self.reports.dropped_heals_count());
        let dropped_count = self.reports.dropped_superseded_count() + upkeep.release.dropped_count;
        catch_up(&metrics.upkeep.release_dropped, dropped_count);
    }
}

fn not_here(volume: VolumeId) -> String {
    format!("volume {volume} is not on this node")
}

/// Brings a counter up to a count that is kept elsewhere.
fn catch_up(counter: &IntCounter, count: u64) {
    counter.inc_by(count.saturating_sub(counter.get()));
}

fn gauge(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}
