//! The files that a configuration is read from: at the start whole, and later again for the hot keys.
//!
//! ```text
//! flags, variables  >  live file (hot keys alone, may be missing)  >  main file  >  defaults
//! ```
//! A live file that cannot be used never keeps a node from starting: it may have been changed at any time
//! before. Its `cluster.formed` holds also then. Read by `main` at the start and by
//! `serve::follow` after it.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::path::{Path, PathBuf};

use sha2::{Digest as _, Sha256};
use sherd_core::id::ClusterId;

use super::error::ConfigError;
use super::hot::{HOT_KEYS, HotSettings};
use super::settings::Settings;
use super::source::{Sources, text_of};

/// SHA-256 of a file.
pub type FileDigest = [u8; 32];

/// Where settings come from: flags and variables as they were given, and the files.
#[derive(Debug, Clone, Default)]
pub struct ConfigFiles {
    given: Settings,
    /// Of the flags and variables alone.
    sources: Sources,
    main: Option<PathBuf>,
    live: Option<PathBuf>,
}

/// The texts of both files at one time.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct FileTexts {
    main: Option<String>,
    live: Option<String>,
}

/// The settings of the files, and of what was given beside them.
#[derive(Debug)]
pub struct FileSettings {
    /// Flags and variables before the live file, this one before the main file.
    pub settings: Settings,
    /// Where each was written.
    pub sources: Sources,
    /// Each key of the main file, with its table.
    keys: BTreeMap<String, toml::Value>,
}

impl ConfigFiles {
    /// Files beside `given`, which wins over them and whose places `sources` has.
    ///
    /// # Errors
    /// A relative path counts from the working directory, which may be gone.
    pub fn new(
        given: Settings,
        sources: Sources,
        main: Option<PathBuf>,
        live: Option<PathBuf>,
    ) -> Result<Self, ConfigError> {
        let absolute =
            |path: PathBuf| std::path::absolute(&path).map_err(|source| ConfigError::Read { path, source });
        let (main, live) = (main.map(absolute).transpose()?, live.map(absolute).transpose()?);
        Ok(Self { given, sources, main, live })
    }

    /// Whether there is a file that may change.
    pub const fn may_change(&self) -> bool {
        self.main.is_some() || self.live.is_some()
    }

    /// Reads both files; blocks on the disk. A live file that is not there has no keys.
    ///
    /// # Errors
    /// [`ConfigError`] names the file that cannot be read.
    pub fn read(&self) -> Result<FileTexts, ConfigError> {
        let live = self.live.as_deref().map(text_of).transpose();
        let live = match live {
            Err(ConfigError::Read { source, .. }) if source.kind() == io::ErrorKind::NotFound => None,
            live => live?,
        };
        Ok(FileTexts { main: self.main.as_deref().map(text_of).transpose()?, live })
    }

    /// Reads the files for a start: a live file that cannot be used is left out.
    ///
    /// # Errors
    /// [`ConfigError`] where the main file cannot be used.
    pub fn start(&self) -> Result<(FileTexts, FileSettings), ConfigError> {
        let texts = self.read().and_then(|texts| Ok((self.settings(&texts)?, texts)));
        let usable = texts.and_then(|(settings, texts)| {
            HotSettings::resolve(&settings.settings, &settings.sources)?;
            Ok((texts, settings))
        });
        if usable.is_ok() || self.live.is_none() {
            return usable;
        }
        let texts = FileTexts { main: self.main.as_deref().map(text_of).transpose()?, live: None };
        let mut settings = self.settings(&texts)?;
        let formed = &mut settings.settings.cluster.formed;
        *formed = self.given.cluster.formed.clone().or_else(|| self.live_formed()).or(formed.take());
        Ok((texts, settings))
    }

    /// The cluster that was formed before, by a live file whose other keys cannot be used: it is not formed
    /// again because of them.
    fn live_formed(&self) -> Option<String> {
        let text = text_of(self.live.as_deref()?).ok()?;
        let id = text.parse::<toml::Table>().ok()?.get("cluster")?.get("formed")?.as_str()?.to_owned();
        ClusterId::parse(&id).is_ok().then_some(id)
    }

