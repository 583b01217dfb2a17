//! `kubectl sherd logs`: the logs of the cluster's pods, or of its operators, each line behind its pod's
//! name. The bytes of a line pass as they are.

use std::io;
use std::time::Duration;

use clap::Args;
use futures::io::AsyncBufRead;
use futures::stream::{self, BoxStream};
use futures::{AsyncBufReadExt as _, Stream, StreamExt as _};
use k8s_openapi::api::core::v1::Pod;
use kube::api::LogParams;
use kube::{Api, ResourceExt};
use tokio::time::timeout;

use crate::cluster::{FoundCluster, operators};
use crate::error::PluginError;
use crate::limits::{LINE_BYTES_MAX, LOG_SILENCE_MAX};
use crate::session::Session;

/// `kubectl sherd logs`.
#[derive(Debug, Clone, Default, Args)]
pub struct LogsArgs {
    /// The StorageCluster [default: the only one of the namespace]
    pub cluster: Option<String>,
    /// Only of this pod, by its name or its number [default: all]
    #[arg(long, value_name = "POD")]
    pub node: Option<String>,
    /// Only lines that are not older than this, such as 10m or 2h
    #[arg(long, value_name = "TIME", value_parser = humantime::parse_duration)]
    pub since: Option<Duration>,
    /// Go on with lines as they come, of the pods that are there now
    #[arg(short, long)]
    pub follow: bool,
    /// The pods of the operator that works on the namespace, in place of the cluster's
    #[arg(long, conflicts_with_all = ["cluster", "node"])]
    pub operator: bool,
}

/// Prints the logs: one pod after the other, or all as they come.
///
/// # Errors
/// [`PluginError`]: no pod fits, or some logs could not be read; the others are printed.
pub async fn logs(
    session: &Session,
    arguments: &LogsArgs,
    out: &mut (dyn io::Write + Send),
) -> Result<(), PluginError> {
    let LogsArgs { cluster, node, since, follow, operator } = arguments;
    let (home, mut pods) = if *operator {
        operators(session).await?
    } else {
        let cluster = FoundCluster::find(session, cluster.as_deref()).await?;
        (session.clone(), cluster.pods(session).await?)
    };
    if let Some(node) = node {
        pods.retain(|pod| is_named(&pod.name_any(), node));
    }
    if pods.is_empty() {
        let wanted = node.as_ref().map_or(String::new(), |node| format!(" {node}"));
        return Err(PluginError::NoPod(format!("there is no pod{wanted} in namespace {}", home.namespace)));
    }
    let params = LogParams {
        follow: *follow,
        since_seconds: since.map(|since| i64::try_from(since.as_secs().max(1)).unwrap_or(i64::MAX)),
        ..LogParams::default()
    };
    let width = pods.iter().map(|pod| pod.name_any().len()).max().unwrap_or_default();
    let mut failures = Vec::new();
    // The pods are read one after the other, or all at one time with `--follow`.
    for together in pods.chunks(if *follow { pods.len() } else { 1 }) {
        let mut opened = Vec::new();
        for pod in together {
            match lines(&home, pod, params.clone()).await {
                Ok(lines) => {
                    let prefix = format!("{:width$}  ", pod.name_any());
                    opened.push(lines.map(move |line| (prefix.clone(), line)).boxed());
                }
                Err(error) => failures.push(error.to_string()),
            }
        }
        let mut all = stream::select_all(opened);
        loop {
            let next = match next_line(&mut all, *follow).await {
                Ok(next) => next,
                Err(why) => {
                    let pods: Vec<String> = together.iter().map(ResourceExt::name_any).collect();
                    failures.push(format!("{}: {why}", pods.join(", ")));
                    break;
                }
            };
            let Some((prefix, line)) = next else { break };
            let written = match line {
                Ok(line) => out.write_all(prefix.as_bytes()).and_then(|()| out.write_all(&line)),
                Err(error) => {
                    failures.push(format!("{}: {error}", prefix.trim_end()));
                    continue;
                }
            };
            // The reader has left.
            if written.and_then(|()| out.flush()).is_err() {
                return Ok(());
            }
        }
    }
    if failures.is_empty() { Ok(()) } else { Err(PluginError::Logs(failures.join("; "))) }
}

