//! Errors of requests of the API server, in its own words where it answered: for log lines, events and
//! conditions.

use kube::core::Status;
use kube::runtime::watcher;

/// Returns the API server's own words, where it answered: the text of the error has all fields of the answer.
pub fn words(error: &kube::Error) -> String {
    match error {
        kube::Error::Api(status) => words_of_status(status),
        other => other.to_string(),
    }
}

fn words_of_status(status: &Status) -> String {
    let Status { message, reason, code, .. } = status;
    if message.is_empty() { format!("{code} {reason}") } else { message.clone() }
}

/// Returns why a watch failed, in the API server's own words where it answered.
pub(crate) fn words_of_watch(error: &watcher::Error) -> String {
    match error {
        watcher::Error::InitialListFailed(error)
        | watcher::Error::WatchStartFailed(error)
        | watcher::Error::WatchFailed(error) => words(error),
        watcher::Error::WatchError(status) => words_of_status(status),
        watcher::Error::NoResourceVersion => error.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_answer_of_the_api_server_is_its_words() {
        let status = |message: &str| Box::new(Status::failure(message, "Forbidden").with_code(403));
        let refused = || kube::Error::Api(status("leases is forbidden"));
        assert_eq!(words(&refused()), "leases is forbidden");
        assert_eq!(words(&kube::Error::Api(status(""))), "403 Forbidden");
        for failed in [
            watcher::Error::InitialListFailed(refused()),
            watcher::Error::WatchStartFailed(refused()),
            watcher::Error::WatchFailed(refused()),
            watcher::Error::WatchError(status("leases is forbidden")),
        ] {
            assert_eq!(words_of_watch(&failed), "leases is forbidden");
        }
    }
}
