//! The calls to a volume's registers, and the answers to them.
//!
//! An answer travels as one of the variants of a reply ([`super::answer`]). The head of a value is decoded
//! here, and its inline bytes are hashed, before a volume sees the accept.

use bytes::Bytes;

use sherd_core::heal::HealEntry;
use sherd_core::id::{Ballot, DataId, Life, RegisterKey, VolumeId};
use sherd_core::message::call::{AnswerKind, RegisterCall, VolumeAnswer};
use sherd_core::message::{
    AdoptedRow, Answer, Control, ListPage, ListScan, LookPage, LookScan, PartsScan, PulledRow, RowPage,
    RowScan, ScannedRow, Target, UnsettledKind, UnsettledPage, ValueLimit,
};
use sherd_core::register::recover::Guarantees;
use sherd_core::register::{
    Accept, CommitHint, DurableShards, EncodedValue, Positions, Prepare, Row, RowHead, ValueOrigin, Vote,
};

use super::call::call_answers_in;
use super::value::check_digest;
use super::{ConvertError, Wire, limit_from_wire, limit_to_wire, list_from_wire, list_to_wire, required};
use crate::limits::{ADOPTED_ROWS_MAX, DURABLE_MAX, INTRODUCES_MAX};
use crate::v1;
use crate::v1::register_call::{self, Call};

impl Wire for RegisterCall {
    type Message = Call;

    fn to_wire(&self) -> Call {
        match self {
            Self::Prepare { target, prepare, values } => Call::Prepare(register_call::Prepare {
                target: Some(target.to_wire()),
                ballot: prepare.ballot.to_wire(),
                want_value: *values != ValueLimit::NOTHING,
                value_bytes_max: values.bytes(),
            }),
            Self::Accept { target, accept, heal } => {
                Call::Accept(accept_to_wire(target, accept, heal.as_ref()))
            }
            Self::Commit { target, commit: CommitHint { ballot, is_everywhere, positions } } => {
                Call::Commit(register_call::Commit {
                    target: Some(target.to_wire()),
                    ballot: ballot.to_wire(),
                    positions: positions.to_wire(),
                    is_everywhere: *is_everywhere,
                })
            }
            Self::Read { target, values } => Call::Read(register_call::Read {
                target: Some(target.to_wire()),
                want_value: *values != ValueLimit::NOTHING,
                value_bytes_max: values.bytes(),
            }),
            Self::Inline { target, ballot } => Call::Inline(register_call::Inline {
                target: Some(target.to_wire()),
                ballot: ballot.to_wire(),
            }),
            Self::VerifyRow { key } => Call::VerifyRow(key.to_wire()),
            Self::List { scan } => Call::List(scan.to_wire()),
            Self::Parts { scan } => Call::Parts(scan.to_wire()),
            Self::Rows { scan } => Call::Rows(scan.to_wire()),
            Self::Unsettled { kind, after, limit } => Call::Unsettled(register_call::Unsettled {
                after: after.as_ref().map(Wire::to_wire),
                limit: limit_to_wire(*limit),
                missed: *kind == UnsettledKind::Missed,
            }),
            Self::RowsBehind { scan } => Call::RowsBehind(scan.to_wire()),
            Self::Control { control } => Call::Control(control.to_wire()),
            Self::Adopt { rows } => Call::Adopt(register_call::Adopt { rows: list_to_wire(rows) }),
            Self::Pull { target, row: PulledRow { head, value } } => Call::Pull(register_call::Pull {
                target: Some(target.to_wire()),
                head: Some(head.to_wire()),
                value: Some(value.to_wire()),
            }),
            Self::DropRow { target, ballot } => Call::DropRow(register_call::DropRow {
                target: Some(target.to_wire()),
                ballot: ballot.to_wire(),
            }),
        }
    }

