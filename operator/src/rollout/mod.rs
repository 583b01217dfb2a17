//! The pod of a cluster that may be taken away next: decided for rollouts and for disruption budgets by plain
//! functions over values, without a client and without a clock.
//!
//! ```text
//!   PoolSets     which volume of which node is in which erasure set; the function that nodes form with
//!   PoolHealth   what the nodes' answers say of each node's volumes
//!   PodState     what Kubernetes says of each pod
//!   ZoneSpread   how much of a set the loss of a zone takes
//!   plan         all of it, and the record of the last plan  -> the next step, the budget, the next record
//! ```
//!
//! The rule that they guard: no step takes the read or write quorum of a set away, as long as the set can
//! lose a node. It rests on three facts. A ready pod is taken away only while every pod is ready and every
//! volume of the pool votes and is healed, so the sets lack at most this one node. A pod that is not ready,
//! or not healed, is taken away while the others of its sets are ready and healed, or when its node takes
//! part in nothing. Evictions name the uid that was judged, so that a repeated one does not evict the
//! successor.

mod placement;
mod health;
mod planner;
mod zones;

pub use health::{NodeAnswers, NodeHealth, PoolHealth, VolumeHealth};
pub use placement::PoolSets;
pub(crate) use planner::listed;
pub use planner::{
    BlockedReason, Eviction, KeptTemplate, PodState, RolloutInput, RolloutPlan, RolloutStep, UpgradeRules,
    plan,
};
pub use zones::{ZoneLoss, ZoneSpread};
