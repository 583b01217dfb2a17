//! The objects of one run: numbered, named so that their order is scattered, sized by their number.
//!
//! Objects are numbered as they are written. A number's name holds its mixed bits, so neighbours in
//! time are not neighbours in the bucket. The objects that exist are a range of numbers less a few that
//! failed; no memory is kept per object.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::sizes::Size;
use crate::client::random::mix;

/// Digits of a name after its prefix.
const DIGITS: usize = 16;
/// Ends the name of a folder.
pub const DELIMITER: char = '/';
/// Sorts after every digit, so that a listing after it begins with another folder.
const BEHIND_DIGITS: char = '~';

/// The objects that a run reads and those that it writes.
#[derive(Clone, Debug)]
pub struct Keys {
    /// Prefix of every name, of letters, digits, `.`, `_`, `-`, `~` and `/`.
    pub prefix: String,
    /// The size of each.
    pub size: Size,
    /// Digits of a name that are its folder, below 16; 0 for no folders.
    pub folder_digits: usize,
    /// Objects with numbers from `begin` up to `end` are there,
    pub begin: u64,
    /// the first number that was never written.
    pub end: u64,
    /// but for these.
    pub absent: BTreeSet<u64>,
}

impl Keys {
    /// No objects yet.
    pub fn new(prefix: &str, size: Size) -> Self {
        Self { prefix: prefix.to_owned(), size, folder_digits: 0, begin: 0, end: 0, absent: BTreeSet::new() }
    }

    /// Objects that exist.
    pub fn count(&self) -> u64 {
        (self.end - self.begin).saturating_sub(self.absent.len() as u64)
    }

    /// The first `count` of the objects that are there, or all when there are fewer.
    #[must_use]
    pub fn first(&self, count: u64) -> Self {
        let mut end = self.begin.saturating_add(count);
        for absent in &self.absent {
            end += u64::from(*absent < end);
        }
        let end = end.min(self.end);
        let absent = self.absent.range(..end).copied().collect();
        Self { prefix: self.prefix.clone(), end, absent, ..*self }
    }

    /// Appends the name of object `key` to `out`.
    pub fn name(&self, key: u64, out: &mut String) {
        out.push_str(&self.prefix);
        push_name(mix(key), self.folder_digits, out);
    }

    /// The objects that are there in the order of a listing.
    pub fn order(&self) -> Order {
        let mut mixed: Vec<u64> = self.present().map(mix).collect();
        mixed.sort_unstable();
        let listed = ListedName::Names { folder_digits: self.folder_digits };
        Order { prefix: self.prefix.clone(), mixed: Arc::from(mixed), listed }
    }

    /// The folders of the objects that are there, in the order of a listing with a delimiter.
    pub fn folders(&self) -> Order {
        let digits = self.folder_digits.min(DIGITS);
        let above = |mixed: u64| mixed.checked_shr(shift_of(digits)).unwrap_or(0);
        let mut mixed: Vec<u64> = self.present().map(|key| above(mix(key))).collect();
        mixed.sort_unstable();
        mixed.dedup();
        Order { prefix: self.prefix.clone(), mixed: Arc::from(mixed), listed: ListedName::Folders { digits } }
    }

