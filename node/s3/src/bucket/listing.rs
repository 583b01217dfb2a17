//! Listings by name, as every one of them is asked for and shown: keys, versions, uploads.
//!
//! A page that passed many deleted keys ends there: it may be short or empty, and go on.

use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use s3s::dto::{CommonPrefix, EncodingType};
use sherd_core::limits::{LIST_KEYS_MAX, PARTS_MAX};

use crate::answer::Outcome;
use crate::gateway::Gateway;
use crate::request::Request;
use crate::wire::refusal::Refusal;
use sherd_store::object::{BucketRef, ListPage, ListRequest};

/// The characters that `encoding-type=url` leaves as they are.
const URL_SAFE: &AsciiSet =
    &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~').remove(b'/');

/// The parameters that all listings have.
#[derive(Debug)]
pub(crate) struct ListingQuery {
    /// The most entries on its page.
    pub(crate) max: u32,
    pub(crate) prefix: String,
    pub(crate) delimiter: Option<String>,
    pub(crate) encoding: KeyEncoding,
}

impl ListingQuery {
    /// Reads them; `max` is the name of the parameter that bounds a page, `min` the least that it may say.
    ///
    /// # Errors
    /// InvalidArgument for a malformed bound or encoding.
    pub(crate) fn of(request: &Request<'_>, max: &'static str, min: u32) -> Result<Self, Refusal> {
        let asked = request.head.parameter(max)?;
        let encoding = KeyEncoding::of(request.head.text("encoding-type").as_deref())?;
        Ok(Self {
            max: page_size(asked, max, min)?,
            prefix: request.head.text("prefix").unwrap_or_default(),
            delimiter: request.head.text("delimiter").filter(|delimiter| !delimiter.is_empty()),
            encoding,
        })
    }

    /// Asks the store for the page of keys behind `after`. A page that was to be empty has no next one.
    ///
    /// # Errors
    /// As the store answers.
    pub(crate) async fn keys(
        &self,
        gateway: &Gateway,
        bucket: &BucketRef,
        after: Option<String>,
    ) -> Outcome<ListPage> {
        let request = ListRequest {
            bucket: bucket.clone(),
            prefix: self.prefix.clone(),
            delimiter: self.delimiter.clone(),
            after,
            max_keys: self.max,
        };
        let mut page = gateway.objects.list(request).await?;
        page.next = page.next.filter(|_| self.max > 0);
        Ok(page)
    }

    /// The prefix and the delimiter, as the answer repeats them.
    pub(crate) fn repeated(self) -> (String, Option<String>) {
        let Self { prefix, delimiter, encoding, max: _ } = self;
        (encoding.text(prefix), delimiter.map(|delimiter| encoding.text(delimiter)))
    }
}

/// How many entries a page may have: what is asked for, a thousand at most.
///
/// # Errors
/// InvalidArgument below `min`.
pub(crate) fn page_size(asked: Option<i32>, name: &'static str, min: u32) -> Result<u32, Refusal> {
    let Some(asked) = asked else { return Ok(LIST_KEYS_MAX) };
    match u32::try_from(asked) {
        Ok(asked) if asked >= min => Ok(asked.min(LIST_KEYS_MAX)),
        _ => Err(Refusal::bad_argument(
            format!("Argument {name} must be an integer between {min} and 2147483647"),
            name,
            &asked.to_string(),
        )),
    }
}

/// Whether names in an answer are percent-encoded: `encoding-type=url`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct KeyEncoding {
    url: bool,
}

impl KeyEncoding {
    /// Reads the parameter.
    ///
    /// # Errors
    /// InvalidArgument for any other than `url`.
    pub(crate) fn of(asked: Option<&str>) -> Result<Self, Refusal> {
        match asked {
            None => Ok(Self { url: false }),
            Some(EncodingType::URL) => Ok(Self { url: true }),
            Some(other) => {
                let message = "Invalid Encoding Method specified in Request";
                Err(Refusal::bad_argument(message, "encoding-type", other))
            }
        }
    }

    /// A name as the answer writes it.
    pub(crate) fn text(self, text: String) -> String {
        if self.url { utf8_percent_encode(&text, URL_SAFE).to_string() } else { text }
    }

