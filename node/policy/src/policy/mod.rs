//! A policy: a document, checked and parsed once.

#[cfg(test)]
mod tests;

use std::collections::{BTreeSet, HashSet};
use std::sync::Arc;

use super::bytes::{SHARED_BYTES, allocated};
use super::condition::Condition;
use super::form::PolicyForm;
use super::json::{self, Json};
use super::key::ConditionKey;
use super::limits::DOCUMENT_BYTES_MAX;
use super::malformed::{Fault, MalformedPolicy};
use super::principal::PrincipalTest;
use super::principal_text;
use super::statement::{Effect, Statement};

/// A policy, checked and parsed.
#[derive(Debug)]
pub struct Policy {
    document: String,
    statements: Vec<Arc<Statement>>,
    is_public: bool,
}

impl Policy {
    /// Checks and parses a document that is to be stored. A policy that is stored already may name keys that
    /// no request, or none for its actions, has.
    ///
    /// # Errors
    /// As [`Self::parse`]; for a condition of a bucket's policy by a key of S3 that no action of a text of
    /// `Action` has; for a condition by a key of S3 or IAM that no request has, where the statement would be
    /// more lenient than it reads.
    pub fn parse_new(json: &[u8], form: PolicyForm<'_>) -> Result<Self, MalformedPolicy> {
        let policy = Self::parse(json, form)?;
        match policy.statements.iter().find_map(|statement| statement.fault_of_new(form)) {
            Some(fault) => Err(MalformedPolicy { fault, is_of_bucket: form.is_bucket() }),
            None => Ok(policy),
        }
    }

    /// Checks and parses a document.
    ///
    /// # Errors
    /// In AWS's words, why the document is refused.
    pub fn parse(json: &[u8], form: PolicyForm<'_>) -> Result<Self, MalformedPolicy> {
        Self::read(json, form).map_err(|fault| MalformedPolicy { fault, is_of_bucket: form.is_bucket() })
    }

    fn read(bytes: &[u8], form: PolicyForm<'_>) -> Result<Self, Fault> {
        if bytes.len() > DOCUMENT_BYTES_MAX {
            return Err(Fault::Syntax);
        }
        let document = std::str::from_utf8(bytes).map_err(|_| Fault::Json)?.to_owned();
        let Some(Json::Object(members)) = bytes.starts_with(b"{").then(|| json::parse(bytes)).flatten()
        else {
            return Err(Fault::Json);
        };
        if let Some((name, _)) =
            members.iter().find(|(name, _)| !["Version", "Id", "Statement"].contains(&name.as_str()))
        {
            return Err(Fault::UnknownField(name.clone()));
        }
        let get = |wanted: &str| members.iter().find(|(name, _)| name == wanted).map(|(_, value)| value);
        if get("Id").is_some_and(|id| id.as_text().is_none()) {
            return Err(Fault::Syntax);
        }
        let is_2012 = match get("Version") {
            None => false,
            Some(version) => match version.as_text() {
                Some("2012-10-17") => true,
                Some("2008-10-17") => false,
                _ => return Err(Fault::Version),
            },
        };
        if form == PolicyForm::Managed && !is_2012 {
            return Err(Fault::VersionTooOld);
        }
        let texts = match get("Statement").ok_or(Fault::NoStatement)? {
            Json::List(elements) if elements.is_empty() => return Err(Fault::EmptyStatement),
            Json::List(elements) => elements.iter().collect(),
            one => vec![one],
        };
        let mut sids = HashSet::new();
        let statements: Result<Vec<_>, _> = texts
            .into_iter()
            .map(|json| Statement::parse(json, form, is_2012, &mut sids).map(Arc::new))
            .collect();
        let statements = statements?;
        let is_public = super::public::is_public(&statements);
        Ok(Self { document, statements, is_public })
    }

    /// The text that it was parsed from.
    pub fn document(&self) -> &str {
        &self.document
    }

    /// Bytes that it takes in memory, its text with it.
    pub fn bytes(&self) -> usize {
        let Self { document, statements, is_public: _ } = self;
        let of_statements = statements.iter().map(|statement| SHARED_BYTES + statement.bytes());
        size_of::<Self>()
            + allocated(document.capacity())
            + allocated(statements.capacity() * size_of::<Arc<Statement>>())
            + of_statements.sum::<usize>()
    }

    /// Whether the policy grants access to the public, as S3 defines it ("The meaning of public").
    pub fn is_public(&self) -> bool {
        self.is_public
    }

    /// Whether a Deny of it, a bucket's policy, has a condition by a key that some of its actions lack: it
    /// denies no request for those. New policies are refused for it.
    pub fn has_idle_denial(&self) -> bool {
        self.statements.iter().any(|found| found.effect == Effect::Deny && found.has_idle_condition)
    }

    /// The keys that its conditions and variables ask requests for, as AWS writes them.
    pub fn context_keys(&self) -> BTreeSet<String> {
        let keys = |statement: &Arc<Statement>| {
            let conditions = statement.conditions.iter().flat_map(Condition::keys);
            conditions.chain(statement.resources.keys()).map(ConditionKey::shown).collect::<Vec<_>>()
        };
        self.statements.iter().flat_map(keys).collect()
    }

    /// The ARNs of users that it names as principals: S3 refuses a policy that names one that does not exist,
    /// with "Invalid principal in policy". Some may stand twice.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.statements
            .iter()
            .filter_map(|statement| statement.principals.as_ref())
            .flat_map(PrincipalTest::users)
    }

    /// The ids of users that it names as principals: one that no user has is refused, too. Some may stand
    /// twice.
    pub fn user_ids(&self) -> impl Iterator<Item = &str> {
        self.statements
            .iter()
            .filter_map(|statement| statement.principals.as_ref())
            .flat_map(PrincipalTest::ids)
    }

    /// The text with other words in place of principals, for each of which they are asked. All other text
    /// stays.
    pub fn document_naming(&self, principal: &dyn Fn(&str) -> Option<String>) -> String {
        principal_text::replaced(&self.document, principal)
    }

    /// A bucket's policy that is about the users with these unique ids, where this one names them by ARN. A
    /// user that has the ARN later is another one.
    ///
    /// # Errors
    /// "Invalid principal in policy" where a user that it names has no id here.
    pub fn with_users(
        &self,
        bucket: &str,
        id_of: &dyn Fn(&str) -> Option<String>,
    ) -> Result<Self, MalformedPolicy> {
        let is_user = |text: &str| self.users().any(|arn| arn == text);
        let named = self.document_naming(&|text| if is_user(text) { id_of(text) } else { None });
        let by_id = Self::parse(named.as_bytes(), PolicyForm::Bucket { name: bucket })?;
        if by_id.users().next().is_some() {
            return Err(MalformedPolicy { fault: Fault::Principal, is_of_bucket: true });
        }
        Ok(by_id)
    }

    pub(crate) fn statements(&self) -> &[Arc<Statement>] {
        &self.statements
    }
}
