//! Clients that vanish, stall, or come in crowds leave nothing behind.
//!
//! A PUT that ends early shows nowhere and gives its space back; a GET whose reader is gone ends; a
//! connection that stands still is closed, a half-closed one ends. More requests than the node works on get
//! 503 SlowDown, while its memory stays where it was. Connections that ask for nothing keep no probe and no
//! signed request out.

use std::time::{Duration, Instant};

use tokio::net::TcpStream;
use tokio::task::JoinSet;

use crate::harness::data::{Body, Dice, Home};
use crate::harness::raw::{Raw, STEADY_LEN};
use crate::harness::s3::{Failure, S3};
use crate::harness::wait::{LATER, SOON, bounded, eventually};
use crate::harness::{Node, empty, volumes};

/// Bytes of a body that never arrives whole: eight stripes.
const LARGE: usize = 8 << 20;
/// Clients that vanish.
const CLIENTS: usize = 12;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_put_that_ends_early_leaves_nothing() {
    let node = empty().start().await;
    let s3 = node.with_bucket().await;
    let half = vec![7; LARGE / 2];
    for (round, before) in ["reset", "closed", "half closed"].into_iter().zip([0, 1, 2]) {
        let received = node.metrics().await.get(RECEIVED);
        let mut clients = Vec::new();
        for number in 0..CLIENTS {
            let mut client = Raw::put(&s3, &format!("{round}/{number}"), LARGE).await;
            client.body(&half).await.expect("the node takes bodies");
            clients.push(client);
        }
        eventually("the bodies arrive", SOON, async || {
            let now = node.metrics().await.get(RECEIVED) - received;
            #[expect(clippy::cast_precision_loss, reason = "a few mebibytes")]
            let all = (CLIENTS * half.len()) as f64;
            if now >= all { Ok(()) } else { Err(format!("{now} of {all} bytes")) }
        })
        .await;
        for mut client in clients {
            match before {
                0 => client.reset(),
                1 => drop(client),
                _ => {
                    client.half_close().await;
                    // The client may get an error, or find the connection closed; it must not get 200.
                    let head = client.head().await;
                    assert!(head.as_ref().is_none_or(|head| head.status >= 400), "{head:?}");
                }
            }
        }
        is_idle(&node).await;
        assert_eq!(s3.list("").await, Ok([].into()), "nothing shows after clients {round}");
    }
    // Before an accept was sent the writer removes what it wrote.
    eventually("the space is given back", SOON, async || {
        let left: usize = node.volumes().iter().map(|volume| volumes::shard_files(volume).len()).sum();
        if left == 0 { Ok(()) } else { Err(format!("{left} shard files are left")) }
    })
    .await;
    works(&s3).await;
    node.until_whole().await;
    node.stop().await.is_clean();
}

