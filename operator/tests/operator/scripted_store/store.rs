//! A cluster in memory that answers requests of S3 and IAM: buckets with their configuration, users with
//! their policies and keys, and faults by script.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use parking_lot::Mutex;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode_str, utf8_percent_encode};
use sherd_operator::calls::xml::{self, branch, leaf};
use sherd_operator::calls::{CallTarget, StoreAnswer, StoreCall, StoreCalls};
use sherd_operator::rotation::ClusterTrust;
use sherd_policy::{ACCOUNT, Policy, PolicyForm};
use sherd_proto::convert::http_call::HttpService;

/// A bucket; configurations are the documents as they were put.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ScriptedBucket {
    pub(crate) tags: BTreeMap<String, String>,
    /// By the name of the query's parameter.
    pub(crate) documents: BTreeMap<String, String>,
    pub(crate) objects: usize,
}

/// A user.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct ScriptedUser {
    pub(crate) path: String,
    pub(crate) tags: BTreeMap<String, String>,
    pub(crate) policies: BTreeMap<String, String>,
    /// ARNs of managed policies.
    pub(crate) attached: Vec<String>,
    /// Ids, and whether they are active.
    pub(crate) keys: Vec<(String, bool)>,
    pub(crate) groups: Vec<String>,
}

/// How a request is answered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum StoreFault {
    /// With this status, code and message.
    Refused(u16, &'static str, &'static str),
    /// The request is carried out, and the answer is lost.
    Lost,
    /// The request is not carried out, and not answered.
    Silent,
}

#[derive(Debug, Default)]
pub(crate) struct StoreState {
    pub(crate) buckets: BTreeMap<String, ScriptedBucket>,
    pub(crate) users: BTreeMap<String, ScriptedUser>,
    /// The versions of managed policies by ARN; the last one is in force.
    pub(crate) managed: BTreeMap<String, Vec<(usize, String)>>,
    keys_made: usize,
    /// The secrets of keys that were given, by id.
    pub(crate) given: BTreeMap<String, String>,
    /// Method and URI, or the action.
    pub(crate) calls: Vec<String>,
    /// The part of a request's name that a fault is for.
    pub(crate) faults: Vec<(String, StoreFault)>,
    /// The number of the request whose answer is lost.
    pub(crate) lost_at: Option<usize>,
}

/// The cluster; clones share its state.
#[derive(Debug, Clone, Default)]
pub(crate) struct ScriptedStore {
    pub(crate) state: Arc<Mutex<StoreState>>,
}

impl ScriptedStore {
    pub(crate) fn bucket(&self, name: &str) -> Option<ScriptedBucket> {
        self.state.lock().buckets.get(name).cloned()
    }

    pub(crate) fn user(&self, name: &str) -> Option<ScriptedUser> {
        self.state.lock().users.get(name).cloned()
    }

    /// The documents of the rights that a user has, in order.
    pub(crate) fn rights(&self, name: &str) -> Vec<String> {
        let state = self.state.lock();
        let attached = state.users.get(name).map(|user| user.attached.clone()).unwrap_or_default();
        let of_rights = attached.iter().filter(|arn| arn.contains(".buckets-"));
        of_rights.map(|arn| state.managed[arn].last().expect("a version").1.clone()).collect()
    }

    pub(crate) fn fail(&self, part: &str, fault: StoreFault) {
        self.state.lock().faults.push((part.to_owned(), fault));
    }

    pub(crate) fn mend(&self) {
        let mut state = self.state.lock();
        state.faults.clear();
        state.lost_at = None;
    }

    /// The requests since the last call that were no reads.
    pub(crate) fn take_changes(&self) -> Vec<String> {
        let calls = std::mem::take(&mut self.state.lock().calls);
        let reads = ["GET ", "Get", "List", "DryRun "];
        let reads = |call: &String| reads.iter().any(|read| call.starts_with(read));
        calls.into_iter().filter(|call| !reads(call)).collect()
    }
}

