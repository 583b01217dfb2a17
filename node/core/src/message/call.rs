//! The calls to a volume: one table, of which everything is made that must agree about a call.
//!
//! ```text
//! name = Variant { parameters } -> answer: drop rule, life rule, class;
//! ```
//! From a row come the variant of [`RegisterCall`], [`ShardCall`] or [`UpkeepCall`], its name in logs, what
//! a drop does, whether the caller goes by one life of the volume, how long it may take, and the typed
//! wrapper of the seam ([`for_each_call!`](crate::for_each_call)). A new call is a row here, a message in
//! `proto/sherd/v1`, its conversion, and the work of the volume.

use bytes::Bytes;

use crate::heal::{HealEntry, HealId};
use crate::id::{Ballot, BucketId, RegisterKey, ShardId};
use crate::message::{
    AdoptedRow, Answer, Control, Error, LeaseAnswer, ListPage, ListScan, LookPage, LookScan, PartsScan,
    PulledRow, ReaderLeases, Result, RowPage, RowScan, ScannedRow, ShardPage, ShardScan, Target,
    UnsettledKind, UnsettledPage, ValueLimit,
};
use crate::record::Home;
use crate::register::recover::Guarantees;
use crate::register::recover::confirm::{Asker, Memory};
use crate::register::seal::StoredSeals;
use crate::register::{Accept, Answerer, CommitHint, Prepare, Vote};
use crate::release::{ReleaseEntry, ReleaseId};

/// How long a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CallClass {
    /// Answered from memory, or with one write to the log; requests wait for it.
    Short,
    /// As short, but no request waits for it: a volume of this node may take its time.
    Aside,
    /// A page of a listing, which requests wait for.
    List,
    /// A page of rows, shards or entries that upkeep walks.
    Page,
    /// A change of guarantees, adopted rows, the verification of a row.
    Long,
    /// The verification of a whole shard.
    Verify,
}

