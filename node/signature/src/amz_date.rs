//! The time a request says it was signed at: `20130524T000000Z`.
//!
//! SigV4 signs the text, policy needs the instant, so a date keeps both. A request may carry it in
//! `x-amz-date` or, older, in `Date` as an HTTP date.

/// A second of time in SigV4's basic ISO 8601 form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AmzDate {
    text: [u8; 16],
    ms: u64,
}

/// Months as HTTP dates spell them.
const MONTHS: [&[u8; 3]; 12] =
    [b"Jan", b"Feb", b"Mar", b"Apr", b"May", b"Jun", b"Jul", b"Aug", b"Sep", b"Oct", b"Nov", b"Dec"];

impl AmzDate {
    /// Parses `yyyymmddThhmmssZ`; nothing for any other text or for a time that does not exist.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let text: [u8; 16] = text.try_into().ok()?;
        let [y0, y1, y2, y3, m0, m1, d0, d1, b'T', h0, h1, n0, n1, s0, s1, b'Z'] = text else {
            return None;
        };
        let year = number(&[y0, y1, y2, y3])?;
        let ms = epoch_ms(
            year,
            number(&[m0, m1])?,
            number(&[d0, d1])?,
            [number(&[h0, h1])?, number(&[n0, n1])?, number(&[s0, s1])?],
        )?;
        Some(Self { text, ms })
    }

    /// Parses the value of a `Date` header: an HTTP date (`Fri, 24 May 2013 00:00:00 GMT`) or the
    /// basic form.
    pub fn parse_http(text: &[u8]) -> Option<Self> {
        if text.len() == 16 {
            return Self::parse(text);
        }
        let text: &[u8; 29] = text.try_into().ok()?;
        let [_, _, _, b',', b' ', d0, d1, b' ', m0, m1, m2, b' ', y0, y1, y2, y3, b' ', time @ ..] = text
        else {
            return None;
        };
        let [h0, h1, b':', n0, n1, b':', s0, s1, b' ', b'G', b'M', b'T'] = time else { return None };
        let month = MONTHS.iter().position(|month| **month == [*m0, *m1, *m2])? + 1;
        let tens = u8::try_from(month / 10).ok()? + b'0';
        let ones = u8::try_from(month % 10).ok()? + b'0';
        Self::parse(&[*y0, *y1, *y2, *y3, tens, ones, *d0, *d1, b'T', *h0, *h1, *n0, *n1, *s0, *s1, b'Z'])
    }

    /// The text, as it is signed.
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.text).expect("parsed from digits, T and Z")
    }

    /// The day part, `20130524`, as it stands in a credential scope.
    pub fn day(&self) -> &str {
        self.as_str().get(..8).expect("the text is 16 ASCII bytes")
    }

    /// Milliseconds since the Unix epoch.
    pub const fn as_ms(&self) -> u64 {
        self.ms
    }

    /// The second that `ms` milliseconds since the Unix epoch lie in; the last one of the year
    /// 9999 for anything later.
    pub fn from_ms(ms: u64) -> Self {
        const LAST_SECOND: u64 = 253_402_300_799;
        let seconds = (ms / 1000).min(LAST_SECOND);
        let (days, second) = (seconds / 86_400, seconds % 86_400);
        // Days since 0000-03-01, so that the leap day is the last of its year.
        let shifted = days + 719_468;
        let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let shifted_month = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
        let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
        let year = era * 400 + year_of_era + u64::from(month <= 2);
        let text = format!(
            "{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z",
            second / 3600,
            second / 60 % 60,
            second % 60
        );
        Self::parse(text.as_bytes()).expect("a calendar date up to the year 9999 parses")
    }

    /// The same second in the form that AWS uses inside error messages: `2013-05-24T00:00:00Z`.
    pub fn extended(&self) -> String {
        let text = self.as_str();
        let part = |range: std::ops::Range<usize>| text.get(range).expect("the text is 16 ASCII bytes");
        format!(
            "{}-{}-{}T{}:{}:{}Z",
            part(0..4),
            part(4..6),
            part(6..8),
            part(9..11),
            part(11..13),
            part(13..15)
        )
    }
}

fn number(digits: &[u8]) -> Option<u64> {
    digits.iter().try_fold(0, |sum, digit| digit.is_ascii_digit().then(|| sum * 10 + u64::from(digit - b'0')))
}

/// Milliseconds from the epoch to a civil time, counting years from March so that leap days come
/// last.
fn epoch_ms(year: u64, month: u64, day: u64, [hour, minute, second]: [u64; 3]) -> Option<u64> {
    let leap = year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let month_days = match month {
        2 => 28 + u64::from(leap),
        4 | 6 | 9 | 11 => 30,
        1..=12 => 31,
        _ => return None,
    };
    if year < 1970 || day == 0 || day > month_days || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let shifted_year = if month <= 2 { year - 1 } else { year };
    let shifted_month = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * shifted_month + 2) / 5 + day - 1;
    let days = shifted_year * 365 + shifted_year / 4 - shifted_year / 100 + shifted_year / 400 + day_of_year;
    Some((((days - 719_468) * 24 + hour) * 60 + minute) * 60_000 + second * 1000)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn both_headers_name_the_same_second() {
        let basic = AmzDate::parse(b"20130524T000000Z").expect("AWS's own example");
        assert_eq!(basic.as_ms(), 1_369_353_600_000);
        assert_eq!(basic.day(), "20130524");
        assert_eq!(basic.extended(), "2013-05-24T00:00:00Z");
        assert_eq!(AmzDate::parse_http(b"Fri, 24 May 2013 00:00:00 GMT"), Some(basic));
        assert_eq!(AmzDate::parse_http(b"20130524T000000Z"), Some(basic));
    }

    #[test]
    fn times_that_do_not_exist_are_refused() {
        for text in [
            "20130524T000000",
            "2013-05-24T00:00",
            "20130229T000000Z",
            "20131301T000000Z",
            "20130500T000000Z",
            "20130524T240000Z",
            "20130524T006000Z",
            "19690101T000000Z",
            "",
            "+0130524T000000Z",
        ] {
            assert_eq!(AmzDate::parse(text.as_bytes()), None, "{text}");
        }
        assert_eq!(AmzDate::parse_http(b"Friday, 24-May-13 00:00:00 GMT"), None);
    }

    proptest! {
        #[test]
        fn every_second_prints_and_parses(seconds in 0u64..=253_402_300_799) {
            let date = AmzDate::from_ms(seconds * 1000);
            prop_assert_eq!(date.as_ms(), seconds * 1000);
            prop_assert_eq!(AmzDate::parse(date.as_str().as_bytes()), Some(date));
        }
    }
}
