//! Sizes of objects, as text the way people write them.

use std::fmt;
use std::str::FromStr;

use crate::limits::OBJECT_BYTES_MAX;

/// A number of bytes, written as `512`, `4KiB`, `1MiB` or `1GiB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Size(pub u64);

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(30, "GiB"), (20, "MiB"), (10, "KiB")];
        match units.iter().find(|(shift, _)| self.0 > 0 && self.0.is_multiple_of(1 << shift)) {
            Some((shift, unit)) => write!(f, "{}{unit}", self.0 >> shift),
            None => write!(f, "{}B", self.0),
        }
    }
}

impl FromStr for Size {
    type Err = MalformedSize;

    fn from_str(text: &str) -> Result<Self, MalformedSize> {
        let size = text.parse::<bytesize::ByteSize>().map_err(|_| MalformedSize::Size(text.to_owned()))?;
        if size.0 > OBJECT_BYTES_MAX { Err(MalformedSize::Large(Self(size.0))) } else { Ok(Self(size.0)) }
    }
}

/// Text that is not the size of an object.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MalformedSize {
    /// Not a size.
    #[error("`{0}` is no size such as 512, 4KiB or 1GiB")]
    Size(String),
    /// Above what one PUT may carry.
    #[error("{0} is more than one PUT may carry, {max}", max = Size(OBJECT_BYTES_MAX))]
    Large(Size),
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_the_way_they_are_read() {
        for text in ["0B", "777B", "4KiB", "64KiB", "1MiB", "1GiB", "1025KiB"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in ["", "x", "-1", "4KiB:1", "6GiB"] {
            assert!(text.parse::<Size>().is_err(), "{text} was taken");
        }
    }
}
