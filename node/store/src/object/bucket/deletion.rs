//! Deleting a bucket: `deleting`, seal, list, then gone or active again.
//!
//! The order is `sherd_core::register::seal`'s, and so is the decision. A deletion runs to its end
//! although its client is gone: a bucket left `deleting` answers no request until upkeep finds it.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt;
use futures::future::{join, join_all};
use futures::stream::FuturesUnordered;
use tokio::time::Instant;

use sherd_core::id::{BucketId, ChangeId, Epoch, ObjectKey, RegisterKey};
use sherd_core::message::{Answer, Control, LIST_PASSED_MAX, ListScan, ListedRow, ScannedRow};
use sherd_core::record::{BucketPhase, State, Value};
use sherd_core::register::quorum::{Lives, Order, Reply};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::seal::{
    DeletionDecision, Remains, RowFate, SetAnswers, UnsettledRemains, decide_deletion, row_fate,
};

use super::{Buckets, DeletionPatience, PhaseError};
use crate::cluster::{KeyRoute, SetView};
use crate::object::error::{Error, Result, UnavailableReason};
use crate::object::limits::{
    DELETION_PAGE_ROWS, DELETION_RENEW_EVERY, DELETION_SETTLE_MAX, DELETION_TRIES, SEAL_REST_PATIENCE,
};
use crate::object::task::to_the_end;
use crate::peer::{Gather, LATE_LOOK_EVERY, VolumeRoute, ask_unless_busy};
use crate::register::Failure;

/// The answers of the volumes of one set.
struct SealAnswers {
    set: Arc<SetView>,
    seals: Vec<Reply<()>>,
    remains: Vec<Reply<Remains>>,
}

impl Buckets {
    /// Deletes an empty bucket. Without `by_root`, the very state that becomes `deleting` must have no tag of
    /// root's.
    pub(in crate::object) async fn delete(&self, name: ObjectKey, by_root: bool) -> Result<()> {
        let buckets = self.clone();
        let deletion = async move { buckets.delete_to_the_end(&buckets.route(name), by_root).await };
        to_the_end(self.under.registers.tasks(), "bucket deletion", deletion).await
    }

    async fn delete_to_the_end(&self, route: &KeyRoute, by_root: bool) -> Result<()> {
        for _ in 0..DELETION_TRIES {
            let id = self.under.decided_bucket(route).await?;
            let deletion = self.new_deletion();
            // Before the register names it: upkeep undoes deletions that no gateway here has under way.
            let under_way = self.under.deletions.begin(deletion);
            let deleting = BucketPhase::Deleting { deletion };
            match self.move_bucket(route, id, BucketPhase::Active, deleting, by_root).await? {
                Ok(()) => {}
                Err(refused) => {
                    under_way.end();
                    match refused {
                        PhaseError::Reserved => return Err(Error::BucketReserved),
                        PhaseError::OtherPhase | PhaseError::Gone => continue,
                    }
                }
            }
            self.under.views.forget(&route.key().key);
            let listed = self.seal_and_list(id, deletion);
            let (decision, in_doubt) = self.kept_alive(route, DELETION_RENEW_EVERY, listed).await;
            let moved = self.conclude(route, id, deletion, decision).await.map_err(left_behind)?;
            under_way.end();
            match decision {
                DeletionDecision::End if moved.is_ok() => {
                    let forgotten = self.forgetting.everywhere(&route.key().key);
                    join(forgotten, self.remove_documents(route, id)).await;
                    return Ok(());
                }
                DeletionDecision::NotEmpty => return Err(Error::BucketNotEmpty),
                DeletionDecision::Unavailable => return Err(UnavailableReason::Quorum.into()),
                DeletionDecision::Settle | DeletionDecision::End => {}
            }
            for object in &in_doubt {
                self.settle_dead(&RegisterKey::object(id, object.clone())).await?;
            }
        }
        Err(Error::BucketBusy)
    }

    /// Brings a key in doubt to all volumes, unless it holds an object: the next try then finds its tombstone
    /// accepted by A at one ballot, whether the hint that it is committed has arrived or not.
    async fn settle_dead(&self, key: &RegisterKey) -> Result<()> {
        // The next try finds keys that are not settled yet.
        let later = |failure: &Failure| matches!(failure, Failure::Sealed | Failure::OutcomeUnknown);
        match self.under.registers.read(key).await {
            Ok(Some(found)) if !is_without_object(&found.value.state) => return Err(Error::BucketNotEmpty),
            Ok(_) => {}
            Err(failure) if later(&failure) => return Ok(()),
            Err(failure) => return Err(failure.into()),
        }
        match self.under.registers.finish(key).await {
            Err(failure) if !later(&failure) => Err(failure.into()),
            Ok(_) | Err(_) => Ok(()),
        }
    }

