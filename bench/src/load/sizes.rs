//! Sizes of objects: one, a weighted list, or log-normal; as text the way people write them.
//!
//! A size is a function of the object's key, so that a reader knows what to expect without keeping it.

use std::fmt;
use std::str::FromStr;

use super::random::{Random, mix};

/// The largest object of S3 in one PUT is 5 GiB.
pub const SIZE_BYTES_MAX: u64 = 5 << 30;
/// Entries of a weighted list.
const ENTRIES_MAX: usize = 64;

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
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        text.parse::<bytesize::ByteSize>()
            .map(|size| Self(size.0))
            .map_err(|_| Malformed::Size(text.to_owned()))
    }
}

/// How large objects are.
#[derive(Clone, Debug, PartialEq)]
pub enum Sizes {
    /// All of one size.
    Fixed(Size),
    /// Each size with its weight.
    Weighted(Vec<(Size, u64)>),
    /// Half of them below `median`; one in six above `median` times e to the power of `sigma`. None
    /// above `max`.
    LogNormal {
        /// The middle of the distribution.
        median: Size,
        /// Its width, of the size's natural logarithm.
        sigma: f64,
        /// Larger sizes are cut to this one.
        max: Size,
    },
}

/// Text that is no size or no distribution of sizes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Malformed {
    /// Not a size.
    #[error("`{0}` is no size such as 512, 4KiB or 1GiB")]
    Size(String),
    /// Not a distribution.
    #[error("`{0}` is no distribution such as 4KiB:80,1MiB:20 or lognormal:64KiB:1.5:16MiB")]
    Sizes(String),
    /// Above what one PUT may carry.
    #[error("{0} is more than one PUT may carry, {max}", max = Size(SIZE_BYTES_MAX))]
    Large(Size),
}

impl Sizes {
    /// The size of object `key`.
    pub fn of(&self, key: u64) -> u64 {
        match self {
            Self::Fixed(size) => size.0,
            Self::Weighted(entries) => {
                let total = entries.iter().map(|(_, weight)| weight).sum();
                let mut left = Random::new(mix(key)).below(total);
                for (size, weight) in entries {
                    if left < *weight {
                        return size.0;
                    }
                    left -= weight;
                }
                unreachable!("what is below the sum of all weights lies in one of them")
            }
            Self::LogNormal { median, sigma, max } => {
                let mut random = Random::new(mix(key));
                // Box and Muller's transform; 1 minus the fraction is never 0.
                let radius = (-2.0 * (1.0 - random.fraction()).ln()).sqrt();
                let normal = radius * (std::f64::consts::TAU * random.fraction()).cos();
                #[expect(clippy::cast_precision_loss, reason = "sizes are far below 2^53")]
                let drawn = median.0 as f64 * (sigma * normal).exp();
                #[expect(
                    clippy::cast_possible_truncation,
                    clippy::cast_sign_loss,
                    reason = "the cast saturates, and the result is cut to the largest size"
                )]
                let size = drawn.round() as u64;
                size.clamp(1, max.0)
            }
        }
    }

    /// The largest size that may come.
    pub fn max(&self) -> u64 {
        match self {
            Self::Fixed(size) => size.0,
            Self::Weighted(entries) => entries.iter().map(|(size, _)| size.0).max().unwrap_or(0),
            Self::LogNormal { median: _, sigma: _, max } => max.0,
        }
    }
}

impl fmt::Display for Sizes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Fixed(size) => size.fmt(f),
            Self::Weighted(entries) => {
                for (index, (size, weight)) in entries.iter().enumerate() {
                    let comma = if index == 0 { "" } else { "," };
                    write!(f, "{comma}{size}:{weight}")?;
                }
                Ok(())
            }
            Self::LogNormal { median, sigma, max } => write!(f, "lognormal:{median}:{sigma}:{max}"),
        }
    }
}

impl FromStr for Sizes {
    type Err = Malformed;

    fn from_str(text: &str) -> Result<Self, Malformed> {
        let malformed = || Malformed::Sizes(text.to_owned());
        let sizes = if let Some(rest) = text.strip_prefix("lognormal:") {
            let [median, sigma, max] =
                rest.split(':').collect::<Vec<_>>().try_into().map_err(|_| malformed())?;
            let sigma: f64 = sigma.parse().map_err(|_| malformed())?;
            let (median, max): (Size, Size) = (median.parse()?, max.parse()?);
            if !(0.0..=10.0).contains(&sigma) || median.0 == 0 || median > max {
                return Err(malformed());
            }
            Self::LogNormal { median, sigma, max }
        } else if text.contains(':') {
            let mut entries = Vec::new();
            for entry in text.split(',') {
                let (size, weight) = entry.split_once(':').ok_or_else(malformed)?;
                let weight: u32 = weight.trim().parse().map_err(|_| malformed())?;
                entries.push((size.trim().parse()?, u64::from(weight)));
            }
            if entries.len() > ENTRIES_MAX || entries.iter().all(|(_, weight)| *weight == 0) {
                return Err(malformed());
            }
            Self::Weighted(entries)
        } else {
            Self::Fixed(text.parse()?)
        };
        match Size(sizes.max()) {
            max if max.0 > SIZE_BYTES_MAX => Err(Malformed::Large(max)),
            _ => Ok(sizes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_written_the_way_they_are_read() {
        for text in ["0B", "777B", "4KiB", "64KiB", "1MiB", "1GiB", "1025KiB"] {
            assert_eq!(text.parse::<Size>().unwrap().to_string(), text);
        }
        for text in ["4KiB", "4KiB:80,1MiB:20", "lognormal:64KiB:1.5:16MiB"] {
            assert_eq!(text.parse::<Sizes>().unwrap().to_string(), text);
        }
    }

    #[test]
    fn what_is_no_size_is_refused() {
        for text in [
            "",
            "x",
            "-1",
            "4KiB:0",
            "4KiB:1,",
            "4KiB:1,1MiB",
            "lognormal:1MiB:1:4KiB",
            "lognormal:0:1:4",
            "6GiB",
        ] {
            assert!(text.parse::<Sizes>().is_err(), "{text} was taken");
        }
    }

    #[test]
    fn weights_are_kept_and_a_key_keeps_its_size() {
        let sizes: Sizes = "4KiB:80,1MiB:20".parse().unwrap();
        let small = (0..10_000).filter(|key| sizes.of(*key) == 4096).count();
        assert!((7_800..8_200).contains(&small), "{small}");
        assert_eq!(sizes.of(5), sizes.of(5));
        assert_eq!(sizes.max(), 1 << 20);
    }

    #[test]
    fn half_of_a_log_normal_lies_below_its_median_and_nothing_above_its_end() {
        let sizes: Sizes = "lognormal:64KiB:1.5:1MiB".parse().unwrap();
        let drawn: Vec<u64> = (0..10_000).map(|key| sizes.of(key)).collect();
        let below = drawn.iter().filter(|size| **size < 64 << 10).count();
        assert!((4_800..5_200).contains(&below), "{below}");
        assert!(drawn.iter().all(|size| (1..=1 << 20).contains(size)));
        assert!(drawn.iter().any(|size| *size > 300 << 10));
    }
}
