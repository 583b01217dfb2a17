//! `sherd-node health`: asks the node of this machine or container whether it is ready. For images, which
//! hold neither a shell nor curl.
//!
//! The admin listener is asked, and the S3 listener where that gives no answer: `ci` has its health there.
//! Each question is a connection of its own in clear text.

mod limits;

use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;

use bytes::Bytes;
use clap::Args;
use http::Request;
use http::header::{CONNECTION, HOST};
use http_body_util::Full;
use serde::Deserialize;
use tokio::net::TcpStream;
use tokio::time::{Instant, sleep, timeout};

use self::limits::{ANSWER_PATIENCE, ASK_EVERY};
use crate::process::config::error::ConfigError;
use crate::process::config::settings::Settings;
use crate::process::config::source::Sources;
use crate::process::config::{ADMIN_PORT, S3_PORT};
use crate::process::probe::{ExchangeFailure, send};
use sherd_store::machine::quantity::Period;

/// The path that both listeners answer.
const PATH: &str = "/health/ready";

/// `sherd-node health`.
#[derive(Debug, Args)]
#[command(after_help = "Exit codes: 0 the node is ready, 1 it is not, 2 the command line was refused")]
pub struct HealthArgs {
    /// How long to ask again while the node is not ready
    #[arg(long, value_name = "TIME", default_value = "0s")]
    pub wait: Period,
    /// Configuration of the node, for its addresses
    #[arg(long, env = "SHERD_CONFIG", value_name = "FILE")]
    pub config: Option<PathBuf>,
    /// Address of the node's metrics and health [default: as configured, or 127.0.0.1:9200]
    #[arg(long, env = "SHERD_ADMIN_LISTEN", value_name = "ADDRESS")]
    pub admin_listen: Option<SocketAddr>,
    /// Address of the node's S3 listener [default: as configured, or 127.0.0.1:9000]
    #[arg(long, env = "SHERD_LISTEN", value_name = "ADDRESS")]
    pub listen: Option<SocketAddr>,
}

/// Why the node is not ready.
#[derive(Debug, thiserror::Error)]
pub enum HealthError {
    /// The configuration cannot be read.
    #[error(transparent)]
    Config(#[from] ConfigError),
    /// The system gives no runtime.
    #[error("start a runtime: {0}")]
    Runtime(#[source] io::Error),
    /// The node answers that it is not.
    #[error("not ready: {0}")]
    Answer(String),
    /// Neither listener gives its health.
    #[error("no health at {address}: {failure}")]
    Silent {
        /// The last one that was asked.
        address: SocketAddr,
        /// Why not.
        failure: Failure,
    },
}

/// Why an address gives no health.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// No process listens, or the connection broke.
    #[error(transparent)]
    Exchange(#[from] ExchangeFailure),
    /// The answer is late.
    #[error("no answer within {} s", ANSWER_PATIENCE.as_secs())]
    Late,
    /// The answer is of something else.
    #[error("the answer is not that of a node")]
    Foreign,
}

/// The part of a node's answer that decides.
#[derive(Debug, Deserialize)]
struct ReadinessAnswer {
    ready: bool,
}

/// Asks on a runtime of its own until the node is ready, or the time is over.
///
/// # Errors
/// [`HealthError`] of the last question.
pub fn health(arguments: &HealthArgs) -> Result<(), HealthError> {
    let addresses = addresses_of(arguments)?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.map_err(HealthError::Runtime)?.block_on(async {
        let deadline = Instant::now() + arguments.wait.0;
        loop {
            let asked = ask_all(addresses).await;
            if asked.is_ok() || Instant::now() >= deadline {
                return asked;
            }
            sleep(ASK_EVERY).await;
        }
    })
}

/// The addresses to ask, in order.
fn addresses_of(arguments: &HealthArgs) -> Result<[SocketAddr; 2], ConfigError> {
    let file = arguments.config.as_deref().map(|path| Sources::default().read_file(path)).transpose()?;
    let Settings { listen, admin_listen, .. } = file.unwrap_or_default();
    let on_loopback = |port| SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), port);
    let chosen = |given: Option<SocketAddr>, written: Option<SocketAddr>, port| {
        let address = given.or(written).unwrap_or(on_loopback(port));
        // A listener on all addresses takes IPv4 in any case.
        if address.ip().is_unspecified() { on_loopback(address.port()) } else { address }
    };
    Ok([chosen(arguments.admin_listen, admin_listen, ADMIN_PORT), chosen(arguments.listen, listen, S3_PORT)])
}

/// Asks each address until one gives its health.
async fn ask_all(addresses: [SocketAddr; 2]) -> Result<(), HealthError> {
    let [first, last] = addresses;
    let asked = match ask(first).await {
        Ok(answer) => Ok(answer),
        Err(_) => ask(last).await.map_err(|failure| HealthError::Silent { address: last, failure }),
    };
    asked?.map_err(HealthError::Answer)
}

/// Asks one address: ready, or its words for not.
async fn ask(address: SocketAddr) -> Result<Result<(), String>, Failure> {
    let exchange = async {
        let connected = TcpStream::connect(address).await;
        let stream =
            connected.map_err(|source| ExchangeFailure::Connect { address: address.to_string(), source })?;
        let request = Request::get(PATH).header(HOST, address.to_string()).header(CONNECTION, "close");
        send(stream, request.body(Full::new(Bytes::new()))?).await
    };
    let (_, body) = timeout(ANSWER_PATIENCE, exchange).await.map_err(|_| Failure::Late)??;
    let ReadinessAnswer { ready } = serde_json::from_slice(&body).map_err(|_| Failure::Foreign)?;
    Ok(if ready { Ok(()) } else { Err(String::from_utf8_lossy(&body).trim().to_owned()) })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(config: Option<PathBuf>) -> HealthArgs {
        HealthArgs { wait: "0s".parse().expect("a time"), config, admin_listen: None, listen: None }
    }

    #[test]
    fn the_addresses_are_those_of_the_node() {
        let texts = |arguments: &HealthArgs| {
            addresses_of(arguments).expect("valid").map(|address| address.to_string())
        };
        assert_eq!(texts(&arguments(None)), ["127.0.0.1:9200", "127.0.0.1:9000"]);
        let dir = tempfile::tempdir().expect("a folder");
        let file = dir.path().join("sherd.toml");
        std::fs::write(&file, "listen = \"[::]:1\"\nadmin_listen = \"10.0.0.1:2\"\n").expect("a new file");
        let of_file = arguments(Some(file));
        assert_eq!(texts(&of_file), ["10.0.0.1:2", "127.0.0.1:1"]);
        let given = HealthArgs { listen: Some("[::1]:3".parse().expect("an address")), ..of_file };
        assert_eq!(texts(&given), ["10.0.0.1:2", "[::1]:3"]);
    }
}
