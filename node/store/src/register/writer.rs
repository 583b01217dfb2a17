//! A writer as it waits among others of its key: what it wants, the verdict of each try on it, and the
//! channel for its answer.
//!
//! A verb makes a [`Writer`] and hands it to `Registers::change`; from there on it is a [`Member`] of a
//! batch, which runs to its end although the verb's client may be gone.

use bytes::Bytes;
use smallvec::SmallVec;
use tokio::sync::oneshot;
use tokio::time::Instant;

use sherd_core::heal::HealEntry;
use sherd_core::id::{Ballot, DataId};
use sherd_core::record::{ConditionalChange, DataRef, KeptAnswer, State};
use sherd_core::register::DurableShards;
use sherd_core::register::call::earlier_success;
use sherd_core::register::quorum::Lives;

use super::failure::Failure;
use crate::observe::trace::{self, RequestTrace};
use crate::stripe::StagedData;

/// Memory of a waiting writer beside its inline bytes: its conditions, attributes and place.
const WRITER_BYTES: usize = 1 << 10;

/// A value to propose, without its history: that is the register's own business.
#[derive(Debug)]
pub struct Proposal {
    pub(crate) state: State,
    /// The inline bytes that the state names.
    pub(crate) inline: Inline,
    /// Data ids that the state names and that another register of this key names already: the
    /// parts of the upload being completed.
    pub(crate) carried: Vec<DataId>,
    /// Data ids that the state no longer names and that another register names from now on.
    pub(crate) handed_over: Vec<DataId>,
    /// A repair that is due on the data, made durable together with the value.
    pub(crate) heal: Option<HealEntry>,
    /// How the writer is recognised when its client sends it again. The register adds it, see
    /// [`Writer::sent_by`].
    pub(crate) conditional: Option<ConditionalChange>,
}

impl Proposal {
    /// A state that names no inline bytes and no data of other registers.
    pub const fn of(state: State) -> Self {
        Self {
            state,
            inline: Inline::Nothing,
            carried: Vec::new(),
            handed_over: Vec::new(),
            heal: None,
            conditional: None,
        }
    }
}

/// Where a proposal's inline bytes come from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Inline {
    /// The state names none.
    Nothing,
    /// The writer's.
    New,
    /// Inline bytes of the value that it is made from.
    Kept,
}

/// Turns what a register holds into what it shall be, or refuses.
type Decide<E> = Box<dyn FnMut(Option<&State>) -> Result<Proposal, E> + Send>;

/// The answer where an earlier sending of a writer's call has made its change: from what is kept of the
/// answer to that, and what the register holds.
type AnswerRepeated<E> = Box<dyn Fn(&KeptAnswer, Option<&State>) -> E + Send>;

/// The call that a writer is a sending of.
struct WriterCall<E> {
    change: ConditionalChange,
    repeated: AnswerRepeated<E>,
}

/// Basis for a writer's decision: the value that a prepare or a read found, with the changes of the members
/// before it.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct DecisionBasis<'a> {
    pub(super) state: Option<&'a State>,
    /// The conditional changes of the found value, and those of the members before.
    pub(super) kept: &'a [ConditionalChange],
    pub(super) drafted: &'a [ConditionalChange],
}

/// A change that a caller wants to make, and the data that it names.
pub struct Writer<E> {
    staged: Option<StagedData>,
    inline: Bytes,
    decide: Decide<E>,
    call: Option<Box<WriterCall<E>>>,
    finishes: bool,
}

impl<E> std::fmt::Debug for Writer<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("staged", &self.staged).finish_non_exhaustive()
    }
}

impl<E> Writer<E> {
    /// A writer without data of its own. `decide` is asked once in each try: for a state that other writers
    /// of the key may just have made.
    pub fn new(decide: impl FnMut(Option<&State>) -> Result<Proposal, E> + Send + 'static) -> Self {
        Self { staged: None, inline: Bytes::new(), decide: Box::new(decide), call: None, finishes: false }
    }

    /// As a sending of a client's call, which its change is remembered by. Where an earlier sending has made
    /// that change, this one makes nothing and is refused with what `repeated` says.
    pub(crate) fn sent_by(
        self,
        call: Option<ConditionalChange>,
        repeated: impl Fn(&KeptAnswer, Option<&State>) -> E + Send + 'static,
    ) -> Self {
        let call = call.map(|change| Box::new(WriterCall { change, repeated: Box::new(repeated) }));
        Self { call, ..self }
    }

    /// Ends what an earlier change of its request began: it is made whether its client is there or not.
    pub(crate) fn finishing(self, finishes: bool) -> Self {
        Self { finishes, ..self }
    }

    /// With data that its proposal will name.
    pub(crate) fn naming(self, staged: Option<StagedData>) -> Self {
        Self { staged, ..self }
    }

    /// With bytes for [`Inline::New`].
    pub(crate) fn carrying(self, inline: Bytes) -> Self {
        Self { inline, ..self }
    }
}