/// The next element; of logs that are not followed, within a time.
async fn next_line<T>(
    lines: &mut (impl Stream<Item = T> + Unpin),
    follow: bool,
) -> Result<Option<T>, String> {
    if follow {
        return Ok(lines.next().await);
    }
    let next = timeout(LOG_SILENCE_MAX, lines.next()).await;
    next.map_err(|_| format!("no line within {} s", LOG_SILENCE_MAX.as_secs()))
}

/// Whether a pod has this name, or this number.
fn is_named(pod: &str, wanted: &str) -> bool {
    pod == wanted || pod.rsplit_once('-').is_some_and(|(_, number)| number == wanted)
}

/// The lines of a pod's log, each with its end.
///
/// # Errors
/// [`PluginError`]: the API server gives none.
pub async fn lines(
    session: &Session,
    pod: &Pod,
    params: LogParams,
) -> Result<BoxStream<'static, io::Result<Vec<u8>>>, PluginError> {
    let name = pod.name_any();
    // A pod to which others added containers has no log of its own.
    let container = pod.spec.as_ref().and_then(|spec| spec.containers.first());
    let params = LogParams { container: container.map(|container| container.name.clone()), ..params };
    let api: Api<Pod> = Api::namespaced(session.client.clone(), &session.namespace);
    let right = session.right("get", "pods/log", &name);
    let log = session.ask(right, api.log_stream(&name, &params)).await?;
    let lines = stream::unfold(Some(Box::pin(log)), async |log| {
        let mut log = log?;
        match line(&mut log).await {
            Ok(line) if line.is_empty() => None,
            Ok(line) => Some((Ok(line), Some(log))),
            Err(error) => Some((Err(error), None)),
        }
    });
    Ok(lines.boxed())
}

/// The next line with its end; empty at the end of the log. A line that is too long is cut, and ends each
/// time.
async fn line(log: &mut (impl AsyncBufRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    loop {
        let read = log.fill_buf().await?;
        let is_end = read.is_empty();
        let taken = &read[..read.len().min(LINE_BYTES_MAX - line.len())];
        let taken = match taken.iter().position(|&byte| byte == b'\n') {
            Some(at) => &taken[..=at],
            None => taken,
        };
        line.extend_from_slice(taken);
        let count = taken.len();
        log.consume_unpin(count);
        let ends = line.ends_with(b"\n");
        if !ends && (line.len() == LINE_BYTES_MAX || is_end && !line.is_empty()) {
            line.push(b'\n');
            return Ok(line);
        }
        if ends || is_end {
            return Ok(line);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn lines_end_and_long_ones_are_cut() {
        let text = [b"one\n\n".to_vec(), vec![b'x'; LINE_BYTES_MAX + 3], b"\nlast".to_vec()].concat();
        let mut log = futures::io::BufReader::with_capacity(7, futures::io::Cursor::new(text));
        let mut lengths = Vec::new();
        loop {
            let line = line(&mut log).await.expect("it is in memory");
            if line.is_empty() {
                break;
            }
            assert_eq!(line.iter().position(|byte| *byte == b'\n'), Some(line.len() - 1));
            lengths.push(line.len());
        }
        assert_eq!(lengths, [4, 1, LINE_BYTES_MAX + 1, 4, 5]);
    }

    #[tokio::test(start_paused = true)]
    async fn a_log_that_stops_is_waited_for_only_with_follow() {
        let error = next_line(&mut stream::pending::<()>(), false).await.expect_err("it has no end");
        assert_eq!(error, "no line within 70 s");
        let followed =
            timeout(2 * LOG_SILENCE_MAX, async { next_line(&mut stream::pending::<()>(), true).await });
        followed.await.expect_err("it goes on");
    }

    #[test]
    fn a_pod_is_named_by_its_number() {
        assert!(is_named("demo-pool-0-1", "1") && is_named("demo-pool-0-1", "demo-pool-0-1"));
        assert!(!is_named("demo-pool-0-11", "1") && !is_named("demo-pool-0-1", "0-1"));
    }
}
