//! Asks many, and hears them in the order in which they answer.
//!
//! A [`Gather`] owns the answers under way of one round. The caller takes them one by one until it
//! knows enough; what is left can be dropped or waited for by somebody else.

use std::future::poll_fn;
use std::pin::Pin;
use std::task::Poll;

use super::{Pending, Result};

/// The answers under way of one round, each under its place in the set.
#[derive(Debug)]
pub struct Gather<R> {
    waiting: Vec<(usize, Pending<R>)>,
}

impl<R: Unpin> Gather<R> {
    /// Gathers answers that are under way.
    pub fn new(waiting: impl IntoIterator<Item = (usize, Pending<R>)>) -> Self {
        Self { waiting: waiting.into_iter().collect() }
    }

    /// Adds one.
    pub fn push(&mut self, place: usize, pending: Pending<R>) {
        self.waiting.push((place, pending));
    }

    /// How many have not answered.
    pub fn len(&self) -> usize {
        self.waiting.len()
    }

    /// Whether all have answered.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// The places that have not answered.
    pub fn places(&self) -> impl Iterator<Item = usize> {
        self.waiting.iter().map(|(place, _)| *place)
    }

    /// Waits for the next answer; `None` when all have answered. Cancel-safe: an answer is taken
    /// only when it is returned.
    pub async fn next(&mut self) -> Option<(usize, Result<R>)> {
        if self.waiting.is_empty() {
            return None;
        }
        poll_fn(|context| {
            for index in 0..self.waiting.len() {
                let (place, pending) = &mut self.waiting[index];
                let place = *place;
                if let Poll::Ready(result) = Pin::new(pending).poll(context) {
                    self.waiting.swap_remove(index);
                    return Poll::Ready(Some((place, result)));
                }
            }
            Poll::Pending
        })
        .await
    }
}

use std::future::Future;

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn answers_come_in_the_order_in_which_they_are_given() {
        let (first, waiting_first) = Pending::waiting();
        let (second, waiting_second) = Pending::waiting();
        let mut gather = Gather::new([(0, waiting_first), (1, waiting_second), (2, Pending::ready(Ok(30)))]);
        assert_eq!(gather.next().await, Some((2, Ok(30))));
        second.answer(Ok(20));
        assert_eq!(gather.next().await, Some((1, Ok(20))));
        drop(first);
        assert!(matches!(gather.next().await, Some((0, Err(super::super::Error::Unreachable { .. })))));
        assert_eq!(gather.next().await, None);
    }
}