/// A change that was not made.
#[derive(Debug)]
pub enum ChangeError<E> {
    /// The writer's own decision; what it judged is committed.
    Refused(E),
    /// The bucket is sealed: its register shows whether it was deleted. No volume stored anything of the
    /// writer, which may try again.
    Sealed(Box<Writer<E>>),
    /// The rounds failed.
    Failed(Failure),
}

/// Answer to the members of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// The last decision counts: no accept of it was sent.
    AsDecided,
    /// The decision of the try of this number counts: that one is committed.
    AsTried {
        number: u16,
    },
    Failed(Failure),
}

#[derive(Debug)]
pub(super) struct Member {
    /// When it came, in the order in which writers come and prepares are sent.
    pub(super) came: u64,
    pub(super) deadline: Instant,
    pub(super) inline: Bytes,
    pub(super) data: MemberData,
    /// Of the request that waits for it.
    trace: Option<RequestTrace>,
    finishes: bool,
    request: Box<dyn WriteRequest>,
}

/// A member's data. Dropped, it is removed, unless an accept has named it.
#[derive(Debug, Default)]
pub(super) struct MemberData {
    staged: Option<StagedData>,
    /// The highest ballot of an accept that named it.
    named_at: Option<Ballot>,
}

impl MemberData {
    /// The data, if no accept has named it.
    pub(super) fn unnamed(&self) -> Option<DataRef> {
        self.staged.as_ref().filter(|_| self.named_at.is_none()).map(StagedData::data)
    }

    /// The data, if an accept has named it, with the highest ballot of such an accept.
    pub(super) fn named(&self) -> Option<(DataRef, Ballot)> {
        Some((self.staged.as_ref()?.data(), self.named_at?))
    }

    /// Volumes and lives in which its shards are durable.
    pub(super) fn durable(&self) -> Option<DurableShards> {
        self.staged.as_ref().map(StagedData::durable_shards)
    }

    /// The data, if it has to be healed because a volume lost its shard before any value named it: the
    /// rebuild of that volume may have read its rows before this one was there.
    pub(super) fn outlived(&self, lives: &Lives) -> Option<DataRef> {
        self.staged.as_ref().filter(|staged| staged.is_outlived(lives)).map(StagedData::data)
    }

    /// An accept at `ballot` that names `named` is about to be sent.
    fn note_try(&mut self, named: &[DataRef], ballot: Ballot) {
        if let Some(staged) = &mut self.staged
            && named.contains(&staged.data())
        {
            staged.set_named();
            self.named_at = self.named_at.max(Some(ballot));
        }
    }

    /// Leaves it to others, although no accept has named it.
    pub(super) fn leave(&mut self) {
        if let Some(mut staged) = self.staged.take() {
            staged.set_named();
        }
    }

    /// No volume took the only accept, and none ever will.
    pub(super) fn set_unnamed(&mut self) {
        if let Some(staged) = &mut self.staged {
            staged.set_unnamed();
        }
        self.named_at = None;
    }
}

/// A writer's wish, without the type of its refusals.
trait WriteRequest: Send + std::fmt::Debug {
    fn has_left(&self) -> bool;
    fn decide(&mut self, found: DecisionBasis<'_>) -> Option<Proposal>;
    fn fail(&mut self, failure: Failure);
    fn has_failed(&self) -> bool;
    fn note_try(&mut self);
    fn answer(self: Box<Self>, answer: Answer, staged: Option<StagedData>, inline: Bytes, finishes: bool);
}

/// How a try judged a writer.
#[derive(Debug)]
enum TryVerdict<E> {
    Made,
    Refused(E),
    /// The change cannot be made for any state of the register.
    Failed(Failure),
}

struct PendingWrite<E> {
    decide: Decide<E>,
    call: Option<Box<WriterCall<E>>>,
    decided: TryVerdict<E>,
    /// By the numbers of the tries, from 1.
    tried: SmallVec<[TryVerdict<E>; 1]>,
    reply: oneshot::Sender<Result<(), ChangeError<E>>>,
}

impl<E: std::fmt::Debug> std::fmt::Debug for PendingWrite<E> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { decide: _, call: _, decided, tried, reply: _ } = self;
        f.debug_struct("PendingWrite").field("decided", decided).field("tried", tried).finish_non_exhaustive()
    }
}

/// Channel on which a writer gets its answer.
pub(super) type WriterReply<E> = oneshot::Receiver<Result<(), ChangeError<E>>>;

