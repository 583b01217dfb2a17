//! Bodies that are whole, cut, long, wrong and slow.

use super::*;
use futures::stream;
use http_body_util::StreamBody;
use sherd_core::record::ChecksumAlgorithm;

type Parts = Vec<Result<Frame<Bytes>, TransportError>>;

const PATIENCE: BodyTimeouts = BodyTimeouts { idle: Duration::from_secs(20), whole: Duration::from_hours(1) };

fn body(pieces: &[&'static str], arrival: BodyArrival, length: u64) -> CheckedBody<impl ClientBody> {
    let parts: Parts =
        pieces.iter().map(|piece| Ok(Frame::data(Bytes::from_static(piece.as_bytes())))).collect();
    CheckedBody::new(StreamBody::new(stream::iter(parts)), arrival, length, PATIENCE)
}

fn sha256(text: &str) -> BodyArrival {
    BodyArrival::Plain(Some(Sha256::digest(text).into()))
}

fn frames() -> BodyArrival {
    BodyArrival::Framed(Box::new(ChunkedFraming {
        signer: None,
        trailer: Some(ChecksumAlgorithm::Crc32),
        signed_frame_bytes_max: 16 << 20,
    }))
}

/// Reads as an operation does that counts its bytes and never asks beyond them.
async fn first_bytes<B: ClientBody>(
    body: &mut CheckedBody<B>,
    mut wanted: usize,
) -> Result<Vec<u8>, BodyError> {
    let mut read = Vec::new();
    while wanted > 0 {
        let frame = std::future::poll_fn(|cx| Pin::new(&mut *body).poll_frame(cx)).await;
        let bytes = frame.expect("more was promised")?.into_data().expect("data");
        wanted -= bytes.len();
        read.extend_from_slice(&bytes);
    }
    Ok(read)
}

#[tokio::test]
async fn a_whole_body_passes_as_it_came() {
    let collected = collect(body(&["ab", "", "c"], sha256("abc"), 3)).await.expect("whole");
    assert_eq!(collected.bytes, "abc");
    let unsigned = collect(body(&["abc"], BodyArrival::Plain(None), 3)).await.expect("whole");
    assert_eq!(unsigned.bytes, "abc");
}

#[tokio::test]
async fn a_wrong_digest_is_known_before_the_last_bytes_leave() {
    let mut body = body(&["ab", "c"], sha256("abd"), 3);
    let outcome = body.outcome();
    assert!(matches!(first_bytes(&mut body, 3).await, Err(BodyError::Digest { .. })));
    assert!(matches!(outcome.fault(), Some(BodyError::Digest { .. })));
    assert!(first_bytes(&mut body, 1).await.is_err(), "a failed body stays failed");
}

#[tokio::test]
async fn an_empty_body_has_a_digest_too() {
    collect(body(&[], sha256(""), 0)).await.expect("nothing, as declared");
    let wrong = collect(body(&[], sha256("a"), 0)).await;
    assert!(matches!(wrong, Err(BodyError::Digest { .. })));
}

#[tokio::test]
async fn bodies_are_neither_shorter_nor_longer_than_declared() {
    let short = collect(body(&["abc"], BodyArrival::Plain(None), 4)).await;
    assert!(matches!(short, Err(BodyError::Truncated { missing: 1 })));
    let long = collect(body(&["abc", "d"], BodyArrival::Plain(None), 3)).await;
    assert!(matches!(long, Err(BodyError::TooLong)));
    let text = "3\r\nabc\r\n0\r\nx-amz-checksum-crc32:NSRBwg==\r\n\r\n";
    assert!(matches!(collect(body(&[text], frames(), 4)).await, Err(BodyError::Truncated { missing: 1 })));
    assert!(matches!(collect(body(&[text], frames(), 2)).await, Err(BodyError::TooLong)));
}

#[tokio::test]
async fn a_framed_body_brings_its_trailer() {
    let pieces = ["3\r\na", "bc\r\n0\r\nx-amz-check", "sum-crc32:NSRBwg==\r\n", "\r\n"];
    let collected = collect(body(&pieces, frames(), 3)).await.expect("whole");
    assert_eq!(collected.bytes, "abc");
    assert_eq!(
        collected.trailer.map(|trailer| trailer.value),
        Some(http::HeaderValue::from_static("NSRBwg=="))
    );
}

#[tokio::test]
async fn the_last_bytes_wait_for_the_trailer() {
    let mut cut = body(&["3\r\nab", "c\r\n0\r\nx-amz-checksum-crc32:NSRBwg==\r\n"], frames(), 3);
    assert_eq!(first_bytes(&mut cut, 2).await.expect("the first"), b"ab");
    assert!(matches!(first_bytes(&mut cut, 1).await, Err(BodyError::Truncated { missing: 0 })));
    let mut bare = body(&["3\r\nabc\r\n0\r\n\r\n"], frames(), 3);
    assert!(matches!(first_bytes(&mut bare, 3).await, Err(BodyError::Framing(FramingError::Trailer))));
    let mut wrong = body(&["3\r\nabc\r\n0\r\nx-amz-checksum-crc32:no\r\n\r\n"], frames(), 3);
    assert!(matches!(
        first_bytes(&mut wrong, 3).await,
        Err(BodyError::Framing(FramingError::TrailerValue { .. }))
    ));
}

#[tokio::test]
async fn a_broken_connection_is_a_broken_body() {
    let parts: Parts = vec![Ok(Frame::data(Bytes::from_static(b"a"))), Err("reset".into())];
    let body = CheckedBody::new(StreamBody::new(stream::iter(parts)), BodyArrival::Plain(None), 2, PATIENCE);
    assert!(matches!(collect(body).await, Err(BodyError::Broken { .. })));
}

#[tokio::test(start_paused = true)]
async fn a_body_that_stands_still_fails_after_the_idle_time() {
    let parts = stream::once(async { Ok::<_, TransportError>(Frame::data(Bytes::from_static(b"a"))) });
    let still = futures::StreamExt::chain(parts, stream::pending());
    let body = CheckedBody::new(StreamBody::new(Box::pin(still)), BodyArrival::Plain(None), 2, PATIENCE);
    let started = Instant::now();
    assert!(matches!(collect(body).await, Err(BodyError::Slow)));
    assert_eq!(started.elapsed().as_secs(), PATIENCE.idle.as_secs());
}

#[tokio::test(start_paused = true)]
async fn a_body_that_only_drips_fails_after_the_whole_time() {
    let drips = stream::unfold((), |()| async {
        tokio::time::sleep(Duration::from_secs(10)).await;
        Some((Ok::<_, TransportError>(Frame::data(Bytes::from_static(b"a"))), ()))
    });
    let body =
        CheckedBody::new(StreamBody::new(Box::pin(drips)), BodyArrival::Plain(None), 1 << 30, PATIENCE);
    let started = Instant::now();
    assert!(matches!(collect(body).await, Err(BodyError::Slow)));
    assert_eq!(started.elapsed().as_secs(), PATIENCE.whole.as_secs());
}
