//! The head of every section that shows results: which machine, commit and durability, and what the
//! device itself can do, measured in the same run.

use std::time::{Duration, UNIX_EPOCH};

use crate::figure;
use crate::result::Results;

/// Settings that come first, in this order; the others follow by name.
const FIRST: [&str; 8] =
    ["commit", "durability", "geometry", "cpu", "cores", "memory_mib", "kernel", "filesystem"];

/// Setting of a run whose figures mean nothing.
const MOMENT: &str = "moment";

pub(super) fn paragraph(results: &Results) -> String {
    let first = FIRST.iter().filter_map(|name| Some((*name, results.settings.get(*name)?)));
    let others = results.settings.iter().map(|(name, value)| (name.as_str(), value));
    let others = others.filter(|(name, _)| !FIRST.contains(name));
    let settings: Vec<_> = first.chain(others).map(|(name, value)| setting(name, value)).collect();
    let device: Vec<_> = results.device.iter().map(|(name, value)| figure::sentence(name, *value)).collect();
    let device = if device.is_empty() { "not measured".to_owned() } else { device.join(", ") };
    let moment = results.settings.get(MOMENT).is_some_and(|value| value == "true");
    let warning = if moment { "> **A run for a moment: its figures say nothing.**\n>\n" } else { "" };
    format!(
        "{warning}> Run `{}` of {}: {}.\n>\n> The device in the same run: {device}.\n",
        results.suite,
        date(results.started),
        settings.join("; ")
    )
}

/// A setting as it stands in a sentence, with the unit that its name may have.
fn setting(name: &str, value: &str) -> String {
    match value.parse() {
        // A commit may look like a number too.
        Ok(number) if figure::has_unit(name) => figure::sentence(name, number),
        _ => format!("{} {value}", name.replace('_', " ")),
    }
}

pub(super) fn date(seconds: u64) -> String {
    let time = UNIX_EPOCH.checked_add(Duration::from_secs(seconds)).unwrap_or(UNIX_EPOCH);
    // The format fails beyond the year 9999.
    let text = humantime::format_rfc3339_seconds(time.min(UNIX_EPOCH + Duration::from_hours(70_389_528)))
        .to_string();
    format!("{} UTC", text.trim_end_matches('Z').replace('T', " "))
}
