//! The administrator of the story: makes users with the first rules, and changes the rules, one change after
//! the other and each through the next node.

use std::collections::BTreeMap;

use aws_sdk_s3::primitives::ByteStream;
use aws_sdk_s3::types::PublicAccessBlockConfiguration;
use tokio::task::JoinSet;

use super::checker::Recorder;
use super::model::{BucketDocument, Document, ROOT, Rules, USERS, name};
use crate::harness::Node;
use crate::harness::cluster::TestCluster;
use crate::harness::data::Dice;
use crate::harness::s3::{BUCKET, Failure, Outcome, S3, done, outcome};
use crate::harness::users::{AccessKey, Users};
use crate::harness::wait::{LATER, bounded, eventually};

const GROUP: &str = "group";
const MANAGED: &str = "arn:aws:iam::000000000001:policy/managed";
/// The documents of the managed policy, each a version of it.
const VERSIONS: [Document; 2] = [Document::ReadAll, Document::KeepAll];
/// Policies of users and of the group.
const DOCUMENTS: [Document; 6] = [
    Document::ReadOwn,
    Document::WriteOwn,
    Document::ReadAll,
    Document::All,
    Document::KeepAll,
    Document::NotTheTeam,
];
const BUCKET_DOCUMENTS: [BucketDocument; 3] =
    [BucketDocument::Public, BucketDocument::Named, BucketDocument::Guarded];

/// A change of what is in force.
#[derive(Debug, Clone, Copy)]
enum Change {
    /// The policy that a user has of its own.
    Inline(usize, Option<Document>),
    Group(Option<Document>),
    Member(usize, bool),
    Attached(usize, bool),
    /// Document of the managed policy.
    Managed(Document),
    Active(usize, bool),
    Bucket(Option<BucketDocument>),
    Restricted(bool),
}

#[derive(Debug)]
pub(super) struct Admin {
    /// IAM and S3 through each node.
    iam: Vec<Users>,
    s3: Vec<S3>,
    keys: Vec<AccessKey>,
    /// The ids of [`VERSIONS`].
    versions: Vec<String>,
    rules: Rules,
    changes: usize,
}

impl Change {
    fn draw(dice: &mut Dice) -> Self {
        let is_there = dice.below(4) > 0;
        match dice.below(16) {
            // Most users have a group, a managed policy or a bucket's policy beside it, or nothing else.
            0..=3 => {
                let document = is_there.then(|| DOCUMENTS[dice.below(DOCUMENTS.len())]);
                Self::Inline(dice.below(USERS), document)
            }
            4 => Self::Group(is_there.then(|| DOCUMENTS[dice.below(DOCUMENTS.len())])),
            5 | 6 => Self::Member(dice.below(USERS), is_there),
            7 | 8 => Self::Attached(dice.below(USERS), is_there),
            9 => Self::Managed(VERSIONS[dice.below(VERSIONS.len())]),
            10 | 11 => Self::Active(dice.below(USERS), is_there),
            12..=14 => Self::Bucket(is_there.then(|| BUCKET_DOCUMENTS[dice.below(BUCKET_DOCUMENTS.len())])),
            _ => Self::Restricted(dice.below(2) > 0),
        }
    }

    /// The rules after it.
    fn applied_to(self, rules: &Rules) -> Rules {
        let mut rules = rules.clone();
        match self {
            Self::Inline(user, Some(document)) => drop(rules.inline.insert(user, document)),
            Self::Inline(user, None) => drop(rules.inline.remove(&user)),
            Self::Group(document) => rules.group = document,
            Self::Member(user, true) => drop(rules.members.insert(user)),
            Self::Member(user, false) => drop(rules.members.remove(&user)),
            Self::Attached(user, true) => drop(rules.attached.insert(user)),
            Self::Attached(user, false) => drop(rules.attached.remove(&user)),
            Self::Managed(document) => rules.managed = document,
            Self::Active(user, true) => drop(rules.inactive.remove(&user)),
            Self::Active(user, false) => drop(rules.inactive.insert(user)),
            Self::Bucket(document) => rules.bucket = document,
            Self::Restricted(is_restricted) => rules.is_restricted = is_restricted,
        }
        rules
    }
}

impl Admin {
    /// Makes what the story needs: users with the first rules, and objects.
    pub(super) async fn prepare(cluster: &TestCluster, s3: Vec<S3>) -> Self {
        let iam: Vec<_> = cluster.running().map(Node::users).collect();
        let rules = Rules::first();
        let group = rules.group.expect("the first rules have a policy of the group").json();
        iam[0].done("CreateGroup", &[("GroupName", GROUP)]).await;
        let policy = [("GroupName", GROUP), ("PolicyName", "own"), ("PolicyDocument", &*group)];
        iam[0].done("PutGroupPolicy", &policy).await;
        let mut versions = Vec::new();
        for (number, document) in VERSIONS.into_iter().enumerate() {
            let json = document.json();
            let (action, named) = match number {
                0 => ("CreatePolicy", ("PolicyName", "managed")),
                _ => ("CreatePolicyVersion", ("PolicyArn", MANAGED)),
            };
            let made = iam[0].done(action, &[named, ("PolicyDocument", &json)]).await;
            let version = made.text("VersionId").or_else(|| made.text("DefaultVersionId"));
            versions.push(version.unwrap_or_else(|| panic!("no version in {}", made.body)).to_owned());
        }
        let mut making = JoinSet::new();
        for user in 0..USERS {
            let (iam, rules) = (iam[user % iam.len()].clone(), rules.clone());
            making.spawn(async move { (user, make_user(&iam, user, &rules).await) });
        }
        let keys = bounded("the users", LATER, making.join_all()).await;
        let keys: Vec<_> = BTreeMap::from_iter(keys).into_values().collect();
        for client in (0..=ROOT).map(name) {
            put(&s3[0], &format!("own/{client}/object")).await;
        }
        for key in ["public/object", "team/object"] {
            put(&s3[0], key).await;
        }
        let bucket = Change::Bucket(rules.bucket);
        let admin = Self { iam, s3, keys, versions, rules, changes: 0 };
        // The block of a new bucket takes no public policy.
        admin.make(Change::Restricted(false), 0).await;
        admin.make(bucket, 0).await;
        admin
    }

