//! Times of conditions: the profiles of ISO 8601 that the W3C names, or seconds since 1970.

/// Milliseconds since 1970; none if the text is not a time.
pub(super) fn parse(text: &str) -> Option<i64> {
    let digits = text.strip_prefix('-').unwrap_or(text);
    if digits.bytes().all(|byte| byte.is_ascii_digit()) && digits.len() != 4 {
        return text.parse::<i64>().ok()?.checked_mul(1000);
    }
    let (date, time) = text.split_once(['T', 't']).map_or((text, None), |(date, time)| (date, Some(time)));
    let mut parts = date.split('-');
    let year = number(parts.next()?, 4, 0, 9999)?;
    let month = parts.next().map_or(Some(1), |part| number(part, 2, 1, 12))?;
    let day = parts.next().map_or(Some(1), |part| number(part, 2, 1, days_of(year, month)))?;
    if parts.next().is_some() || (time.is_some() && date.len() != 10) {
        return None;
    }
    let days = days_since_1970(year, month, day);
    Some(days * 86_400_000 + time.map_or(Some(0), time_of_day)?)
}

/// Milliseconds since midnight in UTC of `hh:mm`, `hh:mm:ss` or `hh:mm:ss.s` with a zone.
fn time_of_day(text: &str) -> Option<i64> {
    let zone_at = text.find(['Z', 'z', '+', '-'])?;
    let (time, zone) = (text.get(..zone_at)?, text.get(zone_at..)?);
    let mut parts = time.split(':');
    let hours = number(parts.next()?, 2, 0, 23)?;
    let minutes = number(parts.next()?, 2, 0, 59)?;
    let (seconds, fraction) = match parts.next() {
        None => ("00", None),
        Some(part) => part.split_once('.').map_or((part, None), |(whole, fraction)| (whole, Some(fraction))),
    };
    let seconds = number(seconds, 2, 0, 59)?;
    let milliseconds = match fraction {
        None => 0,
        Some(digits) if !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit()) => {
            digits.bytes().chain(*b"000").take(3).fold(0, |sum, byte| sum * 10 + i64::from(byte - b'0'))
        }
        Some(_) => return None,
    };
    if parts.next().is_some() {
        return None;
    }
    let offset = match zone.split_at(1) {
        ("Z" | "z", "") => 0,
        (sign, rest) => {
            let (hours, minutes) = rest.split_once(':')?;
            let minutes = number(hours, 2, 0, 23)? * 60 + number(minutes, 2, 0, 59)?;
            if sign == "-" { -minutes } else { minutes }
        }
    };
    Some(((hours * 60 + minutes - offset) * 60 + seconds) * 1000 + milliseconds)
}

fn number(text: &str, digits: usize, min: i64, max: i64) -> Option<i64> {
    let is_good = text.len() == digits && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|number| is_good && (min..=max).contains(number))
}

fn days_of(year: i64, month: i64) -> i64 {
    match month {
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        4 | 6 | 9 | 11 => 30,
        _ => 31,
    }
}

/// Days of the Gregorian calendar, with years that begin in March: a leap day is then a year's last.
fn days_since_1970(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let month = (month + 9) % 12;
    let day_of_year = (153 * month + 2) / 5 + day - 1;
    let leap_days = year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400);
    year * 365 + leap_days + day_of_year - 719_468
}
