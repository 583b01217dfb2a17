//! A pull is refused where an accept is: under a seal, and by a topology that is over.

use crate::report::{breaks, holds};

use crate::place::{PulledRow, WithoutPlace};

fn needed(without: WithoutPlace, moves: bool) {
    holds("a pull", &PulledRow { without: WithoutPlace::Nothing, moves });
    breaks(without, &PulledRow { without, moves });
}

#[test]
fn no_row_is_pulled_under_a_seal() {
    needed(WithoutPlace::Seal, false);
}

#[test]
fn no_row_is_pulled_in_an_epoch_that_is_over() {
    needed(WithoutPlace::Epoch, true);
}
