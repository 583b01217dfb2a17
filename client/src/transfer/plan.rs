//! Sizes and counts of parts, by the size of a file and the requests at one time. Pure.

use crate::error::PlanError;
use crate::limits::{
    BYTES_A_PART_IN_FLIGHT, PART_BYTES_MAX, PART_BYTES_MIN, PARTS_IN_FLIGHT_MIN, PARTS_MAX,
    PIPE_PARTS_A_SIZE, S3_PART_BYTES_MAX, S3_PART_BYTES_MIN, SINGLE_BYTES_MAX, WORKERS_MAX,
};

const MIB: u64 = 1 << 20;

/// How a file or object is cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PartPlan {
    /// Bytes of the whole.
    pub bytes: u64,
    /// Bytes of every part but the last.
    pub part_bytes: u64,
    /// Parts; one is a request without parts.
    pub parts: u64,
    /// Parts at one time.
    pub in_flight: usize,
}

/// A part of a plan.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PlannedPart {
    /// From one on.
    pub number: u64,
    /// The first byte.
    pub offset: u64,
    /// Bytes.
    pub bytes: u64,
}

impl PartPlan {
    /// Plans a file of `bytes`. A part size that is asked for is kept; else it grows with the size, so that
    /// each worker has about four parts.
    ///
    /// # Errors
    /// [`PlanError`]: no workers, a part that S3 does not take, or more than 10,000 parts.
    pub fn new(bytes: u64, workers: usize, part_bytes: Option<u64>) -> Result<Self, PlanError> {
        check_workers(workers)?;
        check_part_bytes(part_bytes)?;
        let single = part_bytes.unwrap_or(SINGLE_BYTES_MAX);
        if bytes <= single {
            return Ok(Self { bytes, part_bytes: bytes, parts: 1, in_flight: 1 });
        }
        let part_bytes = match part_bytes {
            Some(part_bytes) => part_bytes,
            None => chosen(bytes, workers),
        };
        let parts = bytes.div_ceil(part_bytes);
        if parts > PARTS_MAX || part_bytes > S3_PART_BYTES_MAX {
            return Err(PlanError::TooManyParts { bytes, part_bytes });
        }
        let more = usize::try_from(bytes / BYTES_A_PART_IN_FLIGHT).unwrap_or(usize::MAX);
        let in_flight = PARTS_IN_FLIGHT_MIN.saturating_add(more).min(workers);
        let in_flight = in_flight.min(usize::try_from(parts).unwrap_or(usize::MAX));
        Ok(Self { bytes, part_bytes, parts, in_flight })
    }

    /// The parts in order.
    pub fn parts(self) -> impl Iterator<Item = PlannedPart> + Send {
        (0..self.parts).map(move |index| {
            let offset = index * self.part_bytes;
            PlannedPart { number: index + 1, offset, bytes: self.part_bytes.min(self.bytes - offset) }
        })
    }
}

/// Refuses a number of workers with which nothing would be done.
pub(crate) const fn check_workers(workers: usize) -> Result<(), PlanError> {
    if workers == 0 || workers > WORKERS_MAX { Err(PlanError::Workers) } else { Ok(()) }
}

pub(crate) fn check_part_bytes(part_bytes: Option<u64>) -> Result<(), PlanError> {
    match part_bytes {
        Some(bytes) if !(S3_PART_BYTES_MIN..=S3_PART_BYTES_MAX).contains(&bytes) => Err(PlanError::PartSize),
        _ => Ok(()),
    }
}

/// Bytes of a part in whole MiB: about a quarter of each worker's share, larger where 10,000 would not do.
fn chosen(bytes: u64, workers: usize) -> u64 {
    let share = bytes.div_ceil(4 * workers as u64);
    let wanted = share.clamp(PART_BYTES_MIN, PART_BYTES_MAX).max(bytes.div_ceil(PARTS_MAX));
    wanted.div_ceil(MIB) * MIB
}

/// Bytes of the part with this number of a pipe, whose size is unknown.
pub(crate) fn pipe_part_bytes(number: u64, part_bytes: Option<u64>) -> u64 {
    let doublings = u32::try_from((number - 1) / PIPE_PARTS_A_SIZE).unwrap_or(u32::MAX).min(10);
    part_bytes.unwrap_or_else(|| (PART_BYTES_MIN << doublings).min(S3_PART_BYTES_MAX))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn parts_grow_with_the_file_and_their_number_with_both() {
        let plan = |bytes, workers| PartPlan::new(bytes, workers, None).expect("it can be planned");
        let of = |bytes, workers| {
            let plan = plan(bytes, workers);
            (plan.parts, plan.part_bytes / MIB, plan.in_flight)
        };
        assert_eq!(of(0, 32), (1, 0, 1));
        assert_eq!(of(SINGLE_BYTES_MAX, 32), (1, 16, 1));
        assert_eq!(of(SINGLE_BYTES_MAX + 1, 32), (3, 8, 3));
        assert_eq!(of(256 * MIB, 32), (32, 8, 12));
        assert_eq!(of(2048 * MIB, 32), (128, 16, 32));
        assert_eq!(of(2048 * MIB, 1), (8, 256, 1));
        assert_eq!(of(5 << 40, 32), (9_987, 525, 32));
    }

    #[test]
    fn what_s3_would_refuse_is_refused_before() {
        let plan = |bytes, workers, part| PartPlan::new(bytes, workers, part);
        assert_eq!(plan(1, 0, None), Err(PlanError::Workers));
        assert_eq!(plan(1, WORKERS_MAX + 1, None), Err(PlanError::Workers));
        assert_eq!(plan(1, 1, Some(S3_PART_BYTES_MIN - 1)), Err(PlanError::PartSize));
        let part = S3_PART_BYTES_MIN;
        assert!(plan(part * PARTS_MAX, 1, Some(part)).is_ok());
        let bytes = part * PARTS_MAX + 1;
        assert_eq!(plan(bytes, 1, Some(part)), Err(PlanError::TooManyParts { bytes, part_bytes: part }));
    }

    #[test]
    fn a_pipe_of_5_tib_has_parts_enough() {
        let whole: u64 = (1..=PARTS_MAX).map(|number| pipe_part_bytes(number, None)).sum();
        assert!(whole > 5 << 40, "{whole}");
        assert_eq!(pipe_part_bytes(1, None), PART_BYTES_MIN);
    }

    proptest! {
        #[test]
        fn parts_cover_the_file(bytes in 0_u64..(45 << 40), workers in 1_usize..WORKERS_MAX) {
            let Ok(plan) = PartPlan::new(bytes, workers, None) else {
                return Err(TestCaseError::fail("a size that S3 takes"));
            };
            prop_assert!(plan.parts <= PARTS_MAX && plan.in_flight <= workers && plan.in_flight > 0);
            let mut at = 0;
            for part in plan.parts() {
                prop_assert_eq!(part.offset, at);
                prop_assert!(part.bytes > 0 || bytes == 0);
                at += part.bytes;
            }
            prop_assert_eq!(at, bytes);
        }
    }
}
