//! Resources of MinIO's policies as they are written here.
//!
//! MinIO asks the policies of a user for a bucket as `bucket/`, and takes a text without wildcards also
//! without its last slash (`policy/resource.go`, `policy/statement.go` of github.com/minio/pkg). AWS, and so
//! Sherd, asks for `bucket`.
//!
//! ```text
//! MinIO          matches the buckets   and the objects
//! app            app
//! app/*          app                   all in app
//! a*             a...                  all in these
//! app?           app                   those that it matches
//! *-app                                those that it matches, such as b/c-app
//! ```

use super::glob;
use super::limits::RESOURCE_BYTES_MAX;

/// The beginning of a resource of S3.
const ARN: &str = "arn:aws:s3:::";

/// The two lists of resources that stand for one of MinIO's.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Resources {
    /// Match the buckets that MinIO's match.
    pub(super) of_buckets: Vec<String>,
    /// Match the objects that MinIO's match.
    pub(super) of_objects: Vec<String>,
}

impl Resources {
    /// Of a policy of a user. `is_restricting` says that what they match is denied, or left out of an Allow.
    pub(super) fn of_identity(texts: &[String], is_restricting: bool) -> Result<Self, String> {
        let of_buckets = texts.iter().map(|text| buckets(text)).collect::<Result<Vec<_>, _>>()?;
        let of_buckets = sorted(of_buckets.into_iter().flatten().collect());
        Ok(Self { of_buckets, of_objects: objects(texts, is_restricting) })
    }

    /// Of a policy of a bucket, which MinIO asks for `bucket`.
    pub(super) fn of_bucket(texts: &[String], is_restricting: bool) -> Result<Self, String> {
        texts.iter().try_for_each(|text| pattern(text).map(drop))?;
        Ok(Self { of_buckets: sorted(texts.to_vec()), of_objects: objects(texts, is_restricting) })
    }

    /// The one list that matches as both do, if there is one.
    pub(super) fn joined(&self) -> Option<Vec<String>> {
        let Self { of_buckets, of_objects } = self;
        let added = |text: &String| {
            // As a text about objects it matches none, or those that another one matches.
            !has_wildcard(text) || of_objects.iter().any(|known| glob::covers(known, text))
        };
        let kept = |text: &String| {
            let is_of_buckets = !text.trim_start_matches(ARN).contains('/');
            !is_of_buckets || of_buckets.iter().any(|known| glob::covers(known, text))
        };
        let is_same = of_buckets.iter().all(added) && of_objects.iter().all(kept);
        is_same.then(|| sorted([of_buckets.as_slice(), of_objects].concat()))
    }
}

fn has_wildcard(text: &str) -> bool {
    text.contains(['*', '?'])
}

fn sorted(mut texts: Vec<String>) -> Vec<String> {
    texts.sort();
    texts.dedup();
    texts
}

/// A resource behind its `arn:aws:s3:::`.
fn pattern(text: &str) -> Result<&str, String> {
    if text == "*" {
        return Ok(text);
    }
    if text.len() > RESOURCE_BYTES_MAX {
        return Err(format!("a resource has more than {RESOURCE_BYTES_MAX} bytes"));
    }
    let pattern = text.strip_prefix(ARN).filter(|pattern| !pattern.is_empty());
    pattern.ok_or_else(|| format!("the resource {text} is none of S3"))
}

/// The resources that match here the buckets that one of MinIO's matches.
fn buckets(text: &str) -> Result<Vec<String>, String> {
    let pattern = pattern(text)?;
    if text == "*" {
        return Ok(vec![text.to_owned()]);
    }
    let mut found = Vec::new();
    if !pattern.contains(['*', '?', '/']) {
        found.push(pattern);
    }
    let mut rest = pattern;
    while let Some(before) = rest.strip_suffix('*') {
        // The star takes the slash behind the bucket, and in the next turn it takes nothing.
        if !rest.contains('/') && !before.ends_with('*') {
            found.push(rest);
        }
        rest = before;
    }
    if let Some(before) = rest.strip_suffix(['?', '/'])
        && !before.is_empty()
        && !before.contains('/')
    {
        found.push(before);
    }
    Ok(found.into_iter().map(|pattern| format!("{ARN}{pattern}")).collect())
}

