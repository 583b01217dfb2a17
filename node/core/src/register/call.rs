//! Calls of clients that are sent more than once: the token that separates a call from all others, and
//! whether an earlier sending of it has taken effect.
//!
//! ```text
//! client --PUT, If-Match, id of the call--> gateway: made, its token goes into the value (answer lost)
//!        --the same once more-------------> gateway: the token is there: answered as then, nothing is made
//! ```
//! A value keeps the tokens of its last conditional changes, as [`Changes`] say. They are looked up before a
//! condition is judged, in each try, and in what earlier members of a batch made. A member whose token is
//! found is answered when a refused one would be: it depends on the found value in the same way. Guards I-19.

use crate::limits::CONDITIONAL_CHANGES;
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
    /// Adds what the members of a batch made under conditions; the oldest make room.
    pub fn remember(&mut self, drafted: &[ConditionalChange]) {
        self.conditional.extend_from_slice(drafted);
        let surplus = self.conditional.len().saturating_sub(CONDITIONAL_CHANGES);
        self.conditional.drain(..surplus);
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
    use crate::record::ChangeTry;

    fn made(token: CallToken) -> ConditionalChange {
        ConditionalChange { token, etag: "e".to_owned() }
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
    fn the_last_sixteen_conditional_changes_are_kept_over_others() {
        let token = |number: u8| CallToken([number; 16]);
        let mut changes = Changes::default();
        changes.remember(&[made(token(0)), made(token(1))]);
        let own = ChangeTry { change: crate::id::ChangeId::from_bytes([7; 16]), number: 1 };
        let mut changes = (0..40).fold(changes, |changes, _| changes.after(own));
        assert_eq!(changes.conditional.len(), 2, "unconditional changes push none out");
        changes.remember(&(2..17).map(|number| made(token(number))).collect::<Vec<_>>());
        let kept: Vec<u8> = changes.conditional.iter().map(|made| made.token.0[0]).collect();
        assert_eq!(kept, (1..17).collect::<Vec<u8>>());
    }
}
