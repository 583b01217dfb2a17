//! The volume's thread and its readers, in every order that `shuttle` finds: what one acceptor
//! promises is kept, whichever thread answers (I-3).
//!
//! ```text
//! proposers (a thread each)         the volume's thread
//!   reader.prepare, at once   <-->    judge an accept, sync, publish, fold
//!   or through the queue              judge a prepare
//!   accept, through the queue
//! ```
//! Judged is what was answered: a promise at a ballot shows every row below it that was ever
//! acknowledged, and an answer to a read is of one moment.

use std::collections::VecDeque;
use std::sync::Arc;

use shuttle::scheduler::RandomScheduler;
use shuttle::{Config, Runner, thread};

use sherd_core::id::Ballot;
use sherd_core::message::{Control, PulledRow, ValueLimit};
use sherd_core::register::{Accept, Prepare, Refusal, RowHead, Vote};

use crate::lookup::{Lookup, Source};
use crate::read::reader::Reader;
use crate::request::{Completion, Op};
use crate::support::{Bench, Driver, Held, ballot, object, slot, target, value};
use crate::sync::Mutex;

/// Orders tried. The races that this is for show within the first hundred.
const ORDERS: usize = 1_000;
/// A volume is opened on such a stack, without optimisation: a few times what shuttle gives.
const STACK_BYTES: usize = 256 << 10;

#[derive(Debug, Default)]
struct Answers {
    promised: Vec<(Ballot, Vote)>,
    accepted: Vec<Ballot>,
}

impl Answers {
    /// A promise above a row that was acknowledged shows that row, or a later one: otherwise the row
    /// was accepted after the promise, which excluded it.
    fn check(&self) {
        for (promised, vote) in &self.promised {
            let shown = vote.row.as_ref().map_or(Ballot::ZERO, |row| row.head.ballot);
            for accepted in self.accepted.iter().filter(|accepted| *accepted < promised) {
                assert!(
                    shown >= *accepted,
                    "{accepted} was accepted against the promise of {promised}, which showed {shown}"
                );
            }
        }
    }
}

/// Shared by the threads: a queue to the volume's own, and its answers.
#[derive(Clone, Default)]
struct SharedQueue {
    queue: Arc<Mutex<VecDeque<Op>>>,
    answers: Arc<Mutex<Answers>>,
    left: Arc<Mutex<usize>>,
}

impl SharedQueue {
    fn begin(threads: usize) -> Self {
        let meeting = Self::default();
        *meeting.left.lock() = threads;
        meeting
    }

    fn ask<R: Send + 'static>(&self, op: impl FnOnce(Completion<R>) -> Op) -> R {
        let (held, done): (Held<R>, _) = slot();
        self.queue.lock().push_back(op(done));
        Self::answer(&held)
    }

    fn answer<R>(held: &Held<R>) -> R {
        loop {
            if let Some(answer) = held.lock().take() {
                return answer.expect("the disk is sound");
            }
            thread::yield_now();
        }
    }

    fn serve(&self, driver: &mut Driver) {
        loop {
            let queued: Vec<Op> = self.queue.lock().drain(..).collect();
            let is_idle = queued.is_empty();
            for op in queued {
                driver.volume.submit(op);
            }
            driver.run();
            if is_idle && *self.left.lock() == 0 {
                return;
            }
            thread::yield_now();
        }
    }

    fn end(&self) {
        *self.left.lock() -= 1;
    }

    /// Asks for a promise, at once where it can be given so.
    fn prepare(&self, reader: &Reader, at: Ballot) -> Option<Vote> {
        let (target, prepare) = (target(&object("key")), Prepare { ballot: at });
        let known =
            reader.prepare(&target, &prepare, ValueLimit::NOTHING, Source::Disk).expect("the disk is sound");
        let answer = match known {
            Lookup::Immediate(answer) => answer,
            Lookup::Pending => {
                self.ask(|done| Op::Prepare { target, prepare, values: ValueLimit::NOTHING, done })
            }
        };
        let vote = answer.result.ok()?;
        self.answers.lock().promised.push((at, vote.clone()));
        Some(vote)
    }

    fn accept(&self, at: Ballot) -> bool {
        let target = target(&object("key"));
        let accept = Accept {
            ballot: at,
            value: value(1, 16),
            introduces: Vec::new(),
            finishes: false,
            positions: Arc::default(),
            origin: sherd_core::register::ValueOrigin::default(),
        };
        let answer = self.ask(|done| Op::Accept { target, accept, heal: None, done });
        if answer.result.is_ok() {
            self.answers.lock().accepted.push(at);
        }
        answer.result.is_ok()
    }
}

