//! `user`: with the certificate of an admin, and what is said where the cluster gives none.

use clap::{Args, FromArgMatches as _};
use sherd_admin::user::UserArgs;
use sherd_kubectl::users::{ClusterFlag, user};

use crate::node::MemoryNodes;
use crate::server::ApiServer;

async fn run(server: &ApiServer, nodes: &MemoryNodes, line: &str) -> Result<String, String> {
    let command = UserArgs::<ClusterFlag>::augment_args(clap::Command::new("user"));
    let words = ["user"].into_iter().chain(line.split(' '));
    let matches = command.try_get_matches_from(words).expect("a command line");
    let arguments = UserArgs::<ClusterFlag>::from_arg_matches(&matches).expect("a command");
    user(&server.session(), nodes, &arguments).await.map_err(|error| error.to_string())
}

#[tokio::test]
async fn users_are_listed_and_refusals_are_iams() {
    let server = ApiServer::with_cluster();
    let nodes = MemoryNodes::of(&["demo-pool-0"]);
    nodes.put_admin(&server);
    let listed = run(&server, &nodes, "list --cluster demo").await.expect("a list");
    assert!(listed.contains("UserName") && listed.contains("team-a.uploader  AIDA1"), "{listed}");
    let why = run(&server, &nodes, "why nobody s3:GetObject photos/a").await.expect_err("no such user");
    assert!(why.starts_with("nobody is no access key and no user of the account"), "{why}");
}

#[tokio::test(start_paused = true)]
async fn a_node_that_stops_behind_the_handshake_is_not_waited_for_without_end() {
    let server = ApiServer::with_cluster();
    let mut nodes = MemoryNodes::of(&["demo-pool-0"]);
    nodes.fall_silent();
    nodes.put_admin(&server);
    let hour = std::time::Duration::from_hours(1);
    let listed = tokio::time::timeout(hour, run(&server, &nodes, "list")).await;
    let error = listed.expect("it ends").expect_err("no answer came");
    assert!(error.contains("no answer within 70 s"), "{error}");
}

#[tokio::test]
async fn without_a_certificate_of_an_admin_it_is_said_how_to_get_one() {
    let server = ApiServer::with_cluster();
    let nodes = MemoryNodes::of(&["demo-pool-0"]);
    // A node refuses the certificate of a node.
    nodes.put_nodes(&server);
    let error = run(&server, &nodes, "list").await.expect_err("none of an admin");
    let patch = r#"kubectl patch storagecluster demo --namespace storage --type merge -p '{"spec":{"adminCertificate":{"enabled":true}}}'"#;
    assert!(error.contains(patch), "{error}");
    assert!(nodes.opened().is_empty());
}
