//! The operator's process: `run` leads or waits to lead, `crd` prints the resource definitions.
//!
//! SIGTERM ends it in order: no new reconcile, running ones end, the lease is given back. A lost lease
//! ends the process with code 1, and Kubernetes starts it again as a candidate.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use clap::{Parser, Subcommand};
use k8s_openapi::jiff::Timestamp;
use kube::runtime::events::{Recorder, Reporter};
use kube::{Client, CustomResourceExt as _};
use sherd_operator::api::{Bucket, BucketUser, StorageCluster};
use sherd_operator::api_words::words;
use sherd_operator::controller::WatchedNamespaces;
use sherd_operator::lease::{Elector, NamespaceLeases};
use sherd_operator::metrics::Metrics;
use sherd_operator::reconcile::cache::ObjectCache;
use sherd_operator::reconcile::children::AppliedChildren;
use sherd_operator::reconcile::image::ImageName;
use sherd_operator::reconcile::platform::Platform;
use sherd_operator::reconcile::recovery::RememberedSecrets;
use sherd_operator::reconcile::{Context, EvictionRefusals, PartialReports, TlsNodes};
use sherd_operator::turns::UserTurns;
use sherd_operator::{controller, limits, listener};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

/// Operator of Sherd.
#[derive(Debug, Parser)]
#[command(version)]
struct Arguments {
    #[command(subcommand)]
    command: Command,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Makes StorageClusters, Buckets and BucketUsers true until it is stopped.
    Run(Box<RunArguments>),
    /// Prints the resource definitions.
    Crd,
}

#[derive(Debug, clap::Args)]
struct RunArguments {
    /// Namespaces that are watched, with commas between them; `*` watches all.
    #[arg(long, env = "WATCH_NAMESPACES", value_delimiter = ',', required = true)]
    namespaces: Vec<String>,
    /// Further namespaces whose Buckets and BucketUsers alone are watched, with commas between them; `*`
    /// watches all.
    #[arg(long, env = "BUCKET_NAMESPACES", value_delimiter = ',')]
    bucket_namespaces: Vec<String>,
    /// The namespace of the lease.
    #[arg(long, env = "POD_NAMESPACE")]
    lease_namespace: String,
    /// The name of the lease.
    #[arg(long, env = "LEASE_NAME", default_value = "sherd-operator")]
    lease_name: String,
    /// The name of this process among operators.
    #[arg(long, env = "POD_NAME")]
    identity: String,
    /// Where metrics and health are served; `[::]` serves IPv4, too.
    #[arg(long, env = "LISTEN", default_value = "[::]:8080")]
    listen: SocketAddr,
    /// The repository of nodes' images where a cluster names none.
    #[arg(long, env = "NODE_IMAGE_REPOSITORY", default_value = "sherd-node")]
    node_repository: String,
    /// The tag of nodes' images where a cluster names none.
    #[arg(long, env = "NODE_IMAGE_TAG", default_value = env!("CARGO_PKG_VERSION"))]
    node_tag: String,
    /// The digest of nodes' images where a cluster names none.
    #[arg(long, env = "NODE_IMAGE_DIGEST")]
    node_digest: Option<String>,
}

impl RunArguments {
    fn watched(&self) -> WatchedNamespaces {
        WatchedNamespaces { clusters: self.namespaces.clone(), buckets: self.bucket_namespaces.clone() }
    }
}

