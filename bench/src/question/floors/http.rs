//! Bodies of HTTP: of HTTP/1 in clear as the S3 listener has them, and of HTTP/2 over TLS as nodes had them.
//!
//! ```text
//! http1 get-*   hyper sends a body of frames, a plain socket receives
//! http1 put-*   a plain socket sends, hyper receives frame by frame
//! http2 *       hyper sends and receives, the body's frames are dropped one by one
//! ```

use std::convert::Infallible;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use http_body_util::{BodyExt as _, Empty};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo, TokioTimer};
use parking_lot::Mutex;
use tokio::io::BufReader;
use tokio::runtime::Runtime;

use super::certificates::Sides;
use super::ends::{BoxError, UNITS, connected, connected_async, ended, named, runtime};
use super::gauge::{Gauge, Pass, timed};
use super::payload::{Check, Payload, SharedArrival};
use super::socket;
use super::tls::{SOCKET_BUFFER_BYTES, handshake};
use crate::limits::HEAD_BYTES_MAX;
use crate::question::error::Error;

/// hyper's buffer of a connection of the S3 listener.
const S3_BUFFER_BYTES: usize = 64 << 10;
/// The windows of a connection between nodes.
const STREAM_WINDOW_BYTES: u32 = 2 << 20;
const CONNECTION_WINDOW_BYTES: u32 = 16 << 20;

pub(super) fn measure(gauge: &mut Gauge<'_>) -> Result<(), Error> {
    for unit in UNITS {
        get(gauge, unit)?;
        put(gauge, unit)?;
    }
    for unit in UNITS {
        http2(gauge, unit, false)?;
        http2(gauge, unit, true)?;
    }
    Ok(())
}

/// A body of pieces of the payload, of a known length.
struct PieceBody {
    pieces: Box<dyn Iterator<Item = Bytes> + Send>,
    left: u64,
}

impl PieceBody {
    fn new(payload: &Payload, unit: usize, bytes: u64) -> Self {
        Self { pieces: Box::new(payload.pieces(unit, bytes)), left: bytes }
    }
}

impl Body for PieceBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.next();
        self.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.left == 0
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// Answers a request with a body of as many bytes as its path says.
fn body_of(request: &Request<Incoming>, payload: &Payload, unit: usize) -> Response<PieceBody> {
    let bytes = request.uri().path().trim_start_matches('/').parse().unwrap_or(0);
    Response::new(PieceBody::new(payload, unit, bytes))
}

/// Takes the frames of a body.
async fn drain(mut body: Incoming, arrival: &SharedArrival) -> Result<(), hyper::Error> {
    while let Some(frame) = body.frame().await {
        if let Some(bytes) = frame?.data_ref() {
            arrival.lock().take(bytes);
        }
    }
    Ok(())
}

fn shared(payload: &Payload, check: Check) -> SharedArrival {
    Arc::new(Mutex::new(payload.arrival(check)))
}

/// The client's end, and the server's among the tasks of `runtime`.
fn http1_socket<F, R, B>(runtime: &Runtime, service: F) -> Result<TcpStream, Error>
where
    F: Fn(Request<Incoming>) -> R + Send + 'static,
    R: Future<Output = Result<Response<B>, hyper::Error>> + Send + 'static,
    B: Body<Data = Bytes, Error = Infallible> + Send + 'static,
{
    let (near, far) = connected().map_err(Error::at("connect over loopback"))?;
    far.set_nonblocking(true).map_err(Error::at("connect over loopback"))?;
    let guard = runtime.enter();
    let far = tokio::net::TcpStream::from_std(far).map_err(Error::at("connect over loopback"))?;
    drop(guard);
    // The server's task ends with the client's end.
    runtime.spawn(async move {
        let connection = hyper::server::conn::http1::Builder::new()
            .timer(TokioTimer::new())
            .max_buf_size(S3_BUFFER_BYTES)
            .serve_connection(TokioIo::new(far), service_fn(service));
        drop(connection.await);
    });
    Ok(near)
}

fn get(gauge: &mut Gauge<'_>, unit: usize) -> Result<(), Error> {
    let (runtime, payload) = (runtime()?, gauge.payload.clone());
    let served = payload.clone();
    let mut near =
        http1_socket(&runtime, move |request| std::future::ready(Ok(body_of(&request, &served, unit))))?;
    gauge.measure("http1", &format!("get-{}", named(unit)), |bytes, check| {
        let (received, time) = timed(|| {
            write!(near, "GET /{bytes} HTTP/1.1\r\nhost: x\r\n\r\n")?;
            head(&mut near)?;
            socket::receive(&mut near, &payload, unit, bytes, check)
        });
        Ok(Pass { is_right: received?, sent: None, received: Some(time) })
    })?;
    Ok(())
}