/// A volume with a durable bound above every ballot here, so that promises are given at once.
fn prepared() -> Bench {
    let bench = Bench::new(1);
    let mut driver = bench.reopen();
    driver.clock.advance_ms(10_000);
    driver.write(&object("key"), ballot(0), &value(0, 16));
    driver.close();
    bench
}

/// A ballot above the restart bound of a volume that was [`prepared`] and opened again.
fn late(count: u64) -> Ballot {
    let mut ballot = ballot(count);
    ballot.time = ballot.time.plus_ms(20_000);
    ballot
}

fn opened(bench: &Bench) -> Driver {
    let bench = Bench { disk: bench.disk.fork(), index: bench.index.fork(), ..bench.clone() };
    let mut driver = bench.reopen();
    // The bound is raised once for all of them.
    driver.write(&object("another key"), late(100), &value(100, 16));
    driver
}

/// Runs the threads and a volume of their own in many orders, then looks at what was answered, and
/// at the row that is left.
fn explore<const THREADS: usize>(threads: [fn(&SharedQueue, &Reader); THREADS], check: fn(&Answers, Ballot)) {
    let bench = prepared();
    bench.clock.advance_ms(10_000);
    let run = move || {
        let mut driver = opened(&bench);
        let meeting = SharedQueue::begin(THREADS);
        let threads = threads.map(|run| {
            let (meeting, reader) = (meeting.clone(), Arc::clone(&driver.reader));
            thread::spawn(move || {
                run(&meeting, &reader);
                meeting.end();
            })
        });
        meeting.serve(&mut driver);
        for thread in threads {
            thread.join().expect("no thread panics");
        }
        let left = driver.read(&object("key")).expect("the disk is sound").result.expect("it votes");
        check(&meeting.answers.lock(), left.row.map_or(Ballot::ZERO, |row| row.head.ballot));
    };
    let mut config = Config::new();
    config.stack_size = STACK_BYTES;
    Runner::new(RandomScheduler::new(ORDERS), config).run(run);
}

#[test]
fn a_promise_is_kept_in_every_order_of_proposers() {
    fn propose(meeting: &SharedQueue, reader: &Reader, at: Ballot) {
        if meeting.prepare(reader, at).is_some() {
            meeting.accept(at);
        }
    }
    explore(
        [
            |meeting, reader| propose(meeting, reader, late(1)),
            |meeting, reader| propose(meeting, reader, late(2)),
            |meeting, reader| propose(meeting, reader, late(3)),
        ],
        |answers, _| answers.check(),
    );
}

#[test]
fn a_promise_is_kept_when_a_heal_brings_an_older_row() {
    explore(
        [
            |meeting, reader| drop(meeting.prepare(reader, late(2))),
            |meeting, _| {
                let value = value(1, 16);
                let digest = value.traits().expect("a value").digest;
                let head = RowHead { ballot: late(1), digest, committed: true };
                let row = PulledRow { head, value };
                let answer = meeting.ask(|done| Op::Pull { target: target(&object("key")), row, done });
                // Refused below a promise that was given before.
                assert!(matches!(answer.result, Ok(()) | Err(Refusal::Below { .. })), "{answer:?}");
            },
        ],
        |answers, left| {
            // The pulling volume shows the acceptance only by having the row.
            let accepted = Vec::from_iter((left == late(1)).then_some(left));
            Answers { promised: answers.promised.clone(), accepted }.check();
        },
    );
}

#[test]
fn an_answer_to_a_read_is_of_one_moment() {
    explore(
        [
            // A row, and in the same batch the floor above it.
            |meeting, _| {
                let (accepted, done) = slot();
                let target = target(&object("key"));
                let accept = Accept {
                    ballot: late(1),
                    value: value(1, 16),
                    introduces: Vec::new(),
                    finishes: false,
                    positions: Arc::default(),
                    origin: sherd_core::register::ValueOrigin::default(),
                };
                let accept = Op::Accept { target, accept, heal: None, done };
                let (raised, done) = slot();
                let control = Control::RaiseFloor { floor: late(1) };
                meeting.queue.lock().extend([accept, Op::Control { control, done }]);
                assert_eq!(SharedQueue::answer(&accepted).result, Ok(()));
                assert!(SharedQueue::answer(&raised).result.is_ok());
            },
            |_, reader| {
                let found = reader.row(&target(&object("key")), ValueLimit::NOTHING, Source::Disk);
                let Lookup::Immediate(answer) = found.expect("the disk is sound") else { return };
                let vote = answer.result.expect("it votes");
                let shown = vote.row.map_or(Ballot::ZERO, |row| row.head.ballot);
                assert!(
                    vote.floor < late(1) || shown >= late(1),
                    "the row is of before {} and the floor of after it",
                    late(1)
                );
            },
        ],
        |_, _| (),
    );
}
