//! What this node holds while the cluster forms, and its answers to the others, from start to end of the process.
//!
//! Every change goes through one lock that is held while the disk is written: an attempt is never answered with ids
//! while a topology is being taken. So each step runs on a thread that may block. The rules are
//! [`sherd_core::topology::formation`]'s; the disk is `volumes::form::clustered`'s.

use std::fmt;
use std::sync::Arc;

use parking_lot::{Mutex, RwLock};

use sherd_core::env::Rng;
use sherd_core::id::VolumeId;
use sherd_core::topology::Topology;
use sherd_core::topology::formation::{FormationMember, NoIds, PullTicket};

use crate::cluster::asker::NodeFormAnswer;
use crate::volumes::form::clustered::{
    ClusterFormationConfig, adopt_topology, form_topology, look, make_ids,
};
use crate::volumes::form::{Formation, FormationError};

/// This node's part of the formation. Cheap to clone.
#[derive(Clone)]
pub struct FormationAnswers(Arc<FormationCore>);

struct FormationCore {
    config: ClusterFormationConfig,
    rng: Arc<dyn Rng>,
    member: Mutex<FormationMember<Vec<VolumeId>, Arc<Topology>>>,
    /// Set after the member holds the topology; read without waiting for a disk.
    formation: RwLock<Option<Formation>>,
}

/// Why a step did not come to an end.
#[derive(Debug, thiserror::Error)]
pub enum StepError {
    /// The directories, or the configuration.
    #[error(transparent)]
    Formation(#[from] FormationError),
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
        Ok(Self(Arc::new(FormationCore { config, rng, member, formation })))
    }

    /// What this node was told.
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
            let mut member = core.member.lock();
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
        self.step(|core| Ok(core.member.lock().ticket())).await
    }

    /// Takes a topology under a ticket, and writes it to this node's volumes; whether it may be taken.
    pub(super) async fn take(&self, ticket: PullTicket, topology: Arc<Topology>) -> Result<bool, StepError> {
        self.step(move |core| core.take(ticket, &topology)).await
    }

    /// Makes the topology of the ids of all nodes, and writes it to this node's volumes; whether it may be made.
    pub(super) async fn make(&self, ticket: PullTicket, ids: Vec<Vec<VolumeId>>) -> Result<bool, StepError> {
        self.step(move |core| {
            let formed = form_topology(&core.config, ids)?;
            let is_taken = core.take(ticket, &Arc::new(formed.topology))?;
            if is_taken && let Some(formation) = &mut *core.formation.write() {
                formation.warnings = formed.warnings;
            }
            Ok(is_taken)
        })
        .await
    }

    /// Runs a step that may block on a disk. Once begun it comes to its end, whoever still waits for it.
    async fn step<T: Send + 'static>(
        &self,
        step: impl FnOnce(&FormationCore) -> Result<T, FormationError> + Send + 'static,
    ) -> Result<T, StepError> {
        let core = Arc::clone(&self.0);
        let result = tokio::task::spawn_blocking(move || step(&core)).await;
        Ok(result.map_err(|_| StepError::Stopped)??)
    }
}

impl FormationCore {
    fn take(&self, ticket: PullTicket, topology: &Arc<Topology>) -> Result<bool, FormationError> {
        let mut member = self.member.lock();
        if !member.may_take(ticket) {
            return Ok(false);
        }
        let formation = adopt_topology(&self.config, topology)?;
        member.hold(Arc::clone(topology));
        *self.formation.write() = Some(formation);
        Ok(true)
    }
}

impl fmt::Debug for FormationAnswers {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FormationAnswers").field("config", &self.0.config).finish_non_exhaustive()
    }
}
