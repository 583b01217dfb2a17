//! The Secrets of a file: they are looked at, and not printed.

use std::collections::BTreeMap;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

/// The texts of Secrets by name.
pub(super) type Secrets = BTreeMap<String, BTreeMap<String, String>>;

/// The texts of a Secret by key.
pub(super) fn texts_of(secret: &Value) -> BTreeMap<String, String> {
    let data = |field: &str| secret[field].as_object().cloned().unwrap_or_default();
    let decode = |(key, value): (String, Value)| {
        Some((key, String::from_utf8(STANDARD.decode(value.as_str()?).ok()?).ok()?))
    };
    let plain = |(key, value): (String, Value)| Some((key, value.as_str()?.to_owned()));
    data("data")
        .into_iter()
        .filter_map(decode)
        .chain(data("stringData").into_iter().filter_map(plain))
        .collect()
}