    /// Returns the settings that the files' texts make.
    ///
    /// # Errors
    /// [`ConfigError`] names a line without a valid setting, or a key of the live file that is not hot.
    pub fn settings(&self, texts: &FileTexts) -> Result<FileSettings, ConfigError> {
        let mut sources = self.sources.clone();
        let mut settings = self.given.clone();
        for (path, text) in [(&self.live, &texts.live), (&self.main, &texts.main)] {
            if let (Some(path), Some(text)) = (path, text) {
                settings = settings.or(sources.take_file(path, text.clone())?);
            }
        }
        if let (Some(path), Some(text)) = (&self.live, &texts.live)
            && let Some(key) = keys_of(text).into_keys().find(|key| !HOT_KEYS.contains(&key.as_str()))
        {
            return Err(ConfigError::NotHot { path: path.clone(), key });
        }
        let keys = texts.main.as_deref().map(keys_of).unwrap_or_default();
        Ok(FileSettings { settings, sources, keys })
    }

    /// Returns the path of the file that hot keys are written in first.
    pub fn path(&self) -> Option<&Path> {
        self.live.as_deref().or(self.main.as_deref())
    }
}

impl FileTexts {
    /// Computes the digest of the live file; none where it is missing.
    pub fn live_digest(&self) -> Option<FileDigest> {
        self.live.as_deref().map(|text| Sha256::digest(text).into())
    }
}

impl FileSettings {
    /// Judges the hot keys.
    ///
    /// # Errors
    /// [`ConfigError`] names the first one that is not valid.
    pub fn hot(&self) -> Result<HotSettings, ConfigError> {
        HotSettings::resolve(&self.settings, &self.sources)
    }

    /// Returns the keys of the main file that are not hot and differ from `start`, of those that no flag and
    /// no variable overrules, where they differ from `last`, too.
    pub fn waiting_keys(&self, start: &Self, last: &Self) -> Vec<String> {
        let all: BTreeSet<&String> = self.keys.keys().chain(start.keys.keys()).collect();
        let is_changed = |key: &&String| {
            let value = self.keys.get(*key);
            value != start.keys.get(*key) && value != last.keys.get(*key)
        };
        let waits = |key: &&String| !HOT_KEYS.contains(&key.as_str()) && !self.sources.is_given(key);
        all.into_iter().filter(is_changed).filter(waits).cloned().collect()
    }
}

