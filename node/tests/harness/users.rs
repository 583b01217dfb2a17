//! Users of a cluster: an administrator's calls of IAM, each until it is done, and clients of S3 that sign
//! with the key of a user, or not at all.

use aws_sdk_s3::Client;
use aws_sdk_s3::config::Credentials;
use aws_sdk_s3::config::retry::RetryConfig;

use super::iam::{IamAnswer, IamClient};
use super::s3::S3;
use super::wait::{LATER, bounded};
use super::{Node, settings};

/// An access key of a user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct AccessKey {
    pub(crate) id: String,
    pub(crate) secret: String,
}

/// IAM through one node, as its root user.
#[derive(Debug, Clone)]
pub(crate) struct Users {
    client: IamClient,
}

impl Users {
    /// Calls an action until it is done. A later one of several calls may find that an earlier one did it.
    ///
    /// # Panics
    /// When it is refused.
    pub(crate) async fn done(&self, action: &str, parameters: &[(&str, &str)]) -> IamAnswer {
        let done = async {
            let mut calls = 0;
            loop {
                let answer = self.client.call(action, parameters).await;
                calls += 1;
                match answer.status {
                    200 => return answer,
                    404 | 409 if calls > 1 => return answer,
                    500.. => {}
                    status => panic!("{action} {parameters:?}: {status} {}", answer.body),
                }
            }
        };
        bounded(action, LATER, done).await
    }

    /// Makes a user with a key.
    pub(crate) async fn user(&self, name: &str) -> AccessKey {
        self.done("CreateUser", &[("UserName", name)]).await;
        self.key(name).await
    }

    /// Makes a key of a user.
    pub(crate) async fn key(&self, user: &str) -> AccessKey {
        let made = self.done("CreateAccessKey", &[("UserName", user)]).await;
        let field = |name| made.text(name).unwrap_or_else(|| panic!("{name}: {}", made.body)).to_owned();
        AccessKey { id: field("AccessKeyId"), secret: field("SecretAccessKey") }
    }

    /// Gives a user a policy of its own, or another one of that name.
    pub(crate) async fn put_user_policy(&self, user: &str, document: &str) {
        let parameters = [("UserName", user), ("PolicyName", "own"), ("PolicyDocument", document)];
        self.done("PutUserPolicy", &parameters).await;
    }

    /// Takes that policy away.
    pub(crate) async fn delete_user_policy(&self, user: &str) {
        self.done("DeleteUserPolicy", &[("UserName", user), ("PolicyName", "own")]).await;
    }

    /// Makes a key active, or not.
    pub(crate) async fn set_status(&self, user: &str, key: &AccessKey, status: &str) {
        let parameters = [("UserName", user), ("AccessKeyId", &key.id), ("Status", status)];
        self.done("UpdateAccessKey", &parameters).await;
    }

    /// Deletes a key.
    pub(crate) async fn delete_key(&self, user: &str, key: &AccessKey) {
        self.done("DeleteAccessKey", &[("UserName", user), ("AccessKeyId", &key.id)]).await;
    }
}

impl Node {
    /// IAM through it, as the root user.
    pub(crate) fn users(&self) -> Users {
        Users { client: self.iam_client() }
    }

    /// A client that signs with a key, with connections of its own.
    pub(crate) fn s3_with(&self, key: &AccessKey) -> S3 {
        self.s3_retrying(key, RetryConfig::disabled())
    }

    /// A client as [`Self::s3_with`] that tries each request up to `attempts` times, as the SDK does it.
    pub(crate) fn s3_with_attempts(&self, key: &AccessKey, attempts: u32) -> S3 {
        self.s3_retrying(key, RetryConfig::standard().with_max_attempts(attempts))
    }

    fn s3_retrying(&self, key: &AccessKey, retries: RetryConfig) -> S3 {
        let credentials = Credentials::new(&key.id, &key.secret, None, None, "harness");
        let settings = settings(&self.endpoint, retries).credentials_provider(credentials);
        S3::over(Client::from_conf(settings.build()))
    }

    /// A client that signs nothing.
    pub(crate) fn s3_anonymous(&self) -> S3 {
        let settings = settings(&self.endpoint, RetryConfig::disabled()).allow_no_auth();
        S3::over(Client::from_conf(settings.build()))
    }
}
