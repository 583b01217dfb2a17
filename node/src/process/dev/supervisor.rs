//! The process of `dev --nodes`: starts its nodes, starts dead ones again, ends all in order.
//!
//! ```text
//! held (nX/hold is there) -> volumes made -> process started -> serves
//!        ^                                       |
//!        +--------- 2 s after it ended <---------+
//! ```
//!
//! Everything runs on the thread that called [`supervise`]: nodes end with the thread that started them. A
//! node that ends by itself before all of them served once ends the whole with its own exit code. One that
//! was stopped by SIGSTOP has not ended.

use std::cell::Cell;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::PathBuf;
use std::process::ExitStatus;
use std::time::Duration;

use futures::future::join_all;
use rustix::process::Signal;
use tokio::sync::watch;
use tokio::time::sleep;

use super::child::NodeProcess;
use super::lines::NodeLog;
use super::nodes::{DevCluster, DevError, DevNode};
use crate::process::config::error::ConfigError;
use crate::process::dev::limits::{END_PATIENCE, HOLD_EVERY, RESTART_AFTER};
use crate::process::exit::Exit;
use crate::server::{Shutdown, on_signals};

/// Why the nodes ended otherwise than asked.
#[derive(Debug, thiserror::Error)]
pub enum SuperviseError {
    /// Timers, signal handlers or the own binary cannot be used.
    #[error("start supervisor: {0}")]
    Start(#[source] io::Error),
    /// A node does not start.
    #[error("node {name} ended with code {code} before the cluster was up")]
    Refused {
        /// Name of the node.
        name: String,
        /// Exit code of its process.
        code: u8,
    },
    /// Nodes did not end in order.
    #[error("not all nodes ended in order: {}", names.join(", "))]
    Unfinished {
        /// Names of the nodes.
        names: Vec<String>,
    },
}

impl SuperviseError {
    /// Returns the exit code of the supervisor.
    pub const fn exit_code(&self) -> u8 {
        match self {
            Self::Start(_) => Exit::Failed as u8,
            Self::Refused { code, .. } => *code,
            Self::Unfinished { .. } => Exit::Unfinished as u8,
        }
    }
}

/// Runs the nodes until a signal stops the process; `announce` is called once, when all that are not held
/// down serve.
///
/// # Errors
/// [`SuperviseError`] when the nodes do not start, or do not end in order.
pub fn supervise(cluster: &DevCluster, announce: impl FnOnce()) -> Result<(), SuperviseError> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(SuperviseError::Start)?;
    let program = std::env::current_exe().map_err(SuperviseError::Start)?;
    runtime.block_on(async {
        let shutdown = Shutdown::new();
        let signals = on_signals(shutdown.clone()).map_err(SuperviseError::Start)?;
        let supervision = Supervision {
            program,
            shutdown,
            is_up: Cell::new(false),
            refused: Cell::new(None),
            show_log: cluster.show_log,
        };
        let nodes = run_nodes(&cluster.nodes, &supervision, announce);
        // Cancel-safe: the signals' future ends with the process or not at all.
        let unfinished = tokio::select! {
            biased;
            () = signals => Vec::new(),
            unfinished = nodes => unfinished,
        };
        if let Some((name, code)) = supervision.refused.take() {
            return Err(SuperviseError::Refused { name, code });
        }
        if unfinished.is_empty() { Ok(()) } else { Err(SuperviseError::Unfinished { names: unfinished }) }
    })
}

struct Supervision {
    program: PathBuf,
    /// Whether the terminal shows the nodes' logs.
    show_log: bool,
    shutdown: Shutdown,
    /// Whether all nodes served once: from then on each node that ends starts again.
    is_up: Cell<bool>,
    /// The first node that did not start, and its exit code.
    refused: Cell<Option<(String, u8)>>,
}

/// Keeps all nodes running until the end, and names those that did not end in order.
async fn run_nodes(nodes: &[DevNode], supervision: &Supervision, announce: impl FnOnce()) -> Vec<String> {
    let (started, lives): (Vec<_>, Vec<_>) = nodes
        .iter()
        .map(|node| {
            let (say_started, started) = watch::channel(false);
            (started, keep(node, supervision, say_started))
        })
        .unzip();
    let announced = async {
        for mut started in started {
            let _node_ended = started.wait_for(|&is_started| is_started).await;
        }
        if !supervision.shutdown.is_stopped() {
            supervision.is_up.set(true);
            announce();
        }
    };
    let (ends, ()) = tokio::join!(join_all(lives), announced);
    nodes.iter().zip(ends).filter(|(_, in_order)| !in_order).map(|(node, _)| node.name.clone()).collect()
}

