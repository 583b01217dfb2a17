//! The fields of a form that its operation reads.

use sherd_signature::form_fields::FormFields;

use super::success::SuccessAction;

/// The fields of a form that its operation reads beside the headers of a PUT.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FormRequest {
    /// The `<Tagging>` document of the object, as it was sent.
    pub tagging: Option<String>,
    /// The answer that it asks for.
    pub action: SuccessAction,
}

impl FormRequest {
    /// Picks them from all fields.
    pub fn of(fields: &FormFields) -> Self {
        Self { tagging: fields.get("tagging").map(str::to_owned), action: SuccessAction::of(fields) }
    }
}
