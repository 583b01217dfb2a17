//! A cluster whose volumes are all lost at once is not formed again, empty, while its configuration says that
//! it was formed before: the nodes run, write nothing, and say why they do not serve.

use std::fs;

use rustix::process::Signal;
use sherd_net::tls::Role;

use crate::harness::cluster::{Outsider, TestCluster, cluster_of, snapshot};
use crate::harness::data::Body;
use crate::harness::wait::{SOON, eventually};

const NODES: usize = 3;
const LOST: &str = "was formed before, and no volume of it is here";

fn write_live(cluster: &TestCluster, text: &str) {
    for node in 0..NODES {
        let folder = cluster.member(node).dir().to_owned();
        fs::write(folder.join("changed.toml"), text).expect("the folder is writable");
        fs::rename(folder.join("changed.toml"), folder.join("live.toml")).expect("the folder is writable");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_cluster_whose_volumes_are_all_lost_is_formed_again_only_when_that_is_allowed() {
    let mut cluster = cluster_of(NODES).start().await;
    let clients = cluster.with_bucket().await;
    let body = Body { id: 1, len: 100 };
    clients[0].put_settled("kept", body).await;
    // Running nodes take it and go on.
    write_live(&cluster, &format!("[cluster]\nformed = \"{}\"\n", cluster.pki.id));
    cluster.stop_all().await;
    cluster.start_all().await;
    cluster.until_ready().await;
    cluster.stop(2).await;
    cluster.wipe(2);
    cluster.start(2).await;
    cluster.until_whole().await;

    cluster.stop_all().await;
    for node in 0..NODES {
        cluster.wipe(node);
    }
    let outsiders: Vec<Outsider> = (0..NODES).map(|node| cluster.member(node).outsider()).collect();
    let lost = format!("cluster {} {LOST}", cluster.pki.id);
    let admin = cluster.pki.issue("admin", Role::Admin);
    for node in 0..NODES {
        eventually("its status says why it does not serve", SOON, async || {
            match cluster.status(node, &admin).await {
                (_, said) if said.contains(&lost) && !said.contains("waiting for") => Ok(()),
                (code, said) => Err(format!("{code:?}: {said}")),
            }
        })
        .await;
    }
    for volume in cluster.volumes() {
        assert!(snapshot(&volume).is_empty(), "{}: a file was written", volume.display());
    }
    // Without the key it is a new cluster. The nodes take the change while they run.
    write_live(&cluster, "");
    for outsider in &outsiders {
        outsider.signal(Signal::HUP);
    }
    for node in 0..NODES {
        cluster.until_status_is_healed(node, &admin).await;
    }
    drop(outsiders);
    cluster.start_all().await;
    cluster.until_ready().await;
    let found = cluster.clients()[0].get("kept").await;
    assert_ne!(found, Ok(Some(body)), "it is gone with its volumes");
}
