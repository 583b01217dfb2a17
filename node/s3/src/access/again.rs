//! Judges a request again whose object got other tags between the decision by them and what it does.
//!
//! ```text
//! tags are read -> they decide -> the store reads or replaces a version with just these -> done
//!        ^----------------------- the version has others ---'
//! ```

use sherd_store::object::Error;

use super::limits::JUDGEMENTS_MAX;
use crate::answer::{Failure, Outcome};

/// Runs what reads tags, decides by them and then asks the store for a version that has them. It is run again
/// where the version has others by then.
///
/// # Errors
/// As what is run; 503 where the tags do not come to rest.
pub(crate) async fn judged<T, F>(run: impl Fn() -> F) -> Outcome<T>
where
    F: Future<Output = Outcome<T>>,
{
    for _ in 1..JUDGEMENTS_MAX {
        match run().await {
            Err(Failure::Store(Error::TagsChanged)) => {}
            done => return done,
        }
    }
    run().await
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;

    #[tokio::test]
    async fn what_the_tags_decided_is_decided_again_until_they_rest() {
        let run = async |changes: usize| {
            let runs = Cell::new(0);
            let outcome = judged(|| {
                runs.set(runs.get() + 1);
                let changed = runs.get() <= changes;
                async move { if changed { Err(Error::TagsChanged.into()) } else { Ok(()) } }
            });
            (outcome.await.is_ok(), runs.get())
        };
        assert_eq!(run(0).await, (true, 1));
        assert_eq!(run(JUDGEMENTS_MAX - 1).await, (true, JUDGEMENTS_MAX));
        assert_eq!(run(usize::MAX).await, (false, JUDGEMENTS_MAX));
    }
}
