//! One identity in two places: a name that two processes have, a volume that two nodes have, a node of
//! another cluster. Each is refused by name on both sides, and nothing that was stored is lost.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;

use sherd_core::id::ClusterId;

use crate::harness::cluster::{Pki, cluster_of, free_ports};
use crate::harness::data::{Dice, Home};
use crate::harness::{empty, volumes};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_second_node_of_one_name_stays_out_and_is_named() {
    let mut dice = Dice::of_this_run("one name twice");
    let cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    let body = dice.body(Home::Packed);
    clients[0].put_settled("before", body).await;

    // The same name and the same addresses, but it listens elsewhere: its own address leads to another
    // process. It has a copy of the volume, too, and so the topology.
    let own = ([127, 0, 0, 1], free_ports(1)[0]).into();
    let twin = empty().of_volumes(1).serve(&cluster.pki.lines("n1", own, &cluster.addresses, ""));
    volumes::remove(&twin.volume(1));
    copy(&cluster.member(0).volume(1), &twin.volume(1));
    let mut twin = twin.outsider();
    let said = twin.until_logged(&["n1", "two nodes with one identity"]).await;
    eprintln!("twins: {said}");
    assert_eq!(clients[1].get_settled("before").await, Some(body));
    clients[0].put_settled("after", dice.body(Home::Packed)).await;
    drop(twin);
    cluster.until_ready().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_in_two_places_is_refused_and_named() {
    let mut dice = Dice::of_this_run("one volume twice");
    let mut cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    let body = dice.body(Home::File);
    clients[0].put_settled("before", body).await;
    cluster.kill(3).await;
    let (own, kept) = (cluster.member(3).volume(1), cluster.member(3).dir().join("kept"));
    fs::rename(&own, &kept).expect("one filesystem");
    copy(&cluster.member(0).volume(1), &own);
    let refused = cluster.member(3).refused().await;
    assert!(refused.said.contains("one volume in two places"), "{refused:?}");
    // With its own volume back it takes its place again.
    volumes::remove(&own);
    fs::rename(&kept, &own).expect("one filesystem");
    cluster.start(3).await;
    cluster.until_ready().await;
    assert_eq!(cluster.clients()[3].get_settled("before").await, Some(body));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_node_of_another_cluster_is_refused_on_both_sides() {
    let mut dice = Dice::of_this_run("another cluster");
    let cluster = cluster_of(4).start().await;
    let clients = cluster.with_bucket().await;
    let foreign = Pki::new(ClusterId([9; 16]));
    let own = ([127, 0, 0, 1], free_ports(1)[0]).into();
    let mut seen = cluster.addresses.clone();
    seen[2] = own;
    let mut stranger = empty().of_volumes(1).serve(&foreign.lines("n3", own, &seen, "")).outsider();
    let said = stranger.until_logged(&["formed=false", "n1.node.", "is of another cluster than"]).await;
    eprintln!("twins: {said}");
    cluster.until_logged(0, &["connection of a peer refused", "it is of another cluster"]).await;
    clients[0].put_settled("after", dice.body(Home::Packed)).await;
}

/// Copies a folder with all that is in it. Files that its node removes meanwhile are left out.
fn copy(from: &Path, to: &Path) {
    fs::create_dir(to).expect("its parent is there");
    for entry in fs::read_dir(from).expect("the folder is there") {
        let path = entry.expect("readable").path();
        let to = to.join(path.file_name().expect("an entry has a name"));
        if path.is_dir() {
            copy(&path, &to);
        } else {
            match fs::copy(&path, &to) {
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                copied => drop(copied.expect("room for a copy")),
            }
        }
    }
}
