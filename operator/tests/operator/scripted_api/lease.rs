//! Operators that want to lead, on a paused clock: at no time two, and none that waits without end.

use std::time::Duration;

use http::Method;
use k8s_openapi::jiff::Timestamp;
use sherd_operator::lease::Elector;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::server::{ApiServer, Fault};

const LEASE: &str = "/apis/coordination.k8s.io/v1/namespaces/storage/leases/sherd-operator";

fn elector(server: &ApiServer, identity: &str) -> Elector {
    Elector::new(server.client(), "storage", "sherd-operator", identity, Timestamp::now)
}

fn holder(server: &ApiServer) -> String {
    let lease = server.get(LEASE).expect("there");
    lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned()
}

#[tokio::test(start_paused = true)]
async fn a_free_lease_is_taken_at_once_and_renewed() {
    let (server, stop) = (ApiServer::default(), CancellationToken::new());
    let mut one = elector(&server, "one");
    assert!(one.acquire(&stop).await);
    assert_eq!(holder(&server), "one");
    server.take_changes();
    let renewed = tokio::time::timeout(Duration::from_secs(9), one.hold(&stop)).await;
    assert!(renewed.is_err(), "it is held");
    assert_eq!(server.take_changes().len(), 4, "each two seconds");
    assert_eq!(server.get(LEASE).expect("there")["spec"]["leaseTransitions"], 0);
}

#[tokio::test(start_paused = true)]
async fn another_waits_until_the_leader_was_silent_for_the_whole_duration() {
    let (server, stop) = (ApiServer::default(), CancellationToken::new());
    assert!(elector(&server, "one").acquire(&stop).await);
    let begun = Instant::now();
    assert!(elector(&server, "two").acquire(&stop).await, "the first one is dead");
    assert!(begun.elapsed() >= Duration::from_secs(15), "{:?}", begun.elapsed());
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
    assert_eq!(holder(&server), "two");
    assert_eq!(server.get(LEASE).expect("there")["spec"]["leaseTransitions"], 1);
}

/// The time that is written in a lease is another machine's: it decides nothing.
#[tokio::test(start_paused = true)]
async fn a_lease_with_an_old_time_is_not_taken_from_a_leader_that_renews() {
    let (server, stop) = (ApiServer::default(), CancellationToken::new());
    let past = || Timestamp::from_second(1_000_000).expect("a time");
    let mut slow_clock = Elector::new(server.client(), "storage", "sherd-operator", "one", past);
    assert!(slow_clock.acquire(&stop).await);
    // A time that stands still makes each renewal the same but for the version, so it must move.
    let mut seconds = 0;
    let mut other = elector(&server, "two");
    let renews = async {
        loop {
            tokio::time::sleep(Duration::from_secs(2)).await;
            seconds += 2;
            let mut lease = server.get(LEASE).expect("there");
            lease["spec"]["renewTime"] = serde_json::json!(format!(
                "1970-01-12T13:{:02}:{:02}.000000Z",
                46 + seconds / 60,
                seconds % 60
            ));
            server.put(LEASE, lease);
        }
    };
    let tried = tokio::time::timeout(Duration::from_mins(1), async {
        tokio::select! {
            // The renewals never end.
            biased;
            () = renews => false,
            taken = other.acquire(&stop) => taken,
        }
    });
    assert!(tried.await.is_err(), "it was not taken");
    assert_eq!(holder(&server), "one");
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_cannot_renew_stops_before_another_may_begin() {
    let (server, stop) = (ApiServer::default(), CancellationToken::new());
    for fault in [Fault::Code(500), Fault::Silence, Fault::Broken] {
        let mut one = elector(&server, "one");
        assert!(one.acquire(&stop).await);
        let begun = Instant::now();
        server.fail(Method::PUT, "leases", fault.clone());
        assert!(!one.hold(&stop).await, "lost");
        let held = begun.elapsed();
        assert!(held >= Duration::from_secs(10) && held < Duration::from_secs(15), "{fault:?}: {held:?}");
        server.mend();
    }
}

/// The lease counts from when it was asked for: the answer may have been long on its way.
#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_granted_late_holds_it_for_less() {
    let (server, stop) = (ApiServer::default(), CancellationToken::new());
    let mut one = elector(&server, "one");
    server.fail(Method::POST, "leases", Fault::Late(Duration::from_secs(8)));
    let begun = Instant::now();
    assert!(one.acquire(&stop).await);
    server.mend();
    server.fail(Method::PUT, "leases", Fault::Code(500));
    assert!(!one.hold(&stop).await, "lost");
    assert!(begun.elapsed() < Duration::from_secs(15), "{:?}: another may begin then", begun.elapsed());
}

/// A candidate's second look may be old when it arrives.
#[tokio::test(start_paused = true)]
async fn a_candidate_does_not_count_the_time_that_answers_take() {
    let (server, stop) = (ApiServer::default(), CancellationToken::new());
    assert!(elector(&server, "one").acquire(&stop).await);
    let mut two = elector(&server, "two");
    // The first look is answered at once, later ones after ten seconds.
    let tried = tokio::time::timeout(Duration::from_secs(1), two.acquire(&stop)).await;
    assert!(tried.is_err(), "another leads");
    server.fail(Method::GET, "leases", Fault::Late(Duration::from_secs(10)));
    let begun = Instant::now();
    assert!(two.acquire(&stop).await);
    assert!(begun.elapsed() >= Duration::from_secs(24), "{:?}", begun.elapsed());
}

#[tokio::test(start_paused = true)]
async fn a_leader_whose_lease_was_taken_stops() {
    let (server, stop) = (ApiServer::default(), CancellationToken::new());
    let mut one = elector(&server, "one");
    assert!(one.acquire(&stop).await);
    let mut lease = server.get(LEASE).expect("there");
    lease["spec"]["holderIdentity"] = serde_json::json!("two");
    server.put(LEASE, lease);
    let begun = Instant::now();
    assert!(!one.hold(&stop).await);
    assert!(begun.elapsed() <= Duration::from_secs(2));
    one.release().await;
    assert_eq!(holder(&server), "two", "what is another's is not released");
}

#[tokio::test(start_paused = true)]
async fn a_lease_that_is_given_back_is_taken_within_seconds() {
    let (server, stop) = (ApiServer::default(), CancellationToken::new());
    let mut one = elector(&server, "one");
    assert!(one.acquire(&stop).await);
    let stopped = CancellationToken::new();
    stopped.cancel();
    assert!(one.hold(&stopped).await, "stopped, not lost");
    one.release().await;
    let begun = Instant::now();
    assert!(elector(&server, "two").acquire(&stop).await);
    assert!(begun.elapsed() < Duration::from_secs(3));
    assert!(!elector(&server, "three").acquire(&stopped).await, "a candidate that is stopped ends");
}
