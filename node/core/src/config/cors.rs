//! Kind 1: which pages of other origins a browser lets use the bucket (AWS, "Elements of a CORS
//! configuration").
//!
//! ```text
//! cors   := version u8 = 1, n u32, n x rule
//! rule   := id, max age: each 0 u8 | 1 u8 and (text | seconds u32),
//!           n u32, n x method u8, then origins, headers, exposed headers: each n u32, n x text
//! method := 1 GET, 2 PUT, 3 POST, 4 DELETE, 5 HEAD
//! ```
//! All lists keep the order in which they were sent. Whether a client may store a rule is judged where its
//! document is read; what is read here may be any text, and matching it can only fail to allow.

use bytes::Bytes;
use sherd_policy::bytes::allocated;

use crate::codec::{DecodeError, Reader, Writer};

/// The version of the stored form.
const VERSION: u8 = 1;
/// Bytes of the shortest rule: two absent fields and four empty lists.
const SHORTEST_RULE_BYTES: usize = 2 + 4 * 4;

/// Cross-origin rules. The first that a request fulfils counts.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Cors {
    /// In the order in which they were sent.
    pub rules: Vec<CorsRule>,
}

/// One rule.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct CorsRule {
    /// A name for its owner alone.
    pub id: Option<String>,
    /// Origins of pages, each with at most one `*`, which stands for any characters or none.
    pub allowed_origins: Vec<String>,
    /// Methods of requests.
    pub allowed_methods: Vec<CorsMethod>,
    /// Headers that a preflight may ask for, each with at most one `*`.
    pub allowed_headers: Vec<String>,
    /// Headers of an answer that a page may read.
    pub expose_headers: Vec<String>,
    /// Seconds for which a browser keeps the answer to a preflight.
    pub max_age_seconds: Option<u32>,
}

/// Makes the methods: variant, stored number, name.
macro_rules! methods {
    ($($method:ident = $number:literal $name:literal,)+) => {
        /// A method that a rule may allow.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        #[repr(u8)]
        pub enum CorsMethod {
            $(#[doc = concat!("`", $name, "`.")] $method = $number,)+
        }

        impl CorsMethod {
            /// All of them.
            pub const ALL: &'static [Self] = &[$(Self::$method,)+];

            /// Name in a request.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Self::$method => $name,)+
                }
            }
        }
    };
}

methods! {
    Get = 1 "GET",
    Put = 2 "PUT",
    Post = 3 "POST",
    Delete = 4 "DELETE",
    Head = 5 "HEAD",
}

impl CorsMethod {
    /// The method of that name, in its case.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.iter().copied().find(|method| method.name() == name)
    }

    fn of_number(number: u8) -> Result<Self, DecodeError> {
        let found = Self::ALL.iter().copied().find(|method| *method as u8 == number);
        found.ok_or(DecodeError::Invalid { field: "method" })
    }
}

/// A request of a page, or the one that a preflight asks leave for.
#[derive(Debug, Clone, Copy)]
pub struct CorsRequest<'a> {
    /// The page's origin, as the header has it.
    pub origin: &'a [u8],
    /// The method.
    pub method: CorsMethod,
    /// Names of headers that a preflight asks for.
    pub headers: &'a [&'a str],
}

impl Cors {
    /// The first rule that allows a request.
    pub fn matching(&self, request: CorsRequest<'_>) -> Option<&CorsRule> {
        self.rules.iter().find(|rule| rule.allows(request))
    }

    /// Bytes that they keep beside themselves.
    pub(super) fn heap_bytes(&self) -> usize {
        let rules = &self.rules;
        let of_rules = rules.iter().map(CorsRule::heap_bytes).sum::<usize>();
        allocated(rules.capacity() * size_of::<CorsRule>()) + of_rules
    }

    /// The stored bytes.
    pub fn encode(&self) -> Bytes {
        let mut writer = Writer::new();
        writer.u8(VERSION).count(self.rules.len());
        for rule in &self.rules {
            rule.put(&mut writer);
        }
        writer.finish()
    }

