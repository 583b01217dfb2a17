//! Reads files that may be written in place at the same moment: a new text is taken once it was read twice.

use crate::process::serve::limits::FILE_SETTLES_AFTER;

/// Reads a followed file on a blocking thread. A text that differs from `loaded` is read a second time, a
/// second later. Nothing is returned where both differ, since half of a file can be valid, and where the
/// runtime is shutting down. Cancel-safe.
pub(super) async fn read_settled<T, E>(
    read: impl Fn() -> Result<T, E> + Clone + Send + 'static,
    loaded: &T,
) -> Option<Result<T, E>>
where
    T: PartialEq + Send + 'static,
    E: Send + 'static,
{
    // A panic of the read was logged by the panic hook.
    let first = tokio::task::spawn_blocking(read.clone()).await.ok()?;
    let Ok(found) = &first else { return Some(first) };
    if found == loaded {
        return Some(first);
    }
    tokio::time::sleep(FILE_SETTLES_AFTER).await;
    let second = tokio::task::spawn_blocking(read).await.ok()?;
    match &second {
        Ok(again) if again != found => None,
        _ => Some(second),
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;
    use std::sync::Arc;

    use parking_lot::Mutex;

    use super::*;

    /// Looks at a file that has these texts one after the other.
    async fn look(texts: &[&'static str]) -> Option<Result<&'static str, &'static str>> {
        let texts = Arc::new(Mutex::new(texts.iter().copied().collect::<VecDeque<_>>()));
        let read = move || match texts.lock().pop_front().expect("no further look") {
            "broken" => Err("broken"),
            text => Ok(text),
        };
        read_settled(read, &"loaded").await
    }

    #[tokio::test(start_paused = true)]
    async fn half_of_a_file_that_is_written_in_place_is_not_taken() {
        assert_eq!(look(&["loaded"]).await, Some(Ok("loaded")));
        assert_eq!(look(&["whole", "whole"]).await, Some(Ok("whole")));
        assert_eq!(look(&["half", "whole"]).await, None);
        assert_eq!(look(&["half", "loaded"]).await, None);
        assert_eq!(look(&["half", "broken"]).await, Some(Err("broken")));
        assert_eq!(look(&["broken"]).await, Some(Err("broken")));
    }
}
