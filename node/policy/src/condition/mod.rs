//! Conditions of a statement: an operator, a key and values.
//!
//! | the key is           | one value           | `ForAllValues`   | `ForAnyValue`   | `IfExists` |
//! |----------------------|---------------------|------------------|-----------------|------------|
//! | absent, not negated  | false               | true             | false           | true       |
//! | absent, negated      | true                | true             | false           | true       |
//! | present, not negated | equals one of them  | each equals one  | one equals one  | as without |
//! | present, negated     | equals none of them | each equals none | one equals none | as without |

mod operator;
mod date;
mod operand;
#[cfg(test)]
mod tests;

use super::caller::Caller;
use super::facts::Values;
use super::json::Json;
use super::key::ConditionKey;
use super::malformed::Fault;
use super::pattern::Context;

pub(crate) use operand::Operands;
pub(crate) use operator::{Operator, Quantifier};

/// One condition.
#[derive(Debug, Clone)]
pub(crate) struct Condition {
    pub(crate) operator: Operator,
    pub(crate) key: ConditionKey,
    pub(crate) operands: Operands,
}

/// A condition for one identity.
#[derive(Debug, Clone)]
pub(crate) enum FoldedCondition {
    /// Holds, or does not, in every request.
    Settled(bool),
    Open(Condition),
}

impl Condition {
    /// Reads a `Condition` element.
    pub(crate) fn parse_all(json: &Json, variables: bool) -> Result<Vec<Self>, Fault> {
        let Json::Object(operators) = json else { return Err(Fault::Syntax) };
        let mut conditions = Vec::new();
        for (name, keys) in operators {
            let operator = Operator::parse(name).ok_or_else(|| Fault::Operator(name.clone()))?;
            let Json::Object(keys) = keys else { return Err(Fault::Syntax) };
            for (key, values) in keys {
                let values = values.values().ok_or(Fault::Syntax)?;
                let operands = Operands::parse(operator, &values, variables).ok_or(Fault::ConditionValue)?;
                conditions.push(Self { operator, key: ConditionKey::parse(key), operands });
            }
        }
        Ok(conditions)
    }

    /// The condition for one identity.
    pub(crate) fn for_caller(&self, caller: Caller<'_>) -> FoldedCondition {
        let operands = self.operands.for_caller(caller);
        let filled = Self { operator: self.operator, key: self.key.clone(), operands };
        if caller.values(&self.key).is_some() && filled.operands.keys().next().is_none() {
            return FoldedCondition::Settled(filled.holds(Context { caller, action: "", facts: &() }));
        }
        FoldedCondition::Open(filled)
    }

    /// Whether the condition holds in requests that lack its key.
    pub(crate) fn holds_without_key(&self) -> bool {
        let Operator { quantifier, if_exists, is_negated, .. } = self.operator;
        match (&self.operands, quantifier) {
            (Operands::Null(wanted), _) => wanted.contains(&true),
            _ if if_exists => true,
            (_, Quantifier::One) => is_negated,
            (_, Quantifier::All) => true,
            (_, Quantifier::Any) => false,
        }
    }

    /// Whether the condition holds.
    pub(crate) fn holds(&self, context: Context<'_>) -> bool {
        let Operator { quantifier, is_negated, .. } = self.operator;
        let values = context.values(&self.key);
        let is_absent = match &values {
            Values::Absent => true,
            Values::One(_) => false,
            Values::Many(values) => values.is_empty(),
        };
        if let Operands::Null(wanted) = &self.operands {
            return wanted.contains(&is_absent);
        }
        // For a set, an empty text is an empty set.
        let is_absent = is_absent
            || quantifier != Quantifier::One && matches!(&values, Values::One(value) if value.is_empty());
        if is_absent {
            return self.holds_without_key();
        }
        let equals = |value: &str| self.operands.has(value, context);
        match (&values, quantifier) {
            (Values::Absent, _) => false,
            (Values::One(value), _) => equals(value) != is_negated,
            (Values::Many(values), Quantifier::One) => values.iter().any(|value| equals(value)) != is_negated,
            (Values::Many(values), Quantifier::All) => values.iter().all(|value| equals(value) != is_negated),
            (Values::Many(values), Quantifier::Any) => values.iter().any(|value| equals(value) != is_negated),
        }
    }

    /// Bytes that it takes in memory.
    pub(crate) fn bytes(&self) -> usize {
        size_of::<Self>() + self.key.heap_bytes() + self.operands.heap_bytes()
    }

    /// The keys that it asks the request for.
    pub(crate) fn keys(&self) -> impl Iterator<Item = &ConditionKey> {
        std::iter::once(&self.key).chain(self.operands.keys())
    }
}
