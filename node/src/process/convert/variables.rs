//! Variables of MinIO: those of the Tenant, and those of its Secret with `config.env`.
//!
//! Domains and region say something here. Of all others names are printed, and values never. A line of the
//! Secret may be a part of a longer value, so a name is printed where it can be one of a variable, and a
//! value where it can be a region or names of hosts.

use serde_json::Value;

use super::error::InvalidTenant;
use super::left_out::{Fields, LeftOut};
use super::limits::REGION_CHARACTERS_MAX;
use super::secrets::Secrets;
use super::tls;

/// The words on root's keys.
pub(super) const CREDENTIALS: &str = "root's keys go into a Secret with AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, which credentials.secretRef names; \
     without it the operator makes them";
/// Variables with root's keys, which [`CREDENTIALS`] is about.
const OF_ROOT: [&str; 2] = ["MINIO_ROOT_USER", "MINIO_ROOT_PASSWORD"];

/// Variables of MinIO that say something here.
#[derive(Debug, Default)]
pub(super) struct MinioVariables {
    pub(super) domains: Vec<String>,
    pub(super) region: Option<String>,
}

impl MinioVariables {
    /// Takes the variables of `env` and of the Secret with `config.env`. Others are named, without values.
    pub(super) fn of(
        spec: &mut Fields,
        secrets: &Secrets,
        left_out: &mut Vec<LeftOut>,
    ) -> Result<Self, InvalidTenant> {
        let mut found = Self::default();
        for mut variable in spec.list("env")? {
            let (name, value) = (variable.take("name"), variable.take("value"));
            let name = name.as_ref().and_then(Value::as_str).unwrap_or_default();
            let value = value.as_ref().and_then(Value::as_str).ok_or("has no text for a value in the Tenant");
            match value.and_then(|value| found.take(name, value)) {
                Ok(()) => variable.leave_rest(left_out),
                Err(words) => left_out.push(LeftOut::new(variable.path, format!("{name} {words}"))),
            }
        }
        let mut reference = spec.object("configuration")?;
        let (path, secret) = (reference.path.clone(), reference.take("name"));
        reference.leave_rest(left_out);
        let Some(secret) = secret else { return Ok(found) };
        let secret = secret.as_str().unwrap_or_default();
        left_out.push(LeftOut::new(path.as_str(), CREDENTIALS));
        if let Some(texts) = secrets.get(secret) {
            let path = format!("{path} (Secret {secret})");
            match texts.get("config.env") {
                Some(lines) => found.take_lines(lines, &path, left_out),
                None => left_out.push(LeftOut::new(path, "it has no text with the key config.env")),
            }
        }
        Ok(found)
    }

    /// Takes the variables of a file for a shell.
    fn take_lines(&mut self, lines: &str, path: &str, left_out: &mut Vec<LeftOut>) {
        let mut other_lines = 0_usize;
        for line in lines.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#')) {
            let line = line.strip_prefix("export ").unwrap_or(line).trim_start();
            let Some((name, value)) = line.split_once('=').filter(|(name, value)| is_variable(name, value))
            else {
                other_lines += 1;
                continue;
            };
            if OF_ROOT.contains(&name) {
                continue;
            }
            if let Err(words) = self.take(name, value.trim_matches(['"', '\''])) {
                left_out.push(LeftOut::new(path, format!("{name} {words}")));
            }
        }
        match other_lines {
            0 => {}
            1 => left_out.push(LeftOut::new(path, "a line that is no variable")),
            count => left_out.push(LeftOut::new(path, format!("{count} lines that are no variables"))),
        }
    }

    /// Takes a variable whole, or gives the reason why not, without its value.
    fn take(&mut self, name: &str, value: &str) -> Result<(), &'static str> {
        match name {
            "MINIO_DOMAIN" => {
                let hosts = value.split(',').map(|host| host.trim().to_ascii_lowercase());
                let hosts: Vec<String> = hosts.filter(|host| !host.is_empty()).collect();
                if !hosts.iter().all(|host| tls::is_name(host)) {
                    return Err("has a value that is no list of names of hosts");
                }
                self.domains.extend(hosts);
            }
            "MINIO_REGION" | "MINIO_REGION_NAME" | "MINIO_SITE_REGION" => {
                if !is_region(value) {
                    return Err("has a value that is no region: lower-case letters, digits and '-'");
                }
                self.region = Some(value.to_owned());
            }
            _ => return Err("is a variable of MinIO"),
        }
        Ok(())
    }
}

/// Whether the name before `=` can be one of a variable. Base64 of capital letters can, too, up to the `=`
/// with which its last line is filled.
fn is_variable(name: &str, value: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_uppercase() || byte.is_ascii_digit() || byte == b'_';
    let is_filled_line = !name.contains('_') && value.trim_matches(['=', '"', '\'']).is_empty();
    let begins_as_one = name.bytes().next().is_some_and(|first| first.is_ascii_uppercase());
    begins_as_one && name.bytes().all(is_letter) && !is_filled_line
}

fn is_region(value: &str) -> bool {
    let is_letter = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=REGION_CHARACTERS_MAX).contains(&value.len()) && value.bytes().all(is_letter)
}