    /// The keys of the users.
    pub(super) fn keys(&self) -> &[AccessKey] {
        &self.keys
    }

    /// Makes a change through the next node. Returns the rules before and after it.
    pub(super) async fn change(&mut self, dice: &mut Dice, recorder: &Recorder) -> (Rules, Rules) {
        let (change, new) = loop {
            let change = Change::draw(dice);
            let new = change.applied_to(&self.rules);
            if new != self.rules {
                break (change, new);
            }
        };
        let node = self.changes % self.iam.len();
        self.changes += 1;
        let called = recorder.now();
        self.make(change, node).await;
        recorder.changed(format!("{change:?} through node {node}"), called, new.clone());
        (std::mem::replace(&mut self.rules, new.clone()), new)
    }

    async fn make(&self, change: Change, node: usize) {
        let iam = &self.iam[node];
        match change {
            Change::Inline(user, Some(document)) => iam.put_user_policy(&name(user), &document.json()).await,
            Change::Inline(user, None) => iam.delete_user_policy(&name(user)).await,
            Change::Group(Some(document)) => {
                let json = document.json();
                let parameters = [("GroupName", GROUP), ("PolicyName", "own"), ("PolicyDocument", &*json)];
                iam.done("PutGroupPolicy", &parameters).await;
            }
            Change::Group(None) => {
                iam.done("DeleteGroupPolicy", &[("GroupName", GROUP), ("PolicyName", "own")]).await;
            }
            Change::Member(user, is_member) => {
                let action = if is_member { "AddUserToGroup" } else { "RemoveUserFromGroup" };
                iam.done(action, &[("GroupName", GROUP), ("UserName", &name(user))]).await;
            }
            Change::Attached(user, is_attached) => {
                let action = if is_attached { "AttachUserPolicy" } else { "DetachUserPolicy" };
                iam.done(action, &[("UserName", &name(user)), ("PolicyArn", MANAGED)]).await;
            }
            Change::Managed(document) => {
                let number = VERSIONS.iter().position(|version| *version == document).expect("one of them");
                let parameters = [("PolicyArn", MANAGED), ("VersionId", &*self.versions[number])];
                iam.done("SetDefaultPolicyVersion", &parameters).await;
            }
            Change::Active(user, is_active) => {
                let status = if is_active { "Active" } else { "Inactive" };
                iam.set_status(&name(user), &self.keys[user], status).await;
            }
            Change::Bucket(_) | Change::Restricted(_) => {
                eventually(&format!("{change:?}"), LATER, async || {
                    match bounded("a change", LATER, self.make_in_bucket(change, &self.s3[node])).await {
                        Err(refused @ Failure::Refused { .. }) => panic!("{change:?}: {refused:?}"),
                        made => made.map_err(|failure| format!("{failure:?}")),
                    }
                })
                .await;
            }
        }
    }

    async fn make_in_bucket(&self, change: Change, s3: &S3) -> Outcome<()> {
        match change {
            Change::Bucket(Some(document)) => {
                let put = s3.sdk().put_bucket_policy().bucket(BUCKET).policy(document.json());
                outcome(put.send().await).map(drop)
            }
            Change::Bucket(None) => {
                outcome(s3.sdk().delete_bucket_policy().bucket(BUCKET).send().await).map(drop)
            }
            Change::Restricted(is_restricted) => self.restrict(s3, is_restricted).await,
            other => unreachable!("{other:?} is IAM's"),
        }
    }

    async fn restrict(&self, s3: &S3, is_restricted: bool) -> Outcome<()> {
        if !is_restricted {
            return outcome(s3.sdk().delete_public_access_block().bucket(BUCKET).send().await).map(drop);
        }
        let block = PublicAccessBlockConfiguration::builder().restrict_public_buckets(true).build();
        let put = s3.sdk().put_public_access_block().bucket(BUCKET).public_access_block_configuration(block);
        outcome(put.send().await).map(drop)
    }
}

/// Makes a user with a key and what these rules give it.
async fn make_user(iam: &Users, user: usize, rules: &Rules) -> AccessKey {
    let key = iam.user(&name(user)).await;
    if let Some(document) = rules.inline.get(&user) {
        iam.put_user_policy(&name(user), &document.json()).await;
    }
    if rules.members.contains(&user) {
        iam.done("AddUserToGroup", &[("GroupName", GROUP), ("UserName", &name(user))]).await;
    }
    if rules.attached.contains(&user) {
        iam.done("AttachUserPolicy", &[("UserName", &name(user)), ("PolicyArn", MANAGED)]).await;
    }
    key
}

async fn put(s3: &S3, key: &str) {
    done("a PUT", || {
        let put = s3.sdk().put_object().bucket(BUCKET).key(key).body(ByteStream::from_static(b"object"));
        put.send()
    })
    .await;
}
