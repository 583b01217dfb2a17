//! Policies: who may do what, decided from documents and facts.
//!
//! Pure: documents in, verdicts out. A [`Policy`] is checked and parsed once; [`Rights`] are compiled once
//! for an identity and a bucket, and decide each request from [`Facts`] that the caller gives. One account
//! owns everything ([`ACCOUNT`]). Decisions and the words of errors are those that AWS documents.
//!
//! Modules stand in reading order: names first, then the elements of a statement, then the document, then the
//! decision.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

#[cfg(any(test, fuzzing))]
pub mod fuzzing;
pub mod limits;
pub mod bytes;
mod malformed;
mod form;
mod json;
mod action;
mod key;
mod facts;
mod caller;
mod pattern;
mod action_test;
mod arn;
mod principal;
mod principal_text;
mod resource;
mod condition;
mod statement;
mod public;
mod policy;
mod outline;
mod identity;
mod rights;
pub mod presets;

pub use action::{ActionTarget, s3_actions};
pub use caller::{ACCOUNT, CANONICAL_ID, ROOT_ARN};
pub use facts::{Facts, Values};
pub use form::PolicyForm;
pub use identity::{Identity, UserIdentity};
pub use json::is_unambiguous;
pub use key::KeyName;
pub use malformed::MalformedPolicy;
pub use outline::{Position, StatementOutline};
pub use policy::Policy;
pub use resource::Resource;
pub use rights::{
    BucketRules, ExplainedRights, Explanation, FailedCondition, JudgedStatement, Rights, Verdict,
};
pub use statement::Effect;