impl Member {
    pub(super) fn new<E: std::fmt::Debug + Send + 'static>(
        writer: Writer<E>,
        came: u64,
        deadline: Instant,
    ) -> (Self, WriterReply<E>) {
        let Writer { staged, inline, decide, call, finishes } = writer;
        let (reply, answer) = oneshot::channel();
        let request = PendingWrite { decide, call, decided: TryVerdict::Made, tried: SmallVec::new(), reply };
        (
            Self {
                came,
                deadline,
                inline,
                data: MemberData { staged, named_at: None },
                trace: trace::current(),
                finishes,
                request: Box::new(request),
            },
            answer,
        )
    }

    pub(super) const fn request_trace(&self) -> Option<&RequestTrace> {
        self.trace.as_ref()
    }

    /// Memory that it takes while it waits, in bytes.
    pub(super) fn bytes(&self) -> usize {
        WRITER_BYTES + self.inline.len()
    }

    /// Whether its caller has stopped waiting for the answer.
    pub(super) fn has_left(&self) -> bool {
        self.request.has_left()
    }

    /// Whether its client may have written by another node while this one stood still. Not where it is
    /// refused already.
    pub(super) fn is_given_up(&self) -> bool {
        !self.finishes
            && !self.request.has_failed()
            && self.trace.as_ref().is_some_and(RequestTrace::is_given_up)
    }

    /// Judges it on what was found; a refusal is remembered. Unless an accept of it may take effect, a writer
    /// whose client has given up changes nothing.
    pub(super) fn decide(&mut self, found: DecisionBasis<'_>, may_take_effect: bool) -> Option<Proposal> {
        let proposal = self.request.decide(found);
        if !may_take_effect && self.is_given_up() {
            self.fail(Failure::Unavailable);
            return None;
        }
        proposal
    }

    /// Overrules what was just decided.
    pub(super) fn fail(&mut self, failure: Failure) {
        self.request.fail(failure);
    }

    /// Whether what was decided last depends on no state.
    pub(super) fn has_failed(&self) -> bool {
        self.request.has_failed()
    }

    /// Keeps what was decided for the try that is about to be sent; `named` says which data it names, and
    /// at which ballot.
    pub(super) fn note_try(&mut self, named: &[DataRef], ballot: Ballot) {
        self.request.note_try();
        self.data.note_try(named, ballot);
    }

    /// Sends the answer. Data that no accept named is removed with the writer, unless it may try again.
    pub(super) fn answer(self, answer: Answer) {
        let Self { came: _, deadline: _, inline, data, trace, finishes, request } = self;
        // Before the request goes on: its time is logged when the last clone of the trace is dropped.
        drop(trace);
        request.answer(answer, data.staged, inline, finishes);
    }
}

impl<E: std::fmt::Debug + Send> WriteRequest for PendingWrite<E> {
    fn has_left(&self) -> bool {
        self.reply.is_closed()
    }

    fn decide(&mut self, found: DecisionBasis<'_>) -> Option<Proposal> {
        let Self { decide, call, .. } = self;
        let DecisionBasis { state, kept, drafted } = found;
        let token = call.as_ref().map(|call| call.change.token);
        let judged = match (call, earlier_success(token, kept, drafted)) {
            (Some(call), Some(earlier)) => Err((call.repeated)(&earlier.answer, state)),
            (call, _) => decide(state).map(|proposal| {
                let conditional = call.as_ref().map(|call| call.change.clone());
                Proposal { conditional, ..proposal }
            }),
        };
        let (verdict, proposal) = match judged {
            Ok(proposal) => (TryVerdict::Made, Some(proposal)),
            Err(refusal) => (TryVerdict::Refused(refusal), None),
        };
        self.decided = verdict;
        proposal
    }

    fn fail(&mut self, failure: Failure) {
        self.decided = TryVerdict::Failed(failure);
    }

    fn has_failed(&self) -> bool {
        matches!(self.decided, TryVerdict::Failed(_))
    }

    fn note_try(&mut self) {
        self.tried.push(std::mem::replace(&mut self.decided, TryVerdict::Made));
    }

    fn answer(self: Box<Self>, answer: Answer, staged: Option<StagedData>, inline: Bytes, finishes: bool) {
        let Self { decide, call, decided, mut tried, reply } = *self;
        let verdict = match answer {
            Answer::AsDecided => decided,
            Answer::AsTried { number } => {
                // All members were in all tries, since a batch is closed before its first.
                let index = usize::from(number).checked_sub(1).filter(|index| *index < tried.len());
                index.map_or(TryVerdict::Failed(Failure::OutcomeUnknown), |index| tried.swap_remove(index))
            }
            Answer::Failed(Failure::Sealed) => {
                // A writer that left does not try again; its data is dropped with it.
                let writer = Box::new(Writer { staged, inline, decide, call, finishes });
                return drop(reply.send(Err(ChangeError::Sealed(writer))));
            }
            Answer::Failed(failure) => TryVerdict::Failed(failure),
        };
        // Data that no accept named is removed before the answer is sent.
        drop(staged);
        let outcome = match verdict {
            TryVerdict::Made => Ok(()),
            TryVerdict::Refused(refusal) => Err(ChangeError::Refused(refusal)),
            TryVerdict::Failed(failure) => Err(ChangeError::Failed(failure)),
        };
        drop(reply.send(outcome));
    }
}
