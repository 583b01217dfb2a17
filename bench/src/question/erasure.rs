//! Erasure code: each kernel against `reed-solomon-erasure` with its C code, whose bytes are also the
//! expected ones.
//!
//! One thread. `mib_s` counts the k data shards of a stripe once, for encode and reconstruct alike;
//! `moved_mib_s` counts every shard read and every shard written, once, so that it stands beside
//! that of `copy`, a plain copy of shards: no kernel can be faster than what the caches and the
//! memory move. `hot` works on one stripe over and over, `cold` on more stripes than the caches hold. Every
//! result is compared with the reference's before it is timed.

use std::ops::Range;
use std::time::Duration;

use reed_solomon_erasure::galois_8::ReedSolomon;
use sherd_core::erasure::{Code, Geometry, Kernel};
use sherd_core::limits::STRIPE_UNIT_BYTES;

use super::bench::Bench;
use super::error::Error;
use super::page::Page;
use super::turns::{Way, measure, mib};
use crate::result::Row;

/// Geometries that are measured: data and parity shards.
const GEOMETRIES: [(u8, u8); 4] = [(2, 2), (3, 3), (5, 3), (9, 3)];
/// Bytes of the stripes that `cold` goes through: several times any cache.
const COLD_BYTES: usize = 256 << 20;
const UNIT_BYTES: usize = STRIPE_UNIT_BYTES as usize;
/// Name of the reference in the rows.
const REFERENCE: &str = "reed-solomon-erasure";
const COPY: &str = "copy";

/// No options of its own.
#[derive(Debug, Clone, clap::Args)]
pub struct Arguments {}

type Stripe = Vec<Vec<u8>>;

/// One line of the table: a geometry, the lost shards, and `hot` or `cold`.
struct ErasureCase {
    geometry: Geometry,
    /// Data shards to rebuild; none is an encode.
    lost: usize,
    cache: &'static str,
}

impl Page for Arguments {
    fn name(&self) -> &'static str {
        "erasure"
    }

    fn device_bytes(&self) -> u64 {
        0
    }

    fn once(&self, bench: &mut Bench) -> Result<(), Error> {
        // There are many cases, and none of them waits for a device.
        let budget = bench.window() / 5;
        let cold_bytes = if bench.is_moment() { 1 << 20 } else { COLD_BYTES };
        for (data, parity) in GEOMETRIES {
            let geometry = Geometry::new(data, parity).expect("a geometry of the list");
            for (cache, bytes) in [("hot", 1), ("cold", cold_bytes)] {
                let mut stripes = stripes(geometry, bytes);
                for lost in 0..=geometry.parity_shards().min(geometry.data_shards()) {
                    let case = ErasureCase { geometry, lost, cache };
                    case.measure(&mut stripes, budget)?.into_iter().for_each(|row| bench.add(row));
                }
            }
        }
        bench.set("unit_bytes", &UNIT_BYTES);
        Ok(())
    }
}

/// Stripes of random bytes, about `bytes` of them, at least one.
fn stripes(geometry: Geometry, bytes: usize) -> Vec<Stripe> {
    let mut random = blake3::Hasher::new().finalize_xof();
    (0..bytes.div_ceil(UNIT_BYTES * geometry.volumes()).max(1))
        .map(|_| {
            let mut stripe = vec![vec![0; UNIT_BYTES]; geometry.volumes()];
            for shard in &mut stripe {
                random.fill(shard);
            }
            stripe
        })
        .collect()
}

