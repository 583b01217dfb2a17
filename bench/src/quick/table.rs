//! The rows of the quick benchmark: the operations, sizes and clients that the project's targets name,
//! and those targets.

use crate::load::work::Op;

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// Operations on objects of one size, in an order in which each finds what it needs.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Size of the objects.
    pub bytes: u64,
    /// Numbers of clients, one after the other, each with objects of its own.
    pub clients: &'static [usize],
    /// The operations.
    pub steps: &'static [Step],
    /// Objects there are before the first operation.
    pub objects: Objects,
}

/// Objects that a group writes before it measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Objects {
    /// None: its first operation writes them.
    None,
    /// As many as the command line says for listings.
    Listed,
}

/// One operation and what it should reach.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The operation.
    pub op: Op,
    /// Operations per turn, for those that are too long to be measured by time.
    pub count: Option<u64>,
    /// Throughput over the peer's that is asked for at least,
    pub least: Option<f64>,
    /// and aimed at.
    pub aim: Option<f64>,
    /// Processor time of the server per operation, as a part of the peer's, that is allowed at most.
    pub cpu_most: Option<f64>,
}

impl Step {
    const fn new(op: Op, least: f64, aim: f64) -> Self {
        Self { op, count: None, least: Some(least), aim: Some(aim), cpu_most: None }
    }

    const fn with_cpu(self, most: f64) -> Self {
        Self { cpu_most: Some(most), ..self }
    }

    const fn of_count(self, count: u64) -> Self {
        Self { count: Some(count), ..self }
    }
}

/// Server time at 4 KiB: at most a third of the peer's.
const THIRD: f64 = 1.0 / 3.0;

/// The benchmark, in the order in which it runs.
pub const GROUPS: [Group; 6] = [
    Group {
        bytes: 4 * KIB,
        clients: &[1, 32, 128],
        steps: &[
            Step::new(Op::Put, 4.0, 10.0).with_cpu(THIRD),
            Step::new(Op::Get, 2.0, 4.0).with_cpu(THIRD),
            Step::new(Op::Head, 2.0, 5.0).with_cpu(THIRD),
            Step::new(Op::Delete, 2.0, 5.0),
        ],
        objects: Objects::None,
    },
    Group {
        bytes: 64 * KIB,
        clients: &[32],
        steps: &[Step::new(Op::Put, 2.0, 3.0), Step::new(Op::Get, 1.5, 2.0)],
        objects: Objects::None,
    },
    Group {
        bytes: MIB,
        clients: &[32],
        steps: &[Step::new(Op::Put, 2.0, 3.0), Step::new(Op::Get, 1.5, 2.0)],
        objects: Objects::None,
    },
    Group {
        bytes: 64 * MIB,
        clients: &[4],
        steps: &[
            Step::new(Op::Put, 1.2, 2.0),
            Step::new(Op::Get, 1.3, 2.0),
            Step { least: None, aim: None, ..Step::new(Op::Multipart, 0.0, 0.0) },
        ],
        objects: Objects::None,
    },
    Group {
        bytes: GIB,
        clients: &[1],
        steps: &[Step::new(Op::Put, 1.2, 2.0).of_count(2), Step::new(Op::Get, 1.3, 2.0).of_count(4)],
        objects: Objects::None,
    },
    Group {
        bytes: 16,
        clients: &[1],
        steps: &[Step::new(Op::List, 3.0, 10.0), Step::new(Op::DeleteObjects, 2.0, 5.0)],
        objects: Objects::Listed,
    },
];
