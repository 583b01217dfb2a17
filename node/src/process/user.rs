//! `sherd-node user`: users, their access keys and their policies, for people, over a connection with a
//! certificate of an operator or an admin. The commands are `sherd-admin`'s.

use std::io::{self, Write as _};
use std::process::ExitCode;

use sherd_admin::ask::{RequestClient, RequestError};
use sherd_admin::user::UserError;

use crate::process::exit::Exit;
use crate::process::node_client::{NodeArgs, NodeClient, NodeClientError};

/// `sherd-node user`.
pub type UserArgs = sherd_admin::user::UserArgs<NodeArgs>;

/// A command failed.
#[derive(Debug, thiserror::Error)]
enum CommandError {
    #[error("start runtime: {0}")]
    Runtime(#[source] io::Error),
    #[error(transparent)]
    Node(#[from] NodeClientError),
    #[error("{address}: {source}")]
    Connection { address: String, source: RequestError },
    #[error(transparent)]
    User(#[from] UserError),
}

/// Runs a command, prints what it gives and returns the exit code: 0 done, 1 refused or not answered.
pub fn user(arguments: &UserArgs) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(arguments)),
        Err(source) => Err(CommandError::Runtime(source)),
    };
    match done {
        Ok(text) => {
            let mut out = io::stdout().lock();
            let _reader_left = out.write_all(text.as_bytes()).and_then(|()| out.flush());
            Exit::Done.into()
        }
        Err(error) => {
            let _reader_left = writeln!(io::stderr(), "sherd-node: {error}");
            Exit::Failed.into()
        }
    }
}

/// Connects, and gives what is to be printed.
async fn run(arguments: &UserArgs) -> Result<String, CommandError> {
    let node = NodeClient::new(arguments.connection()).await?;
    let address = node.address().to_owned();
    let client = RequestClient::over(node.connect().await?, node.cluster()).await;
    let client = client.map_err(|source| CommandError::Connection { address: address.clone(), source })?;
    Ok(arguments.run(client, address).await?)
}
