//! `sherd-node import minio`: takes over users, groups, policies, access keys and buckets of a MinIO, from
//! the zip files of `mc admin cluster iam export` and `mc admin cluster bucket export`.
//!
//! ```text
//! zip -> archive -> iam_export -> wanted (document, narrowed) -> plan, by what is there -> calls -> report
//! ```
//! Keys keep their ids and secrets. An entity that is there and differs is named and stays; running it again
//! changes nothing, and goes on where a run was cut.

mod archive;
mod glob;
mod iam_export;
mod resource;
mod conditions;
mod statement;
mod document;
mod narrowed;
mod claims;
mod wanted;
mod observed;
mod plan;
mod buckets;
mod report;
mod limits;

#[cfg(test)]
mod tests;

use std::io::{self, Write as _};
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use clap::Args;
use sherd_admin::ask::{RequestClient, RequestError};
use sherd_admin::user::UserError;
use sherd_admin::user::calls::Calls;
use sherd_admin::user::xml::Element;

use self::archive::{ArchiveError, Files};
use self::iam_export::{ExportError, IamExport};
use self::observed::ObservedAccount;
use self::plan::{Call, Entity, Verdict, import_key, plan};
use self::report::{Outcome, Report};
use self::wanted::WantedAccount;
use crate::process::exit::Exit;
use crate::process::node_client::{NodeArgs, NodeClient, NodeClientError};

/// `sherd-node import minio`.
#[derive(Debug, Clone, Args)]
pub(crate) struct MinioArgs {
    /// The file of `mc admin cluster iam export`
    #[arg(long, value_name = "FILE", required_unless_present = "buckets")]
    iam: Option<PathBuf>,
    /// The file of `mc admin cluster bucket export`
    #[arg(long, value_name = "FILE")]
    buckets: Option<PathBuf>,
    /// Name of MinIO's root (`MINIO_ROOT_USER`): its service accounts that have a policy of their own are
    /// taken, too, with that policy alone. Give no other name: keys of users of LDAP and OpenID would get
    /// rights that their parents do not have
    #[arg(long, value_name = "NAME", value_parser = root_name)]
    root_user: Option<String>,
    /// Print what would be done, and change nothing
    #[arg(long, required_unless_present = "apply")]
    plan: bool,
    /// Do it
    #[arg(long, conflicts_with = "plan")]
    apply: bool,
    #[command(flatten)]
    node: NodeArgs,
}

/// A name that MinIO's root may have: those of users of LDAP have `=` and `,`.
fn root_name(text: &str) -> Result<String, String> {
    if text.contains(['=', ',']) {
        return Err("MinIO's root has no such name".to_owned());
    }
    Ok(text.to_owned())
}

