//! The image of a cluster's pods: what the specification says of it, before that what a pod served with, and
//! last the operator's own default.

use std::fmt;

use super::remarks::Remark;
use crate::api::{Image, Reason, RecordedImage, StorageCluster};

/// An image: a repository, and a tag, a digest or both.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ImageName {
    /// The repository, with the registry's host and port where it has one.
    pub repository: String,
    /// The tag.
    pub tag: Option<String>,
    /// The digest, as `sha256:` and 64 hexadecimal digits. Where it is given, it decides.
    pub digest: Option<String>,
}

impl fmt::Display for ImageName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.repository)?;
        if let Some(tag) = &self.tag {
            write!(f, ":{tag}")?;
        }
        self.digest.iter().try_for_each(|digest| write!(f, "@{digest}"))
    }
}

impl ImageName {
    /// Returns an image by its tag.
    pub fn tagged(repository: &str, tag: &str) -> Self {
        Self { repository: repository.to_owned(), tag: Some(tag.to_owned()), digest: None }
    }

    /// The image as the status has it.
    pub(super) fn recorded(&self) -> RecordedImage {
        let Self { repository, tag, digest } = self.clone();
        RecordedImage { repository, tag, digest }
    }
}

/// Decides the image. A tag or digest that the specification gives replaces both that are recorded; a part
/// that it leaves out is as recorded, so that an operator of another version does not change the pods of a
/// cluster that it finds; or the operator's own, where the cluster follows it.
pub(super) fn plan_image(cluster: &StorageCluster, fallback: &ImageName) -> ImageName {
    let given = cluster.spec.image.clone().unwrap_or_default();
    let status = cluster.status.as_ref().filter(|_| !cluster.spec.upgrade.follow_operator);
    let parts = status.and_then(|status| status.recorded_image.clone());
    let recorded =
        parts.map(|RecordedImage { repository, tag, digest }| ImageName { repository, tag, digest });
    complete(given, recorded.unwrap_or_else(|| fallback.clone()))
}

/// Says that parts of the image are as recorded, and no default of the operator's: a specification that names
/// no image any more brings back none of before.
pub(super) fn from_status(cluster: &StorageCluster, fallback: &ImageName) -> Option<Remark> {
    let image = plan_image(cluster, fallback);
    let default = complete(cluster.spec.image.clone().unwrap_or_default(), fallback.clone());
    let text = format!(
        "image {image}: what spec.image leaves out is as in status.recordedImage, the image that a pod served with last, and not the default of the operator, {default}; to have another one, name it in spec.image"
    );
    (image != default).then_some(Remark { reason: Reason::ImageFromStatus, text })
}

fn complete(given: Image, recorded: ImageName) -> ImageName {
    let (tag, digest) = match (given.tag, given.digest) {
        (None, None) => (recorded.tag, recorded.digest),
        given => given,
    };
    ImageName { repository: given.repository.unwrap_or(recorded.repository), tag, digest }
}

/// Whether a text is a repository: names with slashes between them, the first perhaps a host with a port.
pub(super) fn is_repository(text: &str) -> bool {
    let mut parts = text.split('/');
    let first = parts.next().unwrap_or_default();
    let (host, port) = first.split_once(':').unwrap_or((first, "0"));
    let ends_well = |part: &str| {
        let is_end = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
        is_end(part.as_bytes().first()) && is_end(part.as_bytes().last())
    };
    let is_name = |part: &str| {
        ends_well(part)
            && part
                .bytes()
                .all(|byte| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"._-".contains(&byte))
    };
    let is_host = |part: &str| {
        ends_well(part) && part.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte))
    };
    let is_port = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    is_host(host) && is_port(port) && parts.all(is_name)
}

/// Whether a text is a tag.
pub(super) fn is_tag(text: &str) -> bool {
    let is_word = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'_';
    (1..=128).contains(&text.len())
        && text.bytes().next().is_some_and(is_word)
        && text.bytes().all(|byte| is_word(byte) || b".-".contains(&byte))
}

/// Whether a text is a digest.
pub(super) fn is_digest(text: &str) -> bool {
    let is_digit = |byte: u8| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte);
    text.strip_prefix("sha256:").is_some_and(|hex| hex.len() == 64 && hex.bytes().all(is_digit))
}
