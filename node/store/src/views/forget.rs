//! A change has every other node forget the views that it made old, so that it is in force through all of
//! them when its call returns.
//!
//! ```text
//! commit -> this node forgets -> calls to all others at once -> each answered: done
//!                                                     -> not: 2.5 s after the commit
//! ```
//! A node that was not reached, or lacks the call, takes no view that was read before the commit after
//! these 2 s: a view is as old as the beginning of its read. Changes that make the same views old share
//! their calls. Guards I-20 and I-21.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use futures::future::join_all;
use tokio::sync::{Mutex, Semaphore};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use sherd_core::id::ObjectKey;

use super::limits::{FORGET_CALLS_MAX, FORGET_MARGIN, FORGET_PAUSE, VIEW_PERIOD};
use crate::cluster::asker::{AskError, Gateways};

/// The views that a change made old.
#[derive(Debug, Clone, Copy)]
pub(crate) enum ChangedViews<'a> {
    /// The view of a bucket.
    Bucket(&'a ObjectKey),
    /// The views of all access keys, and of the account.
    Iam,
}

impl fmt::Display for ChangedViews<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Bucket(name) => write!(f, "the view of bucket {name}"),
            Self::Iam => f.write_str("the views of access keys"),
        }
    }
}

/// Calls that have the other nodes forget views. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ForgetCalls {
    others: Option<Arc<dyn Gateways>>,
    calls: Arc<Semaphore>,
}

impl ForgetCalls {
    /// To these nodes; `None` of a node alone.
    pub(crate) fn new(others: Option<Arc<dyn Gateways>>) -> Self {
        Self { others, calls: Arc::new(Semaphore::new(FORGET_CALLS_MAX)) }
    }

    /// Has every node forget views that a commit just made old, this one by `forget_here`. Returns when no
    /// node takes a view from before any more.
    pub(crate) async fn everywhere(&self, changed: ChangedViews<'_>, forget_here: impl FnOnce() + Send) {
        let until = Instant::now() + VIEW_PERIOD + FORGET_MARGIN;
        forget_here();
        if !self.others_forget(changed, until).await {
            sleep_until(until).await;
        }
    }

    /// Has the other nodes forget views. Returns when all of them said that they did, or at `until`, and then
    /// says that not all did.
    async fn others_forget(&self, changed: ChangedViews<'_>, until: Instant) -> bool {
        let Some(others) = &self.others else { return true };
        let forgotten = others.names().into_iter().map(|node| async move {
            let forgotten = timeout_at(until, self.tell(&**others, &node, changed)).await.unwrap_or(false);
            if !forgotten {
                tracing::info!(node, %changed, "the node did not say that it forgot");
            }
            forgotten
        });
        join_all(forgotten).await.into_iter().all(|forgotten| forgotten)
    }

    /// Calls a node, again where it was not reached; `false` where it refuses.
    async fn tell(&self, others: &dyn Gateways, node: &str, changed: ChangedViews<'_>) -> bool {
        loop {
            let place = self.calls.acquire().await;
            let answer = match changed {
                ChangedViews::Bucket(name) => others.forget_bucket(node, name).await,
                ChangedViews::Iam => others.forget_iam(node).await,
            };
            drop(place);
            match answer {
                Ok(()) => return true,
                Err(AskError::Refused { reason }) => {
                    tracing::debug!(node, reason, "a node does not forget views when it is asked");
                    return false;
                }
                Err(AskError::Unreachable { .. }) => sleep(FORGET_PAUSE).await,
            }
        }
    }
}

/// Has the other nodes forget views that all changes make old alike: one round of calls at a time, and what
/// was committed while one is under way shares the next one. However often one client makes changes, the
/// others' views are forgotten at most once in a round. Cheap to clone.
#[derive(Debug, Clone)]
pub(crate) struct ForgetRounds {
    calls: ForgetCalls,
    changed: ChangedViews<'static>,
    /// Changes that were committed.
    commits: Arc<AtomicU64>,
    /// Commits up to this number are forgotten by all nodes. Locked while a round is under way.
    forgotten: Arc<Mutex<u64>>,
}

impl ForgetRounds {
    /// Of views that each change makes old.
    pub(crate) fn new(calls: ForgetCalls, changed: ChangedViews<'static>) -> Self {
        Self { calls, changed, commits: Arc::default(), forgotten: Arc::default() }
    }

