//! The policy of a service account, which has the rights that its own policy and its parent's allow both.
//!
//! Policies here add up, so the two become one: each statement that allows, narrowed to what one of the
//! parent's allows with it, and all that deny.

use super::conditions::{Conditions, Effect};
use super::document::Document;
use super::glob::{self, Overlap};
use super::statement::Statement;

/// The document of the rights that both have; `None` where that cannot be said in statements.
pub(super) fn narrowed(own: &Document, parent: &[&Document]) -> Option<Document> {
    let of_parent: Vec<&Statement> = parent.iter().flat_map(|document| &document.statements).collect();
    let all = || own.statements.iter().chain(of_parent.iter().copied());
    let mut statements: Vec<Statement> =
        all().filter(|statement| statement.effect == Effect::Deny).cloned().collect();
    for own in own.statements.iter().filter(|statement| statement.effect == Effect::Allow) {
        for parent in of_parent.iter().filter(|statement| statement.effect == Effect::Allow) {
            statements.extend(both(own, parent).ok()?);
        }
    }
    let mut distinct: Vec<Statement> = Vec::new();
    for statement in statements {
        if !distinct.contains(&statement) {
            distinct.push(statement);
        }
    }
    Some(Document { statements: distinct, left_out: Vec::new() })
}

/// The statement of what two allow both.
fn both(own: &Statement, parent: &Statement) -> Result<Option<Statement>, Overlap> {
    if [own, parent].iter().any(|one| !one.not_actions.is_empty() || !one.not_resources.is_empty()) {
        return Err(Overlap);
    }
    let lower = |texts: &[String]| texts.iter().map(|text| text.to_ascii_lowercase()).collect::<Vec<_>>();
    let actions = common(&lower(&own.actions), &lower(&parent.actions))?;
    let resources = common(&own.resources, &parent.resources)?;
    if actions.is_empty() || resources.is_empty() {
        return Ok(None);
    }
    // Written as one of the two writes them.
    let written = |action: String| {
        let known =
            own.actions.iter().chain(&parent.actions).find(|known| known.eq_ignore_ascii_case(&action));
        known.cloned().unwrap_or(action)
    };
    Ok(Some(Statement {
        effect: Effect::Allow,
        actions: actions.into_iter().map(written).collect(),
        not_actions: Vec::new(),
        resources,
        not_resources: Vec::new(),
        conditions: merged(&own.conditions, &parent.conditions)?,
    }))
}

/// The texts that patterns of both lists match.
fn common(one: &[String], other: &[String]) -> Result<Vec<String>, Overlap> {
    let mut texts = Vec::new();
    for one in one {
        for other in other {
            texts.extend(glob::common(one, other)?);
        }
    }
    texts.sort();
    texts.dedup();
    Ok(texts)
}

/// The conditions of both. Two of one operator by one key are said by no one condition.
fn merged(one: &Conditions, other: &Conditions) -> Result<Conditions, Overlap> {
    let mut merged = one.clone();
    for (operator, keys) in other {
        let known = merged.entry(operator.clone()).or_default();
        for (key, values) in keys {
            if known.insert(key.clone(), values.clone()).is_some_and(|before| before != *values) {
                return Err(Overlap);
            }
        }
    }
    Ok(merged)
}