/// The table of calls, handed to a macro: `for_each_call!(name)` is `name! { rows }`.
///
/// A parameter is `by_ref T` (the wrapper takes `&T`), `by_opt T` (`Option<&T>` for an `Option<T>`) or
/// `by_val T`. A call without `->` has no answer, and is lost without harm.
#[macro_export]
macro_rules! for_each_call {
    ($with:ident) => {
        $with! {
            /// The registers of one node's volumes: rounds, scans, and what the volumes guarantee about
            /// them.
            RegisterPeer, Register, RegisterCall {
                /// Asks for a promise. Ends: a promise that was not given binds no volume.
                prepare = Prepare { target: by_ref Target, prepare: by_val Prepare, values: by_val ValueLimit }
                    -> Answer<Vote>: ends, any_life, Short;
                /// Asks to accept a value; an MRF entry becomes durable with it. Runs on: one without an
                /// answer is unknown.
                accept = Accept { target: by_ref Target, accept: by_ref Accept, heal: by_opt HealEntry }
                    -> Answer<()>: runs_on, any_life, Short;
                /// Says that a value is committed, whether every volume has it, and how far the logs of the
                /// volumes are that accepted it. Lost without harm (the row stays unsettled then), but
                /// never before an accept that was sent before it.
                commit = Commit { target: by_ref Target, commit: by_ref CommitHint }: runs_on, any_life, Short;
                /// Reads a row. Ends.
                read = Read { target: by_ref Target, values: by_val ValueLimit }
                    -> Answer<Vote>: ends, any_life, Short;
                /// Reads the inline bytes of the row accepted at `ballot`, verified. Ends.
                inline = Inline { target: by_ref Target, ballot: by_val Ballot } -> Bytes: ends, any_life, Short;
                /// Verifies a row as the device has it, its inline bytes too. Nothing but the answer
                /// travels. Ends.
                verify_row = VerifyRow { key: by_ref RegisterKey } -> (): ends, any_life, Long;
                /// One page of a listing, pending rows included. Ends.
                list = List { scan: by_ref ListScan } -> Answer<ListPage>: ends, any_life, List;
                /// The parts of one upload, in the order of their numbers. Ends.
                parts = Parts { scan: by_ref PartsScan } -> Answer<Vec<ScannedRow>>: ends, any_life, List;
                /// One page of all rows, tombstones and parts too: what recovery and upkeep walk. Ends.
                rows = Rows { scan: by_ref RowScan } -> Answer<RowPage>: ends, any_life, Page;
                /// One page of the rows that the volume does not know to be committed, or not to be
                /// everywhere. Ends.
                unsettled = Unsettled { kind: by_val UnsettledKind, after: by_opt RegisterKey, limit: by_val usize }
                    -> UnsettledPage: ends, any_life, Page;
                /// One page of the rows that a peer with a cursor may lack. Ends.
                rows_behind = RowsBehind { scan: by_ref LookScan } -> Answer<LookPage>: ends, any_life, Page;
                /// Changes what the volume guarantees. Runs on.
                control = Control { control: by_val Control } -> Answer<Guarantees>: runs_on, any_life, Long;
                /// Hands a recovering volume rows that its peers hold. Runs on.
                adopt = Adopt { rows: by_val Vec<AdoptedRow> } -> Answer<()>: runs_on, own_life, Long;
                /// Hands a volume a peer's row that it may lack, which it judges as a late accept. Runs on.
                pull = Pull { target: by_ref Target, row: by_ref PulledRow } -> Answer<()>: runs_on, any_life, Aside;
                /// Drops a tombstone under the floor, or any row under a final seal, where it is still that
                /// row. Runs on.
                drop_row = DropRow { target: by_ref Target, ballot: by_val Ballot }
                    -> Answer<()>: runs_on, own_life, Aside;
            }
            /// The shards of one node's volumes, but for their bytes.
            ShardPeer, Shard, ShardCall {
                /// Removes a shard that no register ever named; succeeds when it is not there. Runs on.
                delete_shard = Delete { shard: by_val ShardId, home: by_val Home } -> (): runs_on, own_life, Aside;
                /// Removes a shard that no register names any more; succeeds when it is not there. `false`
                /// where it stays, for the volume holds a reader's lease on it. Runs on.
                release_shard = Release { shard: by_val ShardId, home: by_val Home }
                    -> bool: runs_on, own_life, Aside;
                /// Makes, renews or ends the leases of a gateway's readers on data of which the volume has
                /// shards. Runs on.
                lease = Leases { leases: by_ref ReaderLeases } -> LeaseAnswer: runs_on, any_life, Short;
                /// The bytes of a shard, by its header, which is read and verified; its bytes are not.
                /// Ends.
                shard_bytes = Length { shard: by_val ShardId, home: by_val Home } -> u64: ends, any_life, Aside;
                /// Verifies a whole shard as the device has it, and gives its bytes. Nothing but the answer
                /// travels. Ends.
                verify_shard = Verify { shard: by_val ShardId, home: by_val Home } -> u64: ends, any_life, Verify;
                /// One page of the shards that the volume holds. Files that are being written, and those
                /// without a whole header, are left out. Ends.
                shards = Page { scan: by_val ShardScan } -> ShardPage: ends, any_life, Page;
            }
            /// The queues in the logs of one node's volumes, and the state of the volumes themselves.
            UpkeepPeer, Upkeep, UpkeepCall {
                /// One page of the MRF entries in the volume's log. Ends.
                heals = Heals { after: by_val Option<HealId>, limit: by_val usize }
                    -> Vec<(HealId, Bytes)>: ends, any_life, Page;
                /// Queues a heal on the volume's log. Runs on: logs that are slow get it as well.
                heal_put = HealPut { entry: by_ref HealEntry } -> (): runs_on, any_life, Aside;
                /// Notes that a heal is done.
                heal_done = HealDone { id: by_val HealId }: runs_on, own_life, Aside;
                /// One page of the notes of replaced data in the volume's log, oldest first. Ends.
                releases = Releases { after: by_val Option<ReleaseId>, limit: by_val usize }
                    -> Vec<(ReleaseId, Bytes)>: ends, any_life, Page;
                /// Notes replaced data on the volume's log.
                release_put = ReleasePut { entry: by_ref ReleaseEntry }: runs_on, own_life, Aside;
                /// Notes that replaced data is gone.
                release_done = ReleaseDone { id: by_val ReleaseId }: runs_on, own_life, Aside;
                /// Reports the life of the volume, whether it votes, and how far its log is durable. Ends.
                position = Position {} -> Answerer: ends, any_life, Short;
                /// The durable guarantees of the volume, but for its seals. Ends.
                guarantees = Guarantees {} -> Answer<Guarantees>: ends, any_life, Short;
                /// One page of the volume's seals, of the buckets behind `after`, by bucket. A page may be
                /// shorter than `limit`; an empty one is the end. Ends.
                seals = Seals { after: by_val Option<BucketId>, limit: by_val usize }
                    -> Answer<Vec<StoredSeals>>: ends, any_life, Page;
                /// How far the volume saw its peers' logs become durable, in which of their lives and
                /// openings. Answered as soon as it is open, whether it votes or not. One of those peers
                /// that asks says its own openings: what they cover is dropped after the answer, which runs
                /// on.
                remembers = Remembers { asker: by_opt Asker } -> Answer<Memory>: runs_on, any_life, Short;
            }
        }
    };
}

