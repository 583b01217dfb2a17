//! Times as S3 writes them, in headers and in XML.
//!
//! S3 gives an object's time to the second: a listing and a HEAD must say the same.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderValue;
use s3s::dto::Timestamp;

/// The last second that either form can write: the end of the year 9999.
const LAST_SECOND: u64 = 253_402_300_799;

/// The time in XML.
pub(crate) fn in_xml(ms: u64) -> Timestamp {
    Timestamp::from(second(ms))
}

/// The time in a header.
pub(crate) fn in_header(ms: u64) -> HeaderValue {
    HeaderValue::try_from(httpdate::fmt_http_date(second(ms))).expect("an HTTP date is a header value")
}

fn second(ms: u64) -> SystemTime {
    UNIX_EPOCH + Duration::from_secs((ms / 1000).min(LAST_SECOND))
}

#[cfg(test)]
mod tests {
    use s3s::dto::TimestampFormat;

    use super::*;

    #[test]
    fn both_forms_name_the_same_second() {
        let ms = 784_111_777_999;
        assert_eq!(in_header(ms), "Sun, 06 Nov 1994 08:49:37 GMT");
        let mut text = Vec::new();
        in_xml(ms).format(TimestampFormat::DateTime, &mut text).unwrap();
        assert_eq!(text, b"1994-11-06T08:49:37.000Z");
    }

    #[test]
    fn a_time_beyond_all_forms_is_the_last_one() {
        assert_eq!(in_header(u64::MAX), "Fri, 31 Dec 9999 23:59:59 GMT");
        let _ = in_xml(u64::MAX);
    }
}
