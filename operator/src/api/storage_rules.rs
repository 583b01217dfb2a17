//! The rules of the API server on the size of claims, in CEL: it is more than 0, and is raised, or lowered to
//! what claims have.

/// The size of the one pool's claims, below a specification.
fn storage_of(spec: &str) -> String {
    format!("{spec}.pools[0].volumeClaimTemplate.resources.requests.storage")
}

/// Returns the rule that the size of the one pool's claims is more than 0. A quantity may be a number, which
/// no text is equal to. The list may hold eight pools, and a rule for each of them would cost more than the
/// API server allows.
pub(super) fn storage_rule() -> String {
    let size = storage_of("self");
    format!(
        "self.pools.size() != 1 || (string({size}) == {size} ? isQuantity({size}) && quantity({size}).isGreaterThan(quantity('0')) : {size} > 0)"
    )
}

/// Returns the rule of the whole object that a size is not less than before, unless no claim has more than
/// it: after a growth that was refused or failed. A path is repeated and bound to no name: the API server
/// estimates the cost of what has a path alone.
pub(super) fn storage_kept_rule() -> String {
    let (size, last) = (storage_of("self.spec"), storage_of("oldSelf.spec"));
    let claimed = "self.status.pools[0].claimCapacity";
    let read =
        |size: &str| format!("(string({size}) == {size} ? quantity({size}) : quantity('0').add({size}))");
    let is_less = |than: &str| format!("{}.isLessThan({than})", read(&size));
    format!(
        "self.spec.pools.size() != 1 || oldSelf.spec.pools.size() != 1 || (string({last}) == {last} && !isQuantity({last})) || !{} || (has(self.status) && has(self.status.pools) && self.status.pools.size() == 1 && has({claimed}) && !{})",
        is_less(&read(&last)),
        is_less(&format!("quantity({claimed})")),
    )
}