/// Declares the calls as values.
macro_rules! call_values {
    (
        $(
            $(#[$seam_doc:meta])*
            $seam:ident, $service:ident, $calls:ident {
                $(
                    $(#[$doc:meta])*
                    $name:ident = $variant:ident { $($field:ident: $given:ident $type:ty),* }
                        $(-> $answer:ty)?: $drop:ident, $life:ident, $class:ident;
                )*
            }
        )*
    ) => {
        /// A call to a volume. A kind of call is one row of [`for_each_call!`](crate::for_each_call).
        #[derive(Debug, Clone, PartialEq, Eq)]
        #[expect(
            clippy::large_enum_variant,
            reason = "most calls are accepts, and a box is one allocation more for each"
        )]
        pub enum VolumeCall {
            $(
                $(#[$seam_doc])*
                $service($calls),
            )*
        }

        $(
            $(#[$seam_doc])*
            #[derive(Debug, Clone, PartialEq, Eq)]
            #[allow(
                missing_docs,
                clippy::large_enum_variant,
                reason = "a field is a parameter of the wrapper, named by its type; a box is an allocation a call"
            )]
            pub enum $calls {
                $(
                    $(#[$doc])*
                    $variant { $($field: call_values!(@owned $given $type)),* },
                )*
            }

            impl From<$calls> for VolumeCall {
                fn from(call: $calls) -> Self {
                    Self::$service(call)
                }
            }

            impl $calls {
                /// Name in logs and on the seam.
                pub const fn name(&self) -> &'static str {
                    match self {
                        $(Self::$variant { .. } => stringify!($name),)*
                    }
                }

                /// Whether it only reads, so that it may stop when its answer is not waited for any more.
                pub const fn ends_when_dropped(&self) -> bool {
                    match self {
                        $(Self::$variant { .. } => call_values!(@ends $drop),)*
                    }
                }

                /// Whether its caller decided about one life of the volume: in another life it is refused.
                pub const fn is_of_one_life(&self) -> bool {
                    match self {
                        $(Self::$variant { .. } => call_values!(@own_life $life),)*
                    }
                }

                /// How long it may take.
                pub const fn class(&self) -> CallClass {
                    match self {
                        $(Self::$variant { .. } => CallClass::$class,)*
                    }
                }

                /// The kind of its answer; `None` where it has no answer.
                pub const fn answer_kind(&self) -> Option<AnswerKind> {
                    match self {
                        $(Self::$variant { .. } => call_values!(@kind $($answer)?),)*
                    }
                }
            }
        )*

        impl VolumeCall {
            /// Name in logs and on the seam.
            pub const fn name(&self) -> &'static str {
                match self {
                    $(Self::$service(call) => call.name(),)*
                }
            }

            /// Whether it only reads, so that it may stop when its answer is not waited for any more.
            pub const fn ends_when_dropped(&self) -> bool {
                match self {
                    $(Self::$service(call) => call.ends_when_dropped(),)*
                }
            }

            /// Whether its caller decided about one life of the volume: in another life it is refused.
            pub const fn is_of_one_life(&self) -> bool {
                match self {
                    $(Self::$service(call) => call.is_of_one_life(),)*
                }
            }

            /// How long it may take.
            pub const fn class(&self) -> CallClass {
                match self {
                    $(Self::$service(call) => call.class(),)*
                }
            }

            /// The kind of its answer; `None` where it has no answer.
            pub const fn answer_kind(&self) -> Option<AnswerKind> {
                match self {
                    $(Self::$service(call) => call.answer_kind(),)*
                }
            }
        }
    };
    (@owned by_ref $type:ty) => { $type };
    (@owned by_val $type:ty) => { $type };
    (@owned by_opt $type:ty) => { Option<$type> };
    (@ends ends) => { true };
    (@ends runs_on) => { false };
    (@own_life own_life) => { true };
    (@own_life any_life) => { false };
    (@kind) => { None };
    (@kind $answer:ty) => { Some(<$answer as CallAnswer>::KIND) };
}

