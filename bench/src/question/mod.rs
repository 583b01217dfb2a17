//! The questions whose answers decide how the store works, each measured: `answer QUESTION`.
//!
//! A question is a `Page`: the cases that it compares, and the rows that it adds. `page` runs it and keeps
//! the medians of its rounds beside the machine, the device and the settings. `turns` measures computations
//! on one thread, `node` the node's own program.

mod error;
mod rounds;
mod bench;
mod page;
mod turns;
mod node;

pub mod allocations;
pub mod cluster;
pub mod degraded;
pub mod erasure;
pub mod floors;
pub mod growth;
pub mod small_objects;

use std::process::ExitCode;

use bench::Options;
pub use error::Error;
use page::answer;

/// Answers one of the questions that decide how the store works
#[derive(Debug, clap::Args)]
pub struct Arguments {
    #[command(subcommand)]
    question: Question,
    #[command(flatten)]
    options: Options,
}

#[derive(Debug, clap::Subcommand)]
enum Question {
    /// Memory: what a request allocates in a whole node
    Allocations(allocations::Arguments),
    /// Four nodes: requests through all of them, beside a peer's four
    Cluster(cluster::Arguments),
    /// Volumes lost: what requests cost meanwhile, and how fast a volume is healed
    Degraded(degraded::Arguments),
    /// Erasure code: every kernel against the reference
    Erasure(erasure::Arguments),
    /// Large objects: what a core moves in a second, layer by layer
    Floors(floors::Arguments),
    /// Many keys: PUT, LIST, memory, disk and start as a bucket grows
    Growth(growth::Arguments),
    /// Small objects: in the row, packed in the log, or a file each
    SmallObjects(small_objects::Arguments),
}

/// Answers the question and prints the path of the file of results.
///
/// # Errors
/// [`Error`].
pub fn run(arguments: Arguments) -> Result<ExitCode, Error> {
    let Arguments { question, options } = arguments;
    let path = match &question {
        Question::Allocations(page) => answer(page, options),
        Question::Cluster(page) => answer(page, options),
        Question::Degraded(page) => answer(page, options),
        Question::Erasure(page) => answer(page, options),
        Question::Floors(page) => answer(page, options),
        Question::Growth(page) => answer(page, options),
        Question::SmallObjects(page) => answer(page, options),
    }?;
    println!("{}", path.display());
    Ok(ExitCode::SUCCESS)
}
