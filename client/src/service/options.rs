//! Where a service is, its keys, and the engine's settings.

use sherd_signature::signer::KeyPair;

use crate::credentials::alias::Aliases;
use crate::credentials::source::{Account, Overrides, ProcessVariables, alias_file};
use crate::error::Error;
use crate::transfer::engine::TransferSettings;

/// Options of a service. The default is what AWS's variables and profiles say.
#[derive(Debug, Clone, Default)]
pub struct ServiceOptions {
    /// The name under which `sherd alias set` keeps the service; none takes AWS's variables and profiles.
    pub alias: Option<String>,
    /// Keys that come before all others.
    pub keys: Option<KeyPair>,
    /// Values that come before those of the alias, the environment and the profile.
    pub overrides: Overrides,
    /// Settings of transfers.
    pub transfers: TransferSettings,
}

impl ServiceOptions {
    /// Finds the service. Blocks.
    pub(crate) fn account(&self) -> Result<Account, Error> {
        let Self { alias, keys, overrides, transfers: _ } = self;
        let mut overrides = overrides.clone();
        // With keys of its own the service needs none of the environment, where there may be none.
        overrides.anonymous |= keys.is_some();
        let mut account = match alias {
            None => Account::of_environment(&ProcessVariables, &overrides)?,
            Some(alias) => {
                let aliases = Aliases::read(&alias_file(&ProcessVariables))?;
                Account::of_alias(aliases.get(alias)?, &overrides)?
            }
        };
        if keys.is_some() {
            account.keys.clone_from(keys);
        }
        Ok(account)
    }
}

#[cfg(test)]
mod tests {
    use sherd_signature::Secret;

    use super::*;

    #[test]
    fn given_keys_are_used_and_need_no_others() {
        let pair = KeyPair { access_key: "A".to_owned(), secret: Secret::new("s"), session_token: None };
        let mut options = ServiceOptions { keys: Some(pair), ..ServiceOptions::default() };
        options.overrides.endpoint = Some("http://127.0.0.1:1".to_owned());
        let account = options.account().expect("it has keys");
        assert_eq!(account.keys.expect("given").access_key, "A");
    }
}
