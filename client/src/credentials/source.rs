//! Where the keys and the endpoint of `s3://` and of an alias come from. Command line before environment
//! before profile, as with AWS's tools.

use std::path::{Path, PathBuf};

use sherd_signature::Secret;
use sherd_signature::signer::KeyPair;

use super::alias::Alias;
use super::profile::Profile;
use crate::endpoint::{AddressingStyle, Endpoint};
use crate::error::{CredentialsError, Error};

/// The region that requests are signed for where nothing names one; the service says which is right.
pub(crate) const REGION: &str = "us-east-1";

/// The variables of a process.
pub trait Variables: Send + Sync + std::fmt::Debug {
    /// The value of a variable that is set and not empty.
    fn get(&self, name: &str) -> Option<String>;
}

/// The environment of this process.
#[derive(Debug, Clone, Copy)]
pub struct ProcessVariables;

impl Variables for ProcessVariables {
    fn get(&self, name: &str) -> Option<String> {
        std::env::var(name).ok().filter(|value| !value.is_empty())
    }
}

/// Values of the command line, which come before all others.
#[derive(Debug, Clone, Default)]
pub struct Overrides {
    /// The endpoint's URL.
    pub endpoint: Option<String>,
    /// The region.
    pub region: Option<String>,
    /// The profile.
    pub profile: Option<String>,
    /// The file of trusted certificates.
    pub ca: Option<PathBuf>,
    /// How buckets stand in a URL.
    pub addressing: Option<AddressingStyle>,
    /// Send requests without a signature.
    pub anonymous: bool,
}

/// A service and the right to use it.
#[derive(Debug, Clone)]
pub struct Account {
    /// The service.
    pub endpoint: Endpoint,
    /// The region that requests are signed for first.
    pub region: String,
    /// The keys; none sends requests without a signature.
    pub keys: Option<KeyPair>,
    /// The file of trusted certificates; none trusts those of the system.
    pub ca: Option<PathBuf>,
}

impl Account {
    /// Finds the service of `s3://`: its keys, region and endpoint. Blocks.
    ///
    /// # Errors
    /// [`Error::Credentials`], [`Error::Endpoint`].
    pub fn of_environment(variables: &dyn Variables, overrides: &Overrides) -> Result<Self, Error> {
        let named = overrides.profile.clone().or_else(|| variables.get("AWS_PROFILE"));
        let name = named.clone().unwrap_or_else(|| "default".to_owned());
        let profile = Profile::read(
            &name,
            &file(variables, "AWS_SHARED_CREDENTIALS_FILE", "credentials"),
            &file(variables, "AWS_CONFIG_FILE", "config"),
        )?;
        if profile.is_none() && named.is_some() {
            return Err(CredentialsError::NoProfile(name).into());
        }
        let profile = profile.unwrap_or_default();
        let setting = |name: &str| profile.get(name).map(str::to_owned);
        let region = overrides.region.clone().or_else(|| variables.get("AWS_REGION"));
        let region = region.or_else(|| variables.get("AWS_DEFAULT_REGION")).or_else(|| setting("region"));
        let region = region.unwrap_or_else(|| REGION.to_owned());
        let of_profile = match setting("s3.addressing_style").as_deref() {
            Some("path") => AddressingStyle::Path,
            Some("virtual") => AddressingStyle::Virtual,
            _ => AddressingStyle::Auto,
        };
        let addressing = overrides.addressing.unwrap_or(of_profile);
        let url = overrides.endpoint.clone().or_else(|| variables.get("AWS_ENDPOINT_URL_S3"));
        let url = url.or_else(|| variables.get("AWS_ENDPOINT_URL")).or_else(|| setting("endpoint_url"));
        let endpoint = match url {
            Some(url) => Endpoint::parse(&url, addressing)?,
            None => Endpoint::aws(&region, addressing),
        };
        let keys =
            if overrides.anonymous { None } else { Some(keys(variables, overrides, &profile, &name)?) };
        let ca = overrides.ca.clone().or_else(|| variables.get("AWS_CA_BUNDLE").map(PathBuf::from));
        let ca = ca.or_else(|| setting("ca_bundle").map(PathBuf::from));
        Ok(Self { endpoint, region, keys, ca })
    }

    /// Makes the service of an alias. The command line's region, certificates and addressing come first.
    ///
    /// # Errors
    /// [`Error::Endpoint`].
    pub fn of_alias(alias: &Alias, overrides: &Overrides) -> Result<Self, Error> {
        let endpoint = Endpoint::parse(&alias.endpoint, overrides.addressing.unwrap_or(alias.addressing))?;
        let keys =
            alias.access_key.as_ref().zip(alias.secret_key.as_ref()).map(|(access_key, secret)| KeyPair {
                access_key: access_key.clone(),
                secret: Secret::new(secret.as_str()),
                session_token: None,
            });
        let region = overrides.region.clone().or_else(|| alias.region.clone());
        Ok(Self {
            endpoint,
            region: region.unwrap_or_else(|| REGION.to_owned()),
            keys: keys.filter(|_| !overrides.anonymous),
            ca: overrides.ca.clone().or_else(|| alias.ca.clone()),
        })
    }
}

