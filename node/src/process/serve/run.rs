//! One process from a configuration to its end, in order.
//!
//! Load the certificate for S3, bind the listeners (a taken address fails before anything is opened), answer
//! probes, open the store, announce, serve; on a signal: not ready, a moment later accept no more, let
//! requests end, cut what is left, close the store, and only then stop answering probes.

use std::io;
use std::net::SocketAddr;
use std::sync::Arc;

use futures::future::OptionFuture;
use sherd_core::topology::FormationWarning;
use sherd_volume::options::Durability;
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;

use crate::audit::AuditLog;
use crate::health::Health;
use crate::log::LevelFilters;
use crate::process::config::hot::HotSettings;
use crate::process::config::{Config, Limits};
use crate::process::exit::Exit;
use crate::process::serve::descriptors::DescriptorLimit;
use crate::process::serve::first_buckets::{self, BucketError};
use crate::process::serve::follow::FollowedConfig;
use crate::process::serve::limits::{BLOCKING_PATIENCE, BLOCKING_THREADS_MAX};
use crate::process::serve::live::LiveSettings;
use crate::process::serve::open::{OpenError, open, refuse, refuse_head};
use crate::process::serve::root_credentials::RootCredentials;
use crate::server::admin::serve_admin;
use crate::server::health_paths;
use crate::server::iam::serve_iam;
use crate::server::{
    Admission, ListenError, Listener, ListenerLimits, LiveLimits, Shutdown, guard, on_signals, serve,
};
use sherd_net::tls::{ServedCertificate, TrustError};
use sherd_store::machine::system::SystemClock;
use sherd_store::observe::metrics::Metrics;
use sherd_store::observe::trace::SlowRequests;