impl StoreCalls for ScriptedStore {
    fn call(
        &self,
        _: &Arc<ClusterTrust>,
        target: CallTarget,
        call: StoreCall,
        _: Duration,
    ) -> BoxFuture<'static, Result<StoreAnswer, String>> {
        assert!(target.address.ends_with(".demo-nodes.storage.svc:9100"), "{target:?}");
        let mut state = self.state.lock();
        let form = form(&call);
        let name = match call.service {
            HttpService::S3 => format!("{} {}", call.method, call.uri),
            HttpService::Iam if form.contains_key("DryRun") => format!("DryRun {}", form["Action"]),
            HttpService::Iam => form["Action"].clone(),
        };
        let at = state.calls.len();
        state.calls.push(name.clone());
        let fault = state.faults.iter().find(|(part, _)| name.contains(part)).map(|(_, fault)| fault.clone());
        let fault = if state.lost_at == Some(at) { Some(StoreFault::Lost) } else { fault };
        let carried_out = |state: &mut StoreState| match call.service {
            HttpService::S3 => state.s3(&call),
            HttpService::Iam => state.iam(&form),
        };
        let answer = match fault {
            Some(StoreFault::Refused(status, code, message)) => Ok(refused(status, code, message)),
            Some(StoreFault::Silent) => Err("no route".to_owned()),
            Some(StoreFault::Lost) => {
                carried_out(&mut state);
                Err("the connection broke".to_owned())
            }
            None => Ok(carried_out(&mut state)),
        };
        Box::pin(std::future::ready(answer))
    }
}

fn form(call: &StoreCall) -> BTreeMap<String, String> {
    let text = String::from_utf8_lossy(&call.body).into_owned();
    let decoded = |text: &str| percent_decode_str(text).decode_utf8_lossy().into_owned();
    let pairs = text.split('&').filter_map(|pair| pair.split_once('='));
    pairs.map(|(name, value)| (name.to_owned(), decoded(value))).collect()
}

fn refused(status: u16, code: &str, message: &str) -> StoreAnswer {
    let error = branch("Error", [leaf("Code", code), leaf("Message", message)]);
    StoreAnswer { status, body: error.into() }
}

fn success(body: String) -> StoreAnswer {
    StoreAnswer { status: 200, body: body.into() }
}

fn tags_of(body: &[u8], list: &str) -> BTreeMap<String, String> {
    let root = xml::parse(body).expect("a document");
    let list = root.find(list).expect("tags");
    let pair = |tag: &xml::Element| {
        (tag.text_of("Key").expect("a key").to_owned(), tag.text_of("Value").expect("a value").to_owned())
    };
    list.all("Tag").map(pair).collect()
}

impl StoreState {
    fn s3(&mut self, call: &StoreCall) -> StoreAnswer {
        let (path, query) = call.uri.split_once('?').unwrap_or((&call.uri, ""));
        let name = path.trim_start_matches('/');
        if (call.method, query) == ("PUT", "") {
            let tags = tags_of(&call.body, "Tags");
            self.buckets
                .entry(name.to_owned())
                .or_insert_with(|| ScriptedBucket { tags, ..ScriptedBucket::default() });
            return success(String::new());
        }
        let Some(bucket) = self.buckets.get_mut(name) else {
            return refused(404, "NoSuchBucket", "The specified bucket does not exist");
        };
        match (call.method, query) {
            ("DELETE", "") if bucket.objects > 0 => {
                refused(409, "BucketNotEmpty", "The bucket you tried to delete is not empty")
            }
            ("DELETE", "") => {
                self.buckets.remove(name);
                success(String::new())
            }
            ("GET", "tagging") if bucket.tags.is_empty() => {
                refused(404, "NoSuchTagSet", "The TagSet does not exist")
            }
            ("GET", "tagging") => {
                let tags = bucket.tags.iter();
                let tags = tags.map(|(key, value)| branch("Tag", [leaf("Key", key), leaf("Value", value)]));
                success(branch("Tagging", [branch("TagSet", tags)]))
            }
            ("PUT", "tagging") => {
                bucket.tags = tags_of(&call.body, "TagSet");
                success(String::new())
            }
            ("GET", kind) => {
                let code = match kind {
                    "policy" => "NoSuchBucketPolicy",
                    "cors" => "NoSuchCORSConfiguration",
                    "publicAccessBlock" => "NoSuchPublicAccessBlockConfiguration",
                    kind => panic!("{kind} is not scripted"),
                };
                let found = bucket.documents.get(kind).cloned();
                found.map_or_else(|| refused(404, code, "not configured"), success)
            }
            ("PUT", kind) => {
                let document = String::from_utf8(call.body.to_vec()).expect("text");
                if kind == "policy" && document.contains("Nonsense") {
                    return refused(400, "MalformedPolicy", "Policy has invalid action");
                }
                bucket.documents.insert(kind.to_owned(), document);
                success(String::new())
            }
            ("DELETE", kind) => {
                bucket.documents.remove(kind);
                success(String::new())
            }
            (method, query) => panic!("{method} {query} is not scripted"),
        }
    }