    /// Works on a deletion and writes its row again meanwhile: its ballot shows other nodes that a gateway
    /// does. Where that fails, they and this gateway find out by the next change.
    pub(super) async fn kept_alive<T>(
        &self,
        route: &KeyRoute,
        every: Duration,
        work: impl Future<Output = T>,
    ) -> T {
        let mut work = pin!(work);
        loop {
            match tokio::time::timeout(every, work.as_mut()).await {
                Ok(done) => return done,
                Err(_elapsed) => drop(self.under.registers.finish_at(route).await),
            }
        }
    }

    /// Ends or undoes a deletion in the bucket's register, and then makes the volumes' seals final or removes
    /// them.
    pub(super) async fn conclude(
        &self,
        route: &KeyRoute,
        bucket: BucketId,
        deletion: ChangeId,
        decision: DeletionDecision,
    ) -> Result<std::result::Result<(), PhaseError>> {
        let unseal = Control::Unseal { bucket, deletion };
        let (to, told) = match decision {
            DeletionDecision::End => (BucketPhase::Deleted, Control::SealForEver { bucket }),
            DeletionDecision::NotEmpty | DeletionDecision::Settle | DeletionDecision::Unavailable => {
                (BucketPhase::Active, unseal.clone())
            }
        };
        let moved = self.move_bucket(route, bucket, BucketPhase::Deleting { deletion }, to, true).await?;
        match moved {
            Ok(()) => self.tell_all(&told).await,
            // Another gateway took it for left behind and undid it. This one removes the seals that it placed
            // after that.
            Err(PhaseError::OtherPhase) => self.tell_all(&unseal).await,
            // The seals of a deleted bucket stay.
            Err(PhaseError::Gone | PhaseError::Reserved) => {}
        }
        Ok(moved)
    }

    pub(super) async fn seal_and_list(
        &self,
        bucket: BucketId,
        deletion: ChangeId,
    ) -> (DeletionDecision, Vec<ObjectKey>) {
        let epoch = self.under.cluster.epoch();
        let seal_set = |set| seal_set(set, bucket, deletion, epoch, self.patience);
        let sets = self.under.cluster.sets().iter().map(seal_set);
        let sealed: Vec<SealAnswers> = join_all(sets).await;
        let answers: Vec<SetAnswers<'_>> = sealed
            .iter()
            .map(|sealed| SetAnswers {
                quorums: sealed.set.quorums(),
                seals: &sealed.seals,
                remains: &sealed.remains,
            })
            .collect();
        let mut lives = Lives::clone(&self.under.registers.known_lives());
        for reply in sealed.iter().flat_map(|sealed| &sealed.seals) {
            lives.learn_from(reply.volume, &reply.from);
        }
        let decision = decide_deletion(&answers, &lives);
        let remains = sealed.into_iter().flat_map(|sealed| sealed.remains);
        let held = remains.filter_map(|reply| reply.result.ok());
        let mut in_doubt: Vec<ObjectKey> = held
            .flat_map(|Remains { live, unsettled, is_complete: _ }| {
                live.into_iter().chain(unsettled.into_iter().map(|row| row.key))
            })
            .collect();
        in_doubt.sort_unstable();
        in_doubt.dedup();
        in_doubt.truncate(DELETION_SETTLE_MAX);
        (decision, in_doubt)
    }

    /// Sends it to every volume of every set; upkeep sends it again to those that do not answer.
    async fn tell_all(&self, control: &Control) {
        join_all(self.under.cluster.sets().iter().map(|set| controlled(set, control, self.patience))).await;
    }
}

/// A deletion that goes no further stays in the bucket's register: upkeep ends it, one way or the other.
fn left_behind(error: Error) -> Error {
    match error {
        Error::Unavailable(_) | Error::Full => Error::OutcomeUnknown,
        other => other,
    }
}

/// Whether the rest of the volumes count as silent: A answered, and those that did not are late or take long.
fn are_enough(set: &SetView, answered: usize, begun: Instant, mut rest: impl Iterator<Item = usize>) -> bool {
    answered >= set.quorums().accept()
        && (begun.elapsed() >= SEAL_REST_PATIENCE || rest.all(|place| set.is_late(place)))
}

/// Changes what every volume of a set guarantees, and gives the answers with their places. Once A did it,
/// those that are late or take long count as silent.
async fn controlled(
    set: &SetView,
    control: &Control,
    patience: DeletionPatience,
) -> Vec<(usize, Answer<Guarantees>)> {
    let calls = set.routes.iter().map(|route| route.peer.control(route.volume, control.clone()));
    let mut gather = Gather::new(calls.enumerate());
    let begun = Instant::now();
    let mut answers: Vec<(usize, Answer<Guarantees>)> = Vec::with_capacity(set.routes.len());
    while !gather.is_empty() && begun.elapsed() < patience.control {
        let done = answers.iter().filter(|(_, answer)| answer.from.votes && answer.result.is_ok()).count();
        if are_enough(set, done, begun, gather.places()) {
            break;
        }
        // Cancel-safe: an answer is taken only in the poll that ends the wait.
        if let Ok(Some((place, Ok(answer)))) = tokio::time::timeout(LATE_LOOK_EVERY, gather.next()).await {
            answers.push((place, answer));
        }
    }
    answers
}

