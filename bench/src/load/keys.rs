//! The objects of one run: numbered, named so that their order is scattered, sized by their number.
//!
//! Objects are numbered as they are written. A number's name holds its mixed bits, so neighbours in
//! time are not neighbours in the bucket. What is there is a range of numbers less a few that failed;
//! nothing is kept per object.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::random::mix;
use super::sizes::Sizes;

/// Digits of a name behind its prefix.
const DIGITS: usize = 16;

/// The objects that a run reads and those that it writes.
#[derive(Clone, Debug)]
pub struct Keys {
    /// What every name begins with: letters, digits, `.`, `_`, `-`, `~` and `/`.
    pub prefix: String,
    /// The size of each.
    pub sizes: Sizes,
    /// Objects with numbers from `begin` up to `end` are there,
    pub begin: u64,
    /// the first number that was never written.
    pub end: u64,
    /// but for these.
    pub absent: BTreeSet<u64>,
}

impl Keys {
    /// No objects yet.
    pub fn new(prefix: &str, sizes: Sizes) -> Self {
        Self { prefix: prefix.to_owned(), sizes, begin: 0, end: 0, absent: BTreeSet::new() }
    }

    /// How many objects are there.
    pub fn count(&self) -> u64 {
        (self.end - self.begin).saturating_sub(self.absent.len() as u64)
    }

    /// Appends the name of object `key` to `out`.
    pub fn name(&self, key: u64, out: &mut String) {
        out.push_str(&self.prefix);
        push_digits(mix(key), out);
    }

    /// The objects that are there in the order of a listing.
    pub fn order(&self) -> Order {
        let present = (self.begin..self.end).filter(|key| !self.absent.contains(key));
        let mut mixed: Vec<u64> = present.map(mix).collect();
        mixed.sort_unstable();
        Order { prefix: self.prefix.clone(), mixed: Arc::from(mixed) }
    }
}

/// What a listing must say.
#[derive(Clone, Debug, Default)]
pub struct Order {
    prefix: String,
    mixed: Arc<[u64]>,
}

impl Order {
    /// How many objects there are.
    pub fn len(&self) -> usize {
        self.mixed.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.mixed.is_empty()
    }

    /// Appends the name of the object at `place` to `out`.
    pub fn name(&self, place: usize, out: &mut String) {
        out.push_str(&self.prefix);
        push_digits(self.mixed[place], out);
    }

    /// Whether the names in `listing`, the XML of a ListObjectsV2, are those of `count` objects from
    /// `place` on and no others.
    pub fn is_listed(&self, place: usize, count: usize, listing: &[u8]) -> bool {
        let mut expected = self.mixed.iter().skip(place).take(count);
        let mut rest = listing;
        let mut digits = String::with_capacity(DIGITS);
        while let Some(at) = memchr::memmem::find(rest, b"<Key>") {
            rest = &rest[at + b"<Key>".len()..];
            let Some(mixed) = expected.next() else {
                return false;
            };
            digits.clear();
            push_digits(*mixed, &mut digits);
            let name = rest
                .strip_prefix(self.prefix.as_bytes())
                .and_then(|rest| rest.strip_prefix(digits.as_bytes()));
            let Some(behind) = name.and_then(|rest| rest.strip_prefix(b"</Key>")) else {
                return false;
            };
            rest = behind;
        }
        expected.next().is_none()
    }
}

fn push_digits(mixed: u64, out: &mut String) {
    for shift in (0..DIGITS).rev() {
        let digit = u32::try_from(mixed >> (shift * 4) & 0xf).expect("four bits");
        out.push(char::from_digit(digit, 16).expect("below 16"));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::sizes::Size;

    fn keys() -> Keys {
        Keys { end: 50, absent: BTreeSet::from([7]), begin: 5, ..Keys::new("p/", Sizes::Fixed(Size(1))) }
    }

    fn listing(order: &Order, places: std::ops::Range<usize>) -> String {
        let mut xml = "<ListBucketResult><Name>b</Name>".to_owned();
        for place in places {
            xml.push_str("<Contents><Key>");
            order.name(place, &mut xml);
            xml.push_str("</Key><Size>1</Size></Contents>");
        }
        xml + "</ListBucketResult>"
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
        assert!(!order.is_listed(10, 10, whole.replacen("p/", "q/", 1).as_bytes()), "another name");
        assert!(order.is_listed(40, 10, listing(&order, 40..44).as_bytes()), "the last page is shorter");
    }
}
