//! The ids or the topology that this node holds while the cluster forms, and its answers to the others, from
//! start to end of the process.
//!
//! Every change goes through one lock that is held while the disk is written: an attempt is never answered
//! with ids while a topology is being taken. So each step runs on a thread that may block. The rules are
//! [`sherd_core::topology::formation`]'s; the disk is `volumes::directories::clustered`'s.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use parking_lot::{Mutex, RwLock};

use sherd_core::env::Rng;
use sherd_core::id::VolumeId;
use sherd_core::topology::Topology;
use sherd_core::topology::formation::{FormationMember, NoIds, PullTicket};

use crate::cluster::asker::NodeFormAnswer;
use crate::cluster::limits::LOCK_MAX;
use crate::volumes::directories::clustered::{
    ClusterFormationConfig, adopt_topology, form_topology, look, make_ids,
};
use crate::volumes::directories::{Formation, FormationError};

type Member = FormationMember<Vec<VolumeId>, Arc<Topology>>;

/// This node's part of the formation. Cheap to clone.
#[derive(Clone)]
pub struct FormationAnswers(Arc<FormationCore>);

struct FormationCore {
    config: ClusterFormationConfig,
    rng: Arc<dyn Rng>,
    member: Mutex<Member>,
    /// Whether the cluster was formed before, as the configuration says: this node forms no other one.
    is_formed_before: AtomicBool,
    /// Whether a write to the volumes failed, so that they may hold a topology that the member does not.
    is_unsure: AtomicBool,
    /// Set after the member holds the topology; read without waiting for a disk.
    formation: RwLock<Option<Formation>>,
}

/// Why a step did not come to an end.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The directories, or the configuration.
    #[error(transparent)]
    Formation(#[from] FormationError),
    /// Another step waits for a disk. Ask again.
    #[error("another step of the formation is under way")]
    Busy,
    /// The thread of the step ended: the process stops.
    #[error("the step was broken off")]
    Stopped,
}

impl FormationAnswers {
    /// Looks what this node's directories hold, and completes an adoption that a crash cut short. Blocking.
    ///
    /// # Errors
    /// [`FormationError`]: the directories do not make this node.
    pub fn start(config: ClusterFormationConfig, rng: Arc<dyn Rng>) -> Result<Self, FormationError> {
        let local = look(&config)?;
        let formation =
            local.topology.as_ref().map(|topology| adopt_topology(&config, topology)).transpose()?;
        let member = Mutex::new(FormationMember::new(local.ids, local.topology));
        let formation = RwLock::new(formation);
        let [is_formed_before, is_unsure] = [(); 2].map(|()| AtomicBool::new(false));
        let core = FormationCore { config, rng, member, is_formed_before, is_unsure, formation };
        Ok(Self(Arc::new(core)))
    }

    /// Notes whether the cluster was formed before. While it was, this node gives no ids and makes no
    /// topology; it takes the one that a peer holds.
    pub fn set_formed_before(&self, is_formed_before: bool) {
        self.0.is_formed_before.store(is_formed_before, Ordering::Release);
    }

    /// Why this node forms no cluster: it was formed before, and this node's volumes hold no topology.
    pub(super) fn refusal(&self) -> Option<FormationError> {
        self.topology().is_none().then(|| self.0.may_form().err()).flatten()
    }

    /// This node's configuration.
    pub fn config(&self) -> &ClusterFormationConfig {
        &self.0.config
    }

    /// The topology, once this node's volumes hold it.
    pub fn topology(&self) -> Option<Arc<Topology>> {
        self.0.formation.read().as_ref().map(|formation| Arc::clone(&formation.topology))
    }

    /// This node's place in the cluster, once its volumes hold the topology.
    pub fn formation(&self) -> Option<Formation> {
        self.0.formation.read().clone()
    }

