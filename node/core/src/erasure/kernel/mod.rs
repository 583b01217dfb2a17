//! Multiplies shards with factors of GF(2^8) and adds them up: all the work per byte there is.
//!
//! A kernel computes some outs at a time from all sources, with the sums in registers: each source byte
//! is read once for up to [`OUTS_PER_PASS`] outs, each out byte is written once. [`Kernel`] says which
//! units of the processor are used; `dot` is their loop, `x86` and `neon` hold what differs between them.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod dot;
#[cfg(target_arch = "aarch64")]
mod neon;
mod pass;
mod plain;
#[cfg(target_arch = "x86_64")]
mod x86;

#[cfg(test)]
mod tests;

use std::fmt;

use super::matrix::Row;
use pass::{BLOCK_BYTES, OUTS_PER_PASS};

/// A way to compute that this processor supports: only the detection of the processor makes one.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Kernel(Units);

#[derive(Clone, Copy, PartialEq, Eq)]
enum Units {
    Plain,
    #[cfg(target_arch = "x86_64")]
    X86(x86::Units),
    #[cfg(target_arch = "aarch64")]
    Neon(neon::Neon),
}

impl Kernel {
    /// Tables, a byte at a time: every processor has it.
    pub const PLAIN: Self = Self(Units::Plain);

    /// The fastest of this processor.
    pub fn best() -> Self {
        Self::all().last().expect("the plain one is always there")
    }

    /// All that this processor has, the fastest last.
    pub fn all() -> impl Iterator<Item = Self> {
        let all = std::iter::once(Self::PLAIN);
        #[cfg(target_arch = "x86_64")]
        let all = all.chain(x86::Units::all().map(|units| Self(Units::X86(units))));
        #[cfg(target_arch = "aarch64")]
        let all = all.chain(neon::Neon::detected().map(|unit| Self(Units::Neon(unit))));
        all
    }

    /// Name of the kernel in reports.
    pub const fn name(self) -> &'static str {
        match self.0 {
            Units::Plain => "plain",
            #[cfg(target_arch = "x86_64")]
            Units::X86(units) => units.name(),
            #[cfg(target_arch = "aarch64")]
            Units::Neon(_) => "neon",
        }
    }

    /// Sets each out to the sum of each source times the factor that the out's row has for it.
    ///
    /// # Panics
    /// When there are not as many rows as outs, or the buffers differ in length.
    pub(super) fn multiply(self, rows: &[Row], sources: &[&[u8]], outs: &mut [&mut [u8]]) {
        assert_eq!(rows.len(), outs.len(), "one row per out");
        let Some(bytes) = outs.first().map(|out| out.len()) else { return };
        assert!(outs.iter().all(|out| out.len() == bytes), "shards of one length");
        assert!(sources.iter().all(|source| source.len() == bytes), "shards of one length");
        let passes = outs.len().div_ceil(OUTS_PER_PASS);
        let outs_of_pass = outs.len().div_ceil(passes);
        let block_bytes = if passes == 1 { bytes.max(1) } else { BLOCK_BYTES };
        for start in (0..bytes).step_by(block_bytes) {
            let columns = start..bytes.min(start + block_bytes);
            for (rows, outs) in rows.chunks(outs_of_pass).zip(outs.chunks_mut(outs_of_pass)) {
                match self.0 {
                    Units::Plain => plain::multiply(rows, sources, outs, columns.clone()),
                    #[cfg(target_arch = "x86_64")]
                    Units::X86(units) => units.multiply(rows, sources, outs, columns.clone()),
                    #[cfg(target_arch = "aarch64")]
                    Units::Neon(unit) => unit.multiply(rows, sources, outs, columns.clone()),
                }
            }
        }
    }
}

impl fmt::Debug for Kernel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}
