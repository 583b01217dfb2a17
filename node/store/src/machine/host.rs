//! The seam to the runner of work beside the requests: threads of the machine, or a simulator's tasks.
//!
//! A volume has workers beside the requests: a keeper, a log, readers and writers. Each is written as
//! [`Turns`]: it does the work at hand, names its next wait, and gives the thread back. On [`ThreadHost`]
//! each has a thread, so that a dead disk holds up no other. On [`TaskHost`] they take turns on the runtime
//! that the requests run on: a whole store runs on one thread, with a paused clock where the runtime's is
//! paused.

use std::fmt::Debug;
use std::future::poll_fn;
use std::io;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio_util::task::TaskTracker;

/// The wait after a turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    /// Another one.
    Turn,
    /// Another one as soon as its inbox has something, or after this time; without a time, only when its
    /// inbox has something.
    Wait(Option<Duration>),
    /// Nothing: what took turns is dropped.
    End,
}

/// Where it comes from what a turn works on.
pub trait Inbox {
    /// Blocks until there is something, or nothing can come any more, at most `timeout`. May return before.
    fn wait(&self, timeout: Option<Duration>);

    /// Whether there is something, or nothing can come any more; if not, wakes the task when that changes.
    fn poll_ready(&self, context: &mut Context<'_>) -> Poll<()>;
}

/// A life of its own, turn by turn. A turn may block on the disk, and never on another's turn: on one thread
/// that one would not come.
pub trait Turns: Send {
    /// Does what there is to do now.
    fn turn(&mut self) -> Next;

    /// The inbox that it waits on between turns.
    fn inbox(&mut self) -> &dyn Inbox;
}

/// Runs lives of their own.
pub trait Host: Debug + Send + Sync {
    /// Lets `turns` take its turns, until it ends.
    ///
    /// # Errors
    /// As the system says, when a thread cannot be started.
    fn start(&self, name: &str, turns: Box<dyn Turns>) -> io::Result<()>;

    /// How many turns can run at the same time without holding each other up; at least 1.
    fn cores(&self) -> usize;
}

/// Gives each a thread of the machine. One that hangs in a dead disk is left behind when the process ends.
#[derive(Debug, Clone, Copy, Default)]
pub struct ThreadHost;

impl Host for ThreadHost {
    fn start(&self, name: &str, mut turns: Box<dyn Turns>) -> io::Result<()> {
        let run = move || {
            loop {
                match turns.turn() {
                    Next::Turn => {}
                    Next::Wait(timeout) => turns.inbox().wait(timeout),
                    Next::End => return,
                }
            }
        };
        std::thread::Builder::new().name(name.to_owned()).spawn(run).map(drop)
    }

    fn cores(&self) -> usize {
        std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
    }
}

/// Runs them as tasks of the runtime that it is used in.
#[derive(Debug, Clone, Default)]
pub struct TaskHost {
    tasks: TaskTracker,
}

impl TaskHost {
    /// Lives that have not ended.
    pub fn running(&self) -> usize {
        self.tasks.len()
    }
}

impl Host for TaskHost {
    fn start(&self, _name: &str, mut turns: Box<dyn Turns>) -> io::Result<()> {
        self.tasks.spawn(async move {
            loop {
                match turns.turn() {
                    // All other tasks come in between, as beside a thread.
                    Next::Turn => tokio::task::yield_now().await,
                    Next::Wait(timeout) => {
                        let came = poll_fn(|context| turns.inbox().poll_ready(context));
                        match timeout {
                            Some(timeout) => drop(tokio::time::timeout(timeout, came).await),
                            None => came.await,
                        }
                    }
                    Next::End => return,
                }
            }
        });
        Ok(())
    }

    fn cores(&self) -> usize {
        1
    }
}
