//! Calls of clients that come more than once: one after the other, together, and after the key went on.

use sherd_core::limits::{CONDITIONAL_CHANGES_MAX, CONDITIONAL_CHANGES_MIN};
use sherd_core::record::{CallToken, ConditionalChange, KeptAnswer};

use super::*;

/// Why a sending of a call changes nothing.
#[derive(Debug, PartialEq, Eq)]
enum Unmade {
    Repeated { etag: String, found: Option<u64> },
    Refused,
}

/// A sending of a call that writes in the place of one number only, and is answered with an etag of its own.
fn sending(call: u64, from: Option<u64>, to: u64) -> Writer<Unmade> {
    let answer = KeptAnswer { etag: Some(format!("etag {to}").into()), version: None };
    let token = CallToken([call.to_le_bytes(); 2].concat().try_into().expect("16 bytes"));
    let change = ConditionalChange { token, second: 0, answer };
    let decide = move |state: Option<&State>| {
        if number_of(state) == from { Ok(Proposal::of(numbered(to))) } else { Err(Unmade::Refused) }
    };
    Writer::new(decide).sent_by(Some(change), |kept, state| Unmade::Repeated {
        etag: kept.etag.clone().map(String::from).unwrap_or_default(),
        found: number_of(state),
    })
}

async fn send(registers: &Registers, writer: Writer<Unmade>) -> Result<(), Unmade> {
    match registers.change(registers.begin(&key()), writer).await {
        Ok(()) => Ok(()),
        Err(ChangeError::Refused(unmade)) => Err(unmade),
        Err(other) => panic!("{other:?}"),
    }
}

fn repeated(etag: &str, found: Option<u64>) -> Result<(), Unmade> {
    Err(Unmade::Repeated { etag: etag.to_owned(), found })
}

#[tokio::test]
async fn a_call_that_is_sent_again_is_answered_as_the_first_time() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    assert_eq!(send(registers, sending(1, None, 1)).await, Ok(()));
    // The second sending by itself would have another etag: the first one's counts.
    assert_eq!(send(registers, sending(1, None, 7)).await, repeated("etag 1", Some(1)));
    assert_eq!(send(registers, sending(2, None, 2)).await, Err(Unmade::Refused), "another call");

    registers.change(registers.begin(&key()), plain(3)).await.expect("a healthy node");
    assert_eq!(send(registers, sending(1, None, 1)).await, repeated("etag 1", Some(3)), "it was replaced");
    let delete = Writer::<()>::new(|_| Ok(Proposal::of(State::Tombstone)));
    registers.change(registers.begin(&key()), delete).await.expect("a healthy node");
    assert_eq!(send(registers, sending(1, None, 1)).await, repeated("etag 1", None), "it was deleted");
    assert_eq!(found(&node).await.state, State::Tombstone, "nothing was made again");
    node.close().await;
}

#[tokio::test]
async fn two_sendings_that_wait_together_make_one_change() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    let registers = node.registers();
    let sendings = [sending(1, None, 1), sending(1, None, 1), sending(2, Some(1), 2), sending(1, None, 1)];
    let outcomes = join_all(sendings.map(|writer| send(registers, writer))).await;
    let again = |found| repeated("etag 1", Some(found));
    assert_eq!(outcomes, [Ok(()), again(1), Ok(()), again(2)]);
    let Value { changes, state } = found(&node).await;
    assert_eq!((number_of(Some(&state)), changes.count), (Some(2), 1));
    let tokens: Vec<u8> = changes.conditional.iter().map(|made| made.token.0[0]).collect();
    assert!(changes.conditional.iter().all(|made| made.second > 0), "the second of their ballot");
    assert_eq!(tokens, [1, 2], "each that made something brings its own");
    node.close().await;
}

#[tokio::test]
async fn a_call_is_recognised_for_a_minute_after_many_others() {
    let directories = Directories::new(1).without_syncs();
    let node = directories.start().await;
    let registers = node.registers();
    assert_eq!(send(registers, sending(0, None, 0)).await, Ok(()));
    let others = 2 * CONDITIONAL_CHANGES_MIN as u64;
    for number in 1..=others {
        assert_eq!(send(registers, sending(number, Some(number - 1), number)).await, Ok(()));
    }
    assert_eq!(send(registers, sending(0, None, 0)).await, repeated("etag 0", Some(others)));

    node.pass_ms(61_000);
    assert_eq!(send(registers, sending(0, None, 0)).await, repeated("etag 0", Some(others)));
    let next = others + 1;
    assert_eq!(send(registers, sending(next, Some(others), next)).await, Ok(()));
    assert_eq!(send(registers, sending(0, None, 0)).await, Err(Unmade::Refused), "a minute has passed");
    let oldest = next - (CONDITIONAL_CHANGES_MIN as u64 - 1);
    let again = send(registers, sending(oldest, Some(oldest - 1), oldest)).await;
    assert_eq!(again, repeated(&format!("etag {oldest}"), Some(next)), "the last sixteen are kept");
    node.close().await;
}

#[tokio::test]
async fn a_call_is_judged_by_its_condition_once_256_others_came() {
    let directories = Directories::new(1).without_syncs();
    let node = directories.start().await;
    let registers = node.registers();
    assert_eq!(send(registers, sending(0, None, 0)).await, Ok(()));
    let others = CONDITIONAL_CHANGES_MAX as u64;
    let together = (1..others).map(|number| send(registers, sending(number, Some(number - 1), number)));
    assert!(join_all(together).await.iter().all(Result::is_ok));
    assert_eq!(send(registers, sending(0, None, 0)).await, repeated("etag 0", Some(others - 1)));
    assert_eq!(send(registers, sending(others, Some(others - 1), others)).await, Ok(()));
    assert_eq!(send(registers, sending(0, None, 0)).await, Err(Unmade::Refused));
    node.close().await;
}
