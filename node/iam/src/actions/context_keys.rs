//! The condition keys that policies ask requests for: what a simulation of them has to give.

use std::collections::BTreeSet;

use super::super::answer::Elements;
use super::super::fault::Fault;
use super::super::request::ActionRequest;
use super::super::simulation::given_policies;
use super::simulate::source;

pub(super) async fn of_principal(request: &ActionRequest) -> Result<Elements, Fault> {
    let principal = source(request).await?;
    let keys = principal.policies.iter().flat_map(|found| found.policy.context_keys());
    names(request, keys.collect())
}

pub(super) async fn of_custom(request: &ActionRequest) -> Result<Elements, Fault> {
    if request.form.members("PolicyInputList") == 0 {
        return Err(Fault::missing("PolicyInputList"));
    }
    names(request, BTreeSet::new())
}

/// The keys, with those of the policies that the request gives.
fn names(request: &ActionRequest, mut keys: BTreeSet<String>) -> Result<Elements, Fault> {
    keys.extend(given_policies(request)?.iter().flat_map(|policy| policy.context_keys()));
    Ok(Elements::of_names("ContextKeyNames", &keys))
}
