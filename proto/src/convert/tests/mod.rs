//! Every value comes back as it was sent; every wrong message is refused by the name of its field;
//! no bytes at all make a conversion panic.

mod refusals;
mod strategy;

use proptest::collection::vec;
use proptest::prelude::*;
use prost::Message;

use sherd_core::id::{Life, VolumeId};
use sherd_core::message::{self, call};

use super::Wire;
use super::answer::{AnswerIn, answer, reply};
use super::value::VolumeAddress;
use crate::fuzzing;
use crate::v1::{
    Addressed, PutReply, RegisterCall, RegisterReply, ShardBytes, ShardCall, ShardFile, ShardRange,
    ShardReply, UpkeepCall, UpkeepReply, WriteReply,
};

/// The message as the other end decodes it, from a sender of the next version that says more: fields are
/// only ever added, and one that is not known is passed over.
fn sent<M: Message + Default>(message: &M) -> M {
    let mut bytes = message.encode_to_vec();
    // Field 4000, with three bytes.
    bytes.extend([0x82, 0xfa, 0x01, 0x03, b'n', b'e', b'w']);
    M::decode(bytes.as_slice()).expect("it was encoded")
}

fn address() -> Addressed {
    VolumeAddress { volume: VolumeId([1; 16]), life: Some(Life(2)), request: 3 }.to_wire()
}

fn register_call(request: &call::RegisterCall) -> RegisterCall {
    RegisterCall { number: 7, timeout_ms: 5, to: Some(address()), call: Some(request.to_wire()) }
}

fn register_reply<A: AnswerIn<crate::v1::register_reply::Reply>>(
    result: &message::Result<A>,
) -> RegisterReply {
    RegisterReply { number: 7, reply: Some(reply(result)) }
}

