//! The keeper of one volume: opens it, looks after it, takes it offline, opens it again.
//!
//! ```text
//!            open                      gone, failed, stuck
//! shut ----------------> serving ----------------------------> shut
//!   ^  directory back       |   the log thread is ordered to end    |
//!   +-----------------------+-------------------------------------+
//! ```
//! It runs on a thread of its own, because everything it does may block on a dead disk. An empty directory is
//! never formatted by itself: it waits for an order from code that asked the set. So does one that a removal
//! could not empty while this node wrote into it.

use std::collections::VecDeque;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::oneshot;

use sherd_core::id::{Ballot, Life};
use sherd_core::limits::VOLUME_QUEUE_MAX;
use sherd_core::register::position::OpeningId;
use sherd_volume::Reader;
use sherd_volume::error::OpenError;
use sherd_volume::identity::{ExpectedIdentity, Phase};
use sherd_volume::open::{NewVolume, RemovedFile, Setup};
use sherd_volume::options::{Options, UnreadablePolicy};
use sherd_volume::write::step::Step;
use sherd_volume::write::upkeep::measure_device;
use sherd_volume::write::volume::Volume;

use super::VolumeState;
use super::compaction::CompactionPace;
use super::config::VolumesConfig;
use super::limits::{READ_QUEUE_MAX, SCAN_QUEUE_MAX, WRITE_QUEUE_MAX};
use super::local::LocalVolume;
use super::log_thread::{LogCommand, LogThread, OpenLog, ThreadStatus};
use super::orders::{AdoptError, KeeperOrder};
use super::serving::ServingVolume;
use crate::machine::host::{Inbox, Next, Turns};
use crate::machine::queue::{self, QueueEmpty, QueueRefusal, Receiver, Sender};
use crate::machine::workers::Workers;
use crate::observe::metrics::VolumeFault;
use crate::volumes::directories::directory::{Directory, look_at, marks_of_remains};
use crate::volumes::directories::make_volume;

/// Threads for blocking reads, for scans, and for shard files.
pub const WORKERS: usize = 2;
/// Rotten records that the log names of one opening.
const ROTTEN_SHOWN: usize = 10;
/// Why a volume waits before its set was asked.
const NOT_ASKED: &str = "its set was not asked yet";
/// A minute, over which rot is counted.
const MINUTE_US: u64 = 60_000_000;

pub(super) struct Keeper {
    volume: Arc<LocalVolume>,
    config: VolumesConfig,
    /// For the log thread, which says when it ended.
    orders: Sender<KeeperOrder>,
    taken: Receiver<KeeperOrder>,
    serving: Option<Arc<ServingVolume>>,
    /// Why it is vacant, or does not vote.
    waits: String,
    /// Callers that get an answer when the next look is over.
    shown: Vec<oneshot::Sender<()>>,
    /// When it last began to look, in monotonic microseconds.
    looked_at_us: u64,
    /// Rot counted at the beginning of the current minute.
    rot: (u64, u64),
    /// The reader of the last opening: while it is referenced, its lock of the directory is held.
    closing: Weak<Reader>,
    /// Since when, in monotonic microseconds, each try to open it failed on a log that cannot be read.
    unreadable_since_us: Option<u64>,
    /// Marks of a removed volume's remains in its directory, and since when they are unchanged, in monotonic
    /// microseconds.
    remains: Option<(Vec<u64>, u64)>,
}

impl Keeper {
    pub(super) fn start(
        volume: Arc<LocalVolume>,
        config: VolumesConfig,
        orders: Sender<KeeperOrder>,
        taken: Receiver<KeeperOrder>,
    ) -> std::io::Result<()> {
        let host = Arc::clone(&config.host);
        let keeper = Self {
            volume,
            config,
            orders,
            taken,
            serving: None,
            waits: NOT_ASKED.to_owned(),
            shown: Vec::new(),
            looked_at_us: 0,
            rot: (0, 0),
            closing: Weak::new(),
            unreadable_since_us: None,
            remains: None,
        };
        // The thread ends with the order to close; a thread that hangs in a dead disk is left behind.
        host.start("volume-keeper", Box::new(keeper))
    }

    /// Goes on with a volume that still serves, and shows the true state of one that did not open. A reason
    /// that it gave is in the log. Callers that wait for a look get no answer about this one.
    fn after_panic(&mut self) {
        self.volume.keeper_busy_since(0);
        self.shown.clear();
        if self.serving.is_none() {
            self.volume.show(offline("its keeper panicked, and tries again"), None);
        }
    }