    fn present(&self) -> impl Iterator<Item = u64> {
        (self.begin..self.end).filter(|key| !self.absent.contains(key))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum ListedName {
    /// Objects. The digits of their names before a delimiter.
    Names { folder_digits: usize },
    /// Folders. The digits of their names.
    Folders { digits: usize },
}

/// The entries that a listing must have.
#[derive(Clone, Debug)]
pub struct Order {
    prefix: String,
    /// The digits of each name, or of each folder.
    mixed: Arc<[u64]>,
    listed: ListedName,
}

impl Default for Order {
    fn default() -> Self {
        Self { prefix: String::new(), mixed: Arc::default(), listed: ListedName::Names { folder_digits: 0 } }
    }
}

impl Order {
    /// Objects or folders.
    pub fn len(&self) -> usize {
        self.mixed.len()
    }

    /// Whether the order is empty.
    pub fn is_empty(&self) -> bool {
        self.mixed.is_empty()
    }

    /// Whether the order is one of folders.
    pub fn is_of_folders(&self) -> bool {
        matches!(self.listed, ListedName::Folders { .. })
    }

    /// Appends the name of what is listed at `place` to `out`.
    pub fn name(&self, place: usize, out: &mut String) {
        out.push_str(&self.prefix);
        self.push_rest(self.mixed[place], out);
    }

    /// Appends to `out` what a listing that begins at `place`, at least 1, is to start after.
    pub fn before(&self, place: usize, out: &mut String) {
        self.name(place - 1, out);
        if self.is_of_folders() {
            out.push(BEHIND_DIGITS);
        }
    }

    fn push_rest(&self, mixed: u64, out: &mut String) {
        match self.listed {
            ListedName::Names { folder_digits } => push_name(mixed, folder_digits, out),
            ListedName::Folders { digits } => {
                push_digits(mixed, digits, out);
                out.push(DELIMITER);
            }
        }
    }

    /// Whether the names in `listing`, the XML of a ListObjectsV2, are those of `count` objects or folders
    /// from `place` on and no others.
    pub fn is_listed(&self, place: usize, count: usize, listing: &[u8]) -> bool {
        let mut expected = self.mixed.iter().skip(place).take(count);
        let (begin, end, other): (&[u8], &[u8], &[u8]) = match self.listed {
            ListedName::Names { .. } => (b"<Key>", b"</Key>", b"<CommonPrefixes>"),
            ListedName::Folders { .. } => (b"<CommonPrefixes><Prefix>", b"</Prefix>", b"<Key>"),
        };
        if memchr::memmem::find(listing, other).is_some() {
            return false;
        }
        let mut rest = listing;
        let mut digits = String::with_capacity(DIGITS + 1);
        while let Some(at) = memchr::memmem::find(rest, begin) {
            rest = &rest[at + begin.len()..];
            let Some(mixed) = expected.next() else {
                return false;
            };
            digits.clear();
            self.push_rest(*mixed, &mut digits);
            let name = rest
                .strip_prefix(self.prefix.as_bytes())
                .and_then(|rest| rest.strip_prefix(digits.as_bytes()));
            let Some(behind) = name.and_then(|rest| rest.strip_prefix(end)) else {
                return false;
            };
            rest = behind;
        }
        expected.next().is_none()
    }
}

/// Bits by which a number is shifted to leave its first `digits` digits.
fn shift_of(digits: usize) -> u32 {
    u32::try_from((DIGITS - digits) * 4).expect("at most 64 bits")
}

/// All digits of a number, the first `folder_digits` as a folder if there are any.
fn push_name(mixed: u64, folder_digits: usize, out: &mut String) {
    let begin = out.len();
    push_digits(mixed, DIGITS, out);
    if folder_digits > 0 {
        out.insert(begin + folder_digits, DELIMITER);
    }
}

/// The last `count` digits of a number.
fn push_digits(mixed: u64, count: usize, out: &mut String) {
    for shift in (0..count).rev() {
        let digit = u32::try_from(mixed >> (shift * 4) & 0xf).expect("four bits");
        out.push(char::from_digit(digit, 16).expect("below 16"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::sizes::Size;

    fn keys() -> Keys {
        Keys { end: 50, absent: BTreeSet::from([7]), begin: 5, ..Keys::new("p/", Size(1)) }
    }

    fn listing(order: &Order, places: std::ops::Range<usize>) -> String {
        let (begin, end) = if order.is_of_folders() {
            ("<CommonPrefixes><Prefix>", "</Prefix></CommonPrefixes>")
        } else {
            ("<Contents><Key>", "</Key><Size>1</Size></Contents>")
        };
        let mut xml = "<ListBucketResult><Name>b</Name><Prefix>p/</Prefix>".to_owned();
        for place in places {
            xml.push_str(begin);
            order.name(place, &mut xml);
            xml.push_str(end);
        }
        xml + "</ListBucketResult>"
    }

    #[test]
    fn the_first_objects_are_counted_without_the_absent() {
        let keys = keys();
        for count in [0, 1, 2, 3, 43, 44] {
            assert_eq!(keys.first(count).count(), count);
        }
        let three = keys.first(3);
        assert_eq!((three.begin, three.end), (5, 9), "5, 6 and 8");
        assert_eq!(keys.first(100).count(), 44);
    }

    #[test]
    fn the_order_holds_what_is_there_in_the_order_of_names() {
        let (keys, order) = (keys(), keys().order());
        assert_eq!((order.len() as u64, keys.count()), (44, 44));
        let mut names: Vec<String> = (5..50)
            .filter(|key| *key != 7)
            .map(|key| {
                let mut name = String::new();
                keys.name(key, &mut name);
                name
            })
            .collect();
        names.sort();
        for (place, name) in names.iter().enumerate() {
            let mut listed = String::new();
            order.name(place, &mut listed);
            assert_eq!(listed, *name);
        }
    }

    #[test]
    fn a_listing_is_right_only_with_all_names_in_order_and_no_others() {
        let order = keys().order();
        let whole = listing(&order, 10..20);
        assert!(order.is_listed(10, 10, whole.as_bytes()));
        assert!(!order.is_listed(10, 9, whole.as_bytes()), "one too many");
        assert!(!order.is_listed(10, 11, whole.as_bytes()), "one missing");
        assert!(!order.is_listed(9, 10, whole.as_bytes()), "shifted");
        assert!(!order.is_listed(10, 10, whole.replacen("<Key>p/", "<Key>q/", 1).as_bytes()), "another name");
        assert!(order.is_listed(40, 10, listing(&order, 40..44).as_bytes()), "the last page is shorter");
    }

    #[test]
    fn folders_are_what_names_begin_with_each_once() {
        let keys = Keys { end: 500, folder_digits: 2, ..Keys::new("p/", Size(1)) };
        let (names, folders) = (keys.order(), keys.folders());
        let text = |order: &Order, place| {
            let mut name = String::new();
            order.name(place, &mut name);
            name
        };
        let mut expected: Vec<String> =
            (0..names.len()).map(|place| text(&names, place)[..5].to_owned()).collect();
        assert!(expected.iter().all(|folder| folder.starts_with("p/") && folder.ends_with('/')));
        expected.dedup();
        assert!(expected.len() < names.len(), "some share a folder");
        assert_eq!((0..folders.len()).map(|place| text(&folders, place)).collect::<Vec<_>>(), expected);
        let whole = listing(&folders, 5..15);
        assert!(folders.is_listed(5, 10, whole.as_bytes()));
        assert!(!folders.is_listed(5, 11, whole.as_bytes()), "one missing");
        assert!(!folders.is_listed(5, 10, (whole + "<Key>p/x</Key>").as_bytes()), "an object beside them");
        let mut before = String::new();
        folders.before(5, &mut before);
        assert!(before > text(&names, 0) && before < expected[5], "{before}");
        let in_folder_before =
            (0..names.len()).map(|place| text(&names, place)).rfind(|name| name.starts_with(&expected[4]));
        assert!(in_folder_before.is_some_and(|last| last < before), "all of the folder before it is passed");
    }
}
