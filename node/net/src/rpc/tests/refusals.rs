//! Refusals, and that they harm no other caller.

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

use bytes::Bytes;

use sherd_core::id::ClusterId;
use sherd_core::message::ValueLimit;
use sherd_proto::limits::{WIRE_VERSION, WIRE_VERSION_OLDEST};
use sherd_proto::v1::{PutShard, Sender};

use super::{CLUSTER, Pair, identity, reason, target};
use crate::tls::Role;
use sherd_store::peer::RegisterPeer;
use sherd_store::testing::body;

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn another_cluster_is_refused_by_name() {
    let pair = Pair::unconnected(ClusterId([8; 16]), Role::Node).await;
    pair.connected().await;
    let refused = reason(pair.peer.read(pair.volume, &target("a"), ValueLimit::USUAL).await);
    assert!(refused.contains("cluster"), "{refused}");
    let refused =
        reason(put(&pair, Sender { wire: WIRE_VERSION, cluster: cluster([8; 16]), epoch: 1 }, 10).await);
    assert!(refused.contains("cluster"), "{refused}");
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_wire_version_that_is_not_next_to_ones_own_is_refused_by_name() {
    let pair = Pair::new().await;
    let of_version = |wire| Sender { wire, cluster: cluster(CLUSTER.0), epoch: 1 };
    for wire in [0, WIRE_VERSION_OLDEST - 1, WIRE_VERSION + 2] {
        let refused = reason(put(&pair, of_version(wire), 10).await);
        assert!(
            refused.contains(&format!("wire version {wire}, and this node has {WIRE_VERSION}")),
            "{refused}"
        );
    }
    // The next version's request is read, and lacks a field.
    for wire in [WIRE_VERSION, WIRE_VERSION + 1] {
        let refused = reason(put(&pair, of_version(wire), 10).await);
        assert!(refused.contains("to: missing"), "{refused}");
    }
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_admin_reaches_no_volume() {
    let pair = Pair::unconnected(CLUSTER, Role::Admin).await;
    let refused = || pair.link.down_because().is_some_and(|reason| reason.contains("may not call"));
    pair.until("the role is refused", refused).await;
    let refused = reason(pair.peer.read(pair.volume, &target("a"), ValueLimit::USUAL).await);
    assert!(refused.contains("admin"), "{refused}");
    pair.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn garbage_and_oversize_leave_other_callers_alone() {
    let pair = Pair::new().await;
    let own = pair.authorities.trust("n3", Role::Node);
    let mut plain = TcpStream::connect(pair.served_at).await.expect("a connection");
    plain.write_all(&body(1, 4096)).await.expect("it is sent");
    let address = pair.served_at.to_string();
    let mut secret = own.connect(&address, &identity("n2", Role::Node)).await.expect("a handshake");
    secret.write_all(&body(2, 4096)).await.expect("it is sent");
    let sender = Sender { wire: WIRE_VERSION, cluster: cluster(CLUSTER.0), epoch: 1 };
    let refused = reason(put(&pair, sender, 9 << 20).await);
    assert!(refused.contains("OutOfRange") || refused.contains("too large"), "{refused}");
    let read = pair.peer.read(pair.volume, &target("a"), ValueLimit::USUAL).await;
    assert!(read.is_ok(), "{read:?}");
    for closed in [plain.read(&mut [0; 64]).await, secret.read_to_end(&mut Vec::new()).await] {
        drop(closed);
    }
    pair.close().await;
}

fn cluster(id: [u8; 16]) -> Bytes {
    Bytes::copy_from_slice(&id)
}

/// Puts a shard as a client without limits would, of a volume that it does not name.
async fn put(pair: &Pair, sender: Sender, bytes: usize) -> Result<(), sherd_core::message::Error> {
    let request = PutShard { sender: Some(sender), payload: body(1, bytes), ..PutShard::default() };
    let mut client = pair.link.bytes_for_tests().expect("it is connected");
    let reason = match client.put(request).await {
        Ok(reply) => format!("{:?}", reply.into_inner()),
        Err(status) => format!("{status:?}"),
    };
    Err(sherd_core::message::Error::Unreachable { reason })
}
