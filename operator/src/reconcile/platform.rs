//! The kind of Kubernetes that the operator works on. OpenShift gives the pods of a namespace their user and
//! groups, of a range of that namespace's own, and refuses pods that name others.

use kube::Client;
use parking_lot::Mutex;
use serde_json::Value;
use tokio::time::Instant;

use super::error::ReconcileError;
use crate::api_words::words;
use crate::limits;

/// The group of OpenShift's security context constraints. An API server that lacks it gives no pod a user.
const CONSTRAINTS_GROUP: &str = "security.openshift.io";

/// The source of the user and the groups of pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum PodUsers {
    /// Pods name them.
    #[default]
    Named,
    /// The namespace gives them.
    Given,
}

/// The last answer of the API server about itself.
#[derive(Debug, Default)]
pub struct Platform {
    answer: Mutex<Option<PlatformAnswer>>,
}

#[derive(Debug, Clone, Copy)]
struct PlatformAnswer {
    users: PodUsers,
    asked: Instant,
}

impl Platform {
    /// Returns the source of pods' users. The API server is asked once in
    /// [`limits::PLATFORM_ASKED_AGAIN`]; where it fails then, its last answer stands.
    ///
    /// # Errors
    /// [`ReconcileError::Api`], when it never answered.
    pub(super) async fn pod_users(&self, client: &Client) -> Result<PodUsers, ReconcileError> {
        let last = *self.answer.lock();
        let is_fresh = |last: &PlatformAnswer| last.asked.elapsed() < limits::PLATFORM_ASKED_AGAIN;
        if let Some(last) = last.filter(is_fresh) {
            return Ok(last.users);
        }
        let users = match (ask(client).await, last) {
            (Ok(users), _) => users,
            (Err(error), Some(last)) => {
                tracing::warn!(error = words(&error), "look for the API group {CONSTRAINTS_GROUP}");
                last.users
            }
            (Err(source), None) => {
                return Err(ReconcileError::api("look for", "API group".into(), CONSTRAINTS_GROUP, source));
            }
        };
        if last.is_none_or(|last| last.users != users) {
            tracing::info!(?users, "source of the users of pods");
        }
        *self.answer.lock() = Some(PlatformAnswer { users, asked: Instant::now() });
        Ok(users)
    }
}

/// Looks whether the API server has the group. An operator that may not look assumes that it has not:
/// OpenShift then refuses the pods, and the status has its words.
async fn ask(client: &Client) -> Result<PodUsers, kube::Error> {
    let request = http::Request::get(format!("/apis/{CONSTRAINTS_GROUP}")).body(vec![]);
    match client.request::<Value>(request.map_err(kube::Error::HttpError)?).await {
        Ok(_) => Ok(PodUsers::Given),
        Err(kube::Error::Api(status)) if matches!(status.code, 403 | 404) => Ok(PodUsers::Named),
        Err(error) => Err(error),
    }
}