/// Why a process ended otherwise than asked.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// Threads, timers or signal handlers cannot be made.
    #[error("start runtime: {0}")]
    Runtime(#[source] io::Error),
    /// The certificate for S3 clients cannot be used.
    #[error("TLS for S3: {0}")]
    Tls(#[from] TrustError),
    /// An address cannot be listened on.
    #[error(transparent)]
    Listen(#[from] ListenError),
    /// The volumes cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// A bucket of the configuration cannot be made.
    #[error(transparent)]
    Buckets(#[from] BucketError),
    /// The thread that writes audit lines cannot be made.
    #[error("start the audit log: {0}")]
    Audit(#[source] io::Error),
    /// Requests took longer than the shutdown timeout.
    #[error("{count} requests were cut at shutdown")]
    Unfinished {
        /// How many.
        count: usize,
    },
}

impl RunError {
    /// The process' exit code.
    pub const fn exit(&self) -> Exit {
        match self {
            Self::Runtime(_) | Self::Audit(_) | Self::Buckets(_) => Exit::Failed,
            Self::Tls(_) => Exit::Refused,
            Self::Listen(_) => Exit::Listen,
            Self::Open(_) => Exit::Volumes,
            Self::Unfinished { .. } => Exit::Unfinished,
        }
    }
}

/// Where a running node can be reached, with real ports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Addresses {
    /// S3.
    pub s3: SocketAddr,
    /// Whether S3 is served over TLS.
    pub tls: bool,
    /// Metrics and health.
    pub admin: SocketAddr,
    /// The query API of IAM, where it is served; over TLS where S3 is.
    pub iam: Option<SocketAddr>,
    /// The address for the other nodes; `None` for a node alone.
    pub node: Option<SocketAddr>,
}

/// Runs a node until a signal stops it; `announce` is called once, when S3 is served. `levels` filter its
/// log, and `followed` are the files of the configuration, where there are any.
///
/// # Errors
/// [`RunError`] when it could not start, or could not end in order.
pub fn run(
    config: Config,
    levels: LevelFilters,
    followed: Option<FollowedConfig>,
    announce: impl FnOnce(Addresses),
) -> Result<(), RunError> {
    let descriptors = DescriptorLimit::raise();
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(cores)
        .max_blocking_threads(BLOCKING_THREADS_MAX)
        .thread_name("sherd-async")
        .enable_all()
        .build()
        .map_err(RunError::Runtime)?;
    let live = live_settings(&config, levels, followed.as_ref());
    let result = runtime.block_on(node(config, descriptors, live, followed, announce));
    runtime.shutdown_timeout(BLOCKING_PATIENCE);
    result
}

/// The settings that may change, which the log takes already.
fn live_settings(
    config: &Config,
    levels: LevelFilters,
    followed: Option<&FollowedConfig>,
) -> Arc<LiveSettings> {
    let digest = followed.and_then(FollowedConfig::live_digest);
    let live = LiveSettings::new(HotSettings::of(config), digest);
    let mut level = config.log.level.clone();
    live.on_change(move |hot| {
        if level != hot.log_level {
            level.clone_from(&hot.log_level);
            levels.replace(&level);
        }
    });
    Arc::new(live)
}

async fn node(
    config: Config,
    descriptors: DescriptorLimit,
    live: Arc<LiveSettings>,
    followed: Option<FollowedConfig>,
    announce: impl FnOnce(Addresses),
) -> Result<(), RunError> {
    let metrics = Metrics::shared(config.durability);
    let health = Arc::new(Health::opening(config.durability, config.upkeep.release_grace));
    let shown = Arc::clone(&health);
    live.on_change(move |hot| shown.set_release_grace(hot.upkeep.release_grace));
    let (signalled, admin_shutdown) = (Shutdown::new(), Shutdown::new());
    let certificate = config.tls.clone().map(ServedCertificate::load).transpose()?;
    let s3 = Listener::bind("S3", config.listen)?.with_trusted_proxies(config.trusted_proxies.clone());
    let admin = Listener::bind("admin", config.admin_listen)?;
    let iam = match config.iam_listen {
        None => None,
        Some(address) => {
            Some(Listener::bind("IAM", address)?.with_trusted_proxies(config.trusted_proxies.clone()))
        }
    };
    let addresses = Addresses {
        s3: s3.address(),
        tls: certificate.is_some(),
        admin: admin.address(),
        iam: iam.as_ref().map(Listener::address),
        node: None,
    };

    let (tasks, ended) = (TaskTracker::new(), CancellationToken::new());
    if let Some(followed) = followed.filter(FollowedConfig::may_change) {
        let hangups = signal(SignalKind::hangup()).map_err(RunError::Runtime)?;
        tasks.spawn(followed.follow(Arc::clone(&live), metrics.config.clone(), hangups, ended.clone()));
    }
    let audit = start_audit(&config, &metrics, &tasks, &ended)?;
    let s3 = s3.with_audit(audit.clone(), "s3");
    let iam = iam.map(|iam| iam.with_audit(audit.clone(), "iam"));
    let (s3, iam) = match certificate {
        None => (s3, iam),
        Some(certificate) => {
            tasks.spawn(certificate.clone().follow(ended.clone()));
            let iam = iam.map(|iam| iam.with_certificate(certificate.clone()));
            (s3.with_certificate(certificate), iam)
        }
    };
    let root = RootCredentials::new(&config);
    tasks.spawn(root.clone().follow(ended.clone()));
    let listeners = ClientListeners { s3, iam, root, descriptors, live };
    tasks.spawn(on_signals(signalled.clone()).map_err(RunError::Runtime)?);
    let probes = serve_admin(admin, admin_shutdown.clone(), Arc::clone(&metrics), Arc::clone(&health));
    let probes = tasks.spawn(probes);

    let result = serve_clients(&config, listeners, &signalled, &metrics, &health, audit.clone(), |node| {
        announce(Addresses { node, ..addresses });
    })
    .await;

    if let Some(audit) = audit {
        audit.close().await;
    }
    ended.cancel();
    admin_shutdown.stop();
    admin_shutdown.abort();
    if let Err(error) = probes.await {
        tracing::error!(%error, "admin listener");
    }
    tracing::info!("stopped");
    result
}

/// Starts the audit log, where one is wanted. SIGHUP has its file opened again.
fn start_audit(
    config: &Config,
    metrics: &Metrics,
    tasks: &TaskTracker,
    ended: &CancellationToken,
) -> Result<Option<AuditLog>, RunError> {
    let Some(target) = config.audit.clone() else { return Ok(None) };
    let node = config.cluster.as_ref().map(|cluster| cluster.own().name.clone()).unwrap_or_default();
    let mut hangups = signal(SignalKind::hangup()).map_err(RunError::Runtime)?;
    let log = AuditLog::start(target, node, metrics.audit.clone(), Arc::new(SystemClock::new()))
        .map_err(RunError::Audit)?;
    let (reopened, ended) = (log.clone(), ended.clone());
    tasks.spawn(async move {
        // Cancel-safe: a signal that is not received at the end has no file to open.
        while tokio::select! {
            biased;
            () = ended.cancelled() => false,
            received = hangups.recv() => received.is_some(),
        } {
            reopened.reopen();
        }
    });
    Ok(Some(log))
}

/// The listeners for clients, how many descriptors they may have, and the settings of both that may change.
struct ClientListeners {
    s3: Listener,
    iam: Option<Listener>,
    /// The credentials that requests to both are verified by.
    root: RootCredentials,
    descriptors: DescriptorLimit,
    live: Arc<LiveSettings>,
}

/// The parts of the listener of S3 that its limits bind.
struct S3Front {
    limits: LiveLimits,
    admission: Arc<Admission>,
    slow: SlowRequests,
}

/// Makes the parts of the listener of S3 that its limits bind, with no more connections than there are
/// descriptors for.
fn s3_front(
    config: &Config,
    live: &LiveSettings,
    descriptors: DescriptorLimit,
    metrics: &Metrics,
    health: &Health,
) -> S3Front {
    let volumes = config.volumes.len();
    let within = move |limits: Limits| {
        let connections_max = descriptors.connections(volumes, limits.connections_max);
        ListenerLimits::from(Limits { connections_max, ..limits })
    };
    let mut limits = config.limits;
    let front = S3Front {
        limits: within(limits).into(),
        admission: Admission::new(
            limits.requests_max,
            limits.queue_max,
            metrics.s3.clone(),
            health.refusals().clone(),
        ),
        slow: live.slow_requests(),
    };
    let (listener, admission) = (front.limits.clone(), Arc::clone(&front.admission));
    live.on_change(move |hot| {
        if limits != hot.limits {
            limits = hot.limits;
            listener.change(within(limits));
            admission.resize(limits.requests_max, limits.queue_max);
        }
    });
    front
}

/// Opens the store, serves it until a signal stops the process, and closes it.
async fn serve_clients(
    config: &Config,
    listeners: ClientListeners,
    signalled: &Shutdown,
    metrics: &Arc<Metrics>,
    health: &Arc<Health>,
    audit: Option<AuditLog>,
    announce: impl FnOnce(Option<SocketAddr>),
) -> Result<(), RunError> {
    let ClientListeners { s3: listener, iam, root, descriptors, live } = listeners;
    // Opening is given up whole: nothing was acknowledged yet.
    let store = tokio::select! {
        biased;
        () = signalled.stopped() => return Ok(()),
        store = open(config, &root, metrics, health, &live, audit) => store?,
    };
    let made = tokio::select! {
        biased;
        () = signalled.stopped() => None,
        made = first_buckets::make(&store.protocol, &config.region, &config.s3.first_buckets) => Some(made),
    };
    let Some(Ok(())) = made else {
        (store.close)().await;
        return made.map_or(Ok(()), |made| made.map_err(RunError::from));
    };
    health.serve();
    if config.durability == Durability::None {
        tracing::warn!("durability = none: a power cut loses acknowledged objects");
    }
    // With one node the warning of its outage is left out.
    let (shape, nodes) = (store.shape, store.nodes);
    let is_said = |warning: &&FormationWarning| nodes > 1 || **warning != FormationWarning::NodeDownIsOutage;
    for warning in shape.warnings(nodes).iter().filter(is_said) {
        tracing::warn!(geometry = %shape.geometry, "{warning}");
    }
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        volumes = config.volumes.len(),
        sets = shape.sets,
        geometry = %shape.geometry,
        s3 = %listener.address(),
        "serving"
    );
    announce(store.node_address);

    let shutdown = Shutdown::new();
    let S3Front { limits, admission, slow } = s3_front(config, &live, descriptors, metrics, health);
    let (above, hosts, heads) = (store.protocol.clone(), store.protocol.clone(), store.protocol);
    let refuse_request = move |refusal| refuse(&above, refusal);
    let listener = listener.with_refused_heads(Arc::new(move |status| refuse_head(&heads, status)));
    let service = guard(store.service, admission, slow, refuse_request, store.allow_page);
    let shown = config.s3.health_paths.then(|| Arc::clone(health));
    let service = health_paths::before(service, shown, Arc::new(move |head| hosts.names_bucket(head)));
    let (traffic, reclaim) = (metrics.s3.traffic.clone(), store.reclaim);
    let s3 = serve(listener, limits, shutdown.clone(), traffic, reclaim, service);
    let iam = iam.map(|iam| serve_iam(iam, shutdown.clone(), metrics.iam.clone(), store.iam));
    let served = async { tokio::join!(s3, OptionFuture::from(iam)) };
    let patience = async {
        signalled.stopped().await;
        health.stop();
        tokio::time::sleep(live.now().shutdown_delay).await;
        shutdown.stop();
        tokio::time::sleep(live.now().shutdown_timeout).await;
        shutdown.abort();
        // The listener returns as soon as the last connection is cut.
        std::future::pending::<()>().await;
    };
    tokio::select! {
        biased;
        _ = served => {}
        () = patience => {}
    }
    (store.close)().await;
    match shutdown.cut_count() {
        0 => Ok(()),
        count => Err(RunError::Unfinished { count }),
    }
}