for_each_call!(call_values);

/// A type that answers calls: one variant of [`VolumeAnswer`].
pub trait CallAnswer: Into<VolumeAnswer> {
    /// Variant of [`VolumeAnswer`] that holds it.
    const KIND: AnswerKind;

    /// Takes it out of an answer.
    ///
    /// # Errors
    /// [`Error::Unreachable`] when the answer is of another kind.
    fn from_answer(answer: VolumeAnswer) -> Result<Self>;
}

/// Declares what answers calls.
macro_rules! call_answers {
    ($($(#[$doc:meta])* $variant:ident($type:ty);)*) => {
        /// The answer of a volume to a call.
        #[derive(Debug, Clone, PartialEq, Eq)]
        pub enum VolumeAnswer {
            $($(#[$doc])* $variant($type),)*
        }

        /// Variants of [`VolumeAnswer`].
        #[derive(Debug, Clone, Copy, PartialEq, Eq)]
        pub enum AnswerKind {
            $($(#[$doc])* $variant,)*
        }

        $(
            impl From<$type> for VolumeAnswer {
                fn from(answer: $type) -> Self {
                    Self::$variant(answer)
                }
            }

            impl CallAnswer for $type {
                const KIND: AnswerKind = AnswerKind::$variant;

                fn from_answer(answer: VolumeAnswer) -> Result<Self> {
                    match answer {
                        VolumeAnswer::$variant(answer) => Ok(answer),
                        other => Err(another_kind(other.kind(), Self::KIND)),
                    }
                }
            }
        )*

        impl VolumeAnswer {
            /// Variant of the answer.
            pub const fn kind(&self) -> AnswerKind {
                match self {
                    $(Self::$variant(_) => AnswerKind::$variant,)*
                }
            }
        }
    };
}

call_answers! {
    /// Done, without a result.
    Done(());
    /// A promise, or a row.
    Vote(Answer<Vote>);
    /// An acceptor took what it was sent, or refuses it.
    Taken(Answer<()>);
    /// The inline bytes of a row.
    Inline(Bytes);
    /// A page of a listing.
    List(Answer<ListPage>);
    /// Parts of an upload.
    Parts(Answer<Vec<ScannedRow>>);
    /// A page of rows.
    Rows(Answer<RowPage>);
    /// A page of rows that upkeep settles, or brings to volumes that missed them.
    Unsettled(UnsettledPage);
    /// A page of rows that another volume may lack.
    Look(Answer<LookPage>);
    /// The guarantees of the volume.
    Guarantees(Answer<Guarantees>);
    /// Whether a shard was removed.
    Released(bool);
    /// How many leases the volume had no place for.
    Leases(LeaseAnswer);
    /// Bytes of a shard.
    Length(u64);
    /// A page of shards.
    Shards(ShardPage);
    /// A page of MRF entries.
    Heals(Vec<(HealId, Bytes)>);
    /// A page of notes of replaced data.
    Releases(Vec<(ReleaseId, Bytes)>);
    /// Life of the volume, and how far its log is durable.
    Position(Answerer);
    /// A page of seals.
    Seals(Answer<Vec<StoredSeals>>);
    /// The positions of its peers that the volume remembers.
    Memory(Answer<Memory>);
}

/// From a volume that gives another kind of answer it is not known whether the call was done.
fn another_kind(given: AnswerKind, wanted: AnswerKind) -> Error {
    Error::Unreachable { reason: format!("the volume answers {given:?} and not {wanted:?}") }
}