    /// As [`ForgetCalls::everywhere`].
    pub(crate) async fn everywhere(&self, forget_here: impl FnOnce() + Send) {
        let until = Instant::now() + VIEW_PERIOD + FORGET_MARGIN;
        forget_here();
        let commit = self.commits.fetch_add(1, Ordering::SeqCst) + 1;
        if timeout_at(until, self.round_behind(commit, until)).await != Ok(true) {
            sleep_until(until).await;
        }
    }

    /// Takes part in a round that began after a commit. Returns whether all nodes forgot in it.
    async fn round_behind(&self, commit: u64, until: Instant) -> bool {
        let mut forgotten = self.forgotten.lock().await;
        if *forgotten >= commit {
            return true;
        }
        let commits = self.commits.load(Ordering::SeqCst);
        let have_all_forgotten = self.calls.others_forget(self.changed, until).await;
        if have_all_forgotten {
            *forgotten = commits;
        }
        have_all_forgotten
    }
}

#[cfg(test)]
mod tests {
    use sherd_core::iam::AccessKeyId;
    use sherd_core::id::ObjectKey;

    use super::*;

    /// Another node, which answers calls when it is let, and counts them.
    #[derive(Debug)]
    struct OtherNode {
        calls: AtomicU64,
        answers: Semaphore,
    }

    #[async_trait::async_trait]
    impl Gateways for OtherNode {
        fn names(&self) -> Vec<String> {
            vec!["n2".to_owned()]
        }

        async fn forget_bucket(&self, _: &str, _: &ObjectKey) -> Result<(), AskError> {
            unreachable!("no bucket is changed here")
        }

        async fn revoke_key(&self, _: &str, _: AccessKeyId) -> Result<(), AskError> {
            unreachable!("no key is revoked here")
        }

        async fn forget_iam(&self, _: &str) -> Result<(), AskError> {
            self.calls.fetch_add(1, Ordering::SeqCst);
            self.answers.acquire().await.expect("it is not closed").forget();
            Ok(())
        }
    }

    fn rounds() -> (Arc<OtherNode>, ForgetRounds) {
        let other = Arc::new(OtherNode { calls: AtomicU64::new(0), answers: Semaphore::new(0) });
        let calls = ForgetCalls::new(Some(Arc::<OtherNode>::clone(&other)));
        (other, ForgetRounds::new(calls, ChangedViews::Iam))
    }

    #[tokio::test(start_paused = true)]
    async fn changes_that_end_during_a_round_share_the_next_one() {
        let (other, rounds) = rounds();
        let begin = || {
            let rounds = rounds.clone();
            tokio::task::spawn(async move { rounds.everywhere(|| {}).await })
        };
        let mut changes = vec![begin()];
        while other.calls.load(Ordering::SeqCst) == 0 {
            tokio::task::yield_now().await;
        }
        changes.extend((0..100).map(|_| begin()));
        while rounds.commits.load(Ordering::SeqCst) < 101 {
            tokio::task::yield_now().await;
        }
        assert!(changes.iter().all(|change| !change.is_finished()), "the node did not answer yet");
        other.answers.add_permits(1);
        changes.remove(0).await.expect("it ended");
        while other.calls.load(Ordering::SeqCst) == 1 {
            tokio::task::yield_now().await;
        }
        assert!(changes.iter().all(|change| !change.is_finished()), "that round began before they did");
        other.answers.add_permits(1);
        for change in changes {
            change.await.expect("it ended");
        }
        assert_eq!(other.calls.load(Ordering::SeqCst), 2);
    }

    #[tokio::test(start_paused = true)]
    async fn a_change_waits_for_a_silent_node_until_its_own_views_are_too_old() {
        let (_silent, rounds) = rounds();
        let wait = VIEW_PERIOD + FORGET_MARGIN;
        let second = async {
            sleep(VIEW_PERIOD).await;
            let begun = Instant::now();
            rounds.everywhere(|| {}).await;
            begun.elapsed()
        };
        let ((), waited) = futures::future::join(rounds.everywhere(|| {}), second).await;
        assert!(waited >= wait, "{waited:?} behind a commit that the first round began before");
        assert!(waited < wait + FORGET_PAUSE, "{waited:?}: it waits for its own views alone");
    }
}