    /// Opens the volume, or looks what became of it.
    fn look_once(&mut self) {
        self.looked_at_us = self.config.clock.monotonic_us().max(1);
        self.volume.keeper_busy_since(self.looked_at_us);
        match &self.serving {
            Some(serving) => self.check(&Arc::clone(serving)),
            None => self.look(),
        }
        self.volume.keeper_busy_since(0);
        for shown in self.shown.drain(..) {
            // The caller may have gone.
            let _ = shown.send(());
        }
    }

    fn follow(&mut self, order: KeeperOrder) {
        match order {
            KeeperOrder::Look => {}
            KeeperOrder::Show(done) => self.shown.push(done),
            KeeperOrder::Explain(why) => self.waits = why,
            KeeperOrder::Adopt { life, done } => drop(done.send(self.adopt(life))),
            KeeperOrder::Lost { opening, reason, remembered } => self.lose(&opening, &reason, remembered),
            KeeperOrder::Close(done) => self.close(done),
        }
    }

    /// Looks whether there is something to open.
    fn look(&mut self) {
        let shown = match look_at(&*self.config.disk, self.volume.path()) {
            Ok(Directory::Volume) => return self.open(),
            Ok(Directory::Remains) if !self.are_remains_at_rest() => offline(
                "a part of a volume is left in the directory, and is changing: somebody may be removing it",
            ),
            Ok(Directory::Vacant | Directory::Remains) => VolumeState::Vacant { reason: self.waits.clone() },
            Ok(Directory::Missing) => offline("the directory is missing"),
            Ok(Directory::Strange { name }) => {
                offline(&format!("the directory holds {name} and no volume.json: it is left alone"))
            }
            Err(error) => offline(&format!("the directory cannot be read: {error}")),
        };
        self.volume.show(shown, None);
    }

    /// Whether what is left in the directory has been as it is for a while.
    fn are_remains_at_rest(&mut self) -> bool {
        let now_us = self.config.clock.monotonic_us();
        let Ok(marks) = marks_of_remains(&*self.config.disk, self.volume.path()) else { return false };
        let since_us = match self.remains.take() {
            Some((known, since_us)) if known == marks => since_us,
            _ => now_us,
        };
        self.remains = Some((marks, since_us));
        Duration::from_micros(now_us.saturating_sub(since_us)) >= self.config.pace.remains_rest
    }

    fn setup(&self) -> Setup {
        let VolumesConfig { disk, clock, rng, buffers, index, options, cluster, .. } = &self.config;
        Setup {
            disk: Arc::clone(disk),
            path: self.volume.path().to_owned(),
            clock: Arc::clone(clock),
            index: index(self.volume.path()),
            buffers: buffers.clone(),
            expected: ExpectedIdentity { cluster: Some(*cluster), volume: Some(self.volume.id()) },
            options: Options { unreadable: self.unreadable_policy(), ..*options },
            opening: OpeningId::draw(&**rng),
        }
    }

    /// A read that fails may succeed with the next try. A log that stays unreadable is lost, and its data is
    /// rebuilt from the set.
    fn unreadable_policy(&self) -> UnreadablePolicy {
        let Some(since_us) = self.unreadable_since_us else { return UnreadablePolicy::Refuse };
        let passed_us = self.config.clock.monotonic_us().saturating_sub(since_us);
        if Duration::from_micros(passed_us) < self.config.pace.unreadable_after {
            return UnreadablePolicy::Refuse;
        }
        UnreadablePolicy::Lose
    }

    /// Notes in volume.json that an opening has lost state, and shuts it. Another opening may have found what
    /// that one lacked: it is asked for by itself.
    fn lose(&mut self, opening: &Arc<ServingVolume>, reason: &str, remembered: Life) {
        if self.serving.as_ref().is_none_or(|serving| !Arc::ptr_eq(serving, opening)) {
            return;
        }
        match opening.reader.declare_lost(reason, remembered) {
            Ok(()) => self.shut(opening, reason),
            Err(error) => self.shut(opening, &format!("{reason}, which cannot be noted: {error}")),
        }
    }

