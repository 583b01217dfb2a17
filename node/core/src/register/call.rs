//! Calls of clients that are sent more than once: the token that separates a call from all others, and
//! whether an earlier sending of it has taken effect.
//!
//! ```text
//! client --PUT, If-Match, id of the call--> gateway: made, its token goes into the value (answer lost)
//!        --the same once more-------------> gateway: the token is there: answered as then, nothing is made
//! ```
//! A value keeps the tokens of its last conditional changes, as [`Changes::remember`] says. They are looked
//! up before a condition is judged, in each try, and in what earlier members of a batch made. A member whose
//! token is found is answered when a refused one would be: it depends on the found value in the same way.
//! Guards I-19.
//!
//! The clock of the tokens is that of the key's ballots: it never goes back, is the same for every gateway,
//! and advances as the fastest gateway's clock does. So a gateway whose clock is behind keeps each token as
//! long as others do, and one whose clock jumps ahead, by the five minutes that volumes accept, makes those
//! of before old once.

use crate::id::Timestamp;
use crate::limits::{CONDITIONAL_CHANGE_KEPT_S, CONDITIONAL_CHANGES_MAX, CONDITIONAL_CHANGES_MIN};
use crate::record::{CallToken, Changes, ConditionalChange};

/// Bytes of a token that name the call; the rest names what it writes, and under which conditions.
const CALL_BYTES: usize = 8;

/// Token of a client's call: the same in every sending of the call, and in no other call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClientCall([u8; CALL_BYTES]);

impl ClientCall {
    /// The call of a principal, by the operation and the id that the client gave it.
    pub fn new(principal: &str, operation: &str, id: &[u8]) -> Self {
        Self(hash("sherd 2026 client call", &[principal.as_bytes(), operation.as_bytes(), id]))
    }

    /// Token of the call for a change described by these pieces: its conditions, and a digest of the bytes
    /// that it stores. So an id that is used for two different changes is not taken for one.
    pub fn token(&self, wanted: &[&[u8]]) -> CallToken {
        let mut token = [0; 16];
        let (call, change) = token.split_at_mut(CALL_BYTES);
        call.copy_from_slice(&self.0);
        change.copy_from_slice(&hash::<{ 16 - CALL_BYTES }>("sherd 2026 conditional change", wanted));
        CallToken(token)
    }

    /// Whether a sending of the call may be among these changes. The bytes that it stores are unknown until
    /// its body has been read.
    pub fn may_be_among(&self, kept: &[ConditionalChange]) -> bool {
        kept.iter().any(|made| made.token.0.starts_with(&self.0))
    }
}

/// The change that an earlier sending of a call made, among those that the found value keeps and those that
/// members of the batch are about to make.
pub fn earlier_success<'a>(
    token: Option<CallToken>,
    kept: &'a [ConditionalChange],
    drafted: &'a [ConditionalChange],
) -> Option<&'a ConditionalChange> {
    let token = token?;
    kept.iter().chain(drafted).find(|made| made.token == token)
}

impl Changes {
    /// Adds what the members of a batch made under conditions, proposed at a ballot of this time. Removes
    /// those that are more than [`CONDITIONAL_CHANGE_KEPT_S`] older, but for the last
    /// [`CONDITIONAL_CHANGES_MIN`], and those before the last [`CONDITIONAL_CHANGES_MAX`].
    pub fn remember(&mut self, drafted: &[ConditionalChange], proposed: Timestamp) {
        let second = u32::try_from(proposed.as_ms() / 1000).unwrap_or(u32::MAX);
        let kept = &mut self.conditional;
        kept.extend(drafted.iter().map(|made| ConditionalChange { second, ..made.clone() }));
        let is_old =
            |made: &&ConditionalChange| second.saturating_sub(made.second) > CONDITIONAL_CHANGE_KEPT_S;
        let old = kept.iter().take_while(is_old).count();
        let beyond = |count| kept.len().saturating_sub(count);
        let surplus = old.min(beyond(CONDITIONAL_CHANGES_MIN)).max(beyond(CONDITIONAL_CHANGES_MAX));
        kept.drain(..surplus);
    }
}

