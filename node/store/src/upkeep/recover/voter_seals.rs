//! Step 1 of the barrier, second half: the seals of its voters, read page by page.
//!
//! They are as many as buckets were ever deleted, so no report carries them. Each voter is read after its
//! report that it recorded the new life has come, and the volume takes them over together with its floor,
//! before it stores a write or a row: `core::register::recover` says why that order finds every seal that the
//! volume stood for. Guards I-11.

use futures::future::join_all;
use parking_lot::Mutex;

use sherd_core::limits::SEALS_PAGE_MAX;
use sherd_core::message::Answer;
use sherd_core::register::Answerer;
use sherd_core::register::quorum::{Order, Reply};
use sherd_core::register::recover::{Barrier, Guarantees, VoterSeals, may_take};
use sherd_core::register::seal::StoredSeals;

use super::attempt::RecoveryTry;
use super::stall::RecoveryStall;
use crate::peer::VolumeRoute;
use crate::upkeep::limits::VOLUME_PATIENCE;
use crate::upkeep::pages::ask;

impl RecoveryTry {
    /// Reads the seals of every voter of the barrier, all at one time, and gives what they hold together.
    pub(super) async fn read_seals(
        &mut self,
        barrier: &Barrier,
        reports: &[Reply<Guarantees>],
    ) -> Result<Vec<StoredSeals>, RecoveryStall> {
        let asked = self.now();
        let all = Mutex::new(VoterSeals::default());
        let is_voter = |route: &&VolumeRoute| barrier.voters.iter().any(|(voter, _)| *voter == route.volume);
        let voters = self.others.iter().filter(is_voter);
        let read = join_all(voters.map(async |route| (route.volume, read_all(route, &all).await))).await;
        self.arrivals += 1;
        let order = Order { asked, arrived: self.arrivals };
        let mut readings = Vec::with_capacity(read.len());
        for (volume, from) in read {
            let from = from.map_err(|reason| RecoveryStall::Scan { volume, reason })?;
            self.lives.learn_from(volume, &from);
            readings.push(Reply { volume, from, order, result: Ok(()) });
        }
        if may_take(barrier, reports, &readings, &self.lives) {
            Ok(all.into_inner().into_stored())
        } else {
            Err(RecoveryStall::Changed)
        }
    }
}

/// Adds all seals of one voter; gives who answered: one and the same life, which votes from the first page to
/// the last.
async fn read_all(route: &VolumeRoute, all: &Mutex<VoterSeals>) -> Result<Answerer, String> {
    let mut after = None;
    let mut before: Option<Answerer> = None;
    loop {
        let page = route.peer.seals(route.volume, after, SEALS_PAGE_MAX);
        let Answer { from, result } = ask(page, VOLUME_PATIENCE).await.map_err(|error| error.to_string())?;
        let page = result.map_err(|refusal| refusal.to_string())?;
        if !from.votes || before.as_ref().is_some_and(|before| before.life != from.life) {
            return Err("it began a new life, or does not vote".to_owned());
        }
        let Some(last) = page.last().map(|(bucket, _)| *bucket) else { return Ok(from) };
        if after.is_some_and(|after| last <= after) {
            return Err("its seals come in no order".to_owned());
        }
        after = Some(last);
        before = Some(from);
        all.lock().add(page);
    }
}
