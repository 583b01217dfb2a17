//! An API server that refuses, fails, is silent or goes away: it is reported, and tried again.

use super::*;

#[tokio::test]
async fn a_refusal_is_reported_and_tried_again() {
    let server = a_cluster();
    server.fail(Method::PATCH, "statefulsets", Fault::Code(403));
    let refused = step(&server).await.expect_err("tried again");
    assert_eq!(refused.category(), "forbidden");
    let status = server.get(CLUSTER).expect("there")["status"].clone();
    let progressing =
        status["conditions"].as_array().expect("conditions").iter().find(|one| one["type"] == "Progressing");
    let progressing = progressing.expect("reported");
    assert_eq!(progressing["reason"], "ApplyRejected");
    assert!(
        progressing["message"].as_str().expect("words").contains("StatefulSet demo-pool-0"),
        "{progressing}"
    );
    assert!(events(&server).contains(&"ApplyRejected".to_owned()));
    server.mend();
    step(&server).await.expect("reconciled");
    assert!(server.get(STATEFUL_SET).is_some());
}

#[tokio::test]
async fn a_server_that_goes_away_changes_nothing_and_is_tried_again() {
    let server = a_cluster();
    for (method, path, fault, category) in [
        (Method::GET, "secrets", Fault::Broken, "unreachable"),
        (Method::GET, "pods", Fault::Code(500), "server"),
        (Method::PUT, "leases", Fault::Code(500), "lease"),
        (Method::PATCH, "configmaps", Fault::Code(503), "server"),
        (Method::PATCH, "/status", Fault::Broken, "unreachable"),
    ] {
        server.fail(method, path, fault);
        let failed = step(&server).await.expect_err("tried again");
        assert_eq!(failed.category(), category, "{failed}");
        server.mend();
    }
    step(&server).await.expect("reconciled");
}

/// A request that fails on its way is reported like a refusal; nodes that answer leave the cluster ready.
#[tokio::test]
async fn a_change_that_fails_is_reported() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    server.fail(Method::PATCH, "configmaps", Fault::Code(500));
    server.delete(&config(&server));
    step(&server).await.expect_err("tried again");
    let status = reported(&server);
    says(&status, ConditionType::Progressing, "False", "ApplyFailed");
    says(&status, ConditionType::Ready, "True", "Serving");
    assert!(events(&server).contains(&"ApplyFailed".to_owned()));
}

/// The last report does not stand as if it were true when the cluster cannot be looked at for long: at once
/// where the API server refuses, after some tries where it fails.
#[tokio::test(start_paused = true)]
async fn a_cluster_that_cannot_be_looked_at_is_reported_so() {
    for (code, begun) in [(403, Duration::ZERO), (500, Duration::from_secs(4))] {
        let server = a_cluster();
        step(&server).await.expect("reconciled");
        pods_come_up(&server);
        step(&server).await.expect("reconciled");
        says(&reported(&server), ConditionType::Ready, "True", "Serving");
        server.fail(Method::GET, "persistentvolumeclaims", Fault::Code(code));
        let (stop, started) = (CancellationToken::new(), tokio::time::Instant::now());
        let running = tokio::spawn({
            let (context, stop) = (context(&server), stop.clone());
            async move { controller::run(context, &watched(), stop).await }
        });
        let seen = async {
            while !events(&server).contains(&"NotObserved".to_owned()) {
                tokio::time::sleep(Duration::from_millis(100)).await;
            }
        };
        tokio::time::timeout(Duration::from_mins(1), seen).await.expect("reported");
        assert!(started.elapsed() >= begun, "{code}: {:?}", started.elapsed());
        stop.cancel();
        running.await.expect("without a panic");
        server.mend();
        step(&server).await.expect("looked at again");
        says(&reported(&server), ConditionType::Ready, "True", "Serving");
    }
}

