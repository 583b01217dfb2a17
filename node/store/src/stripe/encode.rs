//! Parity over lists of buffers, window by window, without joining them.
//!
//! ```text
//! shard 0  [ buffer a      ][ buffer b           ]
//! shard 1  [ b (rest) ][ buffer c                ]
//! windows  |----------|----|---------------------|   each contiguous in every shard
//! ```
//!
//! The code works column by column, so a stripe may be cut wherever any of its shards' buffers
//! ends; every window is then contiguous in all of them.

use bytes::Bytes;

use sherd_core::erasure::Code;
use sherd_core::limits::SET_VOLUMES_MAX;

/// Zeros to fill the last stripe with.
static ZEROS: [u8; 64 << 10] = [0; 64 << 10];

#[derive(Debug, Default)]
pub(crate) struct BufferList {
    buffers: std::collections::VecDeque<Bytes>,
    length: usize,
}

impl BufferList {
    pub(crate) fn push(&mut self, bytes: Bytes) {
        if !bytes.is_empty() {
            self.length += bytes.len();
            self.buffers.push_back(bytes);
        }
    }

    pub(crate) const fn len(&self) -> usize {
        self.length
    }

    /// Takes up to `length` bytes off the front.
    pub(crate) fn take(&mut self, length: usize) -> Vec<Bytes> {
        let mut taken = Vec::with_capacity(2);
        let mut missing = length;
        while missing > 0 {
            let Some(front) = self.buffers.front_mut() else { break };
            let part = if front.len() <= missing {
                self.buffers.pop_front().expect("there is a front")
            } else {
                front.split_to(missing)
            };
            missing -= part.len();
            self.length -= part.len();
            taken.push(part);
        }
        taken
    }
}

/// Cuts the front of `list` into `shards` lists of `unit` bytes each, zeros behind its end.
pub(crate) fn cut_stripe(list: &mut BufferList, shards: usize, unit: usize) -> Vec<Vec<Bytes>> {
    (0..shards)
        .map(|_| {
            let mut missing = unit - unit.min(list.len());
            let mut shard = list.take(unit);
            while missing > 0 {
                let zeros = missing.min(ZEROS.len());
                shard.push(Bytes::from_static(&ZEROS[..zeros]));
                missing -= zeros;
            }
            shard
        })
        .collect()
}

/// Computes the parity of a stripe: every data list and every parity slice holds `unit` bytes.
///
/// # Panics
/// When a list is shorter than the parity slices, or there are more than [`SET_VOLUMES_MAX`].
pub(crate) fn encode(code: &Code, data: &[Vec<Bytes>], mut parity: Vec<&mut [u8]>) {
    let mut places = [(0_usize, 0_usize); SET_VOLUMES_MAX];
    let mut left = parity.first().map_or(0, |slice| slice.len());
    while left > 0 {
        let window = data
            .iter()
            .zip(&places)
            .fold(left, |window, (list, (buffer, offset))| window.min(list[*buffer].len() - offset));
        let mut columns: [&[u8]; SET_VOLUMES_MAX] = [&[]; SET_VOLUMES_MAX];
        for ((list, place), column) in data.iter().zip(&mut places).zip(&mut columns) {
            let buffer = &list[place.0];
            *column = &buffer[place.1..place.1 + window];
            place.1 += window;
            if place.1 == buffer.len() {
                *place = (place.0 + 1, 0);
            }
        }
        let mut out: [&mut [u8]; SET_VOLUMES_MAX] = std::array::from_fn(|_| Default::default());
        for (slice, out) in parity.iter_mut().zip(&mut out) {
            let (front, rest) = std::mem::take(slice).split_at_mut(window);
            *out = front;
            *slice = rest;
        }
        let parity_count = parity.len();
        code.encode(&columns[..data.len()], &mut out[..parity_count]);
        left -= window;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use sherd_core::erasure::Geometry;

    fn list_of(buffers: &[Vec<u8>]) -> BufferList {
        let mut list = BufferList::default();
        for buffer in buffers {
            list.push(Bytes::copy_from_slice(buffer));
        }
        list
    }

    proptest! {
        #[test]
        fn parity_is_the_same_however_the_bytes_arrive(
            buffers in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..40), 1..20),
            shards in 1_u8..6,
            parity in 1_u8..4,
        ) {
            let body: Vec<u8> = buffers.concat();
            prop_assume!(!body.is_empty());
            let code = Code::of(Geometry::new(shards, parity).expect("small"));
            let unit = body.len().div_ceil(usize::from(shards));

            let mut padded = body.clone();
            padded.resize(unit * usize::from(shards), 0);
            let whole: Vec<&[u8]> = padded.chunks(unit).collect();
            let mut expected = vec![vec![0; unit]; usize::from(parity)];
            code.encode(&whole, &mut expected.iter_mut().map(Vec::as_mut_slice).collect::<Vec<_>>());

            let mut list = list_of(&buffers);
            let cut = cut_stripe(&mut list, usize::from(shards), unit);
            prop_assert_eq!(list.len(), 0);
            for (shard, expected) in cut.iter().zip(&whole) {
                prop_assert_eq!(&shard.concat(), expected);
            }
            let mut got = vec![vec![0; unit]; usize::from(parity)];
            encode(&code, &cut, got.iter_mut().map(Vec::as_mut_slice).collect());
            prop_assert_eq!(got, expected);
        }
    }

    #[test]
    fn a_stripe_leaves_the_rest_for_the_next() {
        let mut list = list_of(&[vec![1; 5], vec![2; 5]]);
        let cut = cut_stripe(&mut list, 2, 3);
        assert_eq!(cut[0].concat(), [1, 1, 1]);
        assert_eq!(cut[1].concat(), [1, 1, 2]);
        assert_eq!(list.len(), 4);
    }
}
