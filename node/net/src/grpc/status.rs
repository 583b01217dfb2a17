//! Statuses and errors of a connection, as the reason of an unreachable volume.

use std::error::Error;

use tonic::Status;

pub(super) fn status_with_causes(status: &Status) -> String {
    let text = format!("{:?}: {}", status.code(), status.message());
    status.source().map_or(text.clone(), |source| format!("{text}: {}", error_chain(source)))
}

pub(super) fn error_chain(error: &dyn Error) -> String {
    std::iter::successors(Some(error), |error| (*error).source())
        .map(ToString::to_string)
        .collect::<Vec<_>>()
        .join(": ")
}