/// A status is what people and tools look at: events that cannot be published do not keep it from them.
#[tokio::test(start_paused = true)]
async fn events_without_an_answer_do_not_hold_the_status_up() {
    let server = a_cluster();
    server.fail(Method::POST, "events", Fault::Silence);
    let reconciled = tokio::time::timeout(Duration::from_secs(20), step(&server)).await;
    reconciled.expect("within its time").expect("reconciled");
    says(&reported(&server), ConditionType::Ready, "False", "Forming");
}

/// A text that differs with each try would change the status, and each change begins the next try.
#[tokio::test]
async fn a_failure_that_words_itself_anew_is_written_once() {
    let server = a_cluster();
    step(&server).await.expect("reconciled");
    pods_come_up(&server);
    for attempt in 0..3 {
        server.fail(Method::PATCH, "configmaps", Fault::Worded(format!("from port {attempt}")));
        step(&server).await.expect_err("tried again");
        server.mend();
        let version = &server.get(CLUSTER).expect("there")["metadata"]["resourceVersion"];
        let message = message(&reported(&server), ConditionType::Progressing);
        assert!(message.contains("from port 0"), "{version}: {message}");
    }
    server.fail(Method::PATCH, "serviceaccounts", Fault::Worded("from port 4".to_owned()));
    step(&server).await.expect_err("tried again");
    let message = message(&reported(&server), ConditionType::Progressing);
    assert!(message.contains("ServiceAccount demo-node") && message.contains("port 4"), "{message}");
}

/// A watcher's reconcile has a limit of its own; here the future is dropped at any point, and the next
/// one goes on.
#[tokio::test(start_paused = true)]
async fn a_reconcile_that_is_cut_anywhere_is_gone_on_with() {
    for path in ["secrets/demo-ca", "serviceaccounts", "statefulsets", "/status"] {
        let server = a_cluster();
        server.fail(Method::PATCH, path, Fault::Silence);
        let cut = tokio::time::timeout(Duration::from_mins(1), step(&server)).await;
        assert!(cut.is_err(), "{path} is silent");
        let copy = server.get(RECOVERY).expect("made first");
        server.mend();
        step(&server).await.expect("reconciled");
        assert_eq!(server.get(RECOVERY).expect("kept")["data"], copy["data"]);
        assert_eq!(server.get(AUTHORITY).expect("made")["data"]["ca.key"], copy["data"]["ca.key"]);
        assert!(server.get(STATEFUL_SET).is_some());
    }
}

/// One object that this operator cannot decode, as an older or newer one may have stored it.
#[tokio::test]
async fn a_cluster_that_cannot_be_decoded_does_not_stop_the_others() {
    let server = a_cluster();
    let mut odd = server.get(CLUSTER).expect("there");
    odd["metadata"]["name"] = json!("odd");
    odd["spec"]["pools"] = json!("none");
    server.put(&CLUSTER.replace("demo", "odd"), odd);
    let stop = CancellationToken::new();
    let running = tokio::spawn({
        let (context, stop) = (context(&server), stop.clone());
        async move { controller::run(context, &watched(), stop).await }
    });
    let both = async {
        while server.get(STATEFUL_SET).is_none() || !events(&server).contains(&"SpecInvalid".to_owned()) {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(Duration::from_secs(20), both).await.expect("one is made, the other is reported");
    stop.cancel();
    let ended = tokio::time::timeout(Duration::from_secs(20), running).await;
    ended.expect("it ends when it is stopped").expect("without a panic");
}

#[tokio::test]
async fn a_lease_that_is_refused_is_reported_in_the_api_servers_words() {
    let server = a_cluster();
    server.fail(Method::GET, "leases", Fault::Code(403));
    let refused = step(&server).await.expect_err("tried again").to_string();
    let lease = "/apis/coordination.k8s.io/v1/namespaces/storage/leases/sherd-clusters";
    assert_eq!(refused, format!("the lease sherd-clusters in namespace storage: Forbidden {lease}"));
}
