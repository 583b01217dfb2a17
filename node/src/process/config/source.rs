//! Where a setting was written: the file with its lines, and which flags and variables were given.
//!
//! Only for messages: an error about a value says which file and line, flag or variable to change.

#![expect(clippy::disallowed_methods, reason = "the configuration file is read before there is a volume")]

use std::collections::HashMap;
use std::fs::File;
use std::io::Read as _;
use std::ops::Range;
use std::path::{Path, PathBuf};

use clap::parser::ValueSource;

use super::error::ConfigError;
use super::limits::CONFIG_BYTES_MAX;
use super::origin::Origin;
use super::settings::Settings;

/// All places that settings were read from.
#[derive(Debug, Clone, Default)]
pub struct Sources {
    given: HashMap<String, ValueSource>,
    /// Files in the order of their reading: an earlier one wins.
    files: Vec<(PathBuf, String)>,
}

impl Sources {
    /// Remembers which settings `matches` has from flags and from variables.
    pub fn of_command(matches: &clap::ArgMatches) -> Self {
        let ids =
            matches.ids().map(clap::Id::as_str).filter(|id| matches.try_contains_id(id).unwrap_or(false));
        let given = ids.filter_map(|id| Some((id.to_owned(), matches.value_source(id)?))).collect();
        Self { given, files: vec![] }
    }

    /// Reads the settings of a file and remembers its lines.
    ///
    /// # Errors
    /// [`ConfigError`] when the file cannot be read, or has unknown keys or malformed values.
    pub fn read_file(&mut self, path: &Path) -> Result<Settings, ConfigError> {
        let text = text_of(path)?;
        self.take_file(path, text)
    }

    /// Takes the settings of a file that was read before, and remembers its lines.
    ///
    /// # Errors
    /// [`ConfigError`] when it has unknown keys or malformed values.
    pub(super) fn take_file(&mut self, path: &Path, text: String) -> Result<Settings, ConfigError> {
        let settings = toml::from_str(&text).map_err(|error| {
            let at = error.span().map_or(0, |span| span.start);
            let line = line_of(&text, at);
            let written = text.lines().nth(line - 1).unwrap_or_default().trim().to_owned();
            ConfigError::Syntax { path: path.to_owned(), line, written, why: error.message().to_owned() }
        })?;
        self.files.push((path.to_owned(), text));
        Ok(settings)
    }

    /// Whether a flag or a variable says what `key` is, so that no file does.
    pub(super) fn is_given(&self, key: &str) -> bool {
        let source = self.given_source(key);
        matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
    }

    fn given_source(&self, key: &str) -> Option<ValueSource> {
        // Arguments of tables are known by their last word where it is unambiguous.
        let short = key.rsplit('.').next().unwrap_or(key);
        self.given.get(&key.replace('.', "_")).or_else(|| self.given.get(short)).copied()
    }

    /// Says where the setting `key`, as the file names it, came from.
    pub fn origin(&self, key: &'static str) -> Origin {
        let flat = key.replace('.', "_");
        match self.given_source(key) {
            Some(ValueSource::CommandLine) => Origin::Flag(format!("--{}", flat.replace('_', "-"))),
            Some(ValueSource::EnvVariable) => Origin::Variable(format!("SHERD_{}", flat.to_uppercase())),
            _ => self.file_origin(key).unwrap_or(Origin::Default(key)),
        }
    }

    fn file_origin(&self, key: &'static str) -> Option<Origin> {
        self.files.iter().find_map(|(path, text)| {
            let span = key_span(text, key)?;
            Some(Origin::File { path: path.clone(), line: line_of(text, span.start), key })
        })
    }
}

/// Reads a file of settings whole, within a bound.
pub(super) fn text_of(path: &Path) -> Result<String, ConfigError> {
    let read = || {
        let mut text = String::new();
        let bytes = File::open(path)?.take(CONFIG_BYTES_MAX + 1).read_to_string(&mut text)?;
        Ok((text, bytes as u64))
    };
    let (text, bytes) = read().map_err(|source| ConfigError::Read { path: path.to_owned(), source })?;
    if bytes > CONFIG_BYTES_MAX {
        return Err(ConfigError::TooLong { path: path.to_owned() });
    }
    Ok(text)
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