    /// The parameter, as the answer repeats it.
    pub(crate) fn name(self) -> Option<EncodingType> {
        self.url.then(|| EncodingType::from_static(EncodingType::URL))
    }
}

/// One entry of a page.
#[derive(Debug)]
pub(crate) enum PageEntry<T> {
    /// A key, a version, or an upload.
    Named(T),
    /// A common prefix, delimiter included.
    Prefix(String),
}

/// A page as it is shown.
#[derive(Debug)]
pub(crate) struct Page<T> {
    pub(crate) named: Vec<T>,
    pub(crate) common_prefixes: Vec<CommonPrefix>,
    /// Whether its last entry is a named one.
    pub(crate) ends_in_named: bool,
}

impl<T> Page<T> {
    /// Of the store's entries, each described by `described`.
    pub(crate) fn of<E>(
        entries: Vec<E>,
        encoding: KeyEncoding,
        described: impl Fn(E) -> PageEntry<T>,
    ) -> Self {
        let mut page = Self { named: Vec::new(), common_prefixes: Vec::new(), ends_in_named: false };
        for entry in entries {
            let entry = described(entry);
            page.ends_in_named = matches!(entry, PageEntry::Named(_));
            match entry {
                PageEntry::Named(named) => page.named.push(named),
                PageEntry::Prefix(prefix) => {
                    page.common_prefixes.push(CommonPrefix { prefix: Some(encoding.text(prefix)) });
                }
            }
        }
        page
    }

    /// Named entries and prefixes together.
    pub(crate) fn count(&self) -> i32 {
        let count = self.named.len() + self.common_prefixes.len();
        i32::try_from(count).expect("a page has 1000 entries at most")
    }
}

/// The number behind which a page begins; 0 is before them all, and behind the last is nothing.
pub(crate) fn part_marker(marker: i32) -> Result<u16, Refusal> {
    u32::try_from(marker)
        .map(|marker| u16::try_from(marker).map_or(PARTS_MAX, |marker| marker.min(PARTS_MAX)))
        .map_err(|_| {
            let message = "Argument part-number-marker must be an integer between 0 and 2147483647";
            Refusal::bad_argument(message, "part-number-marker", &marker.to_string())
        })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::refusal::Code;

    #[test]
    fn pages_have_a_thousand_entries_at_most() {
        assert_eq!(page_size(None, "max-keys", 0).unwrap(), 1000);
        assert_eq!(page_size(Some(0), "max-keys", 0).unwrap(), 0);
        assert_eq!(page_size(Some(7), "max-keys", 0).unwrap(), 7);
        assert_eq!(page_size(Some(i32::MAX), "max-keys", 0).unwrap(), 1000);
        assert_eq!(page_size(Some(-1), "max-keys", 0).unwrap_err().code, Code::InvalidArgument);
        assert_eq!(page_size(Some(0), "max-uploads", 1).unwrap_err().code, Code::InvalidArgument);
    }

    #[test]
    fn names_are_encoded_when_asked() {
        let (plain, url) = (KeyEncoding::of(None).unwrap(), KeyEncoding::of(Some("url")).unwrap());
        assert_eq!(plain.text("a b/ä+\n".to_owned()), "a b/ä+\n");
        assert_eq!(url.text("a b/ä+\n".to_owned()), "a%20b/%C3%A4%2B%0A");
        assert_eq!((plain.name(), url.name().as_ref().map(EncodingType::as_str)), (None, Some("url")));
        assert!(KeyEncoding::of(Some("utf7")).is_err());
    }

    #[test]
    fn a_page_is_split_into_names_and_prefixes() {
        let url = KeyEncoding::of(Some("url")).unwrap();
        let described = |name: &'static str| match name.strip_suffix('/') {
            Some(_) => PageEntry::Prefix(name.to_owned()),
            None => PageEntry::Named(name),
        };
        let page = Page::of(vec!["a", "p q/", "z"], url, described);
        assert_eq!((&*page.named, page.count(), page.ends_in_named), (&["a", "z"][..], 3, true));
        assert_eq!(page.common_prefixes[0].prefix.as_deref(), Some("p%20q/"));
        assert!(!Page::of(vec!["a", "p/"], url, described).ends_in_named);
        let none = Page::of(Vec::new(), url, described);
        assert_eq!((none.count(), none.ends_in_named), (0, false));
    }
}
