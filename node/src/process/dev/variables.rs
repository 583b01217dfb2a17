//! The settings that `dev` takes from the environment: those of `serve`, but for what it decides itself.

use crate::process::config::credentials::{ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE};
use crate::process::config::settings::{ClusterSettings, LogSettings, Settings, TlsSettings, UpkeepSettings};
use crate::process::config::variables::Variables;

/// The variables that `dev` and its nodes do not use.
pub(crate) const DECIDED: [&str; 23] = [
    "SHERD_CONFIG",
    "SHERD_LIVE_CONFIG",
    ACCESS_KEY_VARIABLE,
    SECRET_KEY_VARIABLE,
    "SHERD_VOLUMES",
    "SHERD_LISTEN",
    "SHERD_ADMIN_LISTEN",
    "SHERD_IAM_LISTEN",
    "SHERD_NODE_LISTEN",
    "SHERD_CREDENTIALS_FILE",
    "SHERD_MASTER_KEY_FILE",
    "SHERD_SHUTDOWN_TIMEOUT",
    "SHERD_TLS_CERT",
    "SHERD_TLS_KEY",
    "SHERD_TLS_FURTHER",
    "SHERD_CLUSTER_ID",
    "SHERD_CLUSTER_NAME",
    "SHERD_CLUSTER_NODES",
    "SHERD_CLUSTER_NODE",
    "SHERD_CLUSTER_CA",
    "SHERD_CLUSTER_CERT",
    "SHERD_CLUSTER_KEY",
    "SHERD_CLUSTER_FORMED",
];
/// The variable of [`UpkeepSettings::adopt_after`], which `dev` sets to nothing.
pub(crate) const ADOPT_AFTER: &str = "SHERD_UPKEEP_ADOPT_AFTER";
/// The variables of the log, which `dev` has read as options of its own.
pub(crate) const OF_LOG: [&str; 3] = ["SHERD_LOG_FORMAT", "SHERD_LOG_LEVEL", "SHERD_LOG_SLOW_REQUEST"];

/// Leaves out what `dev` decides.
#[must_use]
pub fn undecided(given: Variables) -> Variables {
    Variables { settings: undecided_settings(given.settings), ..given }
}

fn undecided_settings(given: Settings) -> Settings {
    let ClusterSettings { set_size, reconnect_after, .. } = given.cluster;
    Settings {
        volumes: None,
        listen: None,
        admin_listen: None,
        iam_listen: None,
        node_listen: None,
        credentials_file: None,
        master_key_file: None,
        shutdown_timeout: None,
        tls: TlsSettings::default(),
        cluster: ClusterSettings { set_size, reconnect_after, ..ClusterSettings::default() },
        upkeep: UpkeepSettings { adopt_after: None, ..given.upkeep },
        log: LogSettings::default(),
        ..given
    }
}

/// Names the variables that are set and not used; `is_set` says which are set.
pub fn unused(is_set: impl Fn(&str) -> bool) -> Option<String> {
    let set: Vec<&str> = DECIDED.into_iter().chain([ADOPT_AFTER]).filter(|name| is_set(name)).collect();
    (!set.is_empty()).then(|| format!("dev decides this itself and does not use {}", set.join(", ")))
}

#[cfg(test)]
mod tests {
    use std::ffi::OsString;

    use clap::CommandFactory as _;

    use super::*;
    use crate::process::config::variables::SettingsParser;

    #[test]
    fn what_dev_decides_is_left_out_and_all_else_is_taken() {
        let command = SettingsParser::command();
        let value = |name: &str| match name {
            name if name.ends_with("LISTEN") => "127.0.0.1:1",
            "SHERD_DURABILITY" => "none",
            "SHERD_ETAG" => "fast",
            "SHERD_AUTH_SIGV2_PRESIGNED" | "SHERD_S3_HEALTH_PATHS" => "true",
            "SHERD_S3_UNSUPPORTED_ACL" => "ignore",
            "SHERD_LOG_FORMAT" => "json",
            name if ["TIMEOUT", "DELAY", "AFTER", "GRACE", "PERIOD", "REQUEST"]
                .iter()
                .any(|end| name.ends_with(end)) =>
            {
                "3s"
            }
            name if ["_INLINE_MAX", "PACK_MAX", "CAP", "CACHE", "BANDWIDTH"]
                .iter()
                .any(|end| name.ends_with(end)) =>
            {
                "1MiB"
            }
            _ => "4",
        };
        for argument in command.get_arguments() {
            let Some(name) = argument.get_env().and_then(|name| name.to_str()) else { continue };
            let flag = format!("--{}", argument.get_long().expect("every setting is a flag"));
            let line = ["dev", &flag, value(name)].map(OsString::from).into_iter();
            let variables =
                undecided(Variables::of_line(line).unwrap_or_else(|error| panic!("{name}: {error}")));
            let is_decided = DECIDED.contains(&name) || name == ADOPT_AFTER || OF_LOG.contains(&name);
            assert_eq!(variables.settings == Settings::default(), is_decided, "{name}");
        }
    }

    #[test]
    fn variables_that_are_not_used_are_named() {
        assert_eq!(unused(|_| false), None);
        let said = unused(|name| ["SHERD_LISTEN", "SHERD_UPKEEP_ADOPT_AFTER"].contains(&name));
        let said = said.expect("two are set");
        assert_eq!(said, "dev decides this itself and does not use SHERD_LISTEN, SHERD_UPKEEP_ADOPT_AFTER");
    }
}