    /// From the stored bytes.
    ///
    /// # Errors
    /// [`DecodeError`] on any bytes that [`Self::encode`] does not give.
    pub fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(bytes);
        match reader.u8("version")? {
            VERSION => {}
            version => return Err(DecodeError::Version { field: "cross-origin rules", version }),
        }
        let count = reader.count(SHORTEST_RULE_BYTES, "rules")?;
        let rules = (0..count).map(|_| CorsRule::take(&mut reader)).collect::<Result<_, _>>()?;
        reader.finish("rules")?;
        Ok(Self { rules })
    }
}

impl CorsRule {
    /// Whether it names every origin, so that an answer need not name the page's own.
    pub fn allows_every_origin(&self) -> bool {
        self.allowed_origins.iter().any(|origin| origin == "*")
    }

    fn allows(&self, request: CorsRequest<'_>) -> bool {
        let CorsRequest { origin, method, headers } = request;
        let is_origin = |allowed: &String| fits(allowed, origin, <[u8]>::eq);
        let is_header = |asked: &&str| {
            let fits = |allowed: &String| fits(allowed, asked.as_bytes(), <[u8]>::eq_ignore_ascii_case);
            self.allowed_headers.iter().any(fits)
        };
        self.allowed_methods.contains(&method)
            && self.allowed_origins.iter().any(is_origin)
            && headers.iter().all(is_header)
    }

    /// Bytes that it keeps beside itself.
    fn heap_bytes(&self) -> usize {
        let Self {
            id,
            allowed_origins,
            allowed_methods,
            allowed_headers,
            expose_headers,
            max_age_seconds: _,
        } = self;
        let of_text = |text: &String| allocated(text.capacity());
        let of_lists = [allowed_origins, allowed_headers, expose_headers].into_iter().map(|texts| {
            allocated(texts.capacity() * size_of::<String>()) + texts.iter().map(of_text).sum::<usize>()
        });
        id.as_ref().map_or(0, of_text) + allocated(allowed_methods.capacity()) + of_lists.sum::<usize>()
    }

    fn put(&self, writer: &mut Writer) {
        let Self { id, allowed_origins, allowed_methods, allowed_headers, expose_headers, max_age_seconds } =
            self;
        match id {
            Some(id) => writer.u8(1).blob(id.as_bytes()),
            None => writer.u8(0),
        };
        match max_age_seconds {
            Some(seconds) => writer.u8(1).u32(*seconds),
            None => writer.u8(0),
        };
        writer.count(allowed_methods.len());
        for method in allowed_methods {
            writer.u8(*method as u8);
        }
        for texts in [allowed_origins, allowed_headers, expose_headers] {
            writer.count(texts.len());
            for text in texts {
                writer.blob(text.as_bytes());
            }
        }
    }

    fn take(reader: &mut Reader) -> Result<Self, DecodeError> {
        let id = take_flag(reader, "id")?.then(|| reader.text("id")).transpose()?;
        let max_age_seconds = take_flag(reader, "max age")?.then(|| reader.u32("max age")).transpose()?;
        let count = reader.count(1, "methods")?;
        let methods = (0..count).map(|_| reader.u8("method").and_then(CorsMethod::of_number));
        Ok(Self {
            id,
            max_age_seconds,
            allowed_methods: methods.collect::<Result<_, _>>()?,
            allowed_origins: take_texts(reader, "origins")?,
            allowed_headers: take_texts(reader, "headers")?,
            expose_headers: take_texts(reader, "exposed headers")?,
        })
    }
}

fn take_flag(reader: &mut Reader, field: &'static str) -> Result<bool, DecodeError> {
    match reader.u8(field)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Invalid { field }),
    }
}

fn take_texts(reader: &mut Reader, field: &'static str) -> Result<Vec<String>, DecodeError> {
    let count = reader.count(4, field)?;
    (0..count).map(|_| reader.text(field)).collect()
}

