//! One command from its arguments to its exit code.

use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use clap::Parser as _;

use super::arguments::{Arguments, GlobalArgs, Verb};
use super::exit::Exit;
use super::output::Output;
use super::remotes::Remotes;
use super::session::{Session, VerbError, VerbResult};
use super::stop::Stop;
use super::verbs::{about, alias, bench, buckets, compare, copy, listing, object, remove};
use crate::credentials::source::{Overrides, ProcessVariables, state_folder};
use crate::error::Error;
use crate::transfer::engine::{Engine, TransferSettings};
use crate::transfer::progress::Progress;

/// Runs the command of this process.
pub fn run() -> ExitCode {
    let Arguments { global, verb } = Arguments::parse();
    let runtime = match tokio::runtime::Builder::new_multi_thread().enable_all().build() {
        Ok(runtime) => runtime,
        Err(error) => {
            eprintln!("sherd: start: {error}");
            return Exit::Some.into();
        }
    };
    let code = runtime.block_on(run_verb(global, verb));
    // A thread that still reads standard input would not end.
    runtime.shutdown_background();
    code
}

async fn run_verb(global: GlobalArgs, verb: Verb) -> ExitCode {
    let stop = Stop::default();
    let output = Output::new(global.json, global.quiet, stop.clone());
    let (progress, events) = Progress::new();
    let counters = Arc::clone(progress.counters());
    let engine = match Engine::new(settings(&global, &verb), progress) {
        Ok(engine) => engine,
        Err(error) => {
            output.failure("plan", "", &Error::from(error));
            return Exit::Usage.into();
        }
    };
    let overrides = Overrides {
        endpoint: global.endpoint_url.clone(),
        region: global.region.clone(),
        profile: global.profile.clone(),
        ca: global.ca_bundle.clone(),
        addressing: global.addressing,
        anonymous: global.no_sign_request,
    };
    let remotes = Remotes::new(overrides, global.attempts, stop.token().clone());
    let is_dry_run = is_dry_run(&verb);
    let session = Session { remotes, engine, output: output.clone(), is_dry_run };
    let work = async {
        let ended = perform(&session, &global, verb).await;
        session.remotes.finish().await;
        // The last senders of events go with the session.
        drop(session);
        ended
    };
    let both = async { tokio::join!(work, output.follow(events, &counters)).0 };
    let ended = tokio::select! {
        // The first interrupt only cancels, and the work is waited for. The second one drops it.
        biased;
        exit = stop.on_signals() => return exit.into(),
        ended = both => ended,
    };
    let (failed, planned) = (&counters.failed, &counters.planned);
    let (failed, planned) = (failed.load(Ordering::Relaxed), planned.load(Ordering::Relaxed));
    if let Err(VerbError::Failed(error)) = &ended {
        output.is_unread(error);
    }
    if let (Some(reason), Ok(_) | Err(VerbError::Failed(_))) = (stop.reason(), &ended) {
        return reason.into();
    }
    exit_code(&output, ended, failed, planned)
}

/// The code of a command that has ended: that of its only object, or that some failed.
fn exit_code(output: &Output, ended: VerbResult, failed: u64, planned: u64) -> ExitCode {
    let exit = match ended {
        Ok(exit) => exit,
        Err(VerbError::Usage(text)) => {
            eprintln!("sherd: {text}");
            return Exit::Usage.into();
        }
        Err(VerbError::Failed(error)) => {
            output.failure("", "", &error);
            return Exit::of(&error).into();
        }
    };
    match failed {
        0 => exit.into(),
        1 if planned <= 1 => ExitCode::from(output.first_failure()),
        _ => Exit::Some.into(),
    }
}

fn settings(global: &GlobalArgs, verb: &Verb) -> TransferSettings {
    let is_durable = match verb {
        Verb::Cp(arguments) | Verb::Mv(arguments) => arguments.fsync,
        Verb::Sync(arguments) => arguments.fsync,
        _ => false,
    };
    TransferSettings {
        workers: global.workers,
        part_bytes: global.part_size.map(|size| size.as_u64()),
        attempts: global.attempts,
        state: Some(state_folder(&ProcessVariables)),
        is_durable,
    }
}

const fn is_dry_run(verb: &Verb) -> bool {
    match verb {
        Verb::Cp(arguments) | Verb::Mv(arguments) => arguments.dry_run,
        Verb::Sync(arguments) => arguments.dry_run,
        Verb::Rm(arguments) => arguments.dry_run,
        _ => false,
    }
}

async fn perform(session: &Session, global: &GlobalArgs, verb: Verb) -> VerbResult {
    match verb {
        Verb::Cp(arguments) => copy::copy(session, arguments, false).await,
        Verb::Mv(arguments) => copy::copy(session, arguments, true).await,
        Verb::Sync(arguments) => compare::sync(session, arguments).await,
        Verb::Diff(arguments) => compare::diff(session, arguments).await,
        Verb::Ls(arguments) => listing::ls(session, arguments).await,
        Verb::Tree(arguments) => listing::tree(session, arguments).await,
        Verb::Cat(arguments) => object::cat(session, &arguments.addresses).await,
        Verb::Head(arguments) => object::head(session, arguments).await,
        Verb::Pipe(arguments) => object::pipe_verb(session, arguments).await,
        Verb::Stat(arguments) => object::stat(session, arguments).await,
        Verb::Du(arguments) => listing::du(session, arguments).await,
        Verb::Find(arguments) => listing::find(session, arguments).await,
        Verb::Presign(arguments) => object::presign(session, &arguments),
        Verb::Mb(arguments) => buckets::mb(session, arguments).await,
        Verb::Rb(arguments) => buckets::rb(session, arguments).await,
        Verb::Rm(arguments) => remove::rm(session, arguments).await,
        Verb::Tag(arguments) => object::tag(session, arguments).await,
        Verb::Alias(arguments) => alias::alias(&session.output, global, arguments),
        Verb::Bench(arguments) => bench::bench(session, arguments).await,
        Verb::Version => Ok(about::version(&session.output)),
        Verb::Man(arguments) => about::man(&arguments),
        Verb::Completions(arguments) => Ok(about::completions(&arguments)),
    }
}

#[cfg(test)]
mod tests {
    use clap::CommandFactory as _;

    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Arguments::command().debug_assert();
    }
}
