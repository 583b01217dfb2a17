//! Data that is read through one node is not released by another.

use std::sync::Arc;
use std::time::Duration;

use futures::{StreamExt, TryStreamExt};

use sherd_core::id::{DataId, ProposerId, RegisterKey, SetId, Timestamp};
use sherd_core::limits::LEASES_IN_CALL_MAX;
use sherd_core::record::DataRef;
use sherd_core::topology::GeometryRequest;

use super::super::Upkeep;
use super::super::release::ReleaseOutcome;
use super::{Directories, Node, body, name};
use crate::cluster::pins::DataOfSets;
use crate::object::{ReadConditions, ReadRequest, Span};
use crate::peer::scripted::{Fate, says};
use crate::register::RegisterTimeouts;
use crate::volumes::LeaseTerms;

/// More than a read has under way: what is behind is asked for as the reader takes what is before.
const BYTES: usize = 12 << 20;
const MINUTE_US: u64 = 60_000_000;

async fn until(what: &str, mut is_so: impl AsyncFnMut() -> bool) {
    let so = async {
        while !is_so().await {
            crate::upkeep::tests::between_looks().await;
        }
    };
    tokio::time::timeout(super::DEADLINE, so).await.unwrap_or_else(|_| panic!("{what}"));
}

/// Whether every volume, or none, has a lease on data.
fn are_leased(node: &Node, data: &DataRef, leased: bool) -> bool {
    node.volumes.all().iter().all(|volume| volume.leases().may_be_read(data.id) == leased)
}

/// Two nodes over the same volumes, and an object that takes long to read.
async fn two_nodes(directories: &Directories) -> (Node, Node) {
    let node = directories.start().await;
    let other = node.another_gateway(0);
    node.create_bucket().await;
    node.put("a", &body(1, BYTES)).await;
    (node, other)
}

/// Writes an object and replaces it through another node; returns the replaced data.
async fn replaced(reading: &Node, replacing: &Node) -> (RegisterKey, DataRef) {
    let (register, old) = (reading.register("a").await, reading.data("a").await);
    replacing.put("a", &body(2, 100_000)).await;
    (register, old)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_reader_of_one_node_reads_stays_when_another_node_replaced_it() {
    let directories = Directories::new(4);
    let (node, other) = two_nodes(&directories).await;
    let request = ReadRequest { name: name("a"), span: Span::Whole, conditions: ReadConditions::default() };
    let mut reading = node.objects.get(request).await.expect("it is there").body;
    let first = reading.next().await.expect("bytes").expect("whole");
    let leases = Upkeep::over(Arc::clone(&node.workers));
    leases.run("leases", |workers| async move { workers.leases.renew_leases().await });
    let (register, old) = replaced(&node, &other).await;
    until("the volumes have leases", async || are_leased(&node, &old, true)).await;
    let release = async || other.workers.releaser.release_data_id(&register, old, false).await;
    assert_eq!(release().await, ReleaseOutcome::InUse);
    let rest: Vec<_> = reading.try_collect().await.expect("nothing was removed under it");
    assert_eq!([first].into_iter().chain(rest).collect::<Vec<_>>().concat(), body(1, BYTES));
    until("they end with the read", async || are_leased(&node, &old, false)).await;
    assert_eq!(release().await, ReleaseOutcome::Done);
    leases.stop().await;
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_gateway_that_is_gone_read_goes_when_its_leases_expire() {
    let directories = Directories::new(4);
    let (node, other) = two_nodes(&directories).await;
    let (register, old) = replaced(&node, &other).await;
    let pinned = node.workers.deps.stripes.pin([&old]);
    node.workers.leases.tell_leases(ProposerId(1), node.workers.deps.pins.to_lease(), false).await;
    let release = async || other.workers.releaser.release_data_id(&register, old, false).await;
    node.clock.pass_us(4 * MINUTE_US);
    assert_eq!(release().await, ReleaseOutcome::InUse, "it may still come with its renewal");
    node.clock.pass_us(2 * MINUTE_US);
    // A volume may be seen to hang when a clock goes on by minutes.
    until("its space is given back", async || release().await == ReleaseOutcome::Done).await;
    drop(pinned);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_released_after_a_start_before_the_gateways_could_renew_their_leases() {
    let mut directories = Directories::new(4);
    directories.leases = LeaseTerms { unknown: Duration::from_mins(2), ..LeaseTerms::default() };
    let (node, other) = two_nodes(&directories).await;
    let (register, old) = replaced(&node, &other).await;
    let release = async || other.workers.releaser.release_data_id(&register, old, false).await;
    assert_eq!(release().await, ReleaseOutcome::InUse, "of another node a reader may have leases");
    node.clock.pass_us(2 * MINUTE_US);
    until("no gateway came for it", async || release().await == ReleaseOutcome::Done).await;
    node.close().await;
}

/// A volume that hangs takes 5 s for each call, and there may be many calls: the other volumes get theirs
/// meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_volume_holds_up_no_leases_on_the_others() {
    let mut directories = Directories::new(8);
    directories.geometry = GeometryRequest { set_volumes: Some(4), ..GeometryRequest::default() };
    let node = directories.start().await;
    let (gateway, script) = node.scripted_gateway(RegisterTimeouts::default());
    let sets = gateway.workers.deps.cluster.sets();
    assert_eq!(sets.len(), 2);
    let late = sets[0].routes[0].volume;
    says(&script.leases, move |volume, _| if volume == late { Fate::Silence } else { Fate::Through });
    let data = |n: usize| DataId { birth: Timestamp::from_ms(n as u64), proposer: ProposerId(1) };
    let ids: Vec<_> = (0..=LEASES_IN_CALL_MAX).map(data).collect();
    let all: DataOfSets = (0..).take(sets.len()).map(|set| (SetId(set), ids.clone())).collect();
    let mut sent = Box::pin(gateway.workers.leases.tell_leases(ProposerId(1), all, false));
    assert!(futures::poll!(&mut sent).is_pending(), "one has not answered");
    for volume in node.volumes.all() {
        let has_all = ids.iter().all(|id| volume.leases().may_be_read(*id));
        assert!(has_all || volume.id() == late, "{}", volume.id());
    }
    drop(sent);
    drop((gateway, script));
    node.close().await;
}
