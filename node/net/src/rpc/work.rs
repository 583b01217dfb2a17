//! A call of a peer at work on a volume of this node: what it holds, and the reply that it becomes.
//!
//! A call goes on where it came from in the order in which it came, so a commit finds its accept before it
//! in the volume's queue. Pages end where a message must ([`pages`]). [`super::calls`] calls these for
//! every stream.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;

use sherd_core::limits::VALUE_UNASKED_BYTES_MAX;
use sherd_core::message::ValueLimit;
use sherd_core::message::call::{RegisterCall, ShardCall, UpkeepCall, VolumeCall};
use sherd_core::register::EncodedValue;
use sherd_proto::convert::call::NumberedCalls;
use sherd_proto::limits::PAGE_BYTES_MAX;
use sherd_proto::v1::Addressed;
use sherd_proto::v1::vote_answer::Result as VoteResult;

use super::failure::CallFailure;
use super::limits::UNSHARED_BYTES_MAX;
use super::node::{HeldShare, RpcNode};
use super::{error, pages};
use sherd_store::observe::trace;
use sherd_store::peer::{CountedPage, PageShare, WorkForPeer};

pub(super) struct StartedCall {
    pub(super) work: WorkForPeer,
    /// Bytes of the call, counted until it is answered.
    pub(super) held: HeldShare,
    /// By the kind of call: the peer has no say in it.
    pub(super) ends_when_dropped: bool,
    /// No client waits for upkeep.
    pub(super) is_for_client: bool,
}

/// Starts a call. Its values are counted before they are decoded, so a node without room answers `Busy` at
/// the cost of neither their decoding nor their hashes.
///
/// # Errors
/// As the volume's, before it was asked.
pub(super) fn start<S: NumberedCalls>(
    node: &RpcNode,
    to: Option<Addressed>,
    call: S::Call,
) -> Result<StartedCall, CallFailure> {
    let addressed = node.addressed(to)?;
    let (volume, sent) = (addressed.volume, S::value_bytes(&call));
    let held_for_values = node.hold(volume, sent)?;
    let mut call = S::read(call)?;
    if call.is_of_one_life() {
        addressed.check_life()?;
    }
    let held = if sent > 0 { held_for_values } else { node.hold(volume, bytes_held(&call))? };
    match &mut call {
        VolumeCall::Register(RegisterCall::Accept { accept, .. }) => unshare(&mut accept.value),
        VolumeCall::Register(RegisterCall::Pull { row, .. }) => unshare(&mut row.value),
        _ => {}
    }
    let ends_when_dropped = call.ends_when_dropped();
    let is_for_client = !matches!(call, VolumeCall::Upkeep(_));
    let begin = || addressed.volumes.begin_for_peer(volume, call, node.scans());
    let work = trace::call_for(addressed.request, begin);
    Ok(StartedCall { work, held, ends_when_dropped, is_for_client })
}

/// The reply of a call, once it is there, with what its page counts until the peer reads it; if it is not,
/// the context's task is woken when it is.
pub(super) fn poll<S: NumberedCalls>(
    work: &mut WorkForPeer,
    number: u64,
    context: &mut Context<'_>,
) -> Poll<(S::Reply, PageShare)> {
    match work {
        WorkForPeer::Answer(pending) => {
            Pin::new(pending).poll(context).map(|result| (S::reply(number, &result), PageShare::default()))
        }
        WorkForPeer::Page(pending) => Pin::new(pending).poll(context).map(|result| match result {
            Ok(CountedPage { mut answer, share }) => {
                pages::end(&mut answer);
                (S::reply(number, &Ok(answer)), share)
            }
            Err(error) => (S::reply(number, &Err(error)), PageShare::default()),
        }),
        WorkForPeer::WithoutAnswer => {
            let failure = error::failure(error::refused("it has no reply"));
            Poll::Ready((S::failed(number, failure), PageShare::default()))
        }
    }
}

/// Takes the value out of the reply with a vote, since its peer can ask for it once more, by its length.
/// Returns whether there was a value.
pub(super) fn leave_out<S: NumberedCalls>(reply: &mut S::Reply) -> bool {
    let Some(VoteResult::Vote(vote)) = S::vote(reply).and_then(|vote| vote.result.as_mut()) else {
        return false;
    };
    vote.row.as_mut().is_some_and(|row| row.value.take().is_some())
}

/// Bytes that a call without values holds until it is answered.
fn bytes_held(call: &VolumeCall) -> usize {
    match call {
        VolumeCall::Register(call) => match call {
            // The page is counted when it exists.
            RegisterCall::List { scan } => {
                scan.prefix.len() + scan.from.len() + scan.delimiter.as_ref().map_or(0, Bytes::len)
            }
            RegisterCall::Prepare { values, .. } | RegisterCall::Read { values, .. } => long_value(*values),
            RegisterCall::RowsBehind { .. } => PAGE_BYTES_MAX,
            _ => 0,
        },
        VolumeCall::Shard(call) => match call {
            ShardCall::Page { .. } => PAGE_BYTES_MAX,
            _ => 0,
        },
        VolumeCall::Upkeep(call) => match call {
            UpkeepCall::HealPut { entry } => entry.encode().len(),
            UpkeepCall::ReleasePut { entry } => entry.encode().len(),
            UpkeepCall::Heals { .. } | UpkeepCall::Releases { .. } | UpkeepCall::Seals { .. } => {
                PAGE_BYTES_MAX
            }
            _ => 0,
        },
    }
}

/// Bytes that a call holds for the value that it asks for: none for a short one, which is counted when it
/// is there.
const fn long_value(values: ValueLimit) -> usize {
    let bytes = values.bytes() as usize;
    if bytes > VALUE_UNASKED_BYTES_MAX { bytes } else { 0 }
}

/// Copies a value out of the frame that it came in: the volume keeps it in memory, and it must not keep all
/// of the frame. A large one is most of its frame.
fn unshare(value: &mut EncodedValue) {
    if value.head.len() + value.inline.len() <= UNSHARED_BYTES_MAX {
        value.head = Bytes::copy_from_slice(&value.head);
        value.inline = Bytes::copy_from_slice(&value.inline);
    }
}
