//! Room for long values: what this gateway holds of them has a bound.
//!
//! A row's value comes with the vote up to [`limits::VALUE_UNASKED_BYTES_MAX`]; of a longer one the vote says
//! the length. Then this takes room for it, and only then [`super::read`] asks for the bytes. The room goes
//! back with the row.

use std::sync::Arc;

use sherd_core::limits;

use super::Failure;
use crate::machine::budget::{Budget, Share};

/// Memory of a value per byte of its encoding: the bytes as they came, and twice as much for the decoded
/// form.
const TIMES_ITS_BYTES: usize = 3;

/// Share of the budget that a long value takes, until the row that holds it is dropped. A short one takes
/// nothing.
#[derive(Debug, Clone, Default)]
pub(crate) struct ValueRoom {
    _share: Option<Arc<Share>>,
}

/// Room says nothing of the row that takes it.
impl PartialEq for ValueRoom {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for ValueRoom {}

impl ValueRoom {
    /// Waits for room for a value of `value_bytes`.
    ///
    /// # Errors
    /// [`Failure::Overloaded`] where there was none in time.
    pub(super) async fn take(values: &Budget, value_bytes: usize) -> Result<Self, Failure> {
        if value_bytes <= limits::VALUE_UNASKED_BYTES_MAX {
            return Ok(Self::default());
        }
        let share = values.take(value_bytes * TIMES_ITS_BYTES).await;
        share.map(|share| Self { _share: Some(Arc::new(share)) }).map_err(|_| Failure::Overloaded)
    }
}