    fn open(&mut self) {
        if !matches!(self.volume.state(), VolumeState::Offline { .. } | VolumeState::Failed { .. }) {
            self.volume.show(VolumeState::Opening, None);
        }
        let opened = sherd_volume::open::open(self.setup());
        let is_unreadable = matches!(opened, Err(OpenError::Unreadable { .. }));
        let now_us = self.config.clock.monotonic_us();
        self.unreadable_since_us = is_unreadable.then(|| self.unreadable_since_us.unwrap_or(now_us));
        match opened {
            Ok((volume, mut report)) => {
                let rotten_count = report.rotten.len();
                report.rotten.truncate(ROTTEN_SHOWN);
                for RemovedFile { path, bytes, why } in std::mem::take(&mut report.removed) {
                    let (volume, path) = (self.volume.id(), path.display());
                    tracing::warn!(%volume, %path, bytes, why, "removed a file that is no segment of the log");
                }
                tracing::info!(volume = %self.volume.id(), ?report, rotten_count, "volume opened");
                if let Err(error) = self.serve(volume) {
                    self.volume.show(offline(&format!("no thread for it: {error}")), None);
                }
            }
            Err(OpenError::Failed { reason, .. }) => self.volume.show(VolumeState::Failed { reason }, None),
            // The threads of this node's last opening still hold the lock: the reason of that opening's end
            // stays shown.
            Err(OpenError::InUse { .. }) if self.closing.strong_count() > 0 => {}
            Err(error) => self.volume.show(offline(&error.to_string()), None),
        }
    }

    /// Starts the threads of an open volume and puts it in service.
    fn serve(&mut self, volume: Volume) -> std::io::Result<()> {
        let host = &*self.config.host;
        let clock = Arc::clone(&self.config.clock);
        let (queue, commands) = queue::bounded(VOLUME_QUEUE_MAX);
        let thread = Arc::new(ThreadStatus::default());
        let reader = volume.reader();
        let has_promised = reader.guarantees().bound > Ballot::ZERO;
        let serving = Arc::new(ServingVolume {
            reader,
            has_promised,
            reads: Workers::start(host, "volume-read", WORKERS, READ_QUEUE_MAX)?,
            scans: Workers::start(host, "volume-scan", WORKERS, SCAN_QUEUE_MAX)?,
            writes: Arc::new(Workers::start(host, "volume-write", WORKERS, WRITE_QUEUE_MAX)?),
            queue,
            clock: Arc::clone(&clock),
            thread: Arc::clone(&thread),
            faults: Arc::clone(self.volume.faults()),
        });
        let orders = self.orders.clone();
        let log = LogThread::new(OpenLog {
            volume,
            queue: commands,
            taken: VecDeque::new(),
            step: Step { more: true, ..Step::default() },
            has_waited: false,
            compaction: CompactionPace::new(
                self.config.pace.compaction_bytes_per_second,
                clock.monotonic_us(),
            ),
            clock,
            maintenance: Workers::start(host, "volume-upkeep", 1, 1)?,
            thread,
            notify: Box::new(move || drop(orders.try_send(KeeperOrder::Look))),
        });
        host.start("volume-log", Box::new(log))?;
        self.measure_device(&serving);
        self.rot = (self.config.clock.monotonic_us(), serving.faults.of(VolumeFault::Corrupt));
        self.serving = Some(Arc::clone(&serving));
        NOT_ASKED.clone_into(&mut self.waits);
        self.check(&serving);
        Ok(())
    }

    /// Has the pace of the device measured beside the service of the volume, which does not wait for it.
    fn measure_device(&self, serving: &ServingVolume) {
        let (volume, reader) = (Arc::clone(&self.volume), Arc::clone(&serving.reader));
        let measure = move || {
            if let Some(pace) = measure_device(&reader) {
                volume.note_device_pace(pace);
                tracing::info!(volume = %volume.id(), bytes_per_second = pace, "measured the device");
            }
        };
        // The queue of a volume that begins to serve is empty; without a measurement it serves as well.
        let _ = serving.scans.run(measure);
    }

    /// Looks whether an open volume still is what it was.
    fn check(&mut self, serving: &Arc<ServingVolume>) {
        if let Some(reason) = serving.thread.ended.lock().clone() {
            return self.shut(serving, &reason);
        }
        if let Err(error) = serving.reader.check_directory() {
            return self.shut(serving, &error.to_string());
        }
        let status = serving.reader.status();
        let state = match status.state {
            sherd_volume::write::upkeep::State::Failed { reason } => return self.shut(serving, &reason),
            sherd_volume::write::upkeep::State::Recovering { .. } => VolumeState::Recovering,
            sherd_volume::write::upkeep::State::Unconfirmed => {
                VolumeState::Unconfirmed { reason: self.waits.clone() }
            }
            sherd_volume::write::upkeep::State::Serving => VolumeState::Online,
        };
        let now_us = self.config.clock.monotonic_us();
        let since_us = serving.thread.step_since_us.load(Ordering::Acquire);
        let busy = Duration::from_micros(if since_us == 0 { 0 } else { now_us.saturating_sub(since_us) });
        if busy >= self.config.pace.stuck_after {
            let reason =
                format!("one log write takes more than {} s", self.config.pace.stuck_after.as_secs());
            return self.volume.show_hanging(&reason);
        }
        let suspicion = self.suspicion(serving, busy, now_us);
        let state = match (state, suspicion) {
            (VolumeState::Online, Some(reason)) => VolumeState::Suspect { reason },
            (state, _) => state,
        };
        self.volume.show(state, Some(Arc::clone(serving)));
    }

