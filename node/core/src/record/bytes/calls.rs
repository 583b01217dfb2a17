//! Conditional changes of clients' calls, as version 6 of a value has them.
//!
//! ```text
//! conditional := n u16 (1 to 256), n x (token 16, second u32, answer)
//! answer      := what follows, u8 (1 an etag, 2 a version, or both added up),
//!                (length u8, etag), (version id 16)
//! ```
//!
//! Versions 4 and 5 have a byte 0 in their place.

use super::version::ValueVersion;
use crate::codec::{DecodeError, Reader, Writer};
use crate::id::VersionId;
use crate::limits::{CONDITIONAL_CHANGE_BYTES, CONDITIONAL_CHANGES_MAX};
use crate::record::{CallToken, ConditionalChange, KeptAnswer};

/// Bits of the byte in front of an answer.
const HAS_ETAG: u8 = 1;
const HAS_VERSION: u8 = 2;

/// Bytes that [`put_conditional`] appends, but for the count.
pub(super) fn conditional_bytes(conditional: &[ConditionalChange]) -> usize {
    let answer_bytes = |KeptAnswer { etag, version }: &KeptAnswer| {
        etag.as_ref().map_or(0, |etag| 1 + etag.len()) + version.map_or(0, |id| id.0.len())
    };
    conditional.iter().map(|made| CONDITIONAL_CHANGE_BYTES + answer_bytes(&made.answer)).sum()
}

/// Appends conditional changes; in versions 4 and 5, which have none, a byte 0.
pub(super) fn put_conditional(writer: &mut Writer, conditional: &[ConditionalChange], stored: ValueVersion) {
    if stored < ValueVersion::Conditional {
        writer.u8(0);
        return;
    }
    writer.u16(u16::try_from(conditional.len()).expect("checked: at most CONDITIONAL_CHANGES_MAX"));
    for ConditionalChange { token, second, answer: KeptAnswer { etag, version } } in conditional {
        let has = |is_there, bit| if is_there { bit } else { 0 };
        writer
            .raw(&token.0)
            .u32(*second)
            .u8(has(etag.is_some(), HAS_ETAG) | has(version.is_some(), HAS_VERSION));
        if let Some(etag) = etag {
            let length = u8::try_from(etag.len()).expect("checked: at most ETAG_BYTES_MAX");
            writer.u8(length).raw(etag.as_bytes());
        }
        if let Some(VersionId(id)) = version {
            writer.raw(id);
        }
    }
}

/// Takes the conditional changes of a value; versions 4 and 5 have none.
pub(super) fn take_conditional(
    reader: &mut Reader,
    stored: ValueVersion,
) -> Result<Vec<ConditionalChange>, DecodeError> {
    let invalid = DecodeError::Invalid { field: "conditional changes" };
    if stored < ValueVersion::Conditional {
        return if reader.u8("conditional changes")? == 0 { Ok(Vec::new()) } else { Err(invalid) };
    }
    let length = usize::from(reader.u16("conditional changes")?);
    if length > CONDITIONAL_CHANGES_MAX {
        return Err(invalid);
    }
    let mut conditional = Vec::with_capacity(length);
    for _ in 0..length {
        let token = CallToken(reader.array("call token")?);
        let (second, answer) = (reader.u32("call second")?, take_answer(reader)?);
        conditional.push(ConditionalChange { token, second, answer });
    }
    Ok(conditional)
}

fn take_answer(reader: &mut Reader) -> Result<KeptAnswer, DecodeError> {
    let invalid = DecodeError::Invalid { field: "conditional etag" };
    let has = reader.u8("call answer")?;
    if has & !(HAS_ETAG | HAS_VERSION) != 0 {
        return Err(DecodeError::Invalid { field: "call answer" });
    }
    let mut answer = KeptAnswer::default();
    if has & HAS_ETAG != 0 {
        let length = usize::from(reader.u8("conditional etag")?);
        let bytes = reader.bytes(length, "conditional etag")?;
        answer.etag = Some(str::from_utf8(&bytes).map_err(|_| invalid)?.into());
    }
    if has & HAS_VERSION != 0 {
        answer.version = Some(VersionId(reader.array("call version")?));
    }
    Ok(answer)
}
