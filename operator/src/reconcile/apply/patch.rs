//! The apply of one child, as requests.

use kube::Api;
use kube::api::{DynamicObject, Patch, PatchParams, ValidationDirective};
use serde_json::json;

use crate::names::FIELD_MANAGER;
use crate::reconcile::children::Child;

/// Applies a child. Fields of one that was observed are put back by force. An object that was absent then may
/// have been created by a person since: its fields give a conflict, and the next reconcile finds its owner.
pub(super) async fn patch(
    api: &Api<DynamicObject>,
    child: &Child,
    force: bool,
) -> Result<DynamicObject, kube::Error> {
    api.patch(&child.name, &params(force), &Patch::Apply(&child.object)).await
}

/// Replaces the pods' template of a StatefulSet as a whole. A merge keeps the containers, volumes and fields
/// that others added, and each of them is another template.
pub(super) async fn replace_template(
    api: &Api<DynamicObject>,
    child: &Child,
) -> Result<DynamicObject, kube::Error> {
    let replacement = json!([
        {"op": "replace", "path": "/spec/template", "value": child.object["spec"]["template"]},
    ]);
    let replacement = serde_json::from_value(replacement).map_err(kube::Error::SerdeError)?;
    api.patch(&child.name, &params(false), &Patch::Json::<()>(replacement)).await
}

/// Returns a child as an apply would leave it, and applies nothing.
pub(super) async fn dry_run(api: &Api<DynamicObject>, child: &Child) -> Result<DynamicObject, kube::Error> {
    let params = PatchParams { dry_run: true, ..params(true) };
    api.patch(&child.name, &params, &Patch::Apply(&child.object)).await
}

fn params(force: bool) -> PatchParams {
    PatchParams {
        field_validation: Some(ValidationDirective::Strict),
        force,
        ..PatchParams::apply(FIELD_MANAGER)
    }
}
