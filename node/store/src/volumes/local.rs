//! One local volume as the rest of the node sees it: its state, and the open volume while it serves.
//!
//! Both stand behind a read lock that is held for the length of a clone, so no caller waits for the volume
//! there. While it does not serve, every call is answered at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::RwLock;
use tokio::sync::{oneshot, watch};

use sherd_core::id::{Life, VolumeId};
use sherd_core::message;

use super::abandoned_writes::AbandonedWrites;
use super::faults::Faults;
use super::leases::VolumeLeases;
use super::log_thread::LogCommand;
use super::orders::{AdoptError, KeeperOrder};
use super::serving::{ServingVolume, unreachable_because};
use super::{VolumeState, VolumeStatus};
use crate::machine::queue::{QueueRefusal, Sender};
use crate::observe::metrics::VolumeFault;

/// A volume of this node.
#[derive(Debug)]
pub struct LocalVolume {
    id: VolumeId,
    path: PathBuf,
    shown: RwLock<ServingState>,
    orders: Sender<KeeperOrder>,
    changed: Arc<watch::Sender<u64>>,
    faults: Arc<Faults>,
    leases: VolumeLeases,
    abandoned: AbandonedWrites,
    opened_count: AtomicU32,
    /// Bytes per second that its device took and gave when it was opened; 0 where that is not known.
    device_pace: AtomicU64,
    /// Monotonic microseconds at which the keeper began what it is doing; 0 while it waits.
    keeper_since_us: AtomicU64,
}

/// The state that is shown, and the open volume if it serves.
#[derive(Debug)]
struct ServingState {
    state: VolumeState,
    /// Present exactly while calls reach the volume.
    serving: Option<Arc<ServingVolume>>,
}

impl LocalVolume {
    /// A volume whose keeper takes `orders`.
    pub(super) fn new(
        id: VolumeId,
        path: PathBuf,
        orders: Sender<KeeperOrder>,
        changed: Arc<watch::Sender<u64>>,
        leases: VolumeLeases,
    ) -> Self {
        let shown = RwLock::new(ServingState { state: VolumeState::Opening, serving: None });
        Self {
            id,
            path,
            shown,
            orders,
            changed,
            faults: Arc::default(),
            leases,
            abandoned: AbandonedWrites::default(),
            opened_count: AtomicU32::new(0),
            device_pace: AtomicU64::new(0),
            keeper_since_us: AtomicU64::new(0),
        }
    }

    /// Id of the volume.
    pub const fn id(&self) -> VolumeId {
        self.id
    }

    /// Directory of the volume.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The state that it shows.
    pub fn state(&self) -> VolumeState {
        self.shown.read().state.clone()
    }

    /// A moment of it.
    pub fn status(&self) -> VolumeStatus {
        let (state, serving) = {
            let shown = self.shown.read();
            (shown.state.clone(), shown.serving.clone())
        };
        VolumeStatus {
            id: self.id,
            path: self.path.clone(),
            state,
            queue_len: serving.as_ref().map_or(0, |serving| serving.queue.len()),
            queue_us: serving.as_ref().map(|serving| serving.thread.queue_us.distribution()),
            faults: VolumeFault::ALL.map(|fault| (fault, self.faults.of(fault))),
            open: serving.map(|serving| serving.reader.status()),
            opened_count: self.opened_count.load(Ordering::Relaxed),
        }
    }

    pub(crate) const fn leases(&self) -> &VolumeLeases {
        &self.leases
    }

    /// Data whose writer went away while it wrote a shard file here.
    pub const fn abandoned(&self) -> &AbandonedWrites {
        &self.abandoned
    }

    /// Bytes per second that its device took and gave when it was opened; `None` where that is not known.
    pub(crate) fn device_pace(&self) -> Option<u64> {
        Some(self.device_pace.load(Ordering::Relaxed)).filter(|pace| *pace > 0)
    }

