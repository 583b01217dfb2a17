//! Object bytes to stripes to shards, and ranges of an object to ranges of shards.
//!
//! ```text
//! object   |  stripe 0: k x unit       |  stripe 1        |  rest   |       unit = stripe unit
//! shard 0  |  0 .. unit      |  ...    |  ceil(rest / k)  |
//! shard 1  |  unit .. 2 unit |  ...    |  ceil(rest / k)  |       each shard: its unit of every
//! shard k-1|  ...            |  ...    |  rest, then 0    |       stripe, one behind the other
//! ```
//!
//! The last stripe's unit is as short as its bytes allow, and what it has too much is zeros at the
//! end of the last shards: all shards of one object have one length, and an object of n bytes takes
//! less than k bytes more. Sizes are limited, so none of the arithmetic here can overflow.

use std::ops::Range;

use crate::erasure::Geometry;
use crate::limits;

/// How the bytes of one data id lie on its shards.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Layout {
    size: u64,
    geometry: Geometry,
    stripe_unit: u32,
}

/// A size or a stripe unit past its limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("{size} bytes in stripe units of {stripe_unit} cannot be laid out")]
pub struct InvalidLayout {
    /// Bytes of the object.
    pub size: u64,
    /// Bytes of a stripe unit.
    pub stripe_unit: u32,
}

/// Consecutive bytes of an object that are also consecutive in one data shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Piece {
    /// The stripe of its first byte.
    pub stripe: u64,
    /// Number of the data shard.
    pub shard: u8,
    /// Where it begins in the shard.
    pub offset: u64,
    /// Length in bytes; never 0. More than a stripe unit only where one shard holds all the data.
    pub length: u64,
}

impl Layout {
    /// Lays `size` bytes out. No bytes take no stripe.
    ///
    /// # Errors
    /// [`InvalidLayout`] for more than [`limits::DATA_BYTES_MAX`] bytes, and for a stripe unit of
    /// none or of more than [`limits::STRIPE_UNIT_BYTES_MAX`].
    pub const fn new(size: u64, geometry: Geometry, stripe_unit: u32) -> Result<Self, InvalidLayout> {
        if size > limits::DATA_BYTES_MAX || stripe_unit == 0 || stripe_unit > limits::STRIPE_UNIT_BYTES_MAX {
            return Err(InvalidLayout { size, stripe_unit });
        }
        Ok(Self { size, geometry, stripe_unit })
    }

    /// Bytes of the object.
    pub const fn size(&self) -> u64 {
        self.size
    }

    /// Erasure code.
    pub const fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// Bytes of the object in every stripe but the last.
    pub const fn stripe_bytes(&self) -> u64 {
        self.stripe_unit as u64 * self.geometry.data_shards() as u64
    }

    /// How many stripes there are.
    pub const fn stripes(&self) -> u64 {
        self.size.div_ceil(self.stripe_bytes())
    }

    /// Bytes of one stripe on each shard.
    ///
    /// # Panics
    /// If the stripe does not exist.
    pub const fn unit(&self, stripe: u64) -> u32 {
        let data = self.stripe_range(stripe);
        let unit = (data.end - data.start).div_ceil(self.geometry.data_shards() as u64);
        assert!(unit <= self.stripe_unit as u64, "a stripe fills its units");
        #[expect(clippy::cast_possible_truncation, reason = "just compared with a u32")]
        let unit = unit as u32;
        unit
    }

    /// Bytes of every shard.
    pub const fn shard_bytes(&self) -> u64 {
        let rest = self.size % self.stripe_bytes();
        let whole = self.size / self.stripe_bytes();
        whole * self.stripe_unit as u64 + rest.div_ceil(self.geometry.data_shards() as u64)
    }

    /// Where a stripe begins on each shard.
    ///
    /// # Panics
    /// If the stripe does not exist.
    pub const fn shard_offset(&self, stripe: u64) -> u64 {
        assert!(stripe < self.stripes(), "a stripe of the object");
        stripe * self.stripe_unit as u64
    }

    /// Bytes of the object that are in a stripe.
    ///
    /// # Panics
    /// If the stripe does not exist.
    pub const fn stripe_range(&self, stripe: u64) -> Range<u64> {
        assert!(stripe < self.stripes(), "a stripe of the object");
        let start = stripe * self.stripe_bytes();
        let end = start + self.stripe_bytes();
        start..(if end < self.size { end } else { self.size })
    }

