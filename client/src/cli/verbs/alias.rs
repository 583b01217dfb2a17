//! `alias`: endpoints and keys under a name.

use std::io::BufRead as _;

use serde_json::json;

use crate::cli::arguments::{AliasArgs, AliasSetArgs, AliasVerb, GlobalArgs};
use crate::cli::exit::Exit;
use crate::cli::output::Output;
use crate::cli::remotes::Remotes;
use crate::cli::session::{VerbResult, usage};
use crate::credentials::alias::{Alias, Aliases, is_alias_name};
use crate::endpoint::Endpoint;
use crate::error::{CredentialsError, Error};

pub(crate) fn alias(output: &Output, global: &GlobalArgs, arguments: AliasArgs) -> VerbResult {
    let path = Remotes::alias_file();
    let mut aliases = Aliases::read(&path).map_err(Error::from)?;
    match arguments.verb {
        AliasVerb::Ls => {
            for (name, alias) in &aliases.alias {
                let Alias { endpoint, access_key, .. } = alias;
                let key = access_key.as_deref().unwrap_or("without keys");
                output.result(
                    || json!({ "alias": name, "endpoint": endpoint, "access_key": access_key }),
                    || format!("{name}://  {endpoint}  {key}"),
                );
            }
        }
        AliasVerb::Rm { name } => {
            aliases.get(&name).map_err(Error::from)?;
            aliases.alias.remove(&name);
            aliases.write(&path)?;
        }
        AliasVerb::Set(arguments) => {
            let name = arguments.name.clone();
            if !is_alias_name(&name) {
                return usage(format!("{name}: an alias is of letters, digits, `-` and `_`, and not s3"));
            }
            let alias = given(global, arguments)?;
            aliases.alias.insert(name, alias);
            aliases.write(&path)?;
        }
    }
    Ok(Exit::Done)
}

/// The alias of the arguments, its secret read from standard input, where no list of processes shows it.
fn given(global: &GlobalArgs, arguments: AliasSetArgs) -> Result<Alias, Error> {
    let AliasSetArgs { name, url, access_key } = arguments;
    let addressing = global.addressing.unwrap_or_default();
    Endpoint::parse(&url, addressing)?;
    let mut secret_key = None;
    if access_key.is_some() {
        let mut line = String::new();
        let read = std::io::stdin().lock().read_line(&mut line);
        read.map_err(Error::file("read", "standard input"))?;
        let secret = line.trim_end_matches(['\r', '\n']);
        if secret.is_empty() {
            return Err(CredentialsError::Half(format!("alias {name}")).into());
        }
        secret_key = Some(secret.to_owned());
    }
    let (region, ca) = (global.region.clone(), global.ca_bundle.clone());
    Ok(Alias { endpoint: url, access_key, secret_key, region, addressing, ca })
}
