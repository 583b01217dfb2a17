//! Sizes and spans of time as people write them: `64MiB`, `10m`, `30days`.
//!
//! Both parse the same way from a flag, a variable and the file, where a number may also stand without
//! quotes. A bare number is bytes for a size and seconds for a span of time.

use std::fmt;
use std::str::FromStr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use serde::Deserialize;
use serde::de::{Deserializer, Error as _};

/// A number of bytes: `512`, `64KiB`, `1.5GiB`; `kB`, `MB`, `GB` are powers of ten.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct ByteSize(pub u64);

/// The text is not a size.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a size: write bytes or a unit, like 512, 64KiB or 1GiB")]
pub struct InvalidSize {
    /// The text.
    pub text: String,
}

impl FromStr for ByteSize {
    type Err = InvalidSize;

    fn from_str(text: &str) -> Result<Self, InvalidSize> {
        let size = text.parse::<bytesize::ByteSize>();
        size.map(|size| Self(size.as_u64())).map_err(|_| InvalidSize { text: text.to_owned() })
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let units = [(1 << 40, "TiB"), (1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
        match units.into_iter().find(|(unit, _)| self.0 >= *unit && self.0.is_multiple_of(*unit)) {
            Some((unit, name)) => write!(f, "{}{name}", self.0 / unit),
            None => write!(f, "{}", self.0),
        }
    }
}

impl<'de> Deserialize<'de> for ByteSize {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        written(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A quantity in the file, as one would write it in a flag: text, or a number without quotes.
fn written<'de, D: Deserializer<'de>>(deserializer: D) -> Result<String, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged, expecting = "expected a whole number, or text like \"30s\" or \"64MiB\"")]
    enum WrittenQuantity {
        Whole(i64),
        Text(String),
    }
    Ok(match WrittenQuantity::deserialize(deserializer)? {
        WrittenQuantity::Whole(number) => number.to_string(),
        WrittenQuantity::Text(text) => text,
    })
}

/// A span of time: `30`, `500ms`, `30s`, `10m`, `12h`, `30days`, or several together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Period(pub Duration);

/// The text is not a span of time.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{text:?} is not a span of time: write whole seconds or a unit, like 500ms, 30s, 10m or 30days")]
pub struct InvalidPeriod {
    /// The text.
    pub text: String,
}

impl FromStr for Period {
    type Err = InvalidPeriod;

    fn from_str(text: &str) -> Result<Self, InvalidPeriod> {
        let period = match text.parse() {
            Ok(seconds) => Ok(Duration::from_secs(seconds)),
            Err(_) => humantime::parse_duration(text),
        };
        period.map(Self).map_err(|_| InvalidPeriod { text: text.to_owned() })
    }
}

impl fmt::Display for Period {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const DAY: u64 = 24 * 3600;
        match self.0.as_secs() {
            DAY if self.0.subsec_nanos() == 0 => f.write_str("1day"),
            // Otherwise whole days would print as months and years of uneven length.
            seconds if seconds > 0 && seconds.is_multiple_of(DAY) && self.0.subsec_nanos() == 0 => {
                write!(f, "{}days", seconds / DAY)
            }
            _ => write!(f, "{}", humantime::format_duration(self.0)),
        }
    }
}

impl<'de> Deserialize<'de> for Period {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        written(deserializer)?.parse().map_err(D::Error::custom)
    }
}

/// A span of time that may change while others read it, without a lock; at most 584 years.
#[derive(Debug)]
pub struct LivePeriod(AtomicU64);

impl LivePeriod {
    /// A span of time.
    pub fn new(period: Duration) -> Self {
        Self(AtomicU64::new(nanos(period)))
    }

    /// Returns it as it is at this moment.
    pub fn get(&self) -> Duration {
        Duration::from_nanos(self.0.load(Ordering::Relaxed))
    }

    /// Changes it for all that read it from here on.
    pub fn set(&self, period: Duration) {
        self.0.store(nanos(period), Ordering::Relaxed);
    }
}

fn nanos(period: Duration) -> u64 {
    u64::try_from(period.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_take_binary_and_decimal_units_and_bare_bytes() {
        for (text, bytes) in
            [("512", 512), ("64KiB", 65_536), ("64 MiB", 64 << 20), ("1.5GiB", 3 << 29), ("2MB", 2_000_000)]
        {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
    }

    #[test]
    fn an_invalid_size_is_refused_with_the_text() {
        for text in ["", "MiB", "-1", "12 parsecs", "0x10"] {
            assert_eq!(text.parse::<ByteSize>(), Err(InvalidSize { text: text.to_owned() }));
        }
    }

    #[test]
    fn a_size_prints_in_the_largest_whole_unit_and_reads_back() {
        for (bytes, text) in
            [(0, "0"), (1_000, "1000"), (1 << 20, "1MiB"), (96 << 10, "96KiB"), (5 << 30, "5GiB")]
        {
            assert_eq!(ByteSize(bytes).to_string(), text);
            assert_eq!(text.parse(), Ok(ByteSize(bytes)));
        }
    }

    #[test]
    fn spans_of_time_take_units_and_bare_seconds() {
        assert_eq!("10m".parse(), Ok(Period(Duration::from_mins(10))));
        assert_eq!("30days".parse(), Ok(Period(Duration::from_hours(720))));
        assert_eq!("1h 30m".parse(), Ok(Period(Duration::from_mins(90))));
        assert_eq!(Period(Duration::from_hours(365 * 24)).to_string(), "365days");
        assert_eq!(Period(Duration::from_mins(90)).to_string(), "1h 30m");
        assert_eq!("10".parse(), Ok(Period(Duration::from_secs(10))));
        for text in ["", "soon", "-5", "1.5", "10 parsecs"] {
            assert_eq!(text.parse::<Period>(), Err(InvalidPeriod { text: text.to_owned() }));
        }
    }

    #[test]
    fn the_file_may_have_numbers_and_other_values_are_refused_with_the_units() {
        #[derive(Debug, PartialEq, Eq, Deserialize)]
        struct File {
            size: Option<ByteSize>,
            time: Option<Period>,
        }
        let read = |text: &str| toml::from_str::<File>(text).map_err(|error| error.message().to_owned());
        let (size, time) = (Some(ByteSize(4096)), Some(Period(Duration::from_secs(30))));
        assert_eq!(read("size = 4096\ntime = 30"), Ok(File { size, time }));
        assert_eq!(read("size = \"4KiB\"\ntime = \"30s\""), Ok(File { size, time }));
        for (text, unit) in
            [("size = -1", "64KiB"), ("size = 1.5", "64MiB"), ("time = -1", "30s"), ("time = 1.5", "30s")]
        {
            let refusal = read(text).expect_err(text);
            assert!(refusal.contains(unit), "{text}: {refusal}");
        }
        let refusal = read("time = true").expect_err("no time");
        assert!(refusal.contains("30s") && refusal.contains("64MiB"), "{refusal}");
    }
}
