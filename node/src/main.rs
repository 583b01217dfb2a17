//! Binary `sherd-node`: arguments become a configuration, a configuration runs, the outcome becomes an exit
//! code. `cli` says which commands there are, `config` which configurations are valid, `run` does the work.

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

use std::io::Write as _;
use std::process::ExitCode;

use sherd_node::log::{self, LevelFilters, Log};
use sherd_node::process::ca::ca;
use sherd_node::process::ci::server;
use sherd_node::process::ci::{self, CiError, Environment, LoneNode};
use sherd_node::process::cli::{self, Command, DevArgs, ServeArgs};
use sherd_node::process::config::Config;
use sherd_node::process::config::credentials::Credentials;
use sherd_node::process::config::error::ConfigError;
use sherd_node::process::config::files::ConfigFiles;
use sherd_node::process::config::source::Sources;
use sherd_node::process::config::variables::Variables;
use sherd_node::process::convert::convert;
use sherd_node::process::dev::lines::LogWriter;
use sherd_node::process::dev::supervisor::supervise;
use sherd_node::process::dev::variables::{undecided, unused};
use sherd_node::process::exit::Exit;
use sherd_node::process::health::health;
use sherd_node::process::import::import;
use sherd_node::process::inspect::inspect;
use sherd_node::process::probe::probe;
use sherd_node::process::serve::follow::FollowedConfig;
use sherd_node::process::serve::run::{Addresses, run};
use sherd_node::process::status::status;
use sherd_node::process::user::user;
use sherd_node::process::{copies, dev, parent, working_directory};
use sherd_store::machine::cpu;
use sherd_store::machine::system::{SystemClock, SystemRng};

/// A request makes about a hundred short-lived allocations, freed on other threads than those that
/// made them: the system's allocator takes locks for that, and gives little back after a burst.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    if let Err(error) = cpu::check() {
        return fail(Exit::Processor, &error);
    }
    let (command, sources) = match cli::parse(std::env::args_os()) {
        Ok(parsed) => parsed,
        Err(error) => error.exit(),
    };
    if matches!(command, Command::Dev(_) | Command::Ci(_) | Command::Server(_) | Command::Serve(_)) {
        copies::tune();
    }
    match command {
        Command::Dev(arguments) => develop(arguments),
        Command::Ci(arguments) => {
            alone(|environment, variables| ci::prepare(*arguments, environment, variables, &SystemRng))
        }
        Command::Server(arguments) => {
            alone(|environment, variables| server::prepare(*arguments, environment, variables, &SystemRng))
        }
        Command::Health(arguments) => match health(&arguments) {
            Ok(()) => {
                print("ready\n");
                Exit::Done.into()
            }
            Err(error) => fail(Exit::Failed, &error),
        },
        Command::Serve(arguments) => serve(*arguments, sources),
        Command::Inspect(mut arguments) => match working_directory::leave(&mut arguments.directories) {
            Ok(()) => inspect(&arguments, &mut std::io::stdout().lock(), &mut std::io::stderr().lock()),
            Err(error) => fail(Exit::Volumes, &error),
        },
        Command::Status(arguments) => status(&arguments),
        Command::User(arguments) => user(&arguments),
        Command::Import(arguments) => import(&arguments),
        Command::Ca(arguments) => {
            match ca(&arguments, &SystemClock::new(), &SystemRng, &mut std::io::stdout().lock()) {
                Ok(()) => Exit::Done.into(),
                Err(error) => fail(error.exit(), &error),
            }
        }
        Command::Convert(arguments) => {
            match convert(&arguments, &mut std::io::stdout().lock(), &mut std::io::stderr().lock()) {
                Ok(()) => Exit::Done.into(),
                Err(error) => fail(error.exit(), &error),
            }
        }
        Command::Probe(arguments) => {
            let variable = |name: &str| std::env::var(name).ok();
            match probe(&arguments, &variable, &SystemClock::new(), &SystemRng) {
                Ok(()) => Exit::Done.into(),
                Err(error) => fail(Exit::Failed, &error),
            }
        }
    }
}

fn serve(arguments: ServeArgs, sources: Sources) -> ExitCode {
    if let Some(parent) = arguments.with_parent
        && let Err(error) = parent::end_with(parent)
    {
        return fail(Exit::Failed, &error);
    }
    match configure(arguments, sources) {
        Ok((config, followed)) => {
            start(config, Some(followed), log::start, |addresses| print(&listening(addresses)))
        }
        Err(error) => fail(Exit::Refused, &error),
    }
}