    fn iam(&mut self, form: &BTreeMap<String, String>) -> StoreAnswer {
        let part = |name: &str| form.get(name).cloned().unwrap_or_default();
        let (action, name) = (part("Action"), part("UserName"));
        assert_eq!(part("Version"), "2010-05-08");
        if action.contains("Policy") && !action.contains("User") {
            return self.managed(&action, form);
        }
        if action == "CreateUser" {
            if self.users.contains_key(&name) {
                return refused(409, "EntityAlreadyExists", "it exists");
            }
            let user = ScriptedUser { path: part("Path"), tags: tags_in(form), ..ScriptedUser::default() };
            self.users.insert(name, user);
            return success(String::new());
        }
        if action == "ListUsers" {
            return self.list_users(&part("PathPrefix"), &part("Marker"));
        }
        if action == "ImportAccessKey" {
            return self.import_key(&name, form);
        }
        let made = format!("AKIA{:016}", self.keys_made + 1);
        let Some(user) = self.users.get_mut(&name) else {
            return refused(404, "NoSuchEntity", "no such user");
        };
        if ["AttachUserPolicy", "DetachUserPolicy", "ListAttachedUserPolicies"].contains(&action.as_str()) {
            let is_there = self.managed.contains_key(&part("PolicyArn"));
            return user.attachment(&action, part("PolicyArn"), is_there);
        }
        if let Some(answer) = user.record(&action, form) {
            return answer;
        }
        let key = part("AccessKeyId");
        match action.as_str() {
            "ListAccessKeys" => {
                let member = |(id, active): &(String, bool)| {
                    let status = if *active { "Active" } else { "Inactive" };
                    branch("member", [leaf("AccessKeyId", id), leaf("Status", status)])
                };
                success(branch("R", [branch("AccessKeyMetadata", user.keys.iter().map(member))]))
            }
            "CreateAccessKey" if user.keys.len() >= 2 => refused(409, "LimitExceeded", "two keys"),
            "CreateAccessKey" => {
                self.keys_made += 1;
                user.keys.push((made.clone(), true));
                let secret = format!("secret of {made}");
                success(branch(
                    "R",
                    [branch("AccessKey", [leaf("AccessKeyId", &made), leaf("SecretAccessKey", &secret)])],
                ))
            }
            "UpdateAccessKey" => {
                for (_, active) in user.keys.iter_mut().filter(|(id, _)| *id == key) {
                    *active = part("Status") == "Active";
                }
                success(String::new())
            }
            "DeleteAccessKey" => {
                user.keys.retain(|(id, _)| *id != key);
                success(String::new())
            }
            "DeleteUser" if user.has_belongings() => {
                refused(409, "DeleteConflict", "it has keys, policies or groups")
            }
            "DeleteUser" => {
                self.users.remove(&name);
                success(String::new())
            }
            _ => user.policy(&action, part("PolicyName"), part("PolicyDocument")),
        }
    }
}

