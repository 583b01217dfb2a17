//! AWS's files of profiles, `~/.aws/credentials` and `~/.aws/config`, as far as S3 with keys needs them.
//!
//! Source: AWS CLI User Guide, "Configuration and credential file settings".

use std::collections::HashMap;
use std::path::Path;

use crate::error::CredentialsError;

/// The settings of one profile, those of the credentials file before those of the config file.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Profile {
    settings: HashMap<String, String>,
}

impl Profile {
    pub(crate) fn get(&self, name: &str) -> Option<&str> {
        self.settings.get(name).map(String::as_str)
    }

    /// Reads a profile of both files; none if neither has it. Blocks.
    pub(crate) fn read(
        name: &str,
        credentials: &Path,
        config: &Path,
    ) -> Result<Option<Self>, CredentialsError> {
        let of_config = if name == "default" { "default".to_owned() } else { format!("profile {name}") };
        let config = section(&text(config)?, &of_config);
        let credentials = section(&text(credentials)?, name);
        let is_there = config.is_some() || credentials.is_some();
        let mut settings = config.unwrap_or_default();
        settings.extend(credentials.unwrap_or_default());
        Ok(is_there.then_some(Self { settings }))
    }
}

/// The text of a file; empty where it is not there.
fn text(path: &Path) -> Result<String, CredentialsError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(text),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(String::new()),
        Err(source) => Err(CredentialsError::Unreadable { path: path.to_owned(), source }),
    }
}

/// The settings below `[name]`. Nested ones, indented below a line `s3 =`, count as `s3.name`.
fn section(text: &str, name: &str) -> Option<HashMap<String, String>> {
    let mut found: Option<HashMap<String, String>> = None;
    let (mut is_inside, mut group) = (false, String::new());
    for line in text.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() || trimmed.starts_with(['#', ';']) {
            continue;
        }
        if let Some(header) = trimmed.strip_prefix('[').and_then(|rest| rest.split(']').next()) {
            is_inside = header.split_whitespace().collect::<Vec<_>>().join(" ") == name;
            if is_inside {
                found.get_or_insert_default();
            }
            continue;
        }
        let Some((key, value)) = trimmed.split_once('=').filter(|_| is_inside) else { continue };
        let key = key.trim().to_ascii_lowercase();
        let is_nested = line.starts_with([' ', '\t']) && !group.is_empty();
        if !is_nested {
            group = if value.trim().is_empty() { key.clone() } else { String::new() };
        }
        let key = if is_nested { format!("{group}.{key}") } else { key };
        found.get_or_insert_default().insert(key, value.trim().to_owned());
    }
    found
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn a_profile_is_read_from_both_files() {
        let folder = tempfile::tempdir().unwrap();
        let (credentials, config) = (folder.path().join("credentials"), folder.path().join("config"));
        fs::write(
            &credentials,
            "# keys\n[default]\naws_access_key_id = A\n[ work ]\naws_access_key_id=W=1\n",
        )
        .unwrap();
        let text = "[profile work]\nregion = eu-west-1\naws_access_key_id = older\ns3 =\n  \
                    addressing_style = path\nendpoint_url = http://a\n[default]\nregion=us-east-2\n";
        fs::write(&config, text).unwrap();
        let work = Profile::read("work", &credentials, &config).unwrap().expect("it is there");
        assert_eq!(work.get("aws_access_key_id"), Some("W=1"));
        assert_eq!(work.get("region"), Some("eu-west-1"));
        assert_eq!(work.get("s3.addressing_style"), Some("path"));
        assert_eq!(work.get("endpoint_url"), Some("http://a"));
        let default = Profile::read("default", &credentials, &config).unwrap().expect("it is there");
        assert_eq!((default.get("region"), default.get("aws_access_key_id")), (Some("us-east-2"), Some("A")));
        assert_eq!(Profile::read("other", &credentials, &config).unwrap(), None);
        assert_eq!(Profile::read("work", Path::new("/none"), Path::new("/none")).unwrap(), None);
    }
}