/// The keys: a profile that the command line names before the environment, this one before other profiles.
fn keys(
    variables: &dyn Variables,
    overrides: &Overrides,
    profile: &Profile,
    name: &str,
) -> Result<KeyPair, CredentialsError> {
    let environment = || {
        pair(
            [
                variables.get("AWS_ACCESS_KEY_ID"),
                variables.get("AWS_SECRET_ACCESS_KEY"),
                variables.get("AWS_SESSION_TOKEN"),
            ],
            || "the environment".to_owned(),
        )
    };
    let of_profile = || {
        let names = ["aws_access_key_id", "aws_secret_access_key", "aws_session_token"];
        pair(names.map(|name| profile.get(name).map(str::to_owned)), || format!("profile {name}"))
    };
    let found = match overrides.profile {
        Some(_) => of_profile()?,
        None => environment()?.map_or_else(of_profile, |pair| Ok(Some(pair)))?,
    };
    found.ok_or(CredentialsError::Nowhere)
}

fn pair(
    values: [Option<String>; 3],
    source: impl FnOnce() -> String,
) -> Result<Option<KeyPair>, CredentialsError> {
    match values {
        [Some(access_key), Some(secret), token] => Ok(Some(KeyPair {
            access_key,
            secret: Secret::new(secret),
            session_token: token.map(Secret::new),
        })),
        [None, None, _] => Ok(None),
        _ => Err(CredentialsError::Half(source())),
    }
}

fn file(variables: &dyn Variables, variable: &str, name: &str) -> PathBuf {
    let default = || Path::new(&variables.get("HOME").unwrap_or_default()).join(".aws").join(name);
    variables.get(variable).map_or_else(default, PathBuf::from)
}

/// The file of aliases: `SHERD_ALIASES`, or `sherd/aliases.toml` in the user's folder for settings.
pub fn alias_file(variables: &dyn Variables) -> PathBuf {
    let folder = || user_folder(variables, "XDG_CONFIG_HOME", ".config").join("sherd").join("aliases.toml");
    variables.get("SHERD_ALIASES").map_or_else(folder, PathBuf::from)
}

/// The folder of journals: `SHERD_STATE`, or `sherd` in the user's folder for state.
pub fn state_folder(variables: &dyn Variables) -> PathBuf {
    let folder = || user_folder(variables, "XDG_STATE_HOME", ".local/state").join("sherd");
    variables.get("SHERD_STATE").map_or_else(folder, PathBuf::from)
}

fn user_folder(variables: &dyn Variables, variable: &str, below_home: &str) -> PathBuf {
    let default = || Path::new(&variables.get("HOME").unwrap_or_default()).join(below_home);
    variables.get(variable).map_or_else(default, PathBuf::from)
}

#[cfg(test)]
mod tests {
    use std::collections::HashMap;

    use super::*;

    #[derive(Debug)]
    struct Given(HashMap<&'static str, String>);

    impl Variables for Given {
        fn get(&self, name: &str) -> Option<String> {
            self.0.get(name).cloned()
        }
    }

    fn given(pairs: &[(&'static str, &str)]) -> Given {
        Given(pairs.iter().map(|(name, value)| (*name, (*value).to_owned())).collect())
    }

    const KEYS: [(&str, &str); 2] = [("AWS_ACCESS_KEY_ID", "E"), ("AWS_SECRET_ACCESS_KEY", "s")];

    #[test]
    fn a_named_profile_comes_before_the_environment_and_the_default_one_after_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("credentials");
        let text = "[default]\naws_access_key_id=D\naws_secret_access_key=s\nendpoint_url=http://d\n\
                    [work]\naws_access_key_id=W\naws_secret_access_key=s\naws_session_token=t\n";
        std::fs::write(&path, text).unwrap();
        let files = [("AWS_SHARED_CREDENTIALS_FILE", path.to_str().unwrap()), ("AWS_CONFIG_FILE", "/none")];
        let access_key = |variables: &[(&'static str, &str)], profile: Option<&str>| {
            let overrides = Overrides { profile: profile.map(str::to_owned), ..Overrides::default() };
            let account = Account::of_environment(&given(&[&files, variables].concat()), &overrides);
            account.map(|account| account.keys.expect("keys").access_key)
        };
        assert_eq!(access_key(&[], None).unwrap(), "D");
        assert_eq!(access_key(&KEYS, None).unwrap(), "E");
        assert_eq!(access_key(&KEYS, Some("work")).unwrap(), "W");
        assert_eq!(access_key(&[("AWS_PROFILE", "work")], None).unwrap(), "W");
        assert!(access_key(&KEYS, Some("other")).is_err());
        assert!(access_key(&KEYS[..1], None).is_err(), "half a pair is no reason to take another");
    }

    #[test]
    fn endpoint_and_region_come_from_the_nearest_source() {
        let variables = given(&[KEYS[0], KEYS[1], ("AWS_ENDPOINT_URL", "http://e:1"), ("HOME", "/none")]);
        let account = Account::of_environment(&variables, &Overrides::default()).unwrap();
        assert_eq!((account.endpoint.url(), account.region.as_str()), ("http://e:1".to_owned(), REGION));
        let overrides = Overrides {
            endpoint: Some("http://c:2".to_owned()),
            region: Some("r".to_owned()),
            anonymous: true,
            ..Overrides::default()
        };
        let account = Account::of_environment(&variables, &overrides).unwrap();
        assert_eq!((account.endpoint.url(), account.region.as_str()), ("http://c:2".to_owned(), "r"));
        assert!(account.keys.is_none());
        let nowhere = Account::of_environment(&given(&[]), &Overrides::default());
        assert!(matches!(nowhere, Err(Error::Credentials(CredentialsError::Nowhere))));
    }
}
