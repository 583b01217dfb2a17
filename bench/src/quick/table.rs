//! The rows of the quick benchmark: the operations, sizes and clients that the project's targets name. The
//! targets themselves stand in bench/report/report.toml.

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
    /// No object: the group's first operation writes them.
    None,
    /// As many as the command line says for listings.
    Listed,
}

/// One operation.
#[derive(Clone, Copy, Debug)]
pub struct Step {
    /// The operation.
    pub op: Op,
    /// Operations per turn, for those that are too long to be measured by time.
    pub count: Option<u64>,
}

impl Step {
    const fn new(op: Op) -> Self {
        Self { op, count: None }
    }

    const fn of_count(self, count: u64) -> Self {
        Self { count: Some(count), ..self }
    }
}

/// The benchmark, in the order in which it runs.
pub const GROUPS: [Group; 6] = [
    Group {
        bytes: 4 * KIB,
        clients: &[1, 32, 128],
        steps: &[Step::new(Op::Put), Step::new(Op::Get), Step::new(Op::Head), Step::new(Op::Delete)],
        objects: Objects::None,
    },
    Group {
        bytes: 64 * KIB,
        clients: &[32],
        steps: &[Step::new(Op::Put), Step::new(Op::Get)],
        objects: Objects::None,
    },
    Group {
        bytes: MIB,
        clients: &[32],
        steps: &[Step::new(Op::Put), Step::new(Op::Get)],
        objects: Objects::None,
    },
    Group {
        bytes: 64 * MIB,
        clients: &[4],
        steps: &[Step::new(Op::Put), Step::new(Op::Get), Step::new(Op::Multipart)],
        objects: Objects::None,
    },
    Group {
        bytes: GIB,
        clients: &[1],
        steps: &[Step::new(Op::Put).of_count(2), Step::new(Op::Get).of_count(4)],
        objects: Objects::None,
    },
    Group {
        bytes: 16,
        clients: &[1],
        steps: &[Step::new(Op::List), Step::new(Op::DeleteObjects)],
        objects: Objects::Listed,
    },
];