    fn from_wire(message: Call) -> Result<Self, ConvertError> {
        Ok(match message {
            Call::Prepare(register_call::Prepare { target, ballot, want_value, value_bytes_max }) => {
                let values = value_limit(want_value, value_bytes_max);
                let prepare = Prepare { ballot: Ballot::from_wire(ballot)? };
                Self::Prepare { target: target_of(target)?, prepare, values }
            }
            Call::Accept(accept) => {
                let (target, accept, heal) = accept_from_wire(accept)?;
                Self::Accept { target, accept, heal }
            }
            Call::Commit(commit) => {
                let register_call::Commit { target, ballot, positions, is_everywhere } = commit;
                let (ballot, positions) = (Ballot::from_wire(ballot)?, Positions::from_wire(positions)?);
                let commit = CommitHint { ballot, is_everywhere, positions };
                Self::Commit { target: target_of(target)?, commit }
            }
            Call::Read(register_call::Read { target, want_value, value_bytes_max }) => {
                let values = value_limit(want_value, value_bytes_max);
                Self::Read { target: target_of(target)?, values }
            }
            Call::Inline(register_call::Inline { target, ballot }) => {
                Self::Inline { target: target_of(target)?, ballot: Ballot::from_wire(ballot)? }
            }
            Call::VerifyRow(key) => Self::VerifyRow { key: RegisterKey::from_wire(key)? },
            Call::List(scan) => Self::List { scan: ListScan::from_wire(scan)? },
            Call::Parts(scan) => Self::Parts { scan: PartsScan::from_wire(scan)? },
            Call::Rows(scan) => Self::Rows { scan: RowScan::from_wire(scan)? },
            Call::Unsettled(register_call::Unsettled { after, limit, missed }) => Self::Unsettled {
                kind: if missed { UnsettledKind::Missed } else { UnsettledKind::Uncommitted },
                after: after.map(RegisterKey::from_wire).transpose()?,
                limit: limit_from_wire(limit),
            },
            Call::RowsBehind(scan) => Self::RowsBehind { scan: LookScan::from_wire(scan)? },
            Call::Control(control) => Self::Control { control: Control::from_wire(control)? },
            Call::Adopt(register_call::Adopt { rows }) => {
                Self::Adopt { rows: list_from_wire(rows, ADOPTED_ROWS_MAX, "adopted rows")? }
            }
            Call::Pull(register_call::Pull { target, head, value }) => {
                let (head, value) = row_from_wire(head, value)?;
                Self::Pull { target: target_of(target)?, row: PulledRow { head, value } }
            }
            Call::DropRow(register_call::DropRow { target, ballot }) => {
                Self::DropRow { target: target_of(target)?, ballot: Ballot::from_wire(ballot)? }
            }
        })
    }
}

/// Nodes of before say no length: they take a value of any.
fn value_limit(want_value: bool, bytes_max: u32) -> ValueLimit {
    match (want_value, bytes_max) {
        (false, _) => ValueLimit::NOTHING,
        (true, 0) => ValueLimit::ANY,
        (true, bytes) => ValueLimit::of(bytes),
    }
}

fn target_of(target: Option<v1::Target>) -> Result<Target, ConvertError> {
    Target::from_wire(required(target, "target")?)
}

/// An accept as it travels, from what the seam is given: nothing of it is copied.
pub(crate) fn accept_to_wire(
    target: &Target,
    accept: &Accept,
    heal: Option<&HealEntry>,
) -> register_call::Accept {
    let Accept { ballot, value, introduces, finishes, positions, origin } = accept;
    register_call::Accept {
        target: Some(target.to_wire()),
        ballot: ballot.to_wire(),
        value: Some(value.to_wire()),
        introduces: list_to_wire(introduces),
        finishes: *finishes,
        positions: positions.to_wire(),
        heal: heal.map(HealEntry::to_wire),
        durable: list_to_wire(&origin.durable),
        made_from: origin.made_from.as_ref().map(Wire::to_wire),
    }
}