/// The bytes of bodies that arrived.
const RECEIVED: &str = "sherd_s3_bytes_total{direction=\"received\"}";

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_get_whose_reader_is_gone_ends() {
    let node = empty().start().await;
    let s3 = node.with_bucket().await;
    let body = Body { id: 1, len: 32 << 20 };
    s3.put_settled("large", body).await;
    for number in 0..CLIENTS {
        let mut client = Raw::get(&s3, "large").await;
        let head = client.head().await.expect("an answer");
        assert_eq!((head.status, head.len()), (200, body.len));
        client.bytes(64 << 10).await;
        if number % 2 == 0 {
            client.reset();
        }
    }
    is_idle(&node).await;
    assert_eq!(s3.get_settled("large").await, Some(body));
    works(&s3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_stand_still_are_closed() {
    // Long enough for the client that is served, on a machine with other work.
    let limits = "[limits]\nidle_timeout = \"10s\"\nstall_timeout = \"10s\"";
    let node = empty().serve(limits).start().await;
    let s3 = node.with_bucket().await;
    let body = Body { id: 1, len: 32 << 20 };
    s3.put_settled("large", body).await;

    // A client that reads nothing of a large answer, which does not fit the socket's buffers. It pauses for
    // longer than the others stand still, and goes on.
    let mut deaf = Raw::get(&s3, "large").await;
    assert_eq!(deaf.head().await.map(|head| head.status), Some(200));
    let mut silent = Raw::idle(&node.endpoint).await;
    let mut half_a_head = Raw::idle(&node.endpoint).await;
    half_a_head.body(b"GET / HTTP/1.1\r\nHost: x\r\nX-Slow: ").await.expect("a new connection");
    let mut half_a_body = Raw::put(&s3, "slow", LARGE).await;
    half_a_body.body(&vec![7; LARGE / 2]).await.expect("the node takes bodies");
    for (what, client) in
        [("silence", &mut silent), ("half a head", &mut half_a_head), ("half a body", &mut half_a_body)]
    {
        let head = bounded(what, SOON, client.head()).await;
        assert!(head.as_ref().is_none_or(|head| head.status >= 400), "{what}: {head:?}");
        bounded(what, SOON, client.until_closed()).await;
    }
    assert_eq!(Body::recognise(&deaf.bytes(body.len).await), Ok(body));
    drop(deaf);
    is_idle(&node).await;

    assert_eq!(s3.get_settled("slow").await, None, "half a body shows nowhere");
    assert_eq!(s3.get_settled("large").await, Some(body));
    works(&s3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_slow_client_that_moves_is_served() {
    let node = empty().serve("[limits]\nstall_timeout = \"2s\"").start().await;
    let s3 = node.with_bucket().await;
    let mut dice = Dice::of_this_run("slow");
    let body = dice.body(Home::Packed);
    let mut client = Raw::put(&s3, "slow", body.len).await;
    let bytes = body.bytes();
    let mut ticks = tokio::time::interval(Duration::from_millis(200));
    // Longer than the node lets a client stand still, in small steps.
    for piece in bytes.chunks(bytes.len() / 15 + 1) {
        ticks.tick().await;
        client.body(piece).await.expect("a client that moves is not cut");
    }
    assert_eq!(client.head().await.map(|head| head.status), Some(200));
    assert_eq!(s3.get_settled("slow").await, Some(body));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn many_slow_readers_starve_no_other() {
    let node = empty().serve("buffer_cap = \"32MiB\"\nlimits.stall_timeout = \"10m\"").start().await;
    let s3 = node.with_bucket().await;
    let (large, other) = (Body { id: 1, len: 16 << 20 }, Body { id: 2, len: 4 << 20 });
    s3.put_settled("large", large).await;
    s3.put_settled("other", other).await;
    // Together they ask for sixty times what there is, and read nothing of it.
    let mut slow = Vec::new();
    for _ in 0..60 {
        slow.push(Raw::get(&s3, "large").await);
    }
    for _ in 0..4 {
        assert_eq!(s3.get_settled("other").await, Some(other), "it gets the buffers of a slow one");
    }
    drop(slow);
    is_idle(&node).await;
    works(&s3).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_crowd_gets_slow_down() {
    let limits = "buffer_cap = \"32MiB\"\n[limits]\nrequests_max = 4\nqueue_max = 4";
    let node = empty().serve(limits).start().await;
    let s3 = node.with_bucket().await;
    works(&s3).await;

    // Three that go on sending hold the places of bodies, three more wait for one.
    let (mut senders, mut crowd) = (Vec::new(), Vec::new());
    for number in 0..6 {
        let client = Raw::put(&s3, &format!("crowd/{number}"), STEADY_LEN).await;
        if number < 3 {
            senders.push(client.steady());
        } else {
            crowd.push(client);
        }
        let wanted = [(number + 1).min(3), (number + 1_usize).saturating_sub(3)];
        eventually("the crowd is let in", SOON, async || {
            let metrics = node.metrics().await;
            let gauges = ["sherd_s3_requests_in_flight", "sherd_s3_requests_queued"];
            let now = gauges.map(|name| metrics.get(name));
            #[expect(clippy::cast_precision_loss, reason = "six clients")]
            let there = now.iter().zip(wanted).all(|(now, wanted)| *now >= wanted as f64);
            if there { Ok(()) } else { Err(format!("{now:?}, not {wanted:?}")) }
        })
        .await;
    }
    assert_eq!(s3.get_settled("none").await, None, "a place is left for requests without a body");
    let calm = node.memory_kib("RssAnon");
    let mut told = JoinSet::new();
    let mut dice = Dice::of_this_run("crowd");
    for number in 0..64 {
        let (s3, body) = (s3.clone(), dice.body(Home::File));
        told.spawn(async move { s3.put(&format!("late/{number}"), body).await });
    }
    for outcome in told.join_all().await {
        // SlowDown, or the connection closed on a body that the node will not read. On a busy machine a
        // sender may pause for long enough to lose its place.
        match outcome {
            Ok(()) | Err(Failure::Lost(_)) => {}
            Err(failure) => assert!(failure.is_slow_down(), "{failure:?}"),
        }
    }
    let shed = node.metrics().await.get("sherd_s3_requests_shed_total");
    // The places of the queue fall free when waiting ends, and a closed connection counts nowhere.
    assert!(shed >= 32.0, "{shed} requests were turned away");
    let grown = node.memory_kib("RssAnon").saturating_sub(calm);
    assert!(grown < 64 << 10, "64 requests that were turned away took {grown} KiB");
    drop((senders, crowd));
    is_idle(&node).await;
    works(&s3).await;
}

/// Connections to the admin port, which has 64 places: as many, and far more.
const ADMIN_FLOODS: [usize; 2] = [64, 200];
/// Places of an S3 listener that few connections fill.
const PLACES: usize = 16;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn connections_that_ask_for_nothing_keep_no_probe_and_no_request_out() {
    let limits = format!("limits.connections_max = {PLACES}\nlimits.idle_timeout = \"1h\"");
    let node = empty().serve(&limits).start().await;
    let s3 = node.with_bucket().await;
    let mut flood = Vec::new();
    for count in ADMIN_FLOODS {
        for _ in 0..count {
            flood.push(Raw::idle(&node.admin).await);
        }
        for path in ["/health/live", "/health/serving", "/health/ready", "/metrics"] {
            assert_eq!(node.ask(path).await.map(|(status, _)| status), Ok(200), "{path}");
        }
    }
    let body = Body { id: 1, len: 100 << 10 };
    s3.put_settled("kept", body).await;
    for _ in 0..4 * PLACES {
        flood.push(Raw::idle(&node.endpoint).await);
    }
    // A new client: it has no connection yet.
    assert_eq!(node.s3().get_settled("kept").await, Some(body));
    let metrics = node.metrics().await;
    for listener in ["s3", "admin"] {
        let turned_away = metrics.get(&format!("sherd_{listener}_connections_turned_away_total"));
        assert!(turned_away > 0.0, "nothing gave way on {listener}");
    }
    for listener in ["S3", "admin"] {
        let line = format!("listener=\"{listener}\"");
        let lines =
            node.log().lines().filter(|found| found.contains("gave way") && found.contains(&line)).count();
        assert!(lines > 0, "the log says nothing of {listener}: {}", node.log());
    }
    drop(flood);
    works(&node.s3()).await;
}

/// Reads that wait for a place when their clients go.
const READS: usize = 128;

/// A request that waits for a place is refused after 5 s. These have gone by then.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn reads_whose_clients_went_away_leave_nothing_under_way() {
    let node = empty().serve("[limits]\nrequests_max = 1\nqueue_max = 1024").start().await;
    let s3 = node.with_bucket().await;
    works(&s3).await;
    // The writer holds the only place.
    let writer = Raw::put(&s3, "writer", STEADY_LEN).await.steady();
    eventually("the place is taken", SOON, async || {
        let under_way = node.metrics().await.get("sherd_s3_requests_in_flight");
        if under_way >= 1.0 { Ok(()) } else { Err("it is free".to_owned()) }
    })
    .await;
    let shed = "sherd_s3_requests_shed_total";
    let before = node.metrics().await.get(shed);
    for resets in [false, true] {
        let mut clients = Vec::new();
        for _ in 0..READS {
            clients.push(Raw::get(&s3, "works").await);
        }
        for client in clients {
            if resets {
                client.reset();
            }
        }
        eventually("none of them waits", LATER, async || {
            let queued = node.metrics().await.get("sherd_s3_requests_queued");
            if queued == 0.0 { Ok(()) } else { Err(format!("{queued} wait")) }
        })
        .await;
    }
    let shed = node.metrics().await.get(shed) - before;
    #[expect(clippy::cast_precision_loss, reason = "some hundreds")]
    let all = (2 * READS) as f64;
    assert!(shed < all, "all of them waited to the end");
    // A client that ends its side of a write goes on to read.
    let mut client = Raw::put(&s3, "half closed", 100).await;
    client.body(&[7; 100]).await.expect("the node takes bodies");
    client.half_close().await;
    drop(writer);
    assert_eq!(client.head().await.map(|head| head.status), Some(200));
    is_idle(&node).await;
    works(&s3).await;
}

/// Descriptors of a process that was given few, and clients that take more than that.
const DESCRIPTORS: u32 = 256;
/// Objects in files of their own, which volumes keep open: more than there are descriptors for.
const FILES_MAX: u64 = 200;
/// Descriptors that are left when clients come: those of the files that one object is written to, and a few.
const DESCRIPTORS_OF_A_WRITE: usize = 20;
/// S3 and admin: each says once a minute that it lacks descriptors.
const LISTENERS: usize = 2;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn idle_connections_leave_descriptors_to_probes_and_to_volumes() {
    let node = empty().with_descriptors(DESCRIPTORS).start().await;
    let s3 = node.with_bucket().await;
    works(&s3).await;
    let mut crowd = JoinSet::new();
    let address = node.endpoint.strip_prefix("http://").expect("plain HTTP");
    for _ in 0..2 * DESCRIPTORS {
        let address = address.to_owned();
        crowd.spawn(async move {
            // Clients that are not let in wait in the kernel's queue, or before it.
            let _held = TcpStream::connect(address).await;
            std::future::pending::<()>().await;
        });
    }
    eventually("some of the crowd are let in", SOON, async || {
        let connections = node.metrics().await.get("sherd_s3_connections");
        // A quarter of the descriptors are places, and one of ten of those stays free.
        if connections >= f64::from(DESCRIPTORS / 5) {
            Ok(())
        } else {
            Err(format!("{connections} are open"))
        }
    })
    .await;
    works(&s3).await;
    node.until_ready().await;
    assert_eq!(node.log_lines("accept connection"), 0, "no listener lacks a descriptor");
    crowd.shutdown().await;
    works(&node.s3()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn probes_are_answered_while_volumes_take_every_descriptor() {
    let descriptors = DESCRIPTORS / 2;
    let node = empty().with_descriptors(descriptors).start().await;
    let s3 = node.with_bucket().await;
    // Files that are read stay open, until a descriptor is lacking: clients find about as many free as one
    // read takes.
    let nearly_all = usize::try_from(descriptors).expect("few") - DESCRIPTORS_OF_A_WRITE;
    let mut id = 0;
    while node.open_descriptors() < nearly_all {
        assert!(id < FILES_MAX, "{} descriptors are open after {id} objects", node.open_descriptors());
        let (key, body) = (id.to_string(), Body { id, len: 600 << 10 });
        s3.put_settled(&key, body).await;
        assert_eq!(s3.get_settled(&key).await, Some(body));
        id += 1;
    }
    // Clients take what is left.
    let mut crowd = Vec::new();
    for _ in 0..DESCRIPTORS / 8 {
        crowd.push(Raw::idle(&node.endpoint).await);
    }
    eventually("no descriptor is left", SOON, async || match node.log_lines("accept connection") {
        0 => Err(format!("connections are accepted at {}", node.open_descriptors())),
        _ => Ok(()),
    })
    .await;
    let begun = Instant::now();
    for _ in 0..FILES_MAX {
        node.metrics().await;
    }
    let minutes = usize::try_from(begun.elapsed().as_secs() / 60).expect("a few");
    let lines = node.log_lines("accept connection");
    assert!(lines <= LISTENERS * (1 + minutes), "{lines} lines in {:?}", begun.elapsed());
    drop(crowd);
    works(&s3).await;
}

/// Waits until nothing is worked on and nothing held for it.
async fn is_idle(node: &Node) {
    eventually("the node is idle", LATER, async || {
        let metrics = node.metrics().await;
        let gauges = ["sherd_s3_requests_in_flight", "sherd_s3_requests_queued", "sherd_buffer_used_bytes"];
        let busy = gauges.into_iter().find(|name| metrics.get(name) > 0.0);
        busy.map_or(Ok(()), |name| Err(format!("{name} is {}", metrics.get(name))))
    })
    .await;
}

/// A write and a read, as ever.
async fn works(s3: &S3) {
    let body = Body { id: 77, len: 1 << 20 };
    s3.put_settled("works", body).await;
    assert_eq!(s3.get_settled("works").await, Some(body));
    s3.delete_settled("works").await;
}
