//! OpenShift: namespaces give pods their users, and pods that name others are refused.

use sherd_operator::limits;

use super::rollouts::World;
use super::*;

const CONSTRAINTS: &str = "/apis/security.openshift.io";

fn openshift() -> Value {
    json!({"kind": "APIGroup", "apiVersion": "v1", "name": "security.openshift.io", "versions": []})
}

fn security(server: &ApiServer) -> Value {
    server.get(STATEFUL_SET).expect("made")["spec"]["template"]["spec"]["securityContext"].clone()
}

#[tokio::test(start_paused = true)]
async fn pods_name_no_user_where_their_namespace_gives_them_one() {
    let server = a_cluster();
    server.put(CONSTRAINTS, openshift());
    let operator = context(&server);
    let mut looks = Vec::new();
    for fault in [None, None, Some(Fault::Code(503))] {
        if let Some(fault) = fault {
            // The last answer stands.
            server.fail(Method::GET, CONSTRAINTS, fault);
            tokio::time::sleep(limits::PLATFORM_ASKED_AGAIN).await;
        }
        reconcile(&operator, &cluster(&server)).await.expect("reconciled");
        looks.push(server.take_requests().iter().filter(|(_, path)| path == CONSTRAINTS).count());
        let rest = json!({
            "runAsNonRoot": true,
            "fsGroupChangePolicy": "OnRootMismatch",
            "seccompProfile": {"type": "RuntimeDefault"},
        });
        assert_eq!(security(&server), rest);
    }
    assert_eq!(looks, [1, 0, 1], "once in a while");
}

#[tokio::test]
async fn an_api_server_that_does_not_say_what_it_is_changes_nothing() {
    let server = a_cluster();
    server.fail(Method::GET, CONSTRAINTS, Fault::Code(503));
    let failed = step(&server).await.expect_err("tried again");
    assert!(failed.is_unreported(), "{failed}");
    assert!(server.get(STATEFUL_SET).is_none());
    server.mend();
    step(&server).await.expect("reconciled");
    assert_eq!(security(&server)["runAsUser"], 65532);
}

/// A cluster whose administrator lets its pods be user 65532.
#[tokio::test]
async fn running_pods_keep_the_user_that_they_have() {
    let mut world = World::new().await;
    let before = (world.uids(), security(&world.server));
    assert_eq!(before.1["runAsUser"], 65532);
    world.server.put(CONSTRAINTS, openshift());
    for _ in 0..3 {
        let status = world.look().await.expect("reconciled");
        world.controller(true);
        says(&status, ConditionType::UpgradeBlocked, "False", "TemplateKept");
        assert_eq!((world.uids(), security(&world.server)), before);
    }
}
