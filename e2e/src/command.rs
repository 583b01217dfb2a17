//! Runs programs to their end, and says in an error what they said.

use std::io::Write as _;
use std::process::{Command, Stdio};

/// Why a program failed.
#[derive(Debug, thiserror::Error)]
pub enum CommandError {
    /// The program did not start.
    #[error("{program}: {source}")]
    Start {
        /// The program.
        program: String,
        /// Why.
        source: std::io::Error,
    },
    /// The program ended with a failure.
    #[error("{command}: {status}: {said}")]
    Failed {
        /// The program and its arguments.
        command: String,
        /// How the program ended.
        status: std::process::ExitStatus,
        /// The program's standard error, or output where that is empty.
        said: String,
    },
}

/// Runs a program and returns its output.
///
/// # Errors
/// [`CommandError`] when it does not start or fails.
pub fn run(program: &str, arguments: &[&str]) -> Result<String, CommandError> {
    run_with(program, arguments, "")
}

/// Runs a program with this text as its input.
///
/// # Errors
/// [`CommandError`] when it does not start or fails.
pub fn run_with(program: &str, arguments: &[&str], input: &str) -> Result<String, CommandError> {
    let started = |source| CommandError::Start { program: program.to_owned(), source };
    let mut child = Command::new(program)
        .args(arguments)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(started)?;
    if let Some(mut stdin) = child.stdin.take() {
        // A program that ends before it reads its input says why itself.
        let _ = stdin.write_all(input.as_bytes());
    }
    let output = child.wait_with_output().map_err(started)?;
    let said = |bytes: &[u8]| String::from_utf8_lossy(bytes).trim().to_owned();
    if output.status.success() {
        return Ok(said(&output.stdout));
    }
    let error = said(&output.stderr);
    Err(CommandError::Failed {
        command: format!("{program} {}", arguments.join(" ")),
        status: output.status,
        said: if error.is_empty() { said(&output.stdout) } else { error },
    })
}
