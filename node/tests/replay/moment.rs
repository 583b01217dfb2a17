//! Moments as requests write them, as seconds since 1970.

use std::time::{Duration, SystemTime};

use time::{Date, Month, OffsetDateTime, PrimitiveDateTime, Time};

/// The seconds of this machine's clock.
pub(crate) fn now_s() -> i64 {
    OffsetDateTime::now_utc().unix_timestamp()
}

/// As `20130524T000000Z`.
pub(crate) fn basic(moment: i64) -> String {
    let date = OffsetDateTime::from_unix_timestamp(moment).unwrap_or(OffsetDateTime::UNIX_EPOCH);
    let (year, month, day) = (date.year(), u8::from(date.month()), date.day());
    format!("{year:04}{month:02}{day:02}T{:02}{:02}{:02}Z", date.hour(), date.minute(), date.second())
}

/// From `20130524T000000Z`; nothing where it is something else.
pub(crate) fn from_basic(text: &str) -> Option<i64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    if date.len() != 8 || time.len() != 6 || !text.is_ascii() {
        return None;
    }
    let number = |text: &str| text.parse::<u8>().ok();
    let month = Month::try_from(number(&date[4..6])?).ok()?;
    let date = Date::from_calendar_date(date[..4].parse().ok()?, month, number(&date[6..])?).ok()?;
    let time = Time::from_hms(number(&time[..2])?, number(&time[2..4])?, number(&time[4..])?).ok()?;
    Some(PrimitiveDateTime::new(date, time).assume_utc().unix_timestamp())
}

/// As `Fri, 24 May 2013 00:00:00 GMT`.
pub(crate) fn http(moment: i64) -> String {
    let since = Duration::from_secs(u64::try_from(moment).unwrap_or(0));
    httpdate::fmt_http_date(SystemTime::UNIX_EPOCH + since)
}

/// From `Fri, 24 May 2013 00:00:00 GMT` and the older forms.
pub(crate) fn from_http(text: &str) -> Option<i64> {
    let since = httpdate::parse_http_date(text).ok()?.duration_since(SystemTime::UNIX_EPOCH).ok()?;
    i64::try_from(since.as_secs()).ok()
}