/// The resources that match here the objects that MinIO's match. A text without wildcards matches there also
/// the object that has one slash more; it is added where that restricts.
fn objects(texts: &[String], is_restricting: bool) -> Vec<String> {
    let is_whole = |text: &&String| !has_wildcard(text) && text.contains('/') && !text.ends_with('/');
    let added = texts.iter().filter(|text| is_restricting && is_whole(text)).map(|text| format!("{text}/"));
    sorted(texts.iter().cloned().chain(added).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str) -> (Vec<String>, Option<Vec<String>>) {
        let resources = Resources::of_identity(&[format!("{ARN}{text}")], false).expect("of S3");
        let bare = |texts: Vec<String>| texts.iter().map(|text| text.replace(ARN, "")).collect::<Vec<_>>();
        let joined = resources.joined().map(bare);
        (bare(resources.of_buckets), joined)
    }

    #[test]
    fn a_resource_matches_the_buckets_that_it_matched() {
        for (text, buckets, joined) in [
            ("app", &["app"][..], Some(&["app"][..])),
            ("app/*", &["app"], Some(&["app", "app/*"])),
            ("app/", &["app"], Some(&["app", "app/"])),
            ("app/**", &["app"], Some(&["app", "app/**"])),
            ("app/a/*", &[], Some(&["app/a/*"])),
            ("app/a", &[], Some(&["app/a"])),
            ("*", &["*"], Some(&["*"])),
            ("a*", &["a*"], Some(&["a*"])),
            ("${aws:username}/*", &["${aws:username}"], Some(&["${aws:username}", "${aws:username}/*"])),
            ("home-${aws:username}", &["home-${aws:username}"], Some(&["home-${aws:username}"])),
            // Here the first would match objects of other buckets, and the others buckets.
            ("tenant-*-pub/*", &["tenant-*-pub"], None),
            ("app?x/*", &["app?x"], None),
            ("*-pub", &[], None),
            ("log?", &["log"], None),
            ("a**", &["a*"], Some(&["a*", "a**"])),
            ("a?*", &["a", "a?*"], Some(&["a", "a?*"])),
        ] {
            let owned = |texts: &[&str]| texts.iter().map(|text| (*text).to_owned()).collect::<Vec<_>>();
            assert_eq!(of(text), (owned(buckets), joined.map(owned)), "{text}");
        }
        for other in ["app", "*x", "arn:aws:s3:::", "arn:minio:kms:::a"] {
            assert!(Resources::of_identity(&[other.to_owned()], false).is_err(), "{other}");
        }
    }

    #[test]
    fn a_policy_of_a_bucket_was_asked_for_the_bucket_as_here() {
        let texts = [format!("{ARN}app/*")];
        let resources = Resources::of_bucket(&texts, true).expect("of S3");
        assert_eq!((&resources.of_buckets[..], &resources.of_objects[..]), (&texts[..], &texts[..]));
    }

    #[test]
    fn a_denial_of_an_object_is_one_of_its_folder_too() {
        let texts = [format!("{ARN}app/a"), format!("{ARN}app/b*"), format!("{ARN}app")];
        let objects = |is_restricting| {
            let resources = Resources::of_identity(&texts, is_restricting).expect("of S3");
            resources.of_objects.iter().map(|text| text.replace(ARN, "")).collect::<Vec<_>>()
        };
        assert_eq!(objects(true), ["app", "app/a", "app/a/", "app/b*"]);
        assert_eq!(objects(false), ["app", "app/a", "app/b*"]);
    }
}