/// The keys of a text that was read as settings before, each with its table.
fn keys_of(text: &str) -> BTreeMap<String, toml::Value> {
    let mut keys = BTreeMap::new();
    for (name, value) in text.parse::<toml::Table>().unwrap_or_default() {
        match value {
            toml::Value::Table(table) => {
                keys.extend(table.into_iter().map(|(key, value)| (format!("{name}.{key}"), value)));
            }
            value => {
                keys.insert(name, value);
            }
        }
    }
    keys
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Folder(tempfile::TempDir);

    impl Folder {
        fn with(main: &str, live: Option<&str>) -> (Self, ConfigFiles) {
            let folder = Self(tempfile::tempdir().expect("a temporary directory"));
            folder.write("sherd.toml", main);
            if let Some(live) = live {
                folder.write("live.toml", live);
            }
            let path = |name: &str| Some(folder.0.path().join(name));
            let files = ConfigFiles::new(
                Settings::default(),
                Sources::default(),
                path("sherd.toml"),
                path("live.toml"),
            );
            (folder, files.expect("absolute paths"))
        }

        fn write(&self, name: &str, text: &str) {
            std::fs::write(self.0.path().join(name), text).expect("a file");
        }
    }

    fn level(settings: &FileSettings) -> String {
        settings.hot().expect("valid").log_level
    }

    #[test]
    fn the_live_file_wins_over_the_main_file_and_may_be_missing() {
        let (folder, files) = Folder::with("log.level = \"warn\"\nlimits.queue_max = 7\n", None);
        let (texts, settings) = files.start().expect("valid");
        assert_eq!((level(&settings).as_str(), texts.live_digest()), ("warn", None));
        folder.write("live.toml", "[log]\nlevel = \"debug\"\n");
        let texts = files.read().expect("readable");
        let settings = files.settings(&texts).expect("valid");
        assert_eq!(level(&settings), "debug");
        assert_eq!(settings.hot().expect("valid").limits.queue_max, 7);
        assert!(texts.live_digest().is_some());
    }

    #[test]
    fn what_is_given_beside_the_files_wins_over_both() {
        let (_folder, mut files) = Folder::with("log.level = \"warn\"", Some("log.level = \"debug\""));
        files.given.log.level = Some("error".to_owned());
        assert_eq!(level(&files.start().expect("valid").1), "error");
    }

    #[test]
    fn a_live_file_that_cannot_be_used_is_refused_but_at_the_start_left_out() {
        let too_long = format!("# {}", "x".repeat(1 << 20));
        for (live, reason) in [
            ("region = \"other\"", "region takes effect only when a node starts"),
            ("log.levle = \"debug\"", "unknown field"),
            ("log.level = \"a=b=c\"", "live.toml:1: log.level"),
            ("limits.requests_max = 0", "live.toml:1: limits.requests_max: 0 is outside 1 to"),
            (&too_long, "longer than"),
        ] {
            let (_folder, files) = Folder::with("log.level = \"warn\"", Some(live));
            let refused = files.read().and_then(|texts| files.settings(&texts)?.hot());
            let refused = refused.expect_err("not usable").to_string();
            assert!(refused.contains(reason), "{live:.40}: {refused}");
            let (texts, settings) = files.start().expect("the main file is valid");
            assert_eq!((level(&settings).as_str(), texts.live_digest()), ("warn", None), "{live:.40}");
        }
        let (_folder, files) = Folder::with("log.levle = \"warn\"", Some("log.level = \"debug\""));
        assert!(files.start().is_err(), "the main file must be valid");
    }

    /// The key `cluster.formed` is read from a live file that cannot be used, too: without it a start would
    /// form a lost cluster again.
    #[test]
    fn a_cluster_that_was_formed_stays_so_in_a_live_file_that_cannot_be_used() {
        let id = "6a0812f15d1e119c43c3e498e22f294a";
        for other in ["log.level = \"a=b=c\"", "limits.requests_max = 0", "region = \"other\"", "new.key = 1"]
        {
            let (_folder, files) = Folder::with("", Some(&format!("cluster.formed = \"{id}\"\n{other}\n")));
            let (_, settings) = files.start().expect("the main file is valid");
            assert_eq!(settings.hot().expect("valid").formed, ClusterId::parse(id).ok(), "{other}");
        }
        let (_folder, files) = Folder::with("", Some("cluster.formed = \"demo\"\n"));
        let refused = files.read().and_then(|texts| files.settings(&texts)?.hot());
        let refused = refused.expect_err("no id").to_string();
        assert!(refused.contains("live.toml:1: cluster.formed: \"demo\" is not the id"), "{refused}");
        assert_eq!(files.start().expect("valid").1.hot().expect("valid").formed, None);
    }

    #[test]
    fn each_changed_key_that_is_not_hot_is_named_once() {
        let (_folder, files) = Folder::with("", None);
        let of = |main: &str| {
            let texts = FileTexts { main: Some(main.to_owned()), live: None };
            files.settings(&texts).expect("valid")
        };
        let start = of("parity = 1\nlog.level = \"info\"\n[cluster]\nname = \"a\"\n");
        let next = of("parity = 1\nregion = \"r\"\nlog.level = \"warn\"\n[cluster]\nname = \"b\"\n");
        assert_eq!(next.waiting_keys(&start, &start), ["cluster.name", "region"]);
        assert_eq!(next.waiting_keys(&start, &next), Vec::<String>::new(), "said before");
        assert_eq!(of("region = \"r\"").waiting_keys(&start, &next), ["cluster.name", "parity"], "removed");
        assert_eq!(start.waiting_keys(&start, &next), Vec::<String>::new(), "back to what is in force");
    }
}