    /// The fault of a volume that still serves.
    fn suspicion(&mut self, serving: &ServingVolume, busy: Duration, now_us: u64) -> Option<String> {
        let corrupt = serving.faults.of(VolumeFault::Corrupt);
        if now_us.saturating_sub(self.rot.0) >= MINUTE_US {
            self.rot = (now_us, corrupt);
        }
        if corrupt.saturating_sub(self.rot.1) >= u64::from(self.config.pace.corrupt_per_minute_max) {
            return Some("many rotten records or shards".to_owned());
        }
        (busy >= self.config.pace.suspect_after)
            .then(|| format!("a log write takes more than {} s", self.config.pace.suspect_after.as_secs()))
    }

    /// Takes the volume out of service and lets the threads end. Queued calls are dropped, which their
    /// callers see.
    fn shut(&mut self, serving: &ServingVolume, reason: &str) {
        drop(serving.queue.send_over(LogCommand::Abandon));
        self.closing = Arc::downgrade(&serving.reader);
        self.serving = None;
        NOT_ASKED.clone_into(&mut self.waits);
        self.volume.show(offline(reason), None);
    }

    fn adopt(&mut self, life: Life) -> Result<(), AdoptError> {
        let failed = |error: &dyn std::fmt::Display| AdoptError::Failed { reason: error.to_string() };
        // Until the look that follows each order. The last one is a second ago at most.
        self.volume.keeper_busy_since(self.looked_at_us);
        match look_at(&*self.config.disk, self.volume.path()) {
            Ok(Directory::Vacant) if self.serving.is_none() => {}
            Ok(Directory::Remains) if self.serving.is_none() && self.are_remains_at_rest() => {
                // The volume's state was in the lost log; an index built from that would be trusted.
                (self.config.index)(self.volume.path()).reset().map_err(|error| failed(&error))?;
            }
            Ok(_) => return Err(AdoptError::NotVacant { state: self.volume.state().name() }),
            Err(error) => return Err(failed(&error)),
        }
        let new = NewVolume {
            cluster: self.config.cluster,
            volume: self.volume.id(),
            life,
            phase: Phase::Formed,
            lost: Some("its directory was empty".to_owned()),
        };
        make_volume(&self.config.disk, self.volume.path(), new, &self.config.topology)
            .map_err(|error| failed(&error))?;
        self.open();
        match self.volume.state() {
            state if state.is_reachable() => Ok(()),
            state => Err(failed(&state.reason().unwrap_or("it did not open"))),
        }
    }

    /// Lets the log close; the log thread answers the caller.
    fn close(&mut self, done: oneshot::Sender<Result<(), String>>) {
        self.volume.show(VolumeState::Closed, None);
        let Some(serving) = self.serving.take() else {
            // The caller may have gone.
            let _ = done.send(Ok(()));
            return;
        };
        if let Err(QueueRefusal::Closed(LogCommand::Close(done))) =
            serving.queue.send_over(LogCommand::Close(done))
        {
            let _ = done.send(Err("its log thread ended before".to_owned()));
        }
    }
}

impl Turns for Keeper {
    /// A panic must not leave the volume without its keeper: no one would open it again, or close it. Orders
    /// are taken even if each look panics.
    fn turn(&mut self) -> Next {
        match self.taken.try_next() {
            Ok(order) => {
                let is_last = matches!(order, KeeperOrder::Close(_));
                let followed = catch_unwind(AssertUnwindSafe(|| self.follow(order)));
                // The volume is not opened again, even if its closing failed.
                if is_last {
                    return Next::End;
                }
                if followed.is_err() {
                    self.after_panic();
                }
            }
            Err(QueueEmpty::Nothing) => {}
            Err(QueueEmpty::Closed) => return Next::End,
        }
        if catch_unwind(AssertUnwindSafe(|| self.look_once())).is_err() {
            self.after_panic();
        }
        Next::Wait(Some(self.config.pace.look_every))
    }

    fn inbox(&mut self) -> &dyn Inbox {
        &self.taken
    }
}

fn offline(reason: &str) -> VolumeState {
    VolumeState::Offline { reason: reason.to_owned() }
}
