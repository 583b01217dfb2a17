//! A load balancer before the S3 ports of a cluster, as an operator would put one there.
//!
//! It asks each node for `/health/ready` again and again, gives a new connection to the next node that said
//! yes, and to the one after it where that does not listen any more. It does not look at the bytes that it
//! forwards. A node that is started again listens elsewhere: the test gives the balancer the new address.

use std::net::SocketAddr;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinSet;
use tokio::time::{MissedTickBehavior, interval};

use super::Node;
use super::admin::ask;

/// Between two questions for readiness.
const PROBE_EVERY: Duration = Duration::from_millis(200);

/// A balancer; it ends with the value.
#[derive(Debug)]
pub(crate) struct Balancer {
    address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

#[derive(Debug)]
struct Shared {
    backends: Mutex<Vec<Option<Backend>>>,
    turn: AtomicUsize,
}

/// Where a node is.
#[derive(Debug, Clone)]
struct Backend {
    s3: SocketAddr,
    admin: String,
    is_ready: bool,
}

impl Balancer {
    /// Starts one before this number of nodes, without their addresses yet.
    pub(crate) async fn start(nodes: usize) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("it is bound");
        let shared = Arc::new(Shared { backends: Mutex::new(vec![None; nodes]), turn: AtomicUsize::new(0) });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        for node in 0..nodes {
            tasks.spawn(probe(node, Arc::clone(&shared)));
        }
        Self { address, shared, _tasks: tasks }
    }

    /// Where clients find it.
    pub(crate) fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    /// Notes a node's address. The node gets connections once it reports that it is ready.
    pub(crate) fn know(&self, place: usize, node: &Node) {
        let s3 = node.endpoint.strip_prefix("http://").expect("plain HTTP").parse().expect("an address");
        let backend = Backend { s3, admin: node.admin.clone(), is_ready: false };
        self.shared.backends.lock().expect("no task panics here")[place] = Some(backend);
    }

    /// Whether a node gets connections.
    pub(crate) fn is_ready(&self, place: usize) -> bool {
        let backends = self.shared.backends.lock().expect("no task panics here");
        backends[place].as_ref().is_some_and(|backend| backend.is_ready)
    }
}

impl Shared {
    /// The nodes that are ready, another one first each time.
    fn candidates(&self) -> Vec<SocketAddr> {
        let turn = self.turn.fetch_add(1, Ordering::Relaxed);
        let backends = self.backends.lock().expect("no task panics here");
        let mut ready: Vec<_> =
            backends.iter().flatten().filter(|backend| backend.is_ready).map(|backend| backend.s3).collect();
        let count = ready.len().max(1);
        ready.rotate_left(turn % count);
        ready
    }
}

async fn probe(place: usize, shared: Arc<Shared>) {
    let mut ticks = interval(PROBE_EVERY);
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        ticks.tick().await;
        let known = shared.backends.lock().expect("no task panics here")[place].clone();
        let Some(known) = known else { continue };
        let is_ready = matches!(ask(&known.admin, "/health/ready").await, Ok((200, _)));
        let mut backends = shared.backends.lock().expect("no task panics here");
        // The backend may be another process by now.
        if let Some(backend) = backends[place].as_mut().filter(|backend| backend.admin == known.admin) {
            backend.is_ready = is_ready;
        }
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((client, _)) = listener.accept().await else { continue };
        connections.spawn(connection(client, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

/// Forwards both directions until both ended; without a node that listens the client's connection ends.
async fn connection(mut client: TcpStream, shared: Arc<Shared>) {
    for address in shared.candidates() {
        let Ok(mut server) = TcpStream::connect(address).await else { continue };
        for stream in [&client, &server] {
            // Without the option it is slower.
            let _slower = stream.set_nodelay(true);
        }
        // Either end may end the connection at any time: both see that themselves.
        let _ended = tokio::io::copy_bidirectional(&mut client, &mut server).await;
        return;
    }
}
