//! The keys that a running node takes from its files, and the settings that they make.
//!
//! [`HOT_KEYS`] is the one declaration: the live file may have these keys alone, a change of any other is
//! logged as one that waits for a start, and the table of docs/configuration.md is compared with it. Read by
//! `files`, which follows the files.

use std::time::Duration;

use sherd_core::id::ClusterId;

use super::error::ConfigError;
use super::nodes::InvalidCluster;
use super::settings::Settings;
use super::source::Sources;
use super::{Config, Judge, Limits, Upkeep};

/// The key of a cluster that was formed before.
const FORMED: &str = "cluster.formed";

/// The keys that take effect in a running node.
pub const HOT_KEYS: [&str; 14] = [
    "shutdown_delay",
    "shutdown_timeout",
    FORMED,
    "limits.connections_max",
    "limits.requests_max",
    "limits.queue_max",
    "limits.idle_timeout",
    "limits.stall_timeout",
    "upkeep.release_grace",
    "upkeep.scrub_period",
    "upkeep.heal_bandwidth",
    "upkeep.adopt_after",
    "log.level",
    "log.slow_request",
];

/// The values of the hot keys.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HotSettings {
    /// The cluster that was formed before, which is not to be formed again.
    pub formed: Option<ClusterId>,
    /// The limits of the S3 listener.
    pub limits: Limits,
    /// Background work.
    pub upkeep: Upkeep,
    /// A filter of log lines that parses.
    pub log_level: String,
    /// How long a request may take that is not logged as slow; zero where none is.
    pub slow_request: Duration,
    /// How long connections are still accepted, while health says that the node stops.
    pub shutdown_delay: Duration,
    /// How long requests under way may take to end at shutdown.
    pub shutdown_timeout: Duration,
}

impl HotSettings {
    /// Returns those that a node starts with.
    pub fn of(config: &Config) -> Self {
        Self {
            formed: config.formed,
            limits: config.limits,
            upkeep: config.upkeep,
            log_level: config.log.level.clone(),
            slow_request: config.log.slow_request,
            shutdown_delay: config.shutdown_delay,
            shutdown_timeout: config.shutdown_timeout,
        }
    }

    /// Judges the hot keys of `settings`, as [`Config::resolve`] does; the others are not looked at.
    ///
    /// # Errors
    /// [`ConfigError`] names the first one that is not valid.
    pub(super) fn resolve(settings: &Settings, sources: &Sources) -> Result<Self, ConfigError> {
        let judge = Judge { sources };
        let log = judge.log(settings.log.clone())?;
        Ok(Self {
            formed: judge.formed(settings.cluster.formed.as_deref())?,
            limits: judge.limits(&settings.limits)?,
            upkeep: judge.upkeep(&settings.upkeep)?,
            log_level: log.level,
            slow_request: log.slow_request,
            shutdown_delay: judge.shutdown_delay(settings.shutdown_delay)?,
            shutdown_timeout: judge.shutdown_timeout(settings.shutdown_timeout)?,
        })
    }
}

impl Judge<'_> {
    /// Judges the id of a cluster that was formed before.
    pub(super) fn formed(&self, written: Option<&str>) -> Result<Option<ClusterId>, ConfigError> {
        let parse = |id: &str| {
            let refused = |_| self.refuse(FORMED, InvalidCluster::Id { id: id.to_owned() });
            ClusterId::parse(id).map_err(refused)
        };
        written.map(parse).transpose()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Another value than the default for each hot key.
    const VALUES: [&str; HOT_KEYS.len()] = [
        "\"1s\"",
        "\"2s\"",
        "\"6a0812f15d1e119c43c3e498e22f294a\"",
        "3",
        "4",
        "5",
        "\"6s\"",
        "\"7s\"",
        "\"8m\"",
        "\"9h\"",
        "\"10MiB\"",
        "\"11s\"",
        "\"warn\"",
        "\"12s\"",
    ];

    fn resolved(text: &str) -> HotSettings {
        let settings = toml::from_str(text).expect("settings");
        HotSettings::resolve(&settings, &Sources::default()).expect("valid")
    }

    #[test]
    fn each_hot_key_changes_the_settings() {
        let default = resolved("");
        for (key, value) in HOT_KEYS.iter().zip(VALUES) {
            assert_ne!(resolved(&format!("{key} = {value}")), default, "{key}");
        }
    }

    #[test]
    fn the_table_of_keys_says_which_are_hot() {
        let documentation = include_str!("../../../../docs/configuration.md");
        let rows = documentation.lines().filter_map(|line| line.strip_prefix("| `"));
        let marked = rows.filter(|row| row.split(" | ").nth(2) == Some("yes"));
        let marked: Vec<&str> = marked.filter_map(|row| row.split('`').next()).collect();
        assert_eq!(marked, HOT_KEYS);
        let header = documentation.lines().find(|line| line.starts_with("| key | variable |"));
        assert!(header.is_some_and(|header| header.split(" | ").nth(2) == Some("hot")), "{header:?}");
    }
}