/// Seals the bucket on every volume of a set, and then asks each that did what it still holds.
async fn seal_set(
    set: &Arc<SetView>,
    bucket: BucketId,
    deletion: ChangeId,
    epoch: Epoch,
    patience: DeletionPatience,
) -> SealAnswers {
    let mut sealed = SealAnswers { set: Arc::clone(set), seals: Vec::new(), remains: Vec::new() };
    let seal = Control::Seal { bucket, deletion, epoch };
    let mut arrived = 0;
    for (place, Answer { from, result }) in controlled(set, &seal, patience).await {
        arrived += 1;
        let (volume, order) = (set.routes[place].volume, Order { asked: 0, arrived });
        sealed.seals.push(Reply { volume, from, order, result: result.map(|_| ()) });
    }
    let sealed_it = |volume| sealed.seals.iter().any(|seal| seal.volume == volume && seal.result.is_ok());
    let mut waiting: Vec<usize> =
        (0..set.routes.len()).filter(|place| sealed_it(set.routes[*place].volume)).collect();
    let walks = waiting.iter().map(|&place| async move {
        (place, remains(&set.routes[place], bucket, deletion, epoch, patience.page).await)
    });
    let (mut walks, begun) = (walks.collect::<FuturesUnordered<_>>(), Instant::now());
    while !walks.is_empty() && !are_enough(set, sealed.remains.len(), begun, waiting.iter().copied()) {
        // Cancel-safe: an answer is taken only in the poll that ends the wait.
        let Ok(Some((place, listed))) = tokio::time::timeout(LATE_LOOK_EVERY, walks.next()).await else {
            continue;
        };
        waiting.retain(|other| *other != place);
        let Some((from, remains)) = listed else { continue };
        arrived += 1;
        // Every list was asked for after every seal of this set had arrived.
        let order = Order { asked: arrived, arrived: arrived + 1 };
        let volume = set.routes[place].volume;
        sealed.remains.push(Reply { volume, from, order, result: Ok(remains) });
    }
    drop(walks);
    sealed
}

/// Walks what one sealed volume holds under the bucket, to the end of the page on which something live is
/// seen.
async fn remains(
    route: &VolumeRoute,
    bucket: BucketId,
    deletion: ChangeId,
    epoch: Epoch,
    page_patience: Duration,
) -> Option<(sherd_core::register::Answerer, Remains)> {
    let mut remains = Remains::default();
    let mut scan = ListScan {
        bucket,
        epoch,
        prefix: bytes::Bytes::new(),
        from: bytes::Bytes::new(),
        delimiter: None,
        limit: DELETION_PAGE_ROWS,
        deletion: Some(deletion),
        passed_max: LIST_PASSED_MAX,
    };
    let mut life = None;
    loop {
        let deadline = Instant::now() + page_patience;
        let listed = ask_unless_busy(deadline, || route.peer.list(route.volume, &scan));
        let Answer { from, result } = tokio::time::timeout_at(deadline, listed).await.ok()?.ok()?;
        let page = result.ok()?;
        // Rows that it listed in a life that is over may be gone.
        if *life.get_or_insert(from.life) != from.life {
            return None;
        }
        for listed in page.entries {
            let (ListedRow::Row(row) | ListedRow::Prefix { witness: row, .. }) = listed;
            let is_tombstone = holds_no_object(&row);
            match row_fate(row.row.head.committed, is_tombstone) {
                RowFate::Gone => {}
                RowFate::Live => remains.live.push(row.key.key),
                RowFate::Unsettled => remains.unsettled.push(UnsettledRemains {
                    ballot: row.row.head.ballot,
                    is_accepted: row.row.head.is_accepted(page.floor),
                    is_tombstone,
                    key: row.key.key,
                }),
            }
        }
        match page.next {
            Some(next) if remains.live.is_empty() && remains.unsettled.len() < DELETION_SETTLE_MAX => {
                scan.from = next;
            }
            next => {
                remains.is_complete = next.is_none();
                return Some((from, remains));
            }
        }
    }
}

/// Whether a row's value holds no object; not where it cannot be read.
fn holds_no_object(row: &ScannedRow) -> bool {
    let value = row.row.value.clone().and_then(|head| Value::decode(head).ok());
    value.is_some_and(|value| is_without_object(&value.state))
}

/// A key on which only uploads are open holds no object: S3 lets its bucket go.
fn is_without_object(state: &State) -> bool {
    match state {
        State::Tombstone => true,
        State::Object(object) => object.versions.is_empty(),
        State::Part(_) | State::Bucket(_) | State::UploadAttributes(_) => false,
    }
}