impl StoreState {
    fn import_key(&mut self, name: &str, form: &BTreeMap<String, String>) -> StoreAnswer {
        let (id, secret) = (&form["AccessKeyId"], &form["SecretAccessKey"]);
        let has = |user: &ScriptedUser| user.keys.iter().any(|(key, _)| key == id);
        let holder = self.users.iter().find(|(_, user)| has(user)).map(|(name, _)| name.as_str());
        let state = match holder {
            None => "Free",
            Some(holder) if holder != name => return refused(409, "EntityAlreadyExists", "the id is taken"),
            Some(_) if self.given.get(id) == Some(secret) => "Active",
            Some(_) if form.contains_key("Replace") => "OtherSecret",
            Some(_) => return refused(409, "EntityAlreadyExists", "the key has another secret"),
        };
        let answer = success(branch("R", [branch("ImportAccessKeyResult", [leaf("State", state)])]));
        if form.contains_key("DryRun") || state == "Active" {
            return answer;
        }
        if state == "Free" {
            let user = self.users.get_mut(name).expect("made before its key");
            if user.keys.len() >= 2 {
                return refused(409, "LimitExceeded", "two keys");
            }
            user.keys.push((id.clone(), form["Status"] == "Active"));
        }
        self.given.insert(id.clone(), secret.clone());
        answer
    }
}

/// The tags of a form.
fn tags_in(form: &BTreeMap<String, String>) -> BTreeMap<String, String> {
    let tag = |number: usize| {
        let part = |part: &str| form.get(&format!("Tags.member.{number}.{part}")).cloned();
        Some((part("Key")?, part("Value")?))
    };
    (1..).map_while(tag).collect()
}

impl StoreState {
    /// A page of two users.
    fn list_users(&self, prefix: &str, marker: &str) -> StoreAnswer {
        let is_listed =
            |(name, user): &(&String, &ScriptedUser)| user.path.starts_with(prefix) && name.as_str() > marker;
        let found: Vec<_> = self.users.iter().filter(is_listed).take(3).collect();
        let member = |(name, user): &(&String, &ScriptedUser)| {
            branch("member", [leaf("Path", &user.path), leaf("UserName", name)])
        };
        let mut parts = vec![branch("Users", found.iter().take(2).map(member))];
        parts.push(leaf("IsTruncated", &(found.len() > 2).to_string()));
        if let (Some((last, _)), 3..) = (found.get(1), found.len()) {
            parts.push(leaf("Marker", last));
        }
        success(branch("R", parts))
    }

    /// The requests of managed policies.
    fn managed(&mut self, action: &str, form: &BTreeMap<String, String>) -> StoreAnswer {
        let part = |name: &str| form.get(name).cloned().unwrap_or_default();
        let document = part("PolicyDocument");
        if document.len() > 6_144 {
            return refused(409, "LimitExceeded", "a policy has 6144 characters");
        }
        if action.starts_with("Create")
            && let Err(malformed) = Policy::parse(document.as_bytes(), PolicyForm::Managed)
        {
            return refused(400, "MalformedPolicyDocument", &malformed.to_string());
        }
        if action == "CreatePolicy" {
            let arn = format!("arn:aws:iam::{ACCOUNT}:policy{}{}", part("Path"), part("PolicyName"));
            if self.managed.contains_key(&arn) {
                return refused(409, "EntityAlreadyExists", "it exists");
            }
            self.managed.insert(arn, vec![(1, document)]);
            return success(String::new());
        }
        let arn = part("PolicyArn");
        let is_attached = self.users.values().any(|user| user.attached.contains(&arn));
        let Some(versions) = self.managed.get_mut(&arn) else {
            return refused(404, "NoSuchEntity", "no such policy");
        };
        let (number, in_force) = versions.last().cloned().expect("one at least");
        match action {
            "ListPolicyVersions" => {
                let member = |(version, _): &(usize, String)| {
                    let is_default = (*version == number).to_string();
                    let id = format!("v{version}");
                    branch("member", [leaf("VersionId", &id), leaf("IsDefaultVersion", &is_default)])
                };
                success(branch("R", [branch("Versions", versions.iter().map(member))]))
            }
            "GetPolicyVersion" => {
                assert_eq!(part("VersionId"), format!("v{number}"));
                let encoded = utf8_percent_encode(&in_force, NON_ALPHANUMERIC).to_string();
                success(branch("R", [branch("PolicyVersion", [leaf("Document", &encoded)])]))
            }
            "CreatePolicyVersion" if versions.len() >= 5 => refused(409, "LimitExceeded", "five versions"),
            "CreatePolicyVersion" => {
                assert_eq!(part("SetAsDefault"), "true");
                versions.push((number + 1, document));
                success(String::new())
            }
            "DeletePolicyVersion" => {
                versions.retain(|(version, _)| format!("v{version}") != part("VersionId"));
                success(String::new())
            }
            "DeletePolicy" if is_attached || versions.len() > 1 => {
                refused(409, "DeleteConflict", "it is attached, or has other versions")
            }
            "DeletePolicy" => {
                self.managed.remove(&arn);
                success(String::new())
            }
            action => panic!("{action} is not scripted"),
        }
    }
}