#[derive(Debug, thiserror::Error)]
enum StartError {
    #[error("no runtime: {0}")]
    Runtime(std::io::Error),
    #[error("listen on {0}: {1}")]
    Listen(SocketAddr, std::io::Error),
    #[error("reach the API server: {}", words(.0))]
    Client(#[from] kube::Error),
    #[error("declare metrics: {0}")]
    Metrics(#[from] prometheus::Error),
    #[error("take signals: {0}")]
    Signals(std::io::Error),
    #[error("write the resource definition: {0}")]
    Definition(#[from] serde_saphyr::ser::Error),
    #[error("the lease was lost")]
    LeaseLost,
    #[error("the controllers ended without being stopped")]
    ControllersEnded,
}

fn main() -> ExitCode {
    // A second call cannot happen; one provider serves Kubernetes and nodes.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let ended = match Arguments::parse().command {
        Command::Crd => print_definitions(),
        Command::Run(arguments) => {
            start_log();
            let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().worker_threads(2).build();
            runtime.map_err(StartError::Runtime).and_then(|runtime| runtime.block_on(run(*arguments)))
        }
    };
    match ended {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("sherd-operator: {error}");
            ExitCode::FAILURE
        }
    }
}

fn print_definitions() -> Result<(), StartError> {
    for (at, definition) in [StorageCluster::crd(), Bucket::crd(), BucketUser::crd()].iter().enumerate() {
        let separator = if at == 0 { "" } else { "---\n" };
        print!("{separator}{}", serde_saphyr::to_string(definition)?);
    }
    Ok(())
}

fn start_log() {
    let filter = tracing_subscriber::EnvFilter::try_from_env("SHERD_LOG_LEVEL")
        .unwrap_or_else(|_| tracing_subscriber::EnvFilter::new("info"));
    tracing_subscriber::fmt().json().with_env_filter(filter).with_writer(std::io::stderr).init();
}

async fn run(arguments: RunArguments) -> Result<(), StartError> {
    let stop = stop_on_signal().map_err(StartError::Signals)?;
    let metrics = Metrics::new()?;
    let listener = listener::listen(arguments.listen);
    let listener = listener.map_err(|error| StartError::Listen(arguments.listen, error))?;
    let (ready, is_ready) = watch::channel(false);
    let served = TaskTracker::new();
    let stop_listener = CancellationToken::new();
    served.spawn(listener::serve(listener, metrics.clone(), is_ready, stop_listener.clone()));

    let ended = lead(&arguments, metrics, &ready, &stop).await;
    stop_listener.cancel();
    served.close();
    served.wait().await;
    ended
}

/// Waits for the lease, runs the controller while it is held, gives it back.
async fn lead(
    arguments: &RunArguments,
    metrics: Metrics,
    ready: &watch::Sender<bool>,
    stop: &CancellationToken,
) -> Result<(), StartError> {
    let client = client().await?;
    if !reach(&client, stop).await {
        return Ok(());
    }
    ready.send_replace(true);
    let RunArguments { lease_namespace, lease_name, identity, .. } = arguments;
    // The name of a pod that was replaced may come again; its process is another one.
    let identity = format!("{identity}_{:08x}", getrandom::u32().unwrap_or_default());
    let mut elector = Elector::new(client.clone(), lease_namespace, lease_name, &identity, Timestamp::now);
    tracing::info!(identity, "candidate");
    if !elector.acquire(stop).await {
        return Ok(());
    }
    tracing::info!(identity, "leading");
    metrics.leads(true);
    let reporter = Reporter { controller: "sherd-operator".into(), instance: Some(identity) };
    let installation = format!("{lease_namespace}/{lease_name}");
    let nodes = Arc::new(TlsNodes::default());
    let context = Context {
        namespaces: NamespaceLeases::new(client.clone(), &installation, Timestamp::now),
        recorder: Recorder::new(client.clone(), reporter),
        client,
        default_image: ImageName {
            digest: arguments.node_digest.clone().filter(|digest| !digest.is_empty()),
            ..ImageName::tagged(&arguments.node_repository, &arguments.node_tag)
        },
        nodes: Arc::clone(&nodes) as _,
        calls: nodes,
        platform: Platform::default(),
        cache: ObjectCache::default(),
        children: AppliedChildren::default(),
        remembered: RememberedSecrets::default(),
        refusals: EvictionRefusals::default(),
        turns: UserTurns::default(),
        partial_reports: PartialReports::default(),
        metrics: metrics.clone(),
        now: Timestamp::now,
    };
    let watched = arguments.watched();
    let stop_controller = stop.child_token();
    let workers = TaskTracker::new();
    let stop_workers = stop_controller.clone();
    workers.spawn(async move { controller::run(context, &watched, stop_workers).await });
    workers.close();
    let stopped = tokio::select! {
        // Both only wait. Controllers that ended would else leave a leader that does nothing.
        biased;
        stopped = elector.hold(stop) => stopped,
        () = workers.wait() => return Err(StartError::ControllersEnded),
    };
    stop_controller.cancel();
    if !stopped {
        // Another operator may begin at once: nothing of this process may go on.
        return Err(StartError::LeaseLost);
    }
    let no_stop = CancellationToken::new();
    tokio::select! {
        // The lease is held for as long as reconciles end; both arms only wait.
        biased;
        ended = tokio::time::timeout(limits::SHUTDOWN_TIME_MAX, workers.wait()) => {
            if ended.is_err() {
                tracing::warn!("reconciles did not end in time");
            }
        }
        _ = elector.hold(&no_stop) => return Err(StartError::LeaseLost),
    }
    metrics.leads(false);
    elector.release().await;
    tracing::info!("stopped");
    Ok(())
}

/// Waits until the API server answers; false when the process was stopped before.
async fn reach(client: &Client, stop: &CancellationToken) -> bool {
    while let Err(error) = client.apiserver_version().await {
        tracing::warn!(error = words(&error), "reach the API server");
        tokio::select! {
            // Neither holds anything that could be lost.
            biased;
            () = stop.cancelled() => return false,
            () = tokio::time::sleep(limits::LEASE_RETRY) => {}
        }
    }
    true
}

/// A client whose requests end; watches are kept open by what they receive.
async fn client() -> Result<Client, kube::Error> {
    let mut config = kube::Config::infer().await.map_err(kube::Error::InferConfig)?;
    config.connect_timeout = Some(Duration::from_secs(5));
    config.write_timeout = Some(limits::REQUEST_TIME_MAX);
    // A reconcile is repeated with growing waits, and reports what fails; tries within a request hide it.
    config.default_retry = false;
    Client::try_from(config)
}

fn stop_on_signal() -> Result<CancellationToken, std::io::Error> {
    let stop = CancellationToken::new();
    let (mut terminate, mut interrupt) = (signal(SignalKind::terminate())?, signal(SignalKind::interrupt())?);
    let token = stop.clone();
    let waiter = TaskTracker::new();
    waiter.spawn(async move {
        tokio::select! {
            // Both only wait; a signal that came is not lost by dropping the other.
            biased;
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        token.cancel();
    });
    Ok(stop)
}
