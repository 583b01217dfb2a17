//! Who sees a body's bytes beside their way to the volumes: its digests.
//!
//! A digest that no vector helps (MD5) takes longer over a stripe than everything else together. So a
//! stripe that goes to files is looked at on another core, out of the buffers that it is written from,
//! while it is written and the next one is received. It costs no memory of its own, and the stripe's
//! share of the budget is held until it was seen.

use std::sync::Arc;

use bytes::Bytes;
use tokio::sync::oneshot;

use crate::workers::Workers;

/// Stripes that may wait to be seen: each upload has at most one.
const QUEUE_MAX: usize = 1024;

/// Sees the bytes of a body, in order.
pub(crate) trait Onlooker: Send + Sync {
    /// Sees the next bytes.
    fn see(&self, bytes: &[u8]);
}

/// The threads that look, one for each core.
#[derive(Debug)]
pub(crate) struct Lookout(Workers);

impl Lookout {
    /// Starts them.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn start() -> std::io::Result<Self> {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        Workers::start("digest", cores, QUEUE_MAX).map(Self)
    }

    /// Shows the first `length` bytes of some buffers to an onlooker; the answer comes when it has seen
    /// them. Where too many wait it looks here and now.
    pub(super) fn show(&self, onlooker: &Arc<dyn Onlooker>, buffers: &[Bytes], length: usize) -> Seen {
        let (done, seen) = oneshot::channel();
        let (looking, shown) = (Arc::clone(onlooker), buffers.to_vec());
        let job = move || {
            look(&*looking, &shown, length);
            // The buffers go before whoever waits for them to be free.
            drop(shown);
            let _ = done.send(());
        };
        if self.0.run(job).is_err() {
            look(&**onlooker, buffers, length);
            return Seen(None);
        }
        Seen(Some(seen))
    }
}

fn look(onlooker: &dyn Onlooker, buffers: &[Bytes], length: usize) {
    let mut left = length;
    for buffer in buffers {
        let now = left.min(buffer.len());
        onlooker.see(&buffer[..now]);
        left -= now;
    }
}

/// Bytes that are being looked at.
#[derive(Debug)]
pub(super) struct Seen(Option<oneshot::Receiver<()>>);

impl Seen {
    /// Waits until they were seen.
    ///
    /// # Panics
    /// When the onlooker did.
    pub(super) async fn wait(self) {
        if let Some(seen) = self.0 {
            seen.await.expect("whoever looks does not panic");
        }
    }
}