fn put(gauge: &mut Gauge<'_>, unit: usize) -> Result<(), Error> {
    let (runtime, payload) = (runtime()?, gauge.payload.clone());
    let current = Arc::new(Mutex::new(shared(&payload, Check::Count)));
    let taken = Arc::clone(&current);
    let mut near = http1_socket(&runtime, move |request| {
        let arrival = Arc::clone(&taken.lock());
        async move {
            drain(request.into_body(), &arrival).await?;
            Ok(Response::new(Empty::new()))
        }
    })?;
    gauge.measure("http1", &format!("put-{}", named(unit)), |bytes, check| {
        let arrival = shared(&payload, check);
        *current.lock() = Arc::clone(&arrival);
        let (sent, time) = timed(|| {
            write!(near, "PUT / HTTP/1.1\r\nhost: x\r\ncontent-length: {bytes}\r\n\r\n")?;
            socket::send(&mut near, &payload, unit, bytes)?;
            head(&mut near)
        });
        sent?;
        let is_right = arrival.lock().is_whole(bytes);
        Ok(Pass { is_right, sent: Some(time), received: None })
    })?;
    Ok(())
}

/// Reads to the end of a head, byte by byte: few beside the body.
fn head(socket: &mut TcpStream) -> Result<(), BoxError> {
    let mut text = Vec::new();
    while !text.ends_with(b"\r\n\r\n") {
        let mut byte = [0];
        if socket.read(&mut byte)? == 0 || text.len() > HEAD_BYTES_MAX {
            return Err(ended("the head of an answer"));
        }
        text.extend_from_slice(&byte);
    }
    if text.starts_with(b"HTTP/1.1 200 ") { Ok(()) } else { Err("the answer is not 200".into()) }
}

fn http2(gauge: &mut Gauge<'_>, unit: usize, buffered: bool) -> Result<(), Error> {
    let (runtime, payload) = (runtime()?, gauge.payload.clone());
    let mut client = runtime
        .block_on(http2_client(payload.clone(), unit, buffered))
        .map_err(Error::at("connect with HTTP/2"))?;
    let way = if buffered { format!("buffered-{}", named(unit)) } else { named(unit) };
    gauge.measure("http2", &way, |bytes, check| {
        runtime.block_on(async {
            let arrival = shared(&payload, check);
            let request = Request::get(format!("https://localhost/{bytes}")).body(Empty::<Bytes>::new())?;
            client.ready().await?;
            let answer = client.send_request(request).await?;
            let into = Arc::clone(&arrival);
            tokio::spawn(async move { drain(answer.into_body(), &into).await }).await??;
            let is_right = arrival.lock().is_whole(bytes);
            Ok(Pass::of(is_right))
        })
    })?;
    Ok(())
}

type Http2Client = hyper::client::conn::http2::SendRequest<Empty<Bytes>>;

/// A client whose server answers with bodies of frames of a unit; `buffered` as in [`super::tls`].
async fn http2_client(payload: Payload, unit: usize, buffered: bool) -> Result<Http2Client, BoxError> {
    // Reads go past a buffer that is smaller than they are.
    let capacity = if buffered { SOCKET_BUFFER_BYTES } else { 1 };
    let through = |socket| BufReader::with_capacity(capacity, socket);
    let (near, far) = connected_async()?;
    let (near, mut far) = handshake(through(near), through(far), &Sides::new(Some(b"h2"))?).await?;
    if buffered {
        far.get_mut().1.set_buffer_limit(Some(2 * unit));
    }
    let frame = u32::try_from(unit).expect("a frame");
    tokio::spawn(async move {
        let answer = service_fn(move |request: Request<Incoming>| {
            std::future::ready(Ok::<_, Infallible>(body_of(&request, &payload, unit)))
        });
        let connection = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .initial_stream_window_size(STREAM_WINDOW_BYTES)
            .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
            .max_frame_size(frame)
            .serve_connection(TokioIo::new(far), answer);
        drop(connection.await);
    });
    let (client, connection) = hyper::client::conn::http2::Builder::new(TokioExecutor::new())
        .timer(TokioTimer::new())
        .initial_stream_window_size(STREAM_WINDOW_BYTES)
        .initial_connection_window_size(CONNECTION_WINDOW_BYTES)
        .max_frame_size(frame)
        .handshake(TokioIo::new(near))
        .await?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(client)
}