/// An import cannot begin, or ended early.
#[derive(Debug, thiserror::Error)]
enum ImportError {
    #[error("start runtime: {0}")]
    Runtime(#[source] io::Error),
    #[error("{path}: {source}", path = path.display())]
    Archive { path: PathBuf, source: ArchiveError },
    #[error("{path}: {source}", path = path.display())]
    Export { path: PathBuf, source: ExportError },
    #[error("{path}: it is an export of IAM: give it by --iam", path = path.display())]
    NoBuckets { path: PathBuf },
    #[error(transparent)]
    Node(#[from] NodeClientError),
    #[error("{address}: {source}")]
    Connection { address: String, source: RequestError },
    #[error(transparent)]
    Call(#[from] UserError),
}

/// Imports, prints what became of each entity and returns the exit code.
pub(super) fn import(arguments: &MinioArgs) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let mut out = io::stdout();
    let mut report = Report::new(arguments.apply, &mut out);
    let done = match runtime {
        Ok(runtime) => runtime.block_on(run(arguments, &mut report)),
        Err(source) => Err(ImportError::Runtime(source)),
    };
    report.end();
    match done {
        Ok(()) => report.exit().into(),
        Err(error) => {
            let _reader_left = writeln!(io::stderr(), "sherd-node: {error}");
            Exit::Failed.into()
        }
    }
}

async fn run(arguments: &MinioArgs, report: &mut Report<'_>) -> Result<(), ImportError> {
    let wanted = match &arguments.iam {
        Some(path) => {
            let export = IamExport::read(opened(path).await?);
            let export = export.map_err(|source| ImportError::Export { path: path.clone(), source })?;
            WantedAccount::of(&export, arguments.root_user.as_deref())
        }
        None => WantedAccount::default(),
    };
    let files = match &arguments.buckets {
        Some(path) => opened(path).await?,
        None => Files::new(),
    };
    if let Some(path) = &arguments.buckets
        && iam_export::is_export(&files)
    {
        return Err(ImportError::NoBuckets { path: path.clone() });
    }
    let (buckets, of_buckets) = buckets::wanted(&files);
    let mut calls = connected(&arguments.node).await?;
    take_iam(&mut calls, &wanted, report, arguments.apply).await?;
    buckets::take(&mut calls, &buckets, report, arguments.apply).await?;
    for left in wanted.left_out.iter().chain(&of_buckets) {
        report.add(Outcome::LeftOut, left.what, &left.name, &left.reason);
    }
    Ok(())
}

async fn connected(arguments: &NodeArgs) -> Result<Calls, ImportError> {
    let node = NodeClient::new(arguments).await?;
    let address = node.address().to_owned();
    match RequestClient::over(node.connect().await?, node.cluster()).await {
        Ok(client) => Ok(Calls::new(client, address)),
        Err(source) => Err(ImportError::Connection { address, source }),
    }
}

async fn opened(path: &Path) -> Result<Files, ImportError> {
    archive::open(path).await.map_err(|source| ImportError::Archive { path: path.to_owned(), source })
}

/// Takes users, groups, policies and keys.
async fn take_iam(
    calls: &mut Calls,
    wanted: &WantedAccount,
    report: &mut Report<'_>,
    is_applied: bool,
) -> Result<(), ImportError> {
    let asked = wanted.users.iter().map(|user| user.name.clone());
    let observed = ObservedAccount::read(calls, asked).await?;
    let mut entities = plan(wanted, &observed);
    let users = entities.len() - wanted.users.len();
    for (entity, user) in entities.iter_mut().skip(users).zip(&wanted.users) {
        judge_key(calls, entity, &import_key(user)).await?;
    }
    for (place, entity) in entities.iter().enumerate() {
        let Entity { what, name, verdict } = entity;
        let (outcome, steps) = match verdict {
            Verdict::Make(steps) => (Outcome::Made, steps),
            Verdict::Finish(steps) => (Outcome::Finished, steps),
            Verdict::Equal => {
                report.add(Outcome::Equal, what, name, "");
                continue;
            }
            Verdict::Differs(why) => {
                report.add(Outcome::Differs, what, name, why);
                continue;
            }
            Verdict::Withheld(why) => {
                report.add(Outcome::LeftOut, what, name, why);
                continue;
            }
        };
        if is_applied && let Err(error) = taken(calls, steps).await {
            report.add(Outcome::Failed, what, name, &error.to_string());
            // A user without one of its policies would have other rights; without the node nothing goes on.
            let is_of_one_user = place >= users && matches!(error, UserError::Refused { .. });
            if !is_of_one_user {
                return Err(error.into());
            }
            continue;
        }
        report.add(outcome, what, name, "");
    }
    Ok(())
}

/// Does the steps of one entity.
async fn taken(calls: &mut Calls, steps: &[Call]) -> Result<(), UserError> {
    for (action, parameters) in steps {
        call(calls, action, parameters).await?;
    }
    Ok(())
}

async fn call(
    calls: &mut Calls,
    action: &str,
    parameters: &[(&'static str, String)],
) -> Result<Element, UserError> {
    let parameters: Vec<(&str, &str)> =
        parameters.iter().map(|(name, value)| (*name, value.as_str())).collect();
    calls.call(action, &parameters).await
}

/// Asks the cluster whether a user may have its key, and whether one that it has is the same.
async fn judge_key(calls: &mut Calls, entity: &mut Entity, key: &Call) -> Result<(), UserError> {
    if matches!(entity.verdict, Verdict::Differs(_) | Verdict::Withheld(_)) {
        return Ok(());
    }
    let (action, parameters) = key;
    let wanted = parameters.iter().find(|(name, _)| *name == "Status").map(|(_, status)| status.as_str());
    let asked = [parameters.as_slice(), &[("DryRun", "true".to_owned())]].concat();
    match call(calls, action, &asked).await {
        Ok(found) => {
            let state = found.text("State");
            if entity.verdict == Verdict::Equal && Some(state) != wanted {
                entity.verdict = Verdict::Differs(format!("its key is {state}"));
            }
        }
        Err(UserError::Refused { code, message }) if code == "EntityAlreadyExists" => {
            entity.verdict = Verdict::Differs(message);
        }
        Err(error) => return Err(error),
    }
    Ok(())
}