/// Keeps one node running until the end, and says whether it ended in order.
async fn keep(node: &DevNode, supervision: &Supervision, started: watch::Sender<bool>) -> bool {
    let shutdown = &supervision.shutdown;
    loop {
        if node.is_held() {
            tracing::info!(node = node.name, "held down until {}/hold is removed", node.directory.display());
            started.send_replace(true);
        }
        while node.is_held() && !shutdown.is_stopped() {
            pause(shutdown, HOLD_EVERY).await;
        }
        if shutdown.is_stopped() {
            return true;
        }
        match start(node, supervision, started.clone()) {
            Ok(mut process) => match run(&mut process, shutdown).await {
                NodeEnd::Asked(result) => return ended_in_order(node, result),
                NodeEnd::ByItself(result) => report(node, supervision, result),
            },
            Err(error) => tracing::error!(node = node.name, %error, "node does not start"),
        }
        pause(shutdown, RESTART_AFTER).await;
    }
}

/// Waits, at most until a signal stops the process.
async fn pause(shutdown: &Shutdown, duration: Duration) {
    // Cancel-safe: neither a signal nor a timer is lost.
    tokio::select! {
        biased;
        () = shutdown.stopped() => {}
        () = sleep(duration) => {}
    }
}

#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error(transparent)]
    Volumes(#[from] ConfigError),
    #[error("start process: {0}")]
    Process(#[source] io::Error),
    #[error(transparent)]
    Pid(#[from] DevError),
}

fn start(
    node: &DevNode,
    supervision: &Supervision,
    started: watch::Sender<bool>,
) -> Result<NodeProcess, StartError> {
    node.make_volumes()?;
    let log = NodeLog::open(&node.directory, &format!("{} | ", node.name), supervision.show_log);
    let log = log.map_err(StartError::Process)?;
    let process = NodeProcess::start(&supervision.program, &node.config, &node.name, log, started);
    let process = process.map_err(StartError::Process)?;
    node.write_pid(process.id())?;
    Ok(process)
}

enum NodeEnd {
    /// On a signal.
    Asked(io::Result<ExitStatus>),
    /// The process was killed, or failed.
    ByItself(io::Result<ExitStatus>),
}

async fn run(process: &mut NodeProcess, shutdown: &Shutdown) -> NodeEnd {
    // Cancel-safe: a process whose end was not seen here is waited for again.
    tokio::select! {
        biased;
        () = shutdown.stopped() => {}
        result = process.ended() => return NodeEnd::ByItself(result),
    }
    NodeEnd::Asked(process.end(END_PATIENCE).await)
}

fn ended_in_order(node: &DevNode, result: io::Result<ExitStatus>) -> bool {
    match result {
        Ok(status) if status.success() => true,
        // The signal came before the node listened for it: it had begun nothing.
        Ok(status) if status.signal() == Some(Signal::TERM.as_raw()) => true,
        Ok(status) => {
            tracing::warn!(node = node.name, %status, "node did not end in order");
            false
        }
        Err(error) => {
            tracing::error!(node = node.name, %error, "node's end cannot be waited for");
            false
        }
    }
}

/// Logs that a node ended by itself, and ends the whole where it refused to start.
fn report(node: &DevNode, supervision: &Supervision, result: io::Result<ExitStatus>) {
    let name = &node.name;
    match result {
        Ok(status) => match status.code().and_then(|code| u8::try_from(code).ok()) {
            Some(code) if code != 0 && !supervision.is_up.get() => {
                tracing::error!(node = name, %status, "node did not start; all nodes end");
                let first = supervision.refused.take();
                supervision.refused.set(first.or_else(|| Some((name.clone(), code))));
                supervision.shutdown.stop();
            }
            _ => {
                let seconds = RESTART_AFTER.as_secs();
                tracing::warn!(node = name, %status, "node ended; it starts again in {seconds} s unless it is held down");
            }
        },
        Err(error) => tracing::error!(node = name, %error, "node's end cannot be waited for"),
    }
}