    /// Answers an attempt; ids are made durable first.
    ///
    /// # Errors
    /// [`StepError`]: this node has no ids to give. It counts as one that did not answer.
    pub async fn form(&self, attempt: u64) -> Result<NodeFormAnswer, StepError> {
        self.step(move |core| {
            // A disk that hangs takes one thread, not one for each attempt.
            let mut member = core.member.try_lock_for(LOCK_MAX).ok_or(StepError::Busy)?;
            core.settle(&mut member)?;
            // Ids that are durable already are not given either.
            if member.topology().is_none() {
                core.may_form()?;
            }
            if let Ok(answer) = member.answer(attempt) {
                return Ok(answer);
            }
            member.hold_ids(make_ids(&core.config, &*core.rng)?);
            Ok(member.answer(attempt).unwrap_or_else(|NoIds| unreachable!("ids were noted")))
        })
        .await
    }

    /// A ticket for a question that is about to be sent.
    pub(super) async fn ticket(&self) -> Result<PullTicket, StepError> {
        self.step(|core| Ok(core.member.try_lock_for(LOCK_MAX).ok_or(StepError::Busy)?.ticket())).await
    }

    /// Takes a topology under a ticket, and writes it to this node's volumes; whether it may be taken.
    pub(super) async fn take(&self, ticket: PullTicket, topology: Arc<Topology>) -> Result<bool, StepError> {
        self.step(move |core| core.take(ticket, &topology)).await
    }

    /// Makes the topology of the ids of all nodes, and writes it to this node's volumes; whether it may be
    /// made.
    pub(super) async fn make(&self, ticket: PullTicket, ids: Vec<Vec<VolumeId>>) -> Result<bool, StepError> {
        self.step(move |core| {
            core.may_form()?;
            let formed = form_topology(&core.config, ids)?;
            let is_taken = core.take(ticket, &Arc::new(formed.topology))?;
            if is_taken && let Some(formation) = &mut *core.formation.write() {
                formation.warnings = formed.warnings;
            }
            Ok(is_taken)
        })
        .await
    }

    /// Runs a step that may block on a disk. Once begun it comes to its end, even if its caller is gone.
    async fn step<T: Send + 'static>(
        &self,
        step: impl FnOnce(&FormationCore) -> Result<T, StepError> + Send + 'static,
    ) -> Result<T, StepError> {
        let core = Arc::clone(&self.0);
        tokio::task::spawn_blocking(move || step(&core)).await.map_err(|_| StepError::Stopped)?
    }
}

impl FormationCore {
    /// Whether this node may take part in making a topology.
    fn may_form(&self) -> Result<(), FormationError> {
        if self.is_formed_before.load(Ordering::Acquire) {
            return Err(FormationError::FormedBefore { cluster: self.config.cluster });
        }
        Ok(())
    }

    fn take(&self, ticket: PullTicket, topology: &Arc<Topology>) -> Result<bool, StepError> {
        let mut member = self.member.try_lock_for(LOCK_MAX).ok_or(StepError::Busy)?;
        self.settle(&mut member)?;
        if !member.may_take(ticket) {
            return Ok(false);
        }
        self.adopt(&mut member, topology)?;
        Ok(true)
    }

    /// Writes a topology to the volumes. A write that fails may have left it on some of them.
    fn adopt(&self, member: &mut Member, topology: &Arc<Topology>) -> Result<(), StepError> {
        self.is_unsure.store(true, Ordering::Release);
        let formation = adopt_topology(&self.config, topology)?;
        member.hold(Arc::clone(topology));
        *self.formation.write() = Some(formation);
        self.is_unsure.store(false, Ordering::Release);
        Ok(())
    }

    /// Finds out what a write that failed has left: a node that said it holds none while a volume of it holds
    /// one would let a second one be made.
    fn settle(&self, member: &mut Member) -> Result<(), StepError> {
        if !self.is_unsure.load(Ordering::Acquire) {
            return Ok(());
        }
        if let Some(topology) = look(&self.config)?.topology {
            return self.adopt(member, &topology);
        }
        self.is_unsure.store(false, Ordering::Release);
        Ok(())
    }
}

impl fmt::Debug for FormationAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormationAnswers").field("config", &self.0.config).finish_non_exhaustive()
    }
}
