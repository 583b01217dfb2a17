//! Final seals: which volumes of this node hold one on a bucket, and those of a volume's peers that it
//! missed.
//!
//! Only a final seal says that a bucket is deleted for ever: no register under it names anything again.
//! Guards I-15.

use futures::future::join_all;
use futures::{FutureExt as _, StreamExt as _};

use sherd_core::id::{BucketId, RegisterKey, VolumeId};
use sherd_core::limits::SEALS_PAGE_MAX;
use sherd_core::message::Control;
use sherd_core::register::seal::{Seals, StoredSeals};

use super::deps::Deps;
use super::pages::ask;
use crate::peer::VolumeRoute;
use crate::upkeep::limits::{SEALS_AT_ONCE, VOLUME_PATIENCE};

pub(crate) fn is_final((_, deletions): &StoredSeals) -> bool {
    Seals::from_stored(deletions) == Seals::Final
}

/// Whether the bucket of a key is deleted for ever: no register under it can name anything.
pub(crate) fn is_gone_for_ever(deps: &Deps, key: &RegisterKey) -> bool {
    deps.volumes.all().iter().any(|volume| is_sealed_for_ever_on(deps, volume.id(), key.bucket))
}

/// Whether a volume of this node holds a final seal on a bucket.
pub(crate) fn is_sealed_for_ever_on(deps: &Deps, volume: VolumeId, bucket: BucketId) -> bool {
    let serving = deps.volumes.get(volume).and_then(|volume| volume.serving().ok());
    serving.is_some_and(|serving| serving.reader.seals_of(bucket) == Seals::Final)
}

/// Takes over the final seals of a volume's peers: it may have been away when the buckets were deleted. A
/// final seal is true in any life of a peer. All peers are read at one time, so that one without an answer
/// delays this once.
pub(crate) async fn take_final_seals(deps: &Deps, volume: VolumeId) {
    let Some(set) = deps.set_with(volume) else { return };
    let Some(own) = set.routes.iter().find(|route| route.volume == volume) else { return };
    let peers = set.routes.iter().filter(|route| route.volume != volume);
    let taken = peers.map(async |route| {
        let mut after = None;
        while let Some(last) = take_page_of_seals(deps, own, route, after, SEALS_PAGE_MAX).await
            && after.is_none_or(|after| after < last)
        {
            after = Some(last);
        }
    });
    join_all(taken).await;
}

/// As [`take_final_seals`], of one bucket.
pub(crate) async fn take_final_seal(deps: &Deps, volume: VolumeId, bucket: BucketId) {
    let Some(set) = deps.set_with(volume) else { return };
    let Some(own) = set.routes.iter().find(|route| route.volume == volume) else { return };
    let before = u128::from_be_bytes(bucket.0).checked_sub(1).map(|id| BucketId(id.to_be_bytes()));
    let peers = set.routes.iter().filter(|route| route.volume != volume);
    join_all(peers.map(|route| take_page_of_seals(deps, own, route, before, 1))).await;
}

/// Takes over the final seals on one page of a peer's; gives the last bucket of the page, if there is one.
async fn take_page_of_seals(
    deps: &Deps,
    own: &VolumeRoute,
    route: &VolumeRoute,
    after: Option<BucketId>,
    limit: usize,
) -> Option<BucketId> {
    let answer = ask(route.peer.seals(route.volume, after, limit), VOLUME_PATIENCE).await.ok()?;
    let page = answer.result.ok()?;
    let last = page.last().map(|(bucket, _)| *bucket);
    let missing = page.into_iter().filter(is_final).map(|(bucket, _)| bucket);
    let missing = missing.filter(|bucket| !is_sealed_for_ever_on(deps, own.volume, *bucket));
    // A seal that the volume refuses here comes again at its next opening, or when the scrubber finds a row.
    let sealed = missing.map(|bucket| {
        ask(own.peer.control(own.volume, Control::SealForEver { bucket }), VOLUME_PATIENCE).map(drop)
    });
    futures::stream::iter(sealed).buffer_unordered(SEALS_AT_ONCE).for_each(|()| async {}).await;
    last
}
