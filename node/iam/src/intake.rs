//! Bodies of requests that are not proven yet: they arrive in a bounded room, and within a short time.
//!
//! ```text
//! head -> lane of short bodies, or of long ones -> body, whole in memory
//!         the slowest of a full lane gives way     -> signature -> turn -> the place ends
//! ```
//! A sender that has no more than the id of a key fills a lane, and keeps no other sender out of it: a body
//! that drips gives way to one that comes. Both lanes and the look-ups of keys together hold fewer
//! connections than there are.

use std::net::IpAddr;
use std::pin::pin;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use http::StatusCode;
use http_body::Body;
use http_body_util::{BodyExt as _, LengthLimitError, Limited};
use sherd_front::unproven::lane::{UnprovenLane, UnprovenPlace};
use sherd_front::unproven::{UnprovenCrowd, UnprovenWork};
use tokio::time::timeout;

use super::fault::Fault;
use super::limits::{BODY_BYTES_PER_SECOND, BODY_TIMEOUT, FORM_BYTES_MAX, SHORT_BODY_BYTES_MAX};

/// The room in which bodies arrive.
#[derive(Debug)]
pub(crate) struct BodyIntake {
    short: UnprovenLane,
    long: UnprovenLane,
}

/// A body that is here, and its place in the room.
#[derive(Debug)]
pub(crate) struct TakenBody {
    /// The body's bytes.
    pub(crate) bytes: Bytes,
    /// Free again when it is dropped; none for a request without a body.
    pub(crate) place: Option<UnprovenPlace>,
}

impl BodyIntake {
    /// An empty room.
    pub(crate) fn new() -> Self {
        Self {
            short: UnprovenLane::new(UnprovenWork::IamShortBodies),
            long: UnprovenLane::new(UnprovenWork::IamLongBodies),
        }
    }

    /// Takes in the body of a request from an address.
    ///
    /// # Errors
    /// RequestEntityTooLarge; RequestTimeout and IncompleteBody; Throttling where it gave way to another one.
    pub(crate) async fn take<B>(&self, from: IpAddr, body: B) -> Result<TakenBody, Fault>
    where
        B: Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        check_length(&body)?;
        if body.is_end_stream() {
            return Ok(TakenBody { bytes: Bytes::new(), place: None });
        }
        // A body that does not say how long it is counts as a long one.
        let length = body.size_hint().upper().unwrap_or(FORM_BYTES_MAX as u64);
        let lane = if length <= SHORT_BODY_BYTES_MAX { &self.short } else { &self.long };
        let mut place = lane.enter(from).await.map_err(|UnprovenCrowd| Fault::throttled())?;
        let patience = BODY_TIMEOUT + Duration::from_secs(length / BODY_BYTES_PER_SECOND);
        let whole = timeout(patience, collect(body, |bytes| place.moved(bytes)));
        // Cancel-safe: the body is given up with its place.
        let bytes = tokio::select! {
            biased;
            collected = whole => collected.map_err(|_| too_slow())??,
            () = place.lost() => return Err(Fault::throttled()),
        };
        place.keep();
        Ok(TakenBody { bytes, place: Some(place) })
    }
}

/// Collects a body of at most [`FORM_BYTES_MAX`], and says how many bytes came each time.
///
/// # Errors
/// RequestEntityTooLarge and IncompleteBody.
pub(crate) async fn collect<B>(body: B, moved: impl Fn(usize)) -> Result<Bytes, Fault>
where
    B: Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    check_length(&body)?;
    let mut body = pin!(Limited::new(body, FORM_BYTES_MAX));
    let mut bytes = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame =
            frame.map_err(|error| if error.is::<LengthLimitError>() { too_long() } else { broken() })?;
        if let Ok(data) = frame.into_data() {
            moved(data.len());
            bytes.extend_from_slice(&data);
        }
    }
    Ok(bytes.freeze())
}

