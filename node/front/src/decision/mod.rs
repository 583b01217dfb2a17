//! Decisions: whether a caller may do an action to a resource, by its rights and by the facts of its request.
//!
//! ```text
//! rights (`rights`) + facts of every request (`origin`) + facts of the service -> decide
//!     Allowed | Denied(why) | Needs(fact): the service reads it, and asks again
//! ```
//! S3 and IAM ask here alone, each with its own maker of [`ServiceFacts`], and word a denial by
//! [`Denial::message`].

pub mod origin;
pub mod rights;

use std::cell::Cell;

use sherd_policy::{Facts, KeyName, Resource, Rights, Values, Verdict};

use crate::denial::Denial;
use origin::OriginFacts;

/// A fact that is read later than the head of a request. A decision that needs both asks for the tags.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Fact {
    /// The document of the request.
    Document,
    /// The tags of the object that is there.
    Tags,
}

/// The answer to a question.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Decision {
    /// The caller may.
    Allowed,
    /// The caller may not, for this reason.
    Denied(Denial),
    /// The decision depends on a fact that is not read yet.
    Needs(Fact),
}

/// The facts that a service has of a request, beside those of its origin.
pub trait ServiceFacts {
    /// The `User-Agent` of the request.
    fn user_agent(&self) -> Values<'_>;

    /// The values of a key that [`OriginFacts`] does not have, as [`Facts::values`].
    ///
    /// # Errors
    /// The fact that says it and is not read yet.
    fn values(&self, name: KeyName, tag: &str) -> Result<Values<'_>, Fact>;
}

/// A question: may the caller with these rights do the action to the resource?
#[derive(Clone, Copy)]
#[expect(missing_debug_implementations, reason = "the facts are of any type")]
pub struct Question<'a> {
    /// The rights of the caller.
    pub rights: &'a Rights,
    /// The facts that every request has.
    pub origin: &'a OriginFacts,
    /// The facts that the service has.
    pub facts: &'a dyn ServiceFacts,
    /// The action, as AWS names it: `s3:GetObject`.
    pub action: &'static str,
    /// The resource.
    pub resource: Resource<'a>,
}

impl Question<'_> {
    /// Decides, or names the fact that the decision depends on and that is not read yet.
    pub fn decide(&self) -> Decision {
        let facts = self.request_facts();
        let verdict = self.rights.decide(self.action, self.resource, &facts);
        match facts.needed.get() {
            Some(fact) => Decision::Needs(fact),
            None => self.denial(verdict).map_or(Decision::Allowed, Decision::Denied),
        }
    }

    /// Decides by the facts that are there: the others count as absent.
    ///
    /// # Errors
    /// The reason why the caller may not.
    pub fn decide_by_known(&self) -> Result<(), Denial> {
        let verdict = self.rights.decide(self.action, self.resource, &self.request_facts());
        self.denial(verdict).map_or(Ok(()), Err)
    }

    fn denial(&self, verdict: Verdict) -> Option<Denial> {
        match verdict {
            Verdict::Allowed => None,
            Verdict::DeniedImplicitly => Some(Denial::Implicit),
            Verdict::DeniedExplicitly => {
                let facts = self.request_facts();
                let is_own = self.rights.is_denied_by_identity(self.action, self.resource, &facts);
                Some(if is_own { Denial::ByIdentity } else { Denial::ByResource })
            }
        }
    }

    fn request_facts(&self) -> RequestFacts<'_> {
        RequestFacts::new(self.origin, self.facts, self.action)
    }
}

/// All facts of a request, as policies ask for them.
struct RequestFacts<'a> {
    origin: &'a OriginFacts,
    service: &'a dyn ServiceFacts,
    is_of_s3: bool,
    /// The last fact in order that was asked for and is not read yet.
    needed: Cell<Option<Fact>>,
}

impl<'a> RequestFacts<'a> {
    fn new(origin: &'a OriginFacts, service: &'a dyn ServiceFacts, action: &str) -> Self {
        Self { origin, service, is_of_s3: action.starts_with("s3:"), needed: Cell::new(None) }
    }
}

impl Facts for RequestFacts<'_> {
    fn values(&self, name: KeyName, tag: &str) -> Values<'_> {
        if name == KeyName::UserAgent {
            return self.service.user_agent();
        }
        if let Some(values) = self.origin.values(name, self.is_of_s3) {
            return values;
        }
        self.service.values(name, tag).unwrap_or_else(|fact| {
            self.needed.set(self.needed.get().max(Some(fact)));
            Values::Absent
        })
    }
}

#[cfg(test)]
mod tests;
