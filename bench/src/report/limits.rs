//! The head of every section that shows results: which machine, commit and durability, and what the
//! device itself can do, measured in the same run.

use std::time::{Duration, UNIX_EPOCH};

use crate::figure;
use crate::result::Results;

/// Settings that come first, in this order; the others follow by name.
const FIRST: [&str; 8] =
    ["commit", "durability", "geometry", "cpu", "cores", "memory", "kernel", "filesystem"];

/// The paragraph for one file of results.
pub(super) fn paragraph(results: &Results) -> String {
    let first = FIRST.iter().filter_map(|name| Some((*name, results.settings.get(*name)?)));
    let others = results.settings.iter().map(|(name, value)| (name.as_str(), value));
    let others = others.filter(|(name, _)| !FIRST.contains(name));
    let settings: Vec<_> =
        first.chain(others).map(|(name, value)| format!("{} {value}", name.replace('_', " "))).collect();
    let device: Vec<_> = results.device.iter().map(|(name, value)| figure::sentence(name, *value)).collect();
    let device = if device.is_empty() { "not measured".to_owned() } else { device.join(", ") };
    format!(
        "> Run `{}` of {}: {}.\n>\n> The device in the same run: {device}.\n",
        results.suite,
        date(results.started),
        settings.join("; ")
    )
}

/// A day and time in UTC.
pub(super) fn date(seconds: u64) -> String {
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(UNIX_EPOCH);
    // Beyond the year 9999 there is no such text.
    let text = humantime::format_rfc3339_seconds(time.min(UNIX_EPOCH + Duration::from_hours(70_389_528)))
        .to_string();
    format!("{} UTC", text.trim_end_matches('Z').replace('T', " "))
}
