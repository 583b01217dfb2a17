//! `bench/report/report.toml`: what each suite is measured with, and the targets.

use std::collections::BTreeMap;

use serde::Deserialize;

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Settings {
    pub(super) suites: BTreeMap<String, Suite>,
    #[serde(default, rename = "target")]
    pub(super) targets: Vec<Target>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Suite {
    pub(super) about: String,
    pub(super) command: String,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Target {
    /// Suite in whose results it is looked for.
    pub(super) suite: String,
    /// The work, for the table.
    pub(super) work: String,
    /// The rows that it holds for.
    #[serde(rename = "where")]
    pub(super) labels: BTreeMap<String, Values>,
    pub(super) figure: String,
    /// Label in which the subject and its peer differ.
    #[serde(default = "subject_label")]
    pub(super) across: String,
    /// Value of that label for the subject.
    #[serde(default = "sherd")]
    pub(super) subject: String,
    /// Value of that label for the peer.
    pub(super) peer: Option<String>,
    /// How many times better than its peer the subject must be.
    pub(super) at_least: Option<f64>,
    /// How many times better it should be.
    pub(super) aim: Option<f64>,
    /// How much the figure may be at most, in its unit, or in multiples of `device`.
    pub(super) at_most: Option<f64>,
    /// Figure of the device that `at_most` counts in.
    pub(super) device: Option<String>,
}

#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
pub(super) enum Values {
    One(String),
    Many(Vec<String>),
}

impl Values {
    pub(super) fn all(&self) -> &[String] {
        match self {
            Self::One(value) => std::slice::from_ref(value),
            Self::Many(values) => values,
        }
    }
}

fn subject_label() -> String {
    "subject".to_owned()
}

fn sherd() -> String {
    "sherd".to_owned()
}

impl Settings {
    pub(super) fn parse(text: &str) -> Result<Self, String> {
        let settings: Self = toml::from_str(text).map_err(|error| error.to_string())?;
        for target in &settings.targets {
            settings.check(target).map_err(|reason| format!("target `{}`: {reason}", target.work))?;
        }
        Ok(settings)
    }

    fn check(&self, target: &Target) -> Result<(), String> {
        let Target { suite, labels, across, peer, at_least, aim, at_most, device, .. } = target;
        if !self.suites.contains_key(suite) {
            return Err(format!("there is no suite `{suite}`"));
        }
        if peer.is_some() && labels.contains_key(across) {
            return Err(format!("`{across}` tells subject and peer apart and does not stand in `where`"));
        }
        if at_least.is_none() && at_most.is_none() {
            return Err("says neither `at_least` nor `at_most`".to_owned());
        }
        if (at_least.is_some() || aim.is_some()) && peer.is_none() {
            return Err("`at_least` and `aim` are ratios to a `peer`".to_owned());
        }
        if device.is_some() && at_most.is_none() {
            return Err("`device` is what `at_most` counts in".to_owned());
        }
        let positive = [at_least, aim, at_most].into_iter().flatten().all(|value| *value > 0.0);
        if positive { Ok(()) } else { Err("what is asked for is above 0".to_owned()) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn with(target: &str) -> Result<Settings, String> {
        Settings::parse(&format!(
            "[suites.load]\nabout = \"a\"\ncommand = \"c\"\n\
             [[target]]\nwork = \"w\"\nfigure = \"ops_s\"\n{target}"
        ))
    }

    #[test]
    fn a_target_is_a_ratio_to_a_peer_or_a_bound() {
        let ratio = with(
            "suite = \"load\"\nwhere = { op = \"put\", clients = [\"1\", \"32\"] }\npeer = \"minio\"\nat_least = 4",
        );
        let target = &ratio.unwrap().targets[0];
        assert_eq!(target.labels["clients"].all(), ["1", "32"]);
        assert_eq!((target.across.as_str(), target.subject.as_str()), ("subject", "sherd"));
        assert!(
            with("suite = \"load\"\nwhere = { op = \"put\" }\nat_most = 3\ndevice = \"fdatasync_p50_us\"")
                .is_ok()
        );
    }

    #[test]
    fn targets_that_cannot_be_judged_are_refused() {
        for (text, part) in [
            ("suite = \"lod\"\nwhere = {}\nat_most = 3", "no suite `lod`"),
            ("suite = \"load\"\nwhere = {}", "neither"),
            ("suite = \"load\"\nwhere = {}\nat_least = 3", "`peer`"),
            ("suite = \"load\"\nwhere = {}\npeer = \"p\"\nat_least = 3\ndevice = \"d\"", "`device`"),
            ("suite = \"load\"\nwhere = {}\nat_most = 0", "above 0"),
            ("suite = \"load\"\nwhere = { subject = \"sherd\" }\npeer = \"p\"\nat_least = 1", "apart"),
            ("suite = \"load\"\nwhere = {}\nat_most = 1\nleast = 2", "least"),
        ] {
            let error = with(text).unwrap_err();
            assert!(error.contains(part), "{text}: {error}");
        }
    }
}