/// Runs a node that stores alone, made of the environment.
fn alone(make: impl FnOnce(Environment<'_>, Variables) -> Result<LoneNode, CiError>) -> ExitCode {
    let variables = match Variables::read() {
        Ok(variables) => variables,
        Err(error) => error.exit(),
    };
    let names: Vec<String> = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok()).collect();
    let variable = |name: &str| std::env::var(name).ok();
    match make(Environment { variable: &variable, names: &names }, variables) {
        Ok(node) => {
            print(&node.first_line);
            start(node.config.clone(), None, log::start, |addresses| print(&node.ready(addresses)))
        }
        Err(error) => fail(Exit::Refused, &error),
    }
}

/// Runs one node in this process, or a cluster of processes until a signal stops it.
fn develop(arguments: DevArgs) -> ExitCode {
    if let Some(unused) = unused(|name| std::env::var_os(name).is_some()) {
        let _nobody_reads = writeln!(std::io::stderr(), "sherd-node: {unused}");
    }
    let variables = match Variables::read() {
        Ok(variables) => undecided(variables),
        Err(error) => error.exit(),
    };
    if let Some(count) = arguments.nodes {
        return develop_cluster(arguments, count, &variables);
    }
    let (dir, show_log) = (arguments.dir.clone(), arguments.show_log);
    let dev = match dev::prepare(arguments, variables, &SystemRng) {
        Ok(dev) => dev,
        Err(error) => return fail(Exit::Refused, &error),
    };
    let writer = match LogWriter::of_node(&dir, show_log) {
        Ok(writer) => writer,
        Err(error) => return fail(Exit::Failed, &error),
    };
    let start_log = |log: &Log| log::start_to(log, move || writer.clone());
    start(dev.config.clone(), None, start_log, |addresses| {
        let (listening, example) = (listening(addresses), dev.example(addresses.s3, addresses.iam));
        print(&format!(
            "{listening}{example}\nThe log is {}; --log shows it here.\n",
            dir.join("log").display()
        ));
    })
}

fn develop_cluster(arguments: DevArgs, count: u8, variables: &Variables) -> ExitCode {
    let cluster = match dev::nodes::prepare(arguments, count, variables, &SystemClock::new(), &SystemRng) {
        Ok(cluster) => cluster,
        Err(error) => return fail(Exit::Refused, &error),
    };
    // Every path that is used is absolute.
    if let Err(error) = working_directory::leave(&mut []) {
        return fail(Exit::Failed, &error);
    }
    log::start_to(cluster.log(), || LogWriter::Terminal);
    match supervise(&cluster, || print(&cluster.announcement())) {
        Ok(()) => Exit::Done.into(),
        Err(error) => {
            let _failed = fail(Exit::Failed, &error);
            ExitCode::from(error.exit_code())
        }
    }
}

/// Flags and variables, then the files, then the defaults. Gives the files to follow, too.
fn configure(arguments: ServeArgs, sources: Sources) -> Result<(Config, FollowedConfig), ConfigError> {
    let ServeArgs { config, live_config, vouch, with_parent: _, settings } = arguments;
    let files = ConfigFiles::new(settings, sources, config, live_config)?;
    let (texts, start) = files.start()?;
    let credentials = Credentials::from_variables(&|name| std::env::var(name).ok())?;
    let config = Config::resolve(start.settings.clone(), credentials, &start.sources)?;
    Ok((Config { vouch, ..config }, FollowedConfig::new(files, texts, start)))
}

fn start(
    config: Config,
    followed: Option<FollowedConfig>,
    start_log: impl FnOnce(&Log) -> LevelFilters,
    announce: impl FnOnce(Addresses),
) -> ExitCode {
    // Paths of the configuration are absolute, and its files are read.
    if let Err(error) = working_directory::leave(&mut []) {
        return fail(Exit::Failed, &error);
    }
    let levels = start_log(&config.log);
    match run(config, levels, followed, announce) {
        Ok(()) => Exit::Done.into(),
        Err(error) => fail(error.exit(), &error),
    }
}

fn listening(addresses: Addresses) -> String {
    let Addresses { s3, tls, admin, iam, node } = addresses;
    let scheme = if tls { "https" } else { "http" };
    let node = node.map(|node| format!("Nodes listening on {node}\n")).unwrap_or_default();
    let iam = iam.map(|iam| format!("IAM listening on {scheme}://{iam}\n")).unwrap_or_default();
    format!("S3 listening on {scheme}://{s3}\nAdmin listening on http://{admin}\n{iam}{node}")
}

/// Prints to standard output; a reader that went away does not stop a node.
fn print(text: &str) {
    let mut out = std::io::stdout().lock();
    let _nobody_reads = out.write_all(text.as_bytes()).and_then(|()| out.flush());
}

fn fail(exit: Exit, error: &dyn std::error::Error) -> ExitCode {
    let _nobody_reads = writeln!(std::io::stderr(), "sherd-node: {error}");
    exit.into()
}