    pub(super) fn note_device_pace(&self, bytes_per_second: u64) {
        self.device_pace.store(bytes_per_second, Ordering::Relaxed);
    }

    /// How often it was opened since the process started.
    pub fn opened_count(&self) -> u32 {
        self.opened_count.load(Ordering::Relaxed)
    }

    /// The open volume.
    ///
    /// # Errors
    /// [`message::Error::Unreachable`] while it is not open, with the reason.
    pub fn serving(&self) -> Result<Arc<ServingVolume>, message::Error> {
        let shown = self.shown.read();
        match &shown.serving {
            Some(serving) => Ok(Arc::clone(serving)),
            None => Err(unreachable_because(&format!(
                "volume {} is {}{}",
                self.id,
                shown.state.name(),
                shown.state.reason().map(|reason| format!(": {reason}")).unwrap_or_default(),
            ))),
        }
    }

    pub(super) const fn faults(&self) -> &Arc<Faults> {
        &self.faults
    }

    /// Puts the volume in or out of service, and notifies the watchers.
    pub(super) fn show(&self, state: VolumeState, serving: Option<Arc<ServingVolume>>) {
        self.show_for(VolumeFault::Io, state, serving);
    }

    /// As [`Self::show`]; where the volume goes away, it is for this fault.
    fn show_for(&self, fault: VolumeFault, state: VolumeState, serving: Option<Arc<ServingVolume>>) {
        {
            let mut shown = self.shown.write();
            // A closed volume has no keeper any more, that would show what it is after a late watch.
            let is_same = shown.state == state && shown.serving.is_some() == serving.is_some();
            if is_same || shown.state == VolumeState::Closed {
                return;
            }
            if state.is_down() && !shown.state.is_down() {
                self.faults.count(fault);
            }
            if shown.serving.is_none() && serving.is_some() {
                self.opened_count.fetch_add(1, Ordering::Relaxed);
            }
            match &state {
                VolumeState::Failed { reason } => {
                    tracing::error!(volume = %self.id, path = %self.path.display(), reason, "volume failed");
                }
                VolumeState::Offline { reason }
                | VolumeState::Vacant { reason }
                | VolumeState::Suspect { reason } => {
                    tracing::warn!(volume = %self.id, path = %self.path.display(), state = state.name(), reason, "volume degraded");
                }
                VolumeState::Opening
                | VolumeState::Unconfirmed { .. }
                | VolumeState::Online
                | VolumeState::Recovering
                | VolumeState::Closed => {
                    tracing::info!(volume = %self.id, path = %self.path.display(), state = state.name(), "volume state");
                }
            }
            *shown = ServingState { state, serving };
        }
        self.changed.send_modify(|count| *count += 1);
    }

    /// Notes since when the keeper is busy; 0 when it is not.
    pub(super) fn keeper_busy_since(&self, since_us: u64) {
        self.keeper_since_us.store(since_us, Ordering::Release);
    }

    /// Takes the volume offline when its log or its keeper hangs, in an opening too: the node does not wait
    /// for it. Whichever comes back first, the keeper's next look says what the volume is.
    pub(super) fn watch(&self, now_us: u64, stuck_after: Duration) {
        let hangs = |since_us: u64| {
            since_us != 0 && Duration::from_micros(now_us.saturating_sub(since_us)) >= stuck_after
        };
        let (state, serving) = {
            let shown = self.shown.read();
            (shown.state.clone(), shown.serving.clone())
        };
        let does_keeper_hang = hangs(self.keeper_since_us.load(Ordering::Acquire));
        match (state, serving) {
            (_, Some(serving)) if hangs(serving.thread.step_since_us.load(Ordering::Acquire)) => {
                self.show_hanging("a log write hangs");
            }
            (_, Some(_)) if does_keeper_hang => self.show_hanging("its directory does not answer"),
            (VolumeState::Opening, None) if does_keeper_hang => {
                self.show_hanging(
                    "its directory does not answer, or its log is long: it is still being opened",
                );
            }
            (VolumeState::Vacant { .. }, None) if does_keeper_hang => {
                self.show_hanging("its directory does not answer");
            }
            // A volume that is offline, failed or closed is shown as that.
            (_, Some(_) | None) => {}
        }
    }

