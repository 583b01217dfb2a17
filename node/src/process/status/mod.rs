//! `sherd-node status`: asks one node how its cluster is, prints the answer, and ends with what it means.
//!
//! `ask` speaks with the node; texts and verdict are `sherd-admin`'s, as functions of the answer. With
//! `--watch` it asks each second until it is interrupted; a node that does not answer is part of what is
//! shown.

mod args;
mod ask;
mod limits;

pub use self::args::StatusArgs;

use std::io::{self, IsTerminal as _, Write as _};
use std::process::ExitCode;

use sherd_admin::status::{ClusterVerdict, json, json_of_error, table, verdict};
use sherd_proto::v1::StatusReply;

use self::ask::{AskError, StatusAsker};
use self::limits::WATCH_EVERY;

/// Clears a terminal and goes to its first line.
const CLEAR: &str = "\x1b[H\x1b[2J";

/// Asks, prints and returns the exit code: 0 all healed, 1 serves, 2 does not.
pub fn status(arguments: &StatusArgs) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let asked = match runtime {
        Ok(runtime) => runtime.block_on(ask_and_print(arguments)),
        Err(source) => Err(AskError::Runtime(source)),
    };
    let verdict = asked.unwrap_or_else(|error| {
        let _nobody_reads = writeln!(io::stderr(), "sherd-node: {error}");
        ClusterVerdict::NotServing
    });
    ExitCode::from(verdict as u8)
}

/// Prints one answer, or one each second.
///
/// # Errors
/// [`AskError`] when the certificates cannot be used, or the only look found no node.
async fn ask_and_print(arguments: &StatusArgs) -> Result<ClusterVerdict, AskError> {
    let asker = StatusAsker::new(&arguments.node).await?;
    if !arguments.watch {
        return match asker.ask().await {
            Ok(reply) => Ok(print(arguments, &Ok(reply))),
            Err(error) if arguments.json => Ok(print(arguments, &Err(error))),
            Err(error) => Err(error),
        };
    }
    let mut seen = ClusterVerdict::NotServing;
    let mut interrupted = std::pin::pin!(tokio::signal::ctrl_c());
    loop {
        // Cancel-safe: a question that was interrupted is not asked again.
        let reply = tokio::select! {
            biased;
            _ = &mut interrupted => return Ok(seen),
            reply = asker.ask() => reply,
        };
        if !arguments.json && io::stdout().is_terminal() {
            let _nobody_reads = io::stdout().write_all(CLEAR.as_bytes());
        }
        seen = print(arguments, &reply);
        // Cancel-safe: a timer holds nothing.
        tokio::select! {
            biased;
            _ = &mut interrupted => return Ok(seen),
            () = tokio::time::sleep(WATCH_EVERY) => {}
        }
    }
}

fn print(arguments: &StatusArgs, reply: &Result<StatusReply, AskError>) -> ClusterVerdict {
    let (text, verdict) = match (reply, arguments.json) {
        (Ok(reply), true) => (json(reply), verdict(reply)),
        (Ok(reply), false) => (table(reply), verdict(reply)),
        (Err(error), true) => (json_of_error(&error.to_string()), ClusterVerdict::NotServing),
        (Err(error), false) => (format!("{error}\n"), ClusterVerdict::NotServing),
    };
    let mut out = io::stdout().lock();
    let _nobody_reads = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    verdict
}

#[cfg(test)]
mod tests;