impl ScriptedUser {
    fn has_belongings(&self) -> bool {
        let lists = [self.keys.is_empty(), self.policies.is_empty(), self.attached.is_empty()];
        lists.contains(&false) || !self.groups.is_empty()
    }

    /// The requests of a user's own record: its tags and groups.
    fn record(&mut self, action: &str, form: &BTreeMap<String, String>) -> Option<StoreAnswer> {
        Some(match action {
            "GetUser" => {
                let tag = |(key, value): (&String, &String)| {
                    branch("member", [leaf("Key", key), leaf("Value", value)])
                };
                let tags = branch("Tags", self.tags.iter().map(tag));
                success(branch("R", [branch("User", [leaf("Path", &self.path), tags])]))
            }
            "TagUser" => {
                self.tags.extend(tags_in(form));
                success(String::new())
            }
            "UntagUser" => {
                self.tags.remove(&form["TagKeys.member.1"]);
                success(String::new())
            }
            "ListGroupsForUser" => {
                let groups = self.groups.iter().map(|name| branch("member", [leaf("GroupName", name)]));
                success(branch("R", [branch("Groups", groups)]))
            }
            "RemoveUserFromGroup" => {
                self.groups.retain(|group| *group != form["GroupName"]);
                success(String::new())
            }
            _ => return None,
        })
    }

    /// The requests of managed policies that a user has.
    fn attachment(&mut self, action: &str, arn: String, is_there: bool) -> StoreAnswer {
        match action {
            "ListAttachedUserPolicies" => {
                let attached = self.attached.iter().map(|arn| branch("member", [leaf("PolicyArn", arn)]));
                success(branch("R", [branch("AttachedPolicies", attached)]))
            }
            "AttachUserPolicy" if self.attached.len() >= 10 => refused(409, "LimitExceeded", "ten policies"),
            "AttachUserPolicy" if is_there => {
                self.attached.push(arn);
                success(String::new())
            }
            "DetachUserPolicy" if self.attached.contains(&arn) => {
                self.attached.retain(|attached| *attached != arn);
                success(String::new())
            }
            _ => refused(404, "NoSuchEntity", "no such policy"),
        }
    }

    fn policy(&mut self, action: &str, policy: String, document: String) -> StoreAnswer {
        match action {
            "GetUserPolicy" => {
                let Some(document) = self.policies.get(&policy) else {
                    return refused(404, "NoSuchEntity", "no such policy");
                };
                let encoded = utf8_percent_encode(document, NON_ALPHANUMERIC).to_string();
                success(branch("R", [leaf("PolicyDocument", &encoded)]))
            }
            "PutUserPolicy" if document.contains("Nonsense") => {
                refused(400, "MalformedPolicyDocument", "Syntax errors in policy.")
            }
            "PutUserPolicy" => {
                self.policies.insert(policy, document);
                success(String::new())
            }
            "DeleteUserPolicy" => {
                self.policies.remove(&policy);
                success(String::new())
            }
            "ListUserPolicies" => {
                let names = self.policies.keys().map(|name| leaf("member", name));
                success(branch("R", [branch("PolicyNames", names)]))
            }
            action => panic!("{action} is not scripted"),
        }
    }
}
