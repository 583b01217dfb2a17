//! The settings of the environment alone, for commands that need no file.

use std::ffi::OsString;

use clap::{CommandFactory as _, FromArgMatches as _, Parser};

use super::settings::Settings;
use super::source::Sources;

/// The settings of the environment.
#[derive(Debug, Clone, Default)]
pub struct Variables {
    /// The values.
    pub settings: Settings,
    /// The source of each value, for errors that name it.
    pub sources: Sources,
}

#[derive(Debug, Parser)]
pub(crate) struct SettingsParser {
    #[command(flatten)]
    settings: Settings,
}

impl Variables {
    /// Reads the variables of this process.
    ///
    /// # Errors
    /// Clap's, where one is malformed: it names the variable.
    pub fn read() -> Result<Self, clap::Error> {
        Self::of_line(std::iter::once(OsString::from("sherd-node")))
    }

    /// Reads the variables of this process and a command line of flags.
    ///
    /// # Errors
    /// As [`Self::read`].
    pub(crate) fn of_line(line: impl Iterator<Item = OsString>) -> Result<Self, clap::Error> {
        let matches = SettingsParser::command().try_get_matches_from(line)?;
        let settings = SettingsParser::from_arg_matches(&matches)?.settings;
        Ok(Self { settings, sources: Sources::of_command(&matches) })
    }
}