    /// Takes a volume that does not answer out of service.
    pub(super) fn show_hanging(&self, reason: &str) {
        self.show_for(VolumeFault::Timeout, VolumeState::Offline { reason: reason.to_owned() }, None);
    }

    /// The peers remember a later state of this volume than this opening has. It is opened again as one that
    /// lost its state, in a life after the one that they remember.
    pub(crate) fn declare_lost(&self, opening: &Arc<ServingVolume>, reason: &str, remembered: Life) {
        let (opening, reason) = (Arc::clone(opening), reason.to_owned());
        drop(self.orders.try_send(KeeperOrder::Lost { opening, reason, remembered }));
    }

    /// Looks at the directory now instead of at the next second.
    pub fn look(&self) {
        drop(self.orders.try_send(KeeperOrder::Look));
    }

    /// Says why a vacant directory is not adopted, or for which peers an unconfirmed volume waits.
    pub(crate) fn explain(&self, why: &str) {
        drop(self.orders.try_send(KeeperOrder::Explain(why.to_owned())));
    }

    /// Lets this opening of the volume vote: its peers confirmed it. Returns when others see that.
    ///
    /// # Errors
    /// As [`message::Error`].
    pub(crate) async fn confirm(&self, serving: &ServingVolume) -> message::Result<()> {
        let (done, wait) = oneshot::channel();
        serving.command(LogCommand::Confirm(done))?;
        wait.await.map_err(|_| unreachable_because("the volume went away"))?;
        let (done, wait) = oneshot::channel();
        let busy = || unreachable_because("the volume's keeper does not answer");
        self.orders.try_send(KeeperOrder::Show(done)).map_err(|_| busy())?;
        wait.await.map_err(|_| busy())
    }

    /// Lets the volume vote without asking its peers: for a caller that opens volumes on their own, without a
    /// set, and is certain that they lost nothing.
    ///
    /// # Errors
    /// As [`message::Error`].
    pub async fn vouch(&self) -> message::Result<()> {
        let serving = self.serving()?;
        self.confirm(&serving).await
    }

    /// Makes a volume in the empty directory, recovering, in a life that its set's voters have not seen. The
    /// caller has made sure that the set can rebuild it.
    ///
    /// # Errors
    /// [`AdoptError`].
    pub async fn adopt(&self, life: Life) -> Result<(), AdoptError> {
        let (done, wait) = oneshot::channel();
        let order = KeeperOrder::Adopt { life, done };
        let busy = || AdoptError::Failed { reason: "the volume's keeper does not answer".to_owned() };
        self.orders.try_send(order).map_err(|_| busy())?;
        wait.await.map_err(|_| busy())?
    }

    /// Begins a higher life of a volume that is recovering.
    ///
    /// # Errors
    /// As [`message::Error`].
    pub(crate) async fn begin_life(&self, life: Life) -> message::Result<()> {
        let (done, wait) = oneshot::channel();
        self.serving()?.command(LogCommand::BeginLife(life, done))?;
        wait.await.map_err(|_| unreachable_because("the volume went away"))?.map_err(Into::into)
    }

    /// Closes in order; calls are refused from here on.
    pub(super) async fn close(&self) -> Result<(), String> {
        let (done, wait) = oneshot::channel();
        let orders = self.orders.clone();
        if let Err(error) = orders.try_send(KeeperOrder::Close(done)) {
            return match error {
                QueueRefusal::Closed(_) => Ok(()),
                QueueRefusal::Full(_) => Err("the volume's keeper does not answer".to_owned()),
            };
        }
        wait.await.map_err(|_| "the volume's keeper ended".to_owned())?
    }
}
