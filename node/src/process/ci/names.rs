//! Names of variables under which keys, a region and buckets stand already in files that were written
//! for another store: those of MinIO, of Bitnami's image of it, and of AWS's SDKs.
//!
//! Sherd's own name wins, then MinIO's, then AWS's. A variable that is empty is not set.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use crate::process::config::credentials::{
    ACCESS_KEY_LINE, ACCESS_KEY_VARIABLE, Credentials, InvalidCredentials, SECRET_KEY_LINE,
    SECRET_KEY_VARIABLE,
};
use crate::process::config::first_buckets::{FirstBucket, InvalidBuckets};

/// Looks a variable up.
pub(crate) type Lookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// Pairs of a key's id and its secret that stand before a file of credentials, and those behind it.
const OWN_KEYS: [&str; 2] = [ACCESS_KEY_VARIABLE, SECRET_KEY_VARIABLE];
const OTHER_KEYS: [[&str; 2]; 3] = [
    ["MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"],
    ["MINIO_ACCESS_KEY", "MINIO_SECRET_KEY"],
    [ACCESS_KEY_LINE, SECRET_KEY_LINE],
];
/// Names of the region beside `SHERD_REGION`.
const REGIONS: [&str; 5] =
    ["MINIO_REGION", "MINIO_SITE_REGION", "MINIO_REGION_NAME", "AWS_REGION", "AWS_DEFAULT_REGION"];
/// The buckets of Bitnami's image, beside `SHERD_BUCKETS`.
const BUCKETS: &str = "MINIO_DEFAULT_BUCKETS";
/// The start of MinIO's variables.
const MINIO: &str = "MINIO_";
/// The address of MinIO's S3 listener.
pub(crate) const ADDRESS: &str = "MINIO_ADDRESS";
/// The directories of MinIO, which `server` alone reads.
pub(crate) const VOLUMES: &str = "MINIO_VOLUMES";

fn read(variable: Lookup<'_>, name: &str) -> Option<String> {
    variable(name).filter(|value| !value.is_empty())
}

/// Returns the key pair of Sherd's own variables, or, where no `file` of credentials is named, the first of
/// the others; `None` where none is set.
///
/// # Errors
/// [`InvalidCredentials`] where one half of that pair is missing or malformed.
pub(crate) fn credentials(
    variable: Lookup<'_>,
    has_file: bool,
) -> Result<Option<Credentials>, InvalidCredentials> {
    let others: &[_] = if has_file { &[] } else { &OTHER_KEYS };
    for names in std::iter::once(&OWN_KEYS).chain(others) {
        if let Some(found) = Credentials::from_pair(variable, *names)? {
            return Ok(Some(found));
        }
    }
    Ok(None)
}

/// Returns the region of the first variable that is set, beside Sherd's own.
pub(crate) fn region(variable: Lookup<'_>) -> Option<String> {
    REGIONS.into_iter().find_map(|name| read(variable, name))
}

/// Returns the buckets that `own` lists, or else those of MinIO's variable.
///
/// # Errors
/// [`InvalidBuckets`] names the bucket and the fault.
pub(crate) fn buckets(own: Option<&str>, variable: Lookup<'_>) -> Result<Vec<FirstBucket>, InvalidBuckets> {
    let written =
        own.filter(|written| !written.is_empty()).map(str::to_owned).or_else(|| read(variable, BUCKETS));
    FirstBucket::parse_list(&written.unwrap_or_default())
}

/// Returns the address that MinIO's variable names, as it is written.
pub(crate) fn address(variable: Lookup<'_>) -> Option<String> {
    read(variable, ADDRESS)
}

/// Reads `:9000`, `localhost:9000` and `127.0.0.1:9000`.
pub(crate) fn parse_address(text: &str) -> Option<SocketAddr> {
    if let Ok(address) = text.parse() {
        return Some(address);
    }
    let (host, port) = text.rsplit_once(':')?;
    let ip = match host {
        "" => IpAddr::V6(Ipv6Addr::UNSPECIFIED),
        "localhost" => IpAddr::V4(Ipv4Addr::LOCALHOST),
        _ => return None,
    };
    Some(SocketAddr::new(ip, port.parse().ok()?))
}