/// An accept, its register, and the MRF entry that becomes durable with it.
///
/// # Errors
/// [`ConvertError`] names the field and what is wrong with it.
pub(crate) fn accept_from_wire(
    message: register_call::Accept,
) -> Result<(Target, Accept, Option<HealEntry>), ConvertError> {
    let register_call::Accept {
        target,
        ballot,
        value,
        introduces,
        finishes,
        positions,
        heal,
        durable,
        made_from,
    } = message;
    let durable = list_from_wire(durable, INTRODUCES_MAX, "introduced data that is durable")?;
    let made_from = made_from.map(Ballot::from_wire).transpose()?;
    let accept = Accept {
        ballot: Ballot::from_wire(ballot)?,
        value: EncodedValue::from_wire(required(value, "value")?)?,
        introduces: list_from_wire::<DataId>(introduces, INTRODUCES_MAX, "introduced data")?,
        finishes,
        positions: Positions::from_wire(positions)?,
        origin: ValueOrigin { durable: durable.into(), made_from },
    };
    Ok((target_of(target)?, accept, heal.map(HealEntry::from_wire).transpose()?))
}

impl Wire for DurableShards {
    type Message = register_call::DurableShards;

    fn to_wire(&self) -> register_call::DurableShards {
        let Self { data, lives } = self;
        register_call::DurableShards { data: data.to_wire(), lives: list_to_wire(lives) }
    }

    fn from_wire(message: register_call::DurableShards) -> Result<Self, ConvertError> {
        let register_call::DurableShards { data, lives } = message;
        let lives = list_from_wire::<(VolumeId, Life)>(lives, DURABLE_MAX, "lives of a durable shard")?;
        Ok(Self { data: DataId::from_wire(data)?, lives: lives.into() })
    }
}

impl Wire for AdoptedRow {
    type Message = register_call::AdoptedRow;

    fn to_wire(&self) -> register_call::AdoptedRow {
        let Self { key, head, value, is_missed } = self;
        register_call::AdoptedRow {
            key: key.to_wire(),
            head: Some(head.to_wire()),
            value: Some(value.to_wire()),
            missed: *is_missed,
        }
    }

    fn from_wire(message: register_call::AdoptedRow) -> Result<Self, ConvertError> {
        let register_call::AdoptedRow { key, head, value, missed: is_missed } = message;
        let (head, value) = row_from_wire(head, value)?;
        Ok(Self { key: RegisterKey::from_wire(key)?, head, value, is_missed })
    }
}

/// The row of another volume, whose value is what its digest says.
fn row_from_wire(
    head: Option<v1::RowHead>,
    value: Option<v1::Value>,
) -> Result<(RowHead, EncodedValue), ConvertError> {
    let head = RowHead::from_wire(required(head, "head of a row")?)?;
    let value = required(value, "value")?;
    check_digest(&value.head, &head)?;
    Ok((head, EncodedValue::from_wire(value)?))
}

impl Wire for Vote {
    type Message = v1::Vote;

    fn to_wire(&self) -> v1::Vote {
        let Self { row, floor } = self;
        v1::Vote { row: row.as_ref().map(Wire::to_wire), floor: floor.to_wire() }
    }

    fn from_wire(message: v1::Vote) -> Result<Self, ConvertError> {
        let v1::Vote { row, floor } = message;
        Ok(Self { row: row.map(Row::from_wire).transpose()?, floor: Ballot::from_wire(floor)? })
    }
}

call_answers_in!(register_reply:
    Vote(Answer<Vote>) => Vote, Taken(Answer<()>) => Done, List(Answer<ListPage>) => List,
    Parts(Answer<Vec<ScannedRow>>) => Parts, Rows(Answer<RowPage>) => Rows, Unsettled(UnsettledPage) => Unsettled,
    Look(Answer<LookPage>) => Look,
    Guarantees(Answer<Guarantees>) => Guarantees, Inline(Bytes) => Inline, Done(()) => Verified);
