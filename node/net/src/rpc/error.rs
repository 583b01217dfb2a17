//! Failed calls on the wire.
//!
//! A volume's failures are bodies: `Busy` and `Full` say that nothing was stored. A status of gRPC is for
//! requests that no volume was asked about: refused senders and fields. Used by every service of [`super`].

use tonic::Status;

use sherd_core::id::ClusterId;
use sherd_core::message::Error;
use sherd_proto::convert::value::other_life;
use sherd_proto::convert::{ConvertError, Wire};
use sherd_proto::sender::{self, SenderRefusal, VersionRule};
use sherd_proto::v1::{Failure, Sender};

use super::failure::CallFailure;

/// A call whose message cannot be read. Nothing was done.
pub(super) fn refused(what: &str) -> CallFailure {
    CallFailure::Volume(Error::Unreachable { reason: format!("refused: {what}") })
}

impl From<ConvertError> for CallFailure {
    fn from(error: ConvertError) -> Self {
        refused(&error.to_string())
    }
}

pub(super) fn failure(failed: CallFailure) -> Failure {
    match failed {
        CallFailure::Volume(error) => error.to_wire(),
        CallFailure::OtherLife(life) => other_life(life),
    }
}

/// Refuses a request by the field that cannot be read.
pub(super) fn invalid(error: &ConvertError) -> Status {
    Status::invalid_argument(error.to_string())
}

/// Checks that a sender is of this cluster and has a version of the messages that the rule takes.
///
/// # Errors
/// A status that names both sides.
pub(super) fn check_sender(
    sender: Option<Sender>,
    cluster: ClusterId,
    rule: VersionRule,
) -> Result<(), Status> {
    sender::check(sender, cluster, rule).map(drop).map_err(|error| refusal(&error))
}

fn refusal(refusal: &SenderRefusal) -> Status {
    match refusal {
        SenderRefusal::Missing | SenderRefusal::Invalid(_) => Status::invalid_argument(refusal.to_string()),
        SenderRefusal::Version { .. } | SenderRefusal::Cluster { .. } => {
            Status::failed_precondition(refusal.to_string())
        }
    }
}
