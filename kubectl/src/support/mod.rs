//! `kubectl sherd support`: one archive for a question to others, without secrets.
//!
//! `archive` writes it, `redact` takes secrets out of each text, `gather` reads objects and logs. Failures
//! are listed in `errors.txt` and ends nothing. No Secret is read but the one with the certificate that the
//! nodes are asked with, and that stays in memory.

mod archive;
mod gather;
mod redact;

use std::path::PathBuf;

use clap::Args;
use k8s_openapi::jiff::Timestamp;
use sherd_admin::status::{json, table};
use tokio::time::{Instant, timeout_at};

use self::archive::Archive;
use self::gather::SupportReader;
use self::redact::{redact_json, redact_text};
use crate::cluster::FoundCluster;
use crate::error::PluginError;
use crate::limits::{SUPPORT_NODE_TIME_MAX, SUPPORT_TIME_MAX};
use crate::node::PodPorts;
use crate::session::Session;
use crate::status::{ask_node, look_at_objects};

/// `kubectl sherd support`.
#[derive(Debug, Clone, Default, Args)]
pub struct SupportArgs {
    /// The StorageCluster [default: the only one of the namespace]
    pub cluster: Option<String>,
    /// The archive, which must not be there [default: sherd-support-NAMESPACE-CLUSTER-TIME.tar.gz here]
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// Writes the archive, and gives a sentence about it.
///
/// # Errors
/// [`PluginError`]: the StorageCluster cannot be read, or the archive not be written.
pub async fn support<P: PodPorts>(
    session: &Session,
    ports: &P,
    arguments: &SupportArgs,
) -> Result<String, PluginError> {
    let deadline = Instant::now() + SUPPORT_TIME_MAX;
    let cluster = FoundCluster::find(session, arguments.cluster.as_deref()).await?;
    let now = Timestamp::now();
    let names = &cluster.names;
    let folder =
        format!("sherd-support-{}-{}-{}", names.namespace, names.cluster, now.strftime("%Y%m%dT%H%M%SZ"));
    let path = arguments.output.clone().unwrap_or_else(|| format!("{folder}.tar.gz").into());
    let failed = |source| PluginError::Archive { path: path.clone(), source };
    let mut archive = Archive::new(&path, &folder, now).map_err(failed)?;
    let reader = SupportReader { session, cluster: &cluster, deadline };
    reader.add_objects(&mut archive).await.map_err(failed)?;
    add_status(&reader, ports, &mut archive).await.map_err(failed)?;
    reader.add_operators(&mut archive).await.map_err(failed)?;
    reader.add_logs(&mut archive).await.map_err(failed)?;
    let (files, faults) = archive.finish().map_err(failed)?;
    let missing =
        if faults == 0 { String::new() } else { format!("; errors.txt lists {faults} that are not whole") };
    Ok(format!("wrote {}: {files} files{missing}\n", path.display()))
}

/// Adds what `kubectl sherd status` prints, and the node's answer with all its fields.
async fn add_status<P: PodPorts>(
    reader: &SupportReader<'_>,
    ports: &P,
    archive: &mut Archive,
) -> std::io::Result<()> {
    let SupportReader { session, cluster, .. } = *reader;
    let looked = async { Ok(look_at_objects(session, cluster).await) };
    let (mut text, pods) = match reader.within("status.txt", looked).await {
        Ok(looked) => looked,
        Err(why) => {
            archive.fault(why);
            return Ok(());
        }
    };
    let until = reader.deadline.min(Instant::now() + SUPPORT_NODE_TIME_MAX);
    let asked = timeout_at(until, ask_node(session, ports, cluster, pods)).await;
    let reply = match asked {
        Ok(asked) => asked.map_err(|error| error.to_string()),
        Err(_) => Err(format!("no node answers within {} s", SUPPORT_NODE_TIME_MAX.as_secs())),
    };
    if let Ok(reply) = &reply {
        text.push('\n');
        text.push_str(&table(reply));
    }
    archive.add("status.txt", &redact_text(&text))?;
    match reply {
        Ok(reply) => archive.add("status.json", &redact_json(&json(&reply))),
        Err(why) => {
            archive.fault(format!("status.json: {why}"));
            Ok(())
        }
    }
}
