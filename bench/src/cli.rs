//! The command line: one subcommand per module, and what the program's exit code means.

use std::error::Error;
use std::process::ExitCode;

use clap::Parser;

use crate::host::Refusal;
use crate::host::device;
use crate::{compare, load, question, quick, race, report, subject};

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
    Answer(question::Arguments),
    Compare(compare::Arguments),
    Race(race::Arguments),
    Report(report::Arguments),
    Device(device::Arguments),
}

/// Runs the program.
pub fn run() -> ExitCode {
    match Arguments::parse().command {
        Command::Load(arguments) => finish(load::run(&arguments)),
        Command::Quick(arguments) => finish(quick::run(&arguments)),
        Command::Answer(arguments) => finish(question::run(arguments)),
        Command::Compare(arguments) => finish(compare::run(&arguments)),
        Command::Race(arguments) => finish(race::run(&arguments)),
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

fn is_refusal(error: &(dyn Error + 'static)) -> bool {
    let mut next = Some(error);
    while let Some(error) = next {
        let unequal = matches!(
            error.downcast_ref::<subject::Error>(),
            Some(subject::Error::UnequalDurability { .. } | subject::Error::NoDurability { .. })
        );
        let flag = matches!(error.downcast_ref::<load::Error>(), Some(load::Error::Flag { .. }));
        // These keep 1 for what they find: a regression, a lost row, a report that is out of date.
        let unjudged =
            error.is::<compare::Error>() || error.is::<race::Error>() || error.is::<report::Error>();
        if unequal || flag || unjudged || error.is::<Refusal>() {
            return true;
        }
        next = error.source();
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(words: &str) -> Result<Arguments, clap::Error> {
        Arguments::try_parse_from(["sherd-bench"].into_iter().chain(words.split_whitespace()))
    }

    fn load(words: &str) -> load::Arguments {
        match parse(&format!("load --endpoint http://x {words}")).unwrap().command {
            Command::Load(arguments) => *arguments,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_command_line_is_consistent() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn flags_become_plans() {
        let plans =
            load("--op get,delete --clients 1,32 --seconds 2 --rate 100 --part-size 5MiB").plans().unwrap();
        let said: Vec<_> = plans.iter().map(|plan| (plan.clients, plan.op.to_string())).collect();
        let expected = [(1, "get"), (1, "delete"), (32, "get"), (32, "delete")];
        assert_eq!(said, expected.map(|(clients, op)| (clients, op.to_owned())));
        assert_eq!(plans[0].limit, load::schedule::Limit::Time(std::time::Duration::from_secs(2)));
        assert_eq!((plans[0].rate, plans[0].part_bytes), (Some(100.0), 5 << 20));
        assert!(plans[1].warm_up.is_zero(), "a warm-up would delete what is to be measured");
        assert_eq!(load("--size 4KiB").size.to_string(), "4KiB");
    }

    #[test]
    fn wrong_flags_are_refused_by_name() {
        for (words, flag) in [
            ("--clients 0", "clients"),
            ("--clients 4 --threads 8", "threads"),
            ("--rate 0", "rate"),
            ("--count 0", "keys"),
            ("--part-size 1MiB", "part-size"),
            ("--op multipart --checksum crc32c", "checksum"),
        ] {
            match load(words).plans() {
                Err(error @ load::Error::Flag { .. }) => {
                    assert!(error.to_string().contains(flag), "{error}");
                    assert!(is_refusal(&error));
                }
                other => panic!("{words}: {other:?}"),
            }
        }
        for words in [
            "load",
            "load --endpoint http://x --subject sherd",
            "load --endpoint http://x --seconds 1 --count 1",
            "load --endpoint http://x --binary /x",
            "load --endpoint http://x --op fly",
            "load --endpoint http://x --size big",
            "load --endpoint http://x --mix list:1,delete:1",
        ] {
            assert!(parse(words).is_err(), "{words} was taken");
        }
    }

    #[test]
    fn a_refusal_is_known_through_what_carries_it() {
        let unequal = || subject::Error::NoDurability { name: "x".to_owned() };
        assert!(is_refusal(&load::Error::Subject(unequal())));
        assert!(is_refusal(&load::Error::Refused(Refusal::DebugBuild)));
        assert!(!is_refusal(&load::Error::Subject(subject::Error::UnknownTool { name: "x".to_owned() })));
    }
}
