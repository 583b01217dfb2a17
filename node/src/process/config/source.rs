//! Where a setting was written: the file with its lines, and which flags and variables were given.
//!
//! Only for messages: an error about a value says which file and line, flag or variable to change.

#![expect(clippy::disallowed_methods, reason = "the configuration file is read before there is a volume")]

use std::collections::HashMap;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;

use super::error::ConfigError;
use super::origin::Origin;
use super::settings::Settings;

/// All places that settings were read from.
#[derive(Debug, Default)]
pub struct Sources {
    given: HashMap<String, ValueSource>,
    file: Option<(PathBuf, String)>,
}

impl Sources {
    /// Remembers which settings `matches` has from flags and from variables.
    pub fn of_command(matches: &clap::ArgMatches) -> Self {
        let ids =
            matches.ids().map(clap::Id::as_str).filter(|id| matches.try_contains_id(id).unwrap_or(false));
        let given = ids.filter_map(|id| Some((id.to_owned(), matches.value_source(id)?))).collect();
        Self { given, file: None }
    }

    /// Reads the settings of a file and remembers its lines.
    ///
    /// # Errors
    /// [`ConfigError`] when the file cannot be read, or has unknown keys or malformed values.
    pub fn read_file(&mut self, path: &Path) -> Result<Settings, ConfigError> {
        let text = std::fs::read_to_string(path)
            .map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
        let settings = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = line_of(&text, at);
            let written = text.lines().nth(line - 1).unwrap_or_default().trim().to_owned();
            ConfigError::Syntax { path: path.to_owned(), line, written, why: error.message().to_owned() }
        })?;
        self.file = Some((path.to_owned(), text));
        Ok(settings)
    }

    /// Says where the setting `key`, as the file names it, came from.
    pub fn origin(&self, key: &'static str) -> Origin {
        let flat = key.replace('.', "_");
        // Arguments of tables are known by their last word where it is unambiguous.
        let short = key.rsplit('.').next().unwrap_or(key);
        let given = self.given.get(&flat).or_else(|| self.given.get(short));
        match given {
            Some(ValueSource::CommandLine) => Origin::Flag(format!("--{}", flat.replace('_', "-"))),
            Some(ValueSource::EnvVariable) => Origin::Variable(format!("SHERD_{}", flat.to_uppercase())),
            _ => self.file_origin(key).unwrap_or(Origin::Default(key)),
        }
    }

    fn file_origin(&self, key: &'static str) -> Option<Origin> {
        let (path, text) = self.file.as_ref()?;
        let span = key_span(text, key)?;
        Some(Origin::File { path: path.clone(), line: line_of(text, span.start), key })
    }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.bytes().take(offset).filter(|&byte| byte == b'\n').count()
}

/// Finds where a key stands in a file that was read before without an error.
fn key_span(text: &str, key: &str) -> Option<Range<usize>> {
    let document = toml::de::DeTable::parse(text).ok()?;
    let mut table = document.get_ref();
    let mut words = key.split('.').peekable();
    while let Some(word) = words.next() {
        let (name, value) = table.iter().find(|(name, _)| name.get_ref() == word)?;
        if words.peek().is_none() {
            return Some(name.span());
        }
        table = value.get_ref().as_table()?;
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_is_found_in_its_table_and_line() {
        let text = "# comment\nparity = 2\n\n[log]\nlevel = \"info\"\n[limits]\nidle_timeout = \"1s\"\n";
        let line = |key| key_span(text, key).map(|span| line_of(text, span.start));
        assert_eq!(line("parity"), Some(2));
        assert_eq!(line("log.level"), Some(5));
        assert_eq!(line("limits.idle_timeout"), Some(7));
        assert_eq!(line("limits.parity"), None);
        assert_eq!(line("level"), None);
    }

    #[test]
    fn flags_and_variables_are_named_as_they_are_typed() {
        let mut sources = Sources::default();
        sources.given.insert("idle_timeout".into(), ValueSource::CommandLine);
        sources.given.insert("log_level".into(), ValueSource::EnvVariable);
        sources.given.insert("parity".into(), ValueSource::DefaultValue);
        assert_eq!(sources.origin("limits.idle_timeout").to_string(), "--limits-idle-timeout");
        assert_eq!(sources.origin("log.level").to_string(), "SHERD_LOG_LEVEL");
        assert_eq!(sources.origin("parity"), Origin::Default("parity"));
    }
}
