//! A line on the terminal while a measurement runs; without a terminal, nothing is printed.

use std::io::{self, IsTerminal, Write};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::Scope;
use std::time::Instant;

use super::meter::Meter;
use crate::limits::PROGRESS_EVERY;

/// Columns that the line may have taken.
const WIDTH: usize = 60;

/// Shows progress until it is dropped.
#[derive(Debug)]
pub struct Progress {
    _until_dropped: Option<Sender<()>>,
}

impl Progress {
    /// Shows how long `what` has run and how many operations it has done, if standard error is a
    /// terminal.
    pub fn show<'scope, 'env>(
        scope: &'scope Scope<'scope, 'env>,
        meter: &'env Meter<'env>,
        what: &str,
    ) -> Self {
        if !io::stderr().is_terminal() {
            return Self { _until_dropped: None };
        }
        let (sender, receiver) = channel::<()>();
        let what = what.to_owned();
        scope.spawn(move || {
            let begin = Instant::now();
            while receiver.recv_timeout(PROGRESS_EVERY) == Err(RecvTimeoutError::Timeout) {
                let line = format!("{what}: {} s, {} operations", begin.elapsed().as_secs(), meter.done());
                draw(&line);
            }
            draw("");
        });
        Self { _until_dropped: Some(sender) }
    }
}

fn draw(line: &str) {
    let mut terminal = io::stderr().lock();
    let end = if line.is_empty() { "\r" } else { "" };
    // A failed write to the terminal does not affect the measurement.
    let _ = write!(terminal, "\r{line:<WIDTH$}{end}").and_then(|()| terminal.flush());
}
