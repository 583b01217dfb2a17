//! One change of a user of a cluster at a time: the reconcile of its BucketUser and the sweep each look at
//! the object and change the user by what they saw.

use std::collections::HashMap;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::sync::OwnedMutexGuard;

use crate::names::Names;

/// The turns of users that are waited for or held.
#[derive(Debug, Default)]
pub struct UserTurns(Mutex<HashMap<String, Arc<tokio::sync::Mutex<()>>>>);

impl UserTurns {
    /// Waits for the turn of a user of a cluster.
    pub(super) async fn take(&self, cluster: &Names, user: &str) -> OwnedMutexGuard<()> {
        let Names { cluster, namespace } = cluster;
        let key = format!("{namespace}/{cluster} {user}");
        let turn = {
            let mut turns = self.0.lock();
            turns.retain(|_, turn| Arc::strong_count(turn) > 1);
            Arc::clone(turns.entry(key).or_default())
        };
        turn.lock_owned().await
    }
}

#[cfg(test)]
mod tests {
    use futures::FutureExt as _;

    use super::*;

    #[tokio::test]
    async fn a_user_has_one_turn_and_what_ended_is_forgotten() {
        let (turns, demo) = (UserTurns::default(), Names::new("demo", "storage"));
        let held = turns.take(&demo, "team.app").await;
        assert!(turns.take(&demo, "team.app").now_or_never().is_none());
        assert!(turns.take(&Names::new("other", "storage"), "team.app").now_or_never().is_some());
        drop(held);
        assert!(turns.take(&demo, "team.app").now_or_never().is_some());
        assert!(turns.take(&demo, "team.web").now_or_never().is_some());
        assert_eq!(turns.0.lock().len(), 1);
    }
}
