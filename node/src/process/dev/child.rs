//! One node of `dev --nodes` as a process: started, its lines read, ended.
//!
//! A thread reads what the node prints, keeps it in the node's log, shows what is for a person, and says when
//! the node listens. The thread ends with the process's end of the pipe; a reader of standard error
//! that stands still holds up these threads and not the supervisor.

use std::io::{self, BufRead as _, BufReader, PipeReader, Read as _};
use std::path::Path;
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use crate::process::dev::limits::{LAST_LINES_PATIENCE, LINE_BYTES_MAX};
use crate::process::dev::lines::NodeLog;
use crate::process::dev::variables::{ADOPT_AFTER, DECIDED, OF_LOG};
use rustix::process::{Pid, Signal, kill_process};
use tokio::process::{Child, Command};
use tokio::sync::{oneshot, watch};

/// Begins the line with which a node says that it serves.
const LISTENING: &[u8] = b"S3 listening on ";

/// A running node. Killed when it is dropped.
#[derive(Debug)]
pub(crate) struct NodeProcess {
    child: Child,
    pid: Pid,
    printed: oneshot::Receiver<()>,
}

impl NodeProcess {
    /// Starts `program serve` with the file of a node, and passes its lines to `log`. `serves`
    /// becomes true with the line that says that it listens.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) fn start(
        program: &Path,
        config: &Path,
        name: &str,
        log: NodeLog,
        serves: watch::Sender<bool>,
    ) -> io::Result<Self> {
        let (reader, writer) = io::pipe()?;
        let mut command = Command::new(program);
        command.args(["serve", "--with-parent", &std::process::id().to_string(), "--config"]).arg(config);
        // A variable wins over the file, where `dev` wrote what it decides.
        for variable in DECIDED.into_iter().chain([ADOPT_AFTER]).chain(OF_LOG) {
            command.env_remove(variable);
        }
        // A group of its own: Ctrl-C of a terminal is for the supervisor, which ends its nodes in order.
        command.process_group(0).kill_on_drop(true);
        command.stdin(Stdio::null()).stdout(writer.try_clone()?).stderr(writer);
        let child = command.spawn()?;
        // The command holds the pipe's other end, which would never end.
        drop(command);
        let pid = child.id().and_then(|id| i32::try_from(id).ok()).and_then(Pid::from_raw);
        let pid = pid.ok_or_else(|| io::Error::other("a new process has an id"))?;
        let (say_printed, printed) = oneshot::channel();
        std::thread::Builder::new().name(format!("lines-{name}")).spawn(move || {
            pass_lines(reader, log, &serves);
            let _supervisor_ended = say_printed.send(());
        })?;
        Ok(Self { child, pid, printed })
    }

    pub(crate) fn id(&self) -> u32 {
        self.pid.as_raw_nonzero().get().unsigned_abs()
    }

    /// Waits until the process has ended and its last lines are printed. Cancel-safe: it can be waited for
    /// again.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) async fn ended(&mut self) -> io::Result<ExitStatus> {
        let status = self.child.wait().await?;
        let _late = tokio::time::timeout(LAST_LINES_PATIENCE, &mut self.printed).await;
        Ok(status)
    }

    /// Asks the node by a signal to end in order, and kills it when it has not after `patience`. A node that
    /// was stopped by a signal goes on for that.
    ///
    /// # Errors
    /// As the system says.
    pub(crate) async fn end(&mut self, patience: Duration) -> io::Result<ExitStatus> {
        // The process is not waited for yet, so no other process has its id.
        let _ended_already =
            kill_process(self.pid, Signal::TERM).and_then(|()| kill_process(self.pid, Signal::CONT));
        if let Ok(status) = tokio::time::timeout(patience, self.ended()).await {
            return status;
        }
        self.child.start_kill()?;
        self.ended().await
    }
}

fn pass_lines(reader: PipeReader, mut log: NodeLog, serves: &watch::Sender<bool>) {
    let mut reader = BufReader::new(reader);
    let mut line = Vec::new();
    loop {
        line.clear();
        match reader.by_ref().take(LINE_BYTES_MAX).read_until(b'\n', &mut line) {
            Ok(0) | Err(_) => return,
            Ok(_) => {}
        }
        if !line.ends_with(b"\n") {
            line.push(b'\n');
        }
        log.take(&line);
        if line.starts_with(LISTENING) && serves.send_replace(true) {
            log.show("serves again");
        }
    }
}