/// Declares that a result comes back through the reply of a stream.
macro_rules! comes_back {
    ($result:expr, $message:ident { $($field:ident: $number:expr,)? } . $reply:ident) => {
        let result = $result;
        let message = $message { $($field: $number,)? $reply: Some(reply(&result)) };
        prop_assert_eq!(answer(sent(&message).$reply), Ok(result));
    };
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn calls_of_registers_come_back(request in strategy::register_request()) {
        let call = sent(&register_call(&request)).call.expect("a call");
        prop_assert_eq!(call::RegisterCall::from_wire(call), Ok(request));
    }

    #[test]
    fn answers_of_registers_come_back(
        vote in strategy::result_of(strategy::answer_of(strategy::vote())),
        done in strategy::result_of(strategy::answer_of(Just(()))),
        list in strategy::result_of(strategy::answer_of(strategy::list_page())),
        parts in strategy::result_of(strategy::answer_of(strategy::scanned_rows())),
        rows in strategy::result_of(strategy::answer_of(strategy::row_page())),
        look in strategy::result_of(strategy::answer_of(strategy::look_page())),
        unsettled in strategy::result_of(strategy::unsettled()),
        guarantees in strategy::result_of(strategy::answer_of(strategy::reported_guarantees())),
        inline in strategy::result_of(strategy::some_bytes()),
        verified in strategy::result_of(Just(())),
    ) {
        comes_back!(vote, RegisterReply { number: 1, }.reply);
        comes_back!(done, RegisterReply { number: 2, }.reply);
        comes_back!(list, RegisterReply { number: 3, }.reply);
        comes_back!(parts, RegisterReply { number: 4, }.reply);
        comes_back!(rows, RegisterReply { number: 5, }.reply);
        comes_back!(unsettled, RegisterReply { number: 6, }.reply);
        comes_back!(guarantees, RegisterReply { number: 7, }.reply);
        comes_back!(inline, RegisterReply { number: 8, }.reply);
        comes_back!(verified, RegisterReply { number: 9, }.reply);
        comes_back!(look, RegisterReply { number: 10, }.reply);
    }

    #[test]
    fn what_is_said_of_shards_comes_back(
        request in strategy::shard_request(),
        done in strategy::result_of(Just(())),
        length in strategy::result_of(any::<u64>()),
        released in strategy::result_of(any::<bool>()),
        leases in strategy::result_of(strategy::lease_answer()),
        page in strategy::result_of(strategy::shard_page()),
        range in strategy::shard_range(),
        file in strategy::shard_file(),
        life in strategy::result_of(strategy::some_life()),
        bytes in strategy::result_of(strategy::some_bytes()),
    ) {
        let call = ShardCall { number: 7, timeout_ms: 5, to: None, call: Some(request.to_wire()) };
        prop_assert_eq!(call::ShardCall::from_wire(sent(&call).call.expect("a call")), Ok(request));
        let message: ShardRange = sent(&range.to_wire());
        prop_assert_eq!(Wire::from_wire(message), Ok(range));
        let message: ShardFile = sent(&file.to_wire());
        prop_assert_eq!(Wire::from_wire(message), Ok(file));
        comes_back!(done.clone(), ShardReply { number: 1, }.reply);
        comes_back!(length, ShardReply { number: 2, }.reply);
        comes_back!(page, ShardReply { number: 3, }.reply);
        comes_back!(released, ShardReply { number: 4, }.reply);
        comes_back!(leases, ShardReply { number: 5, }.reply);
        comes_back!(done, WriteReply {}.reply);
        comes_back!(life.clone(), WriteReply {}.reply);
        comes_back!(life, PutReply {}.reply);
        comes_back!(bytes, ShardBytes {}.part);
    }

    #[test]
    fn what_upkeep_says_comes_back(
        request in strategy::upkeep_request(),
        heals in strategy::result_of(strategy::heals()),
        releases in strategy::result_of(strategy::releases()),
        done in strategy::result_of(Just(())),
        guarantees in strategy::result_of(strategy::answer_of(strategy::reported_guarantees())),
        memory in strategy::result_of(strategy::answer_of(strategy::memory())),
        position in strategy::result_of(strategy::answerer()),
        seals in strategy::result_of(strategy::answer_of(strategy::seals())),
    ) {
        let call = UpkeepCall { number: 7, timeout_ms: 5, to: None, call: Some(request.to_wire()) };
        prop_assert_eq!(call::UpkeepCall::from_wire(sent(&call).call.expect("a call")), Ok(request));
        comes_back!(heals, UpkeepReply { number: 1, }.reply);
        comes_back!(releases, UpkeepReply { number: 2, }.reply);
        comes_back!(done, UpkeepReply { number: 3, }.reply);
        comes_back!(guarantees, UpkeepReply { number: 4, }.reply);
        comes_back!(memory, UpkeepReply { number: 5, }.reply);
        comes_back!(position, UpkeepReply { number: 6, }.reply);
        comes_back!(seals, UpkeepReply { number: 7, }.reply);
    }

    /// Bytes of a broken peer: the conversion refuses them, or gives a value that converts back and forth.
    #[test]
    fn bytes_are_refused_or_come_back(kind in 0..fuzzing::KINDS.len(), bytes in vec(any::<u8>(), 0..200)) {
        fuzzing::KINDS[kind](bytes.into());
    }

    #[test]
    fn damaged_messages_are_refused_or_come_back(
        request in strategy::register_request(),
        vote in strategy::result_of(strategy::answer_of(strategy::vote())),
        page in strategy::result_of(strategy::answer_of(strategy::list_page())),
        shard in strategy::shard_request(),
        upkeep in strategy::upkeep_request(),
        damage in vec((any::<prop::sample::Index>(), any::<u8>()), 0..4),
        cut in any::<prop::sample::Index>(),
    ) {
        let messages = [
            (0, register_call(&request).encode_to_vec()),
            (1, register_reply(&vote).encode_to_vec()),
            (1, register_reply(&page).encode_to_vec()),
            (2, ShardCall { to: Some(address()), call: Some(shard.to_wire()), ..ShardCall::default() }.encode_to_vec()),
            (4, UpkeepCall { to: Some(address()), call: Some(upkeep.to_wire()), ..UpkeepCall::default() }.encode_to_vec()),
        ];
        for (kind, mut bytes) in messages {
            prop_assert!(fuzzing::message(&[&[kind], bytes.as_slice()].concat()), "it is whole");
            for (at, byte) in &damage {
                let at = at.index(bytes.len());
                bytes[at] = *byte;
            }
            if damage.len() == 3 {
                bytes.truncate(cut.index(bytes.len()));
            }
            fuzzing::message(&[&[kind], bytes.as_slice()].concat());
        }
    }
}

/// Inputs of every kind for the fuzz target: a kind that lost its seeds is fuzzed from nothing.
#[test]
fn the_seeds_of_the_fuzz_target_become_values_of_every_kind() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../fuzz/seeds/wire");
    let mut kinds: Vec<u8> = std::fs::read_dir(folder)
        .expect("the seeds")
        .map(|seed| {
            let path = seed.expect("a seed").path();
            let bytes = std::fs::read(&path).expect("a seed");
            assert!(fuzzing::message(&bytes), "{} is no value", path.display());
            bytes[0]
        })
        .collect();
    kinds.sort_unstable();
    kinds.dedup();
    assert_eq!(kinds.len(), fuzzing::KINDS.len());
}
