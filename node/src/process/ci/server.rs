//! `sherd-node server`: the command line of `minio server`, for files that have it already. A durable node on
//! its directories; what has no meaning here is named and not used.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use clap::Args;
use sherd_core::env::Rng;
use sherd_core::erasure::Geometry;

use super::directory::{is_empty, is_of_minio};
use super::{CiError, Environment, Keys, LoneNode, S3_EVERYWHERE, names, of_others, say_unused};
use crate::process::config::directory::{make_directory, sync_directory};
use crate::process::config::error::ConfigError;
use crate::process::config::settings::Settings;
use crate::process::config::variables::Variables;
use crate::process::config::volumes::{self, InvalidVolumes};

/// The directory of the volume in each directory that is named.
const VOLUME: &str = "sherd";

/// `sherd-node server`.
#[derive(Debug, Args)]
pub struct ServerArgs {
    /// Directories of volumes, or patterns like /data{1...4}: one keeps each object once, several keep half
    /// of themselves for parity
    #[arg(value_name = "DIR", env = names::VOLUMES, value_delimiter = ' ', required = true)]
    pub directories: Vec<String>,
    /// Address of the S3 listener [default: SHERD_LISTEN, MINIO_ADDRESS or :9000]
    #[arg(long, value_name = "ADDRESS")]
    pub address: Option<String>,
    /// Not used: a console is not served
    #[arg(long, value_name = "ADDRESS")]
    pub console_address: Option<String>,
    /// Refused: SHERD_TLS_CERT and SHERD_TLS_KEY name a certificate
    #[arg(long, short = 'S', value_name = "DIR")]
    pub certs_dir: Option<PathBuf>,
    /// Not used
    #[arg(long)]
    pub quiet: bool,
    /// Not used
    #[arg(long)]
    pub anonymous: bool,
    /// Not used: `SHERD_LOG_FORMAT=json` does it
    #[arg(long)]
    pub json: bool,
}

/// Makes what is missing in the directories and configures a durable node on them.
///
/// # Errors
/// [`CiError`] names what cannot be made or is not valid.
pub fn prepare(
    arguments: ServerArgs,
    environment: Environment<'_>,
    variables: Variables,
    rng: &dyn Rng,
) -> Result<LoneNode, CiError> {
    let ServerArgs { directories, address, console_address, certs_dir, quiet, anonymous, json } = arguments;
    let Variables { settings: given, sources } = variables;
    environment.check()?;
    if certs_dir.is_some() {
        return Err(CiError::Certificates);
    }
    let own_buckets = (environment.variable)("SHERD_BUCKETS").filter(|written| !written.is_empty());
    let buckets = names::buckets(own_buckets.as_deref(), environment.variable)?;
    let directories = directories_of(&directories)?;
    let paths = volumes_in(&directories)?;
    let address = address.map(super::address_of).transpose()?;
    let of_minio = names::address(environment.variable).map(super::address_of).transpose()?;
    let listen = address.or(given.listen).or(of_minio).unwrap_or(S3_EVERYWHERE);
    let settings = Settings { listen: Some(listen), ..given };
    // The only copy of a key belongs on no disk whose loss the others outlive.
    let place = match directories.as_slice() {
        [only] => Some(only.as_path()),
        _ => None,
    };
    let keys = Keys::find(environment, &settings, place, rng)?;
    let (settings, has_own_keys) = (of_others(settings, &paths, environment), keys.is_own);
    let config = keys.configure(settings, buckets, rng, &sources)?;
    let flags = [
        (console_address.is_some(), "--console-address"),
        (quiet, "--quiet"),
        (anonymous, "--anonymous"),
        (json, "--json"),
    ];
    let unused = flags.iter().filter(|(is_given, _)| *is_given).map(|(_, flag)| (*flag).to_owned());
    let mut first_line = first_line(&directories, config.shape.geometry);
    say_unused(
        &mut first_line,
        "server",
        &unused.chain(environment.unused(&[], &[names::VOLUMES])).collect::<Vec<_>>(),
    );
    if has_own_keys && let Some(file) = &config.credentials_file {
        writeln!(first_line, "sherd-node server: the root key is in {}", file.display())
            .expect("a String takes every text");
    }
    Ok(LoneNode { config, first_line, has_own_keys: false, _directory: None })
}

/// The volumes of these directories, made while all of them are empty. A directory that is missing, or lacks
/// its volume beside volumes that were used, is a filesystem that is not mounted: it must not become an empty
/// volume.
fn volumes_in(directories: &[PathBuf]) -> Result<Vec<PathBuf>, CiError> {
    if let Some(path) = directories.iter().find(|path| !path.is_dir()) {
        return Err(InvalidVolumes::Absent { path: path.clone() }.into());
    }
    if let Some(path) = directories.iter().find(|path| is_of_minio(path)) {
        return Err(CiError::Foreign { path: path.clone() });
    }
    let volumes: Vec<_> = directories.iter().map(|path| path.join(VOLUME)).collect();
    let mut is_first_start = true;
    for volume in &volumes {
        let refused = |source| ConfigError::CreateDirectory { path: volume.clone(), source };
        is_first_start &= is_empty(volume).map_err(refused)?;
    }
    if is_first_start {
        for (directory, volume) in directories.iter().zip(&volumes) {
            make_directory(volume)?;
            sync_directory(directory)?;
        }
    }
    Ok(volumes)
}

/// The line that says how much may be lost.
fn first_line(directories: &[PathBuf], geometry: Geometry) -> String {
    let place = directories.iter().map(|path| path.display().to_string()).collect::<Vec<_>>().join(", ");
    format!("sherd-node server: one node, {geometry} in {place}\n")
}

/// The directories of a command line, each with its absolute path.
fn directories_of(written: &[String]) -> Result<Vec<PathBuf>, CiError> {
    let mut absolute = Vec::new();
    for text in written.iter().filter(|text| !text.is_empty()) {
        if text.contains("://") {
            return Err(CiError::Remote(text.clone()));
        }
        let path = std::path::absolute(Path::new(text)).unwrap_or_else(|_| text.into());
        absolute.push(path.to_string_lossy().into_owned());
    }
    Ok(volumes::expand(&absolute)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_may_be_patterns_and_lie_on_this_machine() {
        let names = |text: &str| directories_of(&[text.to_owned()]);
        let four = names("/data{1...4}").expect("four");
        assert_eq!((four.len(), four[3].as_path()), (4, Path::new("/data4")));
        assert!(names("data").expect("one")[0].is_absolute());
        assert!(matches!(names("http://n{1...4}/data"), Err(CiError::Remote(_))));
        assert!(directories_of(&[]).is_err());
    }
}