fn hash<const N: usize>(context: &str, pieces: &[&[u8]]) -> [u8; N] {
    let mut hasher = blake3::Hasher::new_derive_key(context);
    for piece in pieces {
        hasher.update(&(piece.len() as u64).to_le_bytes()).update(piece);
    }
    let mut hash = [0; N];
    hasher.finalize_xof().fill(&mut hash);
    hash
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    use crate::record::{ChangeTry, KeptAnswer};

    fn made(token: CallToken) -> ConditionalChange {
        ConditionalChange { token, second: 0, answer: KeptAnswer::default() }
    }

    fn numbered(number: usize) -> ConditionalChange {
        made(CallToken((number as u128).to_le_bytes()))
    }

    /// Numbers and seconds of what is kept.
    fn kept(changes: &Changes) -> Vec<(usize, u32)> {
        let number =
            |token: CallToken| usize::try_from(u128::from_le_bytes(token.0)).expect("a small number");
        changes.conditional.iter().map(|made| (number(made.token), made.second)).collect()
    }

    fn at(second: u32) -> Timestamp {
        Timestamp::from_ms(u64::from(second) * 1000 + 999)
    }

    #[test]
    fn a_token_names_caller_change_and_id() {
        let call = ClientCall::new("key", "PutObject", b"id");
        let token = call.token(&[b"if-match", b"etag", b"md5"]);
        assert_eq!(ClientCall::new("key", "PutObject", b"id").token(&[b"if-match", b"etag", b"md5"]), token);
        for other in [
            ClientCall::new("other", "PutObject", b"id"),
            ClientCall::new("key", "DeleteObject", b"id"),
            ClientCall::new("key", "PutObject", b"di"),
            ClientCall::new("keyP", "utObject", b"id"),
        ] {
            assert_ne!(other, call);
            assert_ne!(other.token(&[b"if-match", b"etag", b"md5"]), token);
            assert!(!other.may_be_among(&[made(token)]));
        }
        assert_ne!(call.token(&[b"if-match", b"etag", b"md6"]), token);
        assert_ne!(call.token(&[b"if-matche", b"tag", b"md5"]), token);
        assert!(call.may_be_among(&[made(call.token(&[])), made(token)]));
    }

    #[test]
    fn a_call_is_found_in_what_is_kept_and_in_what_is_drafted() {
        let tokens = [1, 2, 3].map(|byte| CallToken([byte; 16]));
        let [kept, drafted] = [made(tokens[0]), made(tokens[1])];
        let found = |token| {
            earlier_success(token, std::slice::from_ref(&kept), std::slice::from_ref(&drafted)).cloned()
        };
        assert_eq!(found(Some(tokens[0])), Some(kept.clone()));
        assert_eq!(found(Some(tokens[1])), Some(drafted.clone()));
        assert_eq!(found(Some(tokens[2])), None);
        assert_eq!(found(None), None, "a call without an id is no other's");
    }

    #[test]
    fn those_of_a_minute_are_kept_and_the_last_sixteen_over_others() {
        let mut changes = Changes::default();
        (0..40).for_each(|number| changes.remember(&[numbered(number)], at(1000)));
        let own = ChangeTry { change: crate::id::ChangeId::from_bytes([7; 16]), number: 1 };
        for second in 1000..=1060 {
            changes = changes.after(own);
            changes.remember(&[], at(second));
        }
        assert_eq!(changes.conditional.len(), 40, "unconditional changes push none out");
        changes.remember(&[numbered(40)], at(1060));
        assert_eq!(changes.conditional.len(), 41);
        changes.remember(&[numbered(41)], at(1061));
        let sixteen: Vec<_> = (26..40).map(|number| (number, 1000)).chain([(40, 1060), (41, 1061)]).collect();
        assert_eq!(kept(&changes), sixteen);
        changes.remember(&[], at(u32::MAX));
        assert_eq!(kept(&changes), sixteen, "however old they are");
    }

    #[test]
    fn a_gateway_whose_clock_jumps_or_stands_still_leaves_sixteen_to_256() {
        let mut changes = Changes::default();
        (0..300).for_each(|number| changes.remember(&[numbered(number)], at(1000)));
        assert_eq!(changes.conditional.len(), CONDITIONAL_CHANGES_MAX);
        changes.remember(&[numbered(300)], at(1300));
        assert_eq!(changes.conditional.len(), CONDITIONAL_CHANGES_MIN, "five minutes ahead");
        (301..800).for_each(|number| changes.remember(&[numbered(number)], at(1300)));
        assert_eq!(kept(&changes).first(), Some(&(800 - CONDITIONAL_CHANGES_MAX, 1300)));
        // Seconds end in the year 2106: none of them is old then, and the number bounds them.
        changes.remember(&[numbered(800)], Timestamp::MAX);
        changes.remember(&[numbered(801)], Timestamp::MAX);
        assert_eq!(kept(&changes).last(), Some(&(801, u32::MAX)));
    }

    #[test]
    fn all_members_of_a_batch_are_remembered() {
        let mut changes = Changes::default();
        changes.remember(&[numbered(0)], at(1000));
        let batch: Vec<_> = (1..=crate::limits::BATCH_WRITERS_MAX).map(numbered).collect();
        changes.remember(&batch, at(1000));
        let numbers: Vec<usize> = kept(&changes).into_iter().map(|(number, _)| number).collect();
        assert_eq!(numbers, (1..=crate::limits::BATCH_WRITERS_MAX).collect::<Vec<_>>());
    }

    proptest! {
        /// Each of the last sixteen is kept, and each of the last 256 that is at most a minute old.
        #[test]
        fn what_is_kept_depends_on_age_and_number_alone(
            steps in proptest::collection::vec((0..20_u32, 0..40_usize), 1..60),
        ) {
            let (mut changes, mut all, mut second) = (Changes::default(), Vec::new(), 1000);
            for (passed, count) in steps {
                second += passed;
                let drafted: Vec<_> = (all.len()..all.len() + count).map(numbered).collect();
                all.extend((all.len()..all.len() + count).map(|number| (number, second)));
                changes.remember(&drafted, at(second));
                let is_kept = |&&(number, made): &&(usize, u32)| {
                    let others = all.len() - 1 - number;
                    let is_young = second - made <= CONDITIONAL_CHANGE_KEPT_S;
                    others < CONDITIONAL_CHANGES_MIN || (is_young && others < CONDITIONAL_CHANGES_MAX)
                };
                prop_assert_eq!(kept(&changes), all.iter().filter(is_kept).copied().collect::<Vec<_>>());
            }
        }
    }
}