/// Returns MinIO's variables among `names` that nothing here reads, in order; the caller reads `further`
/// ones.
pub(crate) fn ignored(names: impl Iterator<Item = String>, further: &[&str]) -> Vec<String> {
    let is_read = |name: &str| {
        let keys = OTHER_KEYS.iter().flatten().copied();
        keys.chain(REGIONS).chain([BUCKETS, ADDRESS]).chain(further.iter().copied()).any(|read| read == name)
    };
    let mut ignored: Vec<String> = names.filter(|name| name.starts_with(MINIO) && !is_read(name)).collect();
    ignored.sort();
    ignored
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(pairs: &'static [(&'static str, &'static str)]) -> impl Fn(&str) -> Option<String> {
        |name| pairs.iter().find(|(found, _)| *found == name).map(|(_, value)| (*value).to_owned())
    }

    #[test]
    fn the_first_pair_that_is_set_is_the_root_key() {
        const ALL: [(&str, &str); 8] = [
            ("SHERD_ACCESS_KEY_ID", "own"),
            ("SHERD_SECRET_ACCESS_KEY", "own-secret"),
            ("MINIO_ROOT_USER", "root"),
            ("MINIO_ROOT_PASSWORD", "root-password"),
            ("MINIO_ACCESS_KEY", "old"),
            ("MINIO_SECRET_KEY", "old-secret"),
            ("AWS_ACCESS_KEY_ID", "aws"),
            ("AWS_SECRET_ACCESS_KEY", "aws-secret"),
        ];
        let id = |skipped: usize, has_file| {
            let set = &ALL[skipped..];
            let variable = |name: &str| {
                set.iter().find(|(found, _)| *found == name).map(|(_, value)| (*value).to_owned())
            };
            credentials(&variable, has_file).expect("valid").map(|found| found.access_key_id)
        };
        for (skipped, expected) in [(0, "own"), (2, "root"), (4, "old"), (6, "aws")] {
            assert_eq!(id(skipped, false).as_deref(), Some(expected));
        }
        assert_eq!(id(8, false), None);
        // A file of credentials stands before the names of others.
        assert_eq!(id(0, true).as_deref(), Some("own"));
        assert_eq!(id(2, true), None);
    }

    #[test]
    fn keys_of_minios_lengths_are_taken_and_half_a_pair_is_not() {
        let shortest = of(&[("MINIO_ROOT_USER", "abc"), ("MINIO_ROOT_PASSWORD", "12345678")]);
        let found = credentials(&shortest, false).expect("valid").expect("set");
        assert_eq!((found.access_key_id.as_str(), found.secret_access_key.expose()), ("abc", "12345678"));
        let half = of(&[("MINIO_ROOT_USER", "abc"), ("AWS_ACCESS_KEY_ID", "aws")]);
        let error = credentials(&half, false).expect_err("half of a pair");
        assert!(error.to_string().starts_with("MINIO_ROOT_PASSWORD is not set"), "{error}");
        let empty = of(&[("MINIO_ROOT_USER", ""), ("MINIO_ROOT_PASSWORD", "")]);
        assert_eq!(credentials(&empty, false).expect("valid"), None);
    }

    #[test]
    fn region_and_buckets_have_the_names_of_others() {
        let both =
            of(&[("AWS_DEFAULT_REGION", "a"), ("MINIO_SITE_REGION", "m"), ("MINIO_DEFAULT_BUCKETS", "abc")]);
        assert_eq!(region(&both).as_deref(), Some("m"));
        assert_eq!(region(&of(&[("AWS_DEFAULT_REGION", "a")])).as_deref(), Some("a"));
        assert_eq!(region(&of(&[])), None);
        assert_eq!(buckets(None, &both).expect("valid")[0].name, "abc");
        assert_eq!(buckets(Some("own-bucket"), &both).expect("valid")[0].name, "own-bucket");
    }

    #[test]
    fn addresses_are_those_of_minio() {
        for (text, expected) in [
            (":9000", "[::]:9000"),
            ("127.0.0.1:1", "127.0.0.1:1"),
            ("[::1]:2", "[::1]:2"),
            ("localhost:3", "127.0.0.1:3"),
        ] {
            assert_eq!(parse_address(text).expect(text).to_string(), expected);
        }
        for text in ["9000", "minio.example.com:9000", ":x", ""] {
            assert_eq!(parse_address(text), None, "{text}");
        }
    }

    #[test]
    fn variables_of_minio_that_nothing_reads_are_named() {
        let names = ["MINIO_BROWSER", "MINIO_ROOT_USER", "AWS_REGION", "HOME", "MINIO_API_SELECT_PARQUET"];
        let ignored = ignored(names.into_iter().map(str::to_owned), &[]);
        assert_eq!(ignored, ["MINIO_API_SELECT_PARQUET", "MINIO_BROWSER"]);
    }
}