/// Refuses a body that is too long by its head.
fn check_length(body: &impl Body) -> Result<(), Fault> {
    if body.size_hint().lower() > FORM_BYTES_MAX as u64 { Err(too_long()) } else { Ok(()) }
}

fn too_long() -> Fault {
    let message = format!("A request has at most {FORM_BYTES_MAX} bytes.");
    Fault::new("RequestEntityTooLarge", StatusCode::PAYLOAD_TOO_LARGE, message)
}

fn too_slow() -> Fault {
    Fault::new("RequestTimeout", StatusCode::BAD_REQUEST, "The body did not come in time.")
}

fn broken() -> Fault {
    Fault::new("IncompleteBody", StatusCode::BAD_REQUEST, "The body broke off.")
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use futures::{StreamExt as _, stream};
    use http_body::Frame;
    use http_body_util::{Full, StreamBody};
    use tokio::time::{Instant, advance};

    use super::*;

    const FROM: IpAddr = IpAddr::V4(Ipv4Addr::new(10, 0, 0, 1));

    type Broken = Box<dyn std::error::Error + Send + Sync>;

    /// A body of unknown length that begins with these bytes and does not end.
    fn dripping() -> impl Body<Data = Bytes, Error = Broken> + Send {
        let begin = stream::iter([Ok::<_, Broken>(Frame::data(Bytes::from_static(b"Action=")))]);
        StreamBody::new(begin.chain(stream::pending()))
    }

    #[tokio::test(start_paused = true)]
    async fn long_bodies_that_drip_give_way_and_end_in_time() {
        let room = BodyIntake::new();
        let begun = Instant::now();
        let mut dripping: Vec<_> =
            (0..UnprovenWork::IamLongBodies.max()).map(|_| Box::pin(room.take(FROM, dripping()))).collect();
        for body in &mut dripping {
            assert!(futures::poll!(body).is_pending());
        }
        advance(Duration::from_secs(1)).await;
        let long = Full::from(vec![b'a'; FORM_BYTES_MAX]);
        let taken = room.take(FROM, long).await.expect("room for one whose bytes are here");
        assert_eq!(taken.bytes.len(), FORM_BYTES_MAX);
        let code = |taken: Result<TakenBody, Fault>| taken.map(drop).expect_err("it drips").code;
        assert_eq!(code(dripping.remove(0).await), "Throttling");
        for body in dripping {
            assert_eq!(code(body.await), "RequestTimeout");
        }
        assert_eq!(begun.elapsed(), BODY_TIMEOUT + Duration::from_secs(8), "5 s, and 1 s for each 64 KiB");
    }

    #[tokio::test(start_paused = true)]
    async fn whole_bodies_are_waited_for_and_then_refused() {
        let room = BodyIntake::new();
        let mut taken = Vec::new();
        let body = || Full::from(vec![b'a'; 100 << 10]);
        for _ in 0..UnprovenWork::IamLongBodies.max() {
            taken.push(room.take(FROM, body()).await.expect("room"));
        }
        assert_eq!(room.take(FROM, body()).await.expect_err("all wait for turns").code, "Throttling");
        let short = Full::from("Action=ListUsers");
        assert_eq!(room.take(FROM, short).await.expect("it has another lane").bytes.len(), 16);
        taken.pop();
        assert!(room.take(FROM, body()).await.is_ok());
    }

    #[tokio::test]
    async fn a_body_that_is_too_long_is_refused_by_its_head_or_by_its_bytes() {
        let room = BodyIntake::new();
        let by_head = room.take(FROM, Full::from(vec![b'a'; FORM_BYTES_MAX + 1])).await;
        assert_eq!(by_head.expect_err("too long").code, "RequestEntityTooLarge");
        let frames =
            (0..=FORM_BYTES_MAX >> 16).map(|_| Ok::<_, Broken>(Frame::data(vec![0; 1 << 16].into())));
        let by_bytes = room.take(FROM, StreamBody::new(stream::iter(frames))).await;
        assert_eq!(by_bytes.expect_err("too long").code, "RequestEntityTooLarge");
    }
}
