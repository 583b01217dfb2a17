//! PUTs with an MD5 as the ETag, and without: what the only hash of a PUT that cannot be cut in pieces costs.
//!
//! ```text
//! node as it comes   | no checksum      | MD5
//!                    | CRC-64/NVME      | MD5 and the checksum
//! etag = "fast"      | CRC-64/NVME      | the checksum alone
//! ```
//! The two nodes run side by side and are measured in turns; one of them is idle at any time. They begin anew
//! for each load and round, so that what one wrote does not lie in the other's way.

use md5::{Digest, Md5};

use super::node::{self, Node};
use super::{Bench, Error, Page};
use crate::load::checksum::Checksum;
use crate::load::run::Plan;
use crate::load::schedule::Limit;
use crate::load::sizes::Size;
use crate::load::work::Op;

/// Sizes, and clients at one time.
const LOADS: [(u64, usize); 3] = [(64 << 20, 1), (64 << 20, 4), (1 << 20, 32)];
/// Objects larger than this are scaled down for a moment.
const MOMENT_BYTES_MAX: u64 = 2 << 20;
/// Bytes of the object whose ETag is looked at.
const PROBE_BYTES: u64 = 100_000;
/// What the node is told, and what the clients send.
const WAYS: [(&str, Option<Checksum>); 3] =
    [("md5", None), ("md5", Some(Checksum::Crc64nvme)), ("fast", Some(Checksum::Crc64nvme))];

/// What is measured.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {}

impl Page for Arguments {
    fn name(&self) -> &'static str {
        "etag"
    }

    fn device_bytes(&self) -> u64 {
        12 << 30
    }

    fn round(&self, bench: &mut Bench, round: usize) -> Result<(), Error> {
        for (load, (bytes, clients)) in LOADS.into_iter().enumerate() {
            let bytes = if bench.is_moment() { bytes.min(MOMENT_BYTES_MAX) } else { bytes };
            let nodes =
                [("md5", Node::start(bench, &[])?), ("fast", Node::start(bench, &["--etag", "fast"])?)];
            for (etag, node) in nodes.iter().filter(|_| load == 0) {
                check(node, *etag == "md5", bench)?;
            }
            for turn in 0..WAYS.len() {
                // Another way begins each round.
                let (etag, checksum) = WAYS[(round + turn) % WAYS.len()];
                let (_, node) = nodes.iter().find(|(name, _)| *name == etag).expect("a node for each ETag");
                let label = checksum.map_or_else(|| "none".to_owned(), |checksum| checksum.to_string());
                let limit = Limit::Time(bench.window());
                let plan =
                    Plan { checksum, warm_up: bench.window() / 4, ..Plan::new(Op::Put, clients, limit) };
                let mut keys = node::keys(&format!("{}-{clients}-{label}", Size(bytes)), bytes);
                let outcome = node.run(&plan, &mut keys)?;
                bench.count(&outcome);
                let labels = [("part", "put".to_owned()), ("etag", etag.to_owned()), ("checksum", label)];
                bench.add(node::row(labels, bytes, &plan, &outcome));
            }
        }
        Ok(())
    }
}

/// Asserts that the node's ETag of an object with a checksum is its MD5, or is not: else the rows would be
/// called what they are not.
fn check(node: &Node, is_md5: bool, bench: &mut Bench) -> Result<(), Error> {
    let mut keys = node::keys("probe", PROBE_BYTES);
    let plan = Plan { checksum: Some(Checksum::Crc64nvme), ..Plan::new(Op::Put, 1, Limit::Count(1)) };
    node.fill_as(&plan, 1, &mut keys)?;
    let mut md5 = Md5::new();
    node.payloads().pieces(0, PROBE_BYTES, |piece| md5.update(piece));
    let etag = node.etag(&keys, 0)?;
    if (etag.trim_matches('"') == hex::encode(md5.finalize())) != is_md5 {
        bench.fault(&format!("the ETag {etag} is{} an object's MD5", if is_md5 { " not" } else { "" }));
    }
    Ok(())
}