/// Whether a text is of a pattern: the same, or with any characters where the pattern has its `*`.
fn fits(pattern: &str, text: &[u8], is_same: impl Fn(&[u8], &[u8]) -> bool) -> bool {
    let Some((start, end)) = pattern.split_once('*') else { return is_same(pattern.as_bytes(), text) };
    let (start, end) = (start.as_bytes(), end.as_bytes());
    let Some((found, rest)) = text.split_at_checked(start.len()) else { return false };
    let rest = rest.len().checked_sub(end.len()).and_then(|cut| rest.get(cut..));
    is_same(start, found) && rest.is_some_and(|rest| is_same(end, rest))
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::option;
    use proptest::prelude::*;

    use super::*;

    fn texts(texts: &[&str]) -> Vec<String> {
        texts.iter().map(|text| (*text).to_owned()).collect()
    }

    fn rule(origins: &[&str], methods: &[CorsMethod], headers: &[&str]) -> CorsRule {
        CorsRule {
            allowed_origins: texts(origins),
            allowed_methods: methods.to_vec(),
            allowed_headers: texts(headers),
            ..CorsRule::default()
        }
    }

    #[test]
    fn an_origin_fits_with_at_most_one_star() {
        for (allowed, fits, others) in [
            ("*", &["", "https://a.example", "null", "a"][..], &[][..]),
            (
                "https://a.example",
                &["https://a.example"],
                &["http://a.example", "https://a.example/", "HTTPS://a.example", "https://a.example:443", ""],
            ),
            (
                "https://*.example",
                &["https://a.example", "https://a.b.example", "https://.example", "https:///.example"],
                &["https://example", "https://a.example.", "http://a.example", "https://*example"],
            ),
            ("*suffix", &["foo.suffix", "suffix"], &["foo.suffix.get", "uffix"]),
            ("start*end", &["startend", "start1end", "start12end"], &["0start12end", "starend", "start"]),
            ("aba*aba", &["abaaba", "ababaaba"], &["aba", "ababa"]),
            ("prefix*", &["prefix", "prefix.suffix"], &["bla.prefix", "prefi"]),
            ("", &[""], &["a"]),
        ] {
            let rules = Cors { rules: vec![rule(&["nowhere", allowed], &[CorsMethod::Get], &[])] };
            let asked = |origin: &str| {
                let request =
                    CorsRequest { origin: origin.as_bytes(), method: CorsMethod::Get, headers: &[] };
                rules.matching(request).is_some()
            };
            for origin in fits {
                assert!(asked(origin), "{allowed} {origin}");
            }
            for origin in others {
                assert!(!asked(origin), "{allowed} {origin}");
            }
        }
    }

    #[test]
    fn every_header_that_is_asked_for_must_be_allowed_in_any_case() {
        for (allowed, asked, fits) in [
            (&["*"][..], &["x-anything", "authorization"][..], true),
            (&[], &[], true),
            (&[], &["x-amz-date"], false),
            (&["Content-Type", "x-amz-*"], &["CONTENT-type", "X-AMZ-Date", "x-amz-"], true),
            (&["x-amz-*"], &["x-amz-date", "content-type"], false),
            (&["x-*-id"], &["X-Request-ID", "x--id"], true),
            (&["x-*-id"], &["x-id"], false),
            (&["x-amz-date"], &["x-amz-dat"], false),
        ] {
            let rules = Cors { rules: vec![rule(&["*"], &[CorsMethod::Put], allowed)] };
            let request = CorsRequest { origin: b"o", method: CorsMethod::Put, headers: asked };
            assert_eq!(rules.matching(request).is_some(), fits, "{allowed:?} {asked:?}");
        }
    }

    #[test]
    fn the_first_rule_that_is_fulfilled_counts() {
        let rules = Cors {
            rules: vec![
                rule(&["https://a"], &[CorsMethod::Get], &[]),
                rule(&["https://a"], &[CorsMethod::Get, CorsMethod::Put], &["x-a"]),
                rule(&["https://*", "*"], &[CorsMethod::Put, CorsMethod::Delete], &[]),
            ],
        };
        let found = |origin: &str, method, headers: &[&str]| {
            let request = CorsRequest { origin: origin.as_bytes(), method, headers };
            let found = rules.matching(request)?;
            rules.rules.iter().position(|rule| std::ptr::eq(rule, found))
        };
        assert_eq!(found("https://a", CorsMethod::Get, &[]), Some(0));
        assert_eq!(found("https://a", CorsMethod::Get, &["X-A"]), Some(1));
        assert_eq!(found("https://a", CorsMethod::Put, &[]), Some(1));
        assert_eq!(found("https://a", CorsMethod::Delete, &[]), Some(2));
        assert_eq!(found("https://b", CorsMethod::Put, &[]), Some(2));
        assert_eq!(found("https://b", CorsMethod::Get, &[]), None);
        assert_eq!(found("https://a", CorsMethod::Head, &[]), None);
        let every = rules.rules.iter().map(CorsRule::allows_every_origin).collect::<Vec<_>>();
        assert_eq!(every, [false, false, true]);
    }

    #[test]
    fn methods_have_names_in_their_case() {
        for method in CorsMethod::ALL {
            assert_eq!(CorsMethod::of_name(method.name()), Some(*method));
        }
        for name in ["get", "OPTIONS", "PATCH", "*", "", "GET "] {
            assert_eq!(CorsMethod::of_name(name), None, "{name}");
        }
    }

    #[test]
    fn rules_are_these_bytes() {
        let whole = CorsRule {
            id: Some("id".to_owned()),
            expose_headers: texts(&["ETag"]),
            max_age_seconds: Some(3000),
            ..rule(&["*", ""], &[CorsMethod::Head, CorsMethod::Get], &["x-*"])
        };
        let rules = Cors { rules: vec![whole, rule(&["o"], &[CorsMethod::Put], &[])] };
        let golden = "01 02000000 \
             01 02000000 6964 01 b80b0000 02000000 05 01 02000000 01000000 2a 00000000 \
             01000000 03000000 782d2a 01000000 04000000 45546167 \
             00 00 01000000 02 01000000 01000000 6f 00000000 00000000";
        let golden = hex::decode(golden.replace(' ', "")).expect("hex");
        assert_eq!(hex::encode(rules.encode()), hex::encode(&golden));
        assert_eq!(Cors::decode(golden.into()), Ok(rules));
    }

    #[test]
    fn bytes_that_are_no_rules_are_refused() {
        for hex in [
            "",
            "00",
            "0200000000",
            "01",
            "0100000000 00",
            "01ffffffff",
            "0101000000 02 00 00000000 00000000 00000000 00000000",
            "0101000000 00 00 01000000 06 00000000 00000000 00000000",
            "0101000000 00 00 00000000 01000000 01000000 ff 00000000 00000000",
        ] {
            let bytes = hex::decode(hex.replace(' ', "")).expect("hex");
            assert!(Cors::decode(bytes.into()).is_err(), "{hex}");
        }
    }

    fn any_rule() -> impl Strategy<Value = CorsRule> {
        let texts = || vec(".{0,12}", 0..4);
        let methods = vec(proptest::sample::select(CorsMethod::ALL), 0..6);
        (option::of(".{0,12}"), texts(), methods, texts(), texts(), option::of(any::<u32>())).prop_map(
            |(id, allowed_origins, allowed_methods, allowed_headers, expose_headers, max_age_seconds)| {
                CorsRule {
                    id,
                    allowed_origins,
                    allowed_methods,
                    allowed_headers,
                    expose_headers,
                    max_age_seconds,
                }
            },
        )
    }

    proptest! {
        #[test]
        fn what_is_stored_is_read_back(rules in vec(any_rule(), 0..5)) {
            let rules = Cors { rules };
            prop_assert_eq!(Cors::decode(rules.encode()), Ok(rules));
        }

        #[test]
        fn bytes_have_one_reading(bytes in vec(any::<u8>(), 0..80)) {
            let mut bytes = bytes;
            bytes.insert(0, VERSION);
            if let Ok(rules) = Cors::decode(bytes.clone().into()) {
                prop_assert_eq!(rules.encode(), bytes);
            }
        }

        #[test]
        fn a_star_stands_for_any_text(start in "[a-c]{0,3}", middle in "[a-c*]{0,4}", end in "[a-c]{0,3}") {
            let text = format!("{start}{middle}{end}");
            let pattern = format!("{start}*{end}");
            prop_assert!(fits(&pattern, text.as_bytes(), <[u8]>::eq));
        }
    }
}