    /// How many bytes of a stripe's unit on data shard `shard` are the object's; zeros follow.
    ///
    /// # Panics
    /// If the stripe or the data shard does not exist.
    pub const fn filled(&self, stripe: u64, shard: u8) -> u32 {
        assert!((shard as usize) < self.geometry.data_shards(), "a data shard");
        let data = self.stripe_range(stripe);
        let unit = self.unit(stripe);
        let before = unit as u64 * shard as u64;
        let left = (data.end - data.start).saturating_sub(before);
        #[expect(clippy::cast_possible_truncation, reason = "less than the unit, which is a u32")]
        let left_in_unit = left as u32;
        if left < unit as u64 { left_in_unit } else { unit }
    }

    /// Stripes that a range of the object touches. Bytes behind the object's end are left out.
    pub fn stripes_of(&self, range: Range<u64>) -> Range<u64> {
        let end = range.end.min(self.size);
        if range.start >= end {
            return 0..0;
        }
        range.start / self.stripe_bytes()..end.div_ceil(self.stripe_bytes())
    }

    /// Where a range of the object lies, in the object's order. Bytes behind the object's end are left out.
    pub fn pieces(&self, range: Range<u64>) -> impl Iterator<Item = Piece> + use<> {
        let layout = *self;
        let end = range.end.min(layout.size);
        let mut next = range.start;
        std::iter::from_fn(move || {
            let piece = (next < end).then(|| layout.piece(next, end))?;
            next += piece.length;
            Some(piece)
        })
    }

