//! Verbs about the program itself: `version`, `man`, `completions`.

use clap::CommandFactory as _;
use serde_json::json;

use crate::cli::arguments::{Arguments, CompletionsArgs, ManArgs};
use crate::cli::exit::Exit;
use crate::cli::output::Output;
use crate::cli::session::VerbResult;
use crate::error::Error;

const NAME: &str = "sherd";
const VERSION: &str = env!("CARGO_PKG_VERSION");

pub(crate) fn version(output: &Output) -> Exit {
    output.result(|| json!({ "name": NAME, "version": VERSION }), || format!("{NAME} {VERSION}"));
    Exit::Done
}

/// Writes a page for the program and one for each verb into a folder, or that of the program to standard
/// output.
pub(crate) fn man(arguments: &ManArgs) -> VerbResult {
    if let Some(folder) = &arguments.folder {
        std::fs::create_dir_all(folder).map_err(Error::file("make", folder))?;
        clap_mangen::generate_to(Arguments::command(), folder).map_err(Error::file("write", folder))?;
    } else {
        let page = clap_mangen::Man::new(Arguments::command());
        page.render(&mut std::io::stdout()).map_err(Error::file("write", "standard output"))?;
    }
    Ok(Exit::Done)
}

pub(crate) fn completions(arguments: &CompletionsArgs) -> Exit {
    clap_complete::generate(arguments.shell, &mut Arguments::command(), NAME, &mut std::io::stdout());
    Exit::Done
}
