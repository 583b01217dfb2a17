//! The command line's face of the inspection: arguments in, report and exit code out.

use std::io::Write;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;

use clap::Args;

use sherd_core::env::Clock;
use sherd_volume::disk::Disk;
use sherd_volume::disk::real::RealDisk;

use super::volume::InspectError;
use super::{InspectRequest, run};
use sherd_store::machine::system::{SystemClock, SystemRng};

/// Something in the volumes is wrong.
const PROBLEMS: u8 = 1;
/// The volumes cannot be opened; the same number as for a node that cannot open them.
const NOT_OPENED: u8 = 5;

/// `sherd-node inspect`.
#[derive(Debug, Clone, Args)]
pub struct InspectArgs {
    /// Directories of volumes that no node is using; those of one cluster are compared
    #[arg(required = true, value_name = "DIR")]
    pub directories: Vec<PathBuf>,
    /// Read every row, shard and file back, and compare what the volumes hold together
    #[arg(long)]
    pub verify: bool,
    /// Write the report as JSON
    #[arg(long)]
    pub json: bool,
}

/// Inspects, writes the report to `out` and what went wrong with the inspection to `errors`.
pub fn inspect(arguments: &InspectArgs, out: &mut dyn Write, errors: &mut dyn Write) -> ExitCode {
    let disk: Arc<dyn Disk> = Arc::new(RealDisk::new());
    let clock: Arc<dyn Clock> = Arc::new(SystemClock::new());
    let wanted = InspectRequest { verify: arguments.verify, json: arguments.json };
    match run(&disk, &clock, &SystemRng, &arguments.directories, wanted, out) {
        Ok(report) if report.is_clean() => ExitCode::SUCCESS,
        Ok(_) => ExitCode::from(PROBLEMS),
        Err(error) => {
            // A script that does not read the error sees the exit code.
            let _ = writeln!(errors, "sherd-node inspect: {error}");
            match error {
                InspectError::Open(_) => ExitCode::from(NOT_OPENED),
                InspectError::Read { .. } | InspectError::Write(_) => ExitCode::from(PROBLEMS),
            }
        }
    }
}
