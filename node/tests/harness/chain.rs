//! Compare-and-set as its clients see it: every acknowledged `If-Match` is one link of one chain.
//!
//! Clients replace the version that a HEAD has shown them. Each body is written once, so an entity tag names
//! one write, and the writer has the tag of the version that it replaced. From a key's last version, the
//! links lead back to its first write: an acknowledged write that is not on that way was lost, and two
//! acknowledged writes that replaced the same one cannot both be on it (I-3, I-5).

use std::collections::HashMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::data::{Dice, Home};
use super::s3::{Condition, Failure, Outcome, S3};

/// A write that was sent: by the entity tag of what it wrote.
#[derive(Debug, Clone)]
struct Link {
    replaces: String,
    is_acknowledged: bool,
}

/// The writes of one key.
#[derive(Debug, Default)]
pub(crate) struct Chain {
    links: Mutex<HashMap<String, Link>>,
    answers: AtomicUsize,
    refused: AtomicUsize,
    in_doubt: AtomicUsize,
}

impl Chain {
    /// Writes that were answered.
    pub(crate) fn answers(&self) -> usize {
        self.answers.load(Ordering::Relaxed)
    }

    /// Writes that were answered with 503.
    pub(crate) fn refused(&self) -> usize {
        self.refused.load(Ordering::Relaxed)
    }

    /// Writes of unknown outcome.
    pub(crate) fn in_doubt(&self) -> usize {
        self.in_doubt.load(Ordering::Relaxed)
    }

    /// Writes that were acknowledged.
    pub(crate) fn acknowledged(&self) -> usize {
        let links = self.links.lock().expect("no client panics here");
        links.values().filter(|link| link.is_acknowledged).count()
    }

    /// Replaces what a HEAD shows.
    ///
    /// # Errors
    /// The [`Failure`] of the HEAD, or one of the PUT that leaves open what came of it.
    pub(crate) async fn replace(&self, s3: &S3, dice: &mut Dice, key: &str) -> Outcome<()> {
        let seen = s3.head(key).await?.expect("it is never deleted");
        let body = dice.body(Home::Inline);
        let etag = body.etag();
        self.send(&etag, &seen);
        match s3.put_if(key, body, Condition::IfMatch(seen)).await {
            Ok(()) => self.acknowledge(&etag),
            Err(Failure::Refused { status: 412, .. }) => self.refuse(&etag),
            Err(Failure::Unavailable { status, .. }) => {
                let count = if status == 500 { &self.in_doubt } else { &self.refused };
                count.fetch_add(1, Ordering::Relaxed);
            }
            Err(lost) => return Err(lost),
        }
        self.answers.fetch_add(1, Ordering::Relaxed);
        Ok(())
    }

    fn send(&self, etag: &str, replaces: &str) {
        let link = Link { replaces: replaces.to_owned(), is_acknowledged: false };
        let before = self.links.lock().expect("no client panics here").insert(etag.to_owned(), link);
        assert!(before.is_none(), "a body is written once");
    }

    /// A write that was refused changes nothing: it must not be on the chain.
    fn refuse(&self, etag: &str) {
        self.links.lock().expect("no client panics here").remove(etag);
    }

    fn acknowledge(&self, etag: &str) {
        let mut links = self.links.lock().expect("no client panics here");
        links.get_mut(etag).expect("it was sent").is_acknowledged = true;
    }

    /// Follows the links from the last write to the first, and returns how many acknowledged ones are on the
    /// way.
    pub(crate) fn check(&self, key: &str, first: &str, last: &str) -> usize {
        let links = self.links.lock().expect("no client panics here");
        let mut heirs: HashMap<&str, Vec<&str>> = HashMap::new();
        for (etag, link) in links.iter().filter(|(_, link)| link.is_acknowledged) {
            heirs.entry(&link.replaces).or_default().push(etag);
        }
        let split: Vec<_> = heirs.iter().filter(|(_, heirs)| heirs.len() > 1).collect();
        assert!(split.is_empty(), "{key}: replaced twice, and both were acknowledged: {split:?}");
        let (mut at, mut met, mut passed) = (last, 0, 0);
        while at != first {
            let link = links.get(at).unwrap_or_else(|| panic!("{key}: {at} is of a write that was refused"));
            met += usize::from(link.is_acknowledged);
            passed += 1;
            assert!(passed <= links.len(), "{key}: the links lead round in a circle");
            at = &link.replaces;
        }
        let acknowledged = links.values().filter(|link| link.is_acknowledged).count();
        assert_eq!(met, acknowledged, "{key}: acknowledged writes are missing from its chain");
        met
    }
}