    /// The piece that begins at byte `at` and ends at `end` or before.
    fn piece(&self, at: u64, end: u64) -> Piece {
        let stripe = at / self.stripe_bytes();
        if self.geometry.data_shards() == 1 {
            return Piece { stripe, shard: 0, offset: at, length: end - at };
        }
        let unit = u64::from(self.unit(stripe));
        let in_stripe = at % self.stripe_bytes();
        let in_unit = in_stripe % unit;
        Piece {
            stripe,
            shard: u8::try_from(in_stripe / unit).expect("a stripe has at most SET_VOLUMES_MAX units"),
            offset: self.shard_offset(stripe) + in_unit,
            length: (unit - in_unit).min(end - at),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn layout(size: u64, k: u8, m: u8, unit: u32) -> Layout {
        Layout::new(size, Geometry::new(k, m).expect("a geometry"), unit).expect("a layout")
    }

    /// Deals an object's bytes out one by one: what a layout must agree with.
    fn dealt(object: &[u8], k: usize, unit: usize) -> Vec<Vec<u8>> {
        let mut shards = vec![Vec::new(); k];
        for stripe in object.chunks(k * unit) {
            let unit = stripe.len().div_ceil(k);
            for at in 0..unit * k {
                shards[at / unit].push(stripe.get(at).copied().unwrap_or(0));
            }
        }
        shards
    }

    #[test]
    fn an_object_of_the_usual_unit_lies_like_this() {
        let unit = limits::STRIPE_UNIT_BYTES;
        let two_stripes = layout((1 << 20) + 10, 4, 2, unit);
        assert_eq!(two_stripes.stripes(), 2);
        assert_eq!((two_stripes.unit(0), two_stripes.unit(1)), (unit, 3));
        assert_eq!(two_stripes.shard_bytes(), (256 << 10) + 3);
        assert_eq!((0..4).map(|shard| two_stripes.filled(1, shard)).collect::<Vec<_>>(), [3, 3, 3, 1]);
        let piece = |stripe, shard, offset, length| Piece { stripe, shard, offset, length };
        assert_eq!(
            two_stripes.pieces((1 << 20) - 5..(1 << 20) + 100).collect::<Vec<_>>(),
            [
                piece(0, 3, (256 << 10) - 5, 5),
                piece(1, 0, 256 << 10, 3),
                piece(1, 1, 256 << 10, 3),
                piece(1, 2, 256 << 10, 3),
                piece(1, 3, 256 << 10, 1),
            ]
        );
    }

    #[test]
    fn one_byte_in_many_shards_fills_the_first() {
        let one = layout(1, 12, 4, 1 << 16);
        assert_eq!((one.stripes(), one.shard_bytes(), one.unit(0)), (1, 1, 1));
        assert_eq!((0..12).map(|shard| one.filled(0, shard)).sum::<u32>(), 1);
    }

    #[test]
    fn no_bytes_take_no_stripe() {
        let empty = layout(0, 4, 2, 7);
        assert_eq!((empty.stripes(), empty.shard_bytes()), (0, 0));
        assert_eq!(empty.pieces(0..10).count(), 0);
        assert_eq!(empty.stripes_of(0..10), 0..0);
    }

    #[test]
    fn one_data_shard_gives_one_piece() {
        let mirrored = layout(1000, 1, 2, 7);
        let whole = Piece { stripe: 1, shard: 0, offset: 8, length: 900 };
        assert_eq!(mirrored.pieces(8..908).collect::<Vec<_>>(), [whole]);
    }

    #[test]
    fn sizes_and_units_past_their_limits_are_refused() {
        let geometry = Geometry::new(4, 2).expect("a geometry");
        assert!(Layout::new(limits::DATA_BYTES_MAX + 1, geometry, 1).is_err());
        assert!(Layout::new(1, geometry, 0).is_err());
        assert!(Layout::new(1, geometry, limits::STRIPE_UNIT_BYTES_MAX + 1).is_err());
    }

    proptest! {
        #[test]
        fn a_layout_is_what_dealing_byte_by_byte_gives(
            object in proptest::collection::vec(any::<u8>(), 0..400),
            k in 1..=16_u8,
            unit in 1..40_u32,
            start in 0..420_u64,
            length in 0..420_u64,
        ) {
            let size = u64::try_from(object.len()).expect("small");
            let layout = layout(size, k, 2, unit);
            let shards = dealt(&object, usize::from(k), usize::try_from(unit).expect("small"));
            for shard in &shards {
                prop_assert_eq!(u64::try_from(shard.len()).expect("small"), layout.shard_bytes());
            }
            let at = |offset: u64| usize::try_from(offset).expect("small");
            let range = start..start + length;
            let mut read = Vec::new();
            let mut stripes = Vec::new();
            for Piece { stripe, shard, offset, length } in layout.pieces(range.clone()) {
                prop_assert!(length > 0);
                read.extend_from_slice(&shards[usize::from(shard)][at(offset)..at(offset + length)]);
                stripes.push(stripe);
            }
            let expected = at(start.min(size))..at(range.end.min(size));
            prop_assert_eq!(&read, &object[expected]);
            let touched = layout.stripes_of(range);
            prop_assert_eq!(touched.is_empty(), stripes.is_empty());
            if let (Some(first), Some(last)) = (stripes.first(), stripes.last()) {
                prop_assert_eq!(touched.start, *first);
                prop_assert!(k == 1 || touched.end == last + 1);
            }
            let mut filled = 0;
            let mut written = 0;
            for stripe in 0..layout.stripes() {
                prop_assert_eq!(layout.shard_offset(stripe), written);
                written += u64::from(layout.unit(stripe));
                filled += (0..k).map(|shard| u64::from(layout.filled(stripe, shard))).sum::<u64>();
            }
            prop_assert_eq!((written, filled), (layout.shard_bytes(), size));
        }

        #[test]
        fn the_largest_objects_lie_without_gaps(
            size in limits::PUT_BYTES_MAX - 1000..=limits::DATA_BYTES_MAX,
            k in 1..=32_u8,
            unit in prop_oneof![Just(limits::STRIPE_UNIT_BYTES), Just(limits::STRIPE_UNIT_BYTES_MAX), 1..=limits::STRIPE_UNIT_BYTES_MAX],
            back in 0..10_000_u64,
        ) {
            let layout = layout(size, k, 32 - k, unit);
            prop_assert!(layout.shard_bytes() * u64::from(k) >= size);
            prop_assert!(layout.shard_bytes() * u64::from(k) < size + u64::from(k));
            let mut read = 0;
            for Piece { offset, length, .. } in layout.pieces(size - back..u64::MAX) {
                prop_assert!(offset + length <= layout.shard_bytes());
                read += length;
            }
            prop_assert_eq!(read, back);
        }
    }
}
