//! The command line: one subcommand per module, and what the program's exit code means.

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;

use crate::host::Refusal;
use crate::host::device;
use crate::{answer, compare, layers, load, quick, report, subject};

const EXIT_CODES: &str = "Exit codes:
  0    measured
  1    an operation went wrong, something regressed, or nothing could be measured
  2    refused: the command line, a debug build, subjects that promise different things;
       nothing could be compared or reported";

/// Measures Sherd and other S3 stores: fsync on, every byte verified, errors counted.
#[derive(Debug, Parser)]
#[command(name = "sherd-bench", version, after_help = EXIT_CODES)]
pub struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, clap::Subcommand)]
enum Command {
    Load(Box<load::Arguments>),
    Quick(quick::Arguments),
    /// Measures the layers of a request, each by itself
    Layers(layers::Arguments),
    /// Answers one of the questions that decided how the store works
    Answer(answer::Arguments),
    Compare(compare::Arguments),
    Report(report::Arguments),
    Device(device::Arguments),
}

/// Runs the program.
pub fn run() -> ExitCode {
    match Arguments::parse().command {
        Command::Load(arguments) => finish(load::run(&arguments)),
        Command::Quick(arguments) => finish(quick::run(&arguments)),
        Command::Layers(arguments) => finish(layers::run(arguments).map(|()| ExitCode::SUCCESS)),
        Command::Answer(arguments) => finish(answer::run(arguments)),
        Command::Compare(arguments) => finish(compare::run(&arguments)),
        Command::Report(arguments) => finish(report::run(&arguments)),
        Command::Device(arguments) => finish(device::run(&arguments)),
    }
}

/// The code that `result` stands for; says on standard error what went wrong.
fn finish<E: Error + 'static>(result: Result<ExitCode, E>) -> ExitCode {
    let error = match result {
        Ok(code) => return code,
        Err(error) => error,
    };
    eprintln!("sherd-bench: {error}");
    if is_refusal(&error) { ExitCode::from(2) } else { ExitCode::from(1) }
}

/// Whether `error` or what caused it refuses to measure at all.
fn is_refusal(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let unequal = matches!(
            error.downcast_ref::<subject::Error>(),
            Some(subject::Error::UnequalDurability { .. } | subject::Error::NoDurability { .. })
        );
        let flag = matches!(error.downcast_ref::<load::Error>(), Some(load::Error::Flag { .. }));
        // Both keep 1 for what they find: a regression, a report that is out of date.
        let unjudged = error.is::<compare::Error>() || error.is::<report::Error>();
        if unequal || flag || unjudged || error.is::<Refusal>() {
            return true;
        }
        next = error.source();
    }
    false
}
