//! Public access blocks: those that are read are shown and read again as the same.

use bytes::Bytes;
use sherd_core::config::public_access::PublicAccessBlock;

use crate::answer;
use crate::bucket::public_access;

/// A document, or a stored block.
pub fn public_access_block(input: &[u8]) {
    if let Ok(block) = PublicAccessBlock::decode(Bytes::copy_from_slice(input)) {
        assert_eq!(block.encode(), input);
    }
    let Ok((block, shown)) = public_access::read(input) else { return };
    assert_eq!(PublicAccessBlock::decode(block.encode()).as_ref(), Ok(&block));
    let shown = answer::document(&shown).expect("a block is a document").into_body();
    let again = public_access::read(&shown.bytes().expect("in memory")).map(|(block, _)| block);
    assert_eq!(again.as_ref().ok(), Some(&block), "{again:?}");
}
