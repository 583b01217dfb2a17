//! Keeps the reconciles of one object apart, so that changes that come fast, its own among them, cost the API
//! server no more than one look in a while.

use std::collections::HashMap;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// When the last reconcile of each object began; those that are long past are forgotten.
#[derive(Default)]
pub(super) struct Brake {
    begun: Mutex<HashMap<String, Instant>>,
}

impl Brake {
    /// Returns how long a reconcile must still wait, or nothing where it may begin.
    pub(super) fn wait(&self, object: &str, apart: Duration) -> Option<Duration> {
        let (now, mut begun) = (Instant::now(), self.begun.lock());
        let wait = begun.get(object).and_then(|begun| apart.checked_sub(now.duration_since(*begun)));
        if let Some(wait) = wait.filter(|wait| !wait.is_zero()) {
            return Some(wait);
        }
        begun.retain(|_, begun| now.duration_since(*begun) < apart);
        begun.insert(object.to_owned(), now);
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const APART: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn reconciles_of_one_object_are_apart() {
        let brake = Brake::default();
        assert_eq!(brake.wait("one", APART), None);
        assert_eq!(brake.wait("other", APART), None, "of another object");
        tokio::time::advance(Duration::from_millis(300)).await;
        assert_eq!(brake.wait("one", APART), Some(Duration::from_millis(700)));
        tokio::time::advance(Duration::from_millis(700)).await;
        assert_eq!(brake.wait("one", APART), None);
        assert_eq!(brake.wait("one", APART), Some(APART));
        tokio::time::advance(Duration::from_mins(1)).await;
        assert_eq!(brake.wait("two", APART), None);
        assert_eq!(brake.begun.lock().len(), 1, "what is long past is forgotten");
    }
}