impl ErasureCase {
    fn op(&self) -> &'static str {
        if self.lost == 0 { "encode" } else { "reconstruct" }
    }

    fn measure(&self, stripes: &mut [Stripe], budget: Duration) -> Result<Vec<Row>, Error> {
        let reference =
            ReedSolomon::new(self.geometry.data_shards(), self.geometry.parity_shards()).expect("a geometry");
        for stripe in &mut *stripes {
            reference.encode(stripe).expect("shards of one length");
        }
        let codes: Vec<(Kernel, Code)> =
            Kernel::all().map(|kernel| (kernel, Code::with_kernel(self.geometry, kernel))).collect();
        for (kernel, code) in &codes {
            self.check(code, *kernel, &stripes[0])?;
        }
        // The ways share the stripes: a way never runs while another does.
        let stripes = std::cell::RefCell::new(StripeRing { stripes, next: 0 });
        let mut ways =
            vec![Way::new(REFERENCE, || self.compute_by_reference(&reference, stripes.borrow_mut().next()))];
        ways.extend(codes.iter().map(|(kernel, code)| {
            Way::new(kernel.name(), || self.compute(code, stripes.borrow_mut().next()))
        }));
        ways.push(Way::new(COPY, || self.copy(stripes.borrow_mut().next())));
        let times = measure(&mut ways, budget);
        let mib_of = |shards: usize| mib(shards * UNIT_BYTES);
        let (sources, outs) = (self.geometry.data_shards(), self.outs().len());
        let rows = times.iter().map(|own| {
            let row = Row::new([
                ("kernel", own.name.to_owned()),
                ("geometry", self.geometry.to_string()),
                ("op", self.op().to_owned()),
                ("lost", self.lost.to_string()),
                ("cache", self.cache.to_owned()),
            ]);
            if own.name == COPY {
                return row.with("moved_mib_s", mib_of(2 * sources.min(outs)) / own.seconds());
            }
            row.with("mib_s", mib_of(sources) / own.seconds())
                .with("moved_mib_s", mib_of(sources + outs) / own.seconds())
                .with("ratio", own.speed_over(&times[0]))
        });
        Ok(rows.collect())
    }

    /// Range of the shards that are computed: the parity, or the first `lost` data shards.
    fn outs(&self) -> Range<usize> {
        if self.lost == 0 { self.geometry.data_shards()..self.geometry.volumes() } else { 0..self.lost }
    }

    /// Computes parity, or the first `lost` data shards, where they lie.
    fn compute(&self, code: &Code, stripe: &mut Stripe) {
        if self.lost == 0 {
            let (data, parity) = stripe.split_at_mut(self.geometry.data_shards());
            let data: Vec<&[u8]> = data.iter().map(Vec::as_slice).collect();
            let mut parity: Vec<&mut [u8]> = parity.iter_mut().map(Vec::as_mut_slice).collect();
            code.encode(&data, &mut parity);
        } else {
            let (lost, left) = stripe.split_at_mut(self.lost);
            let first = u8::try_from(self.lost).expect("at most 32 shards");
            let left: Vec<(u8, &[u8])> = (first..).zip(left.iter().map(Vec::as_slice)).collect();
            let mut lost: Vec<(u8, &mut [u8])> = (0..).zip(lost.iter_mut().map(Vec::as_mut_slice)).collect();
            code.reconstruct(&left, &mut lost).expect("at most m are lost");
        }
    }

    /// Computes the same shards as `compute`, by the reference.
    fn compute_by_reference(&self, reference: &ReedSolomon, stripe: &mut Stripe) {
        if self.lost == 0 {
            reference.encode(stripe).expect("shards of one length");
        } else {
            let mut shards: Vec<(&mut [u8], bool)> = (0..)
                .zip(stripe.iter_mut())
                .map(|(index, shard)| (shard.as_mut_slice(), index >= self.lost))
                .collect();
            reference.reconstruct(&mut shards).expect("at most m are lost");
        }
    }

    /// Copies shards to the places of those that are computed.
    fn copy(&self, stripe: &mut Stripe) {
        let (front, back) =
            stripe.split_at_mut(if self.lost == 0 { self.geometry.data_shards() } else { self.lost });
        let (sources, outs) = if self.lost == 0 { (front, back) } else { (back, front) };
        for (out, source) in outs.iter_mut().zip(sources.iter().take(self.geometry.data_shards())) {
            out.copy_from_slice(source);
        }
    }

    fn check(&self, code: &Code, kernel: Kernel, stripe: &Stripe) -> Result<(), Error> {
        let mut computed = stripe.clone();
        for shard in &mut computed[self.outs()] {
            shard.fill(0xee);
        }
        self.compute(code, &mut computed);
        if computed == *stripe {
            return Ok(());
        }
        let Self { geometry, lost, .. } = self;
        Err(Error::OtherBytes {
            what: format!("{}: {} of {geometry} with {lost} lost", kernel.name(), self.op()),
        })
    }
}

struct StripeRing<'a> {
    stripes: &'a mut [Stripe],
    next: usize,
}

impl StripeRing<'_> {
    fn next(&mut self) -> &mut Stripe {
        self.next = (self.next + 1) % self.stripes.len();
        &mut self.stripes[self.next]
    }
}
