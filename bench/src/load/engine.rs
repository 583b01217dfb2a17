//! The generator's loop: one thread, one epoll, many connections.
//!
//! A thread drives all of its clients: it begins operations when the schedule has them due and a connection
//! is free, sends and receives without blocking, and waits in `epoll_wait` alone. A small request is one
//! system call, its answer another. A connection that failed is replaced when it is used next.

use std::io;
use std::net::SocketAddr;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use rustix::event::epoll::{self, EventData, EventFlags};
use rustix::time::Timespec;

use super::exchange::{Exchange, Verdict};
use super::meter::Meter;
use super::schedule::{Next, Schedule};
use super::tally::{Fault, Tally};
use super::work::Source;
use crate::blocking::read_some;
use crate::client::checksum::Checksum;
use crate::client::payload::Payloads;
use crate::client::request::{RequestBytes, Requests};
use crate::client::response::{Decoder, Progress};
use crate::limits::{CONNECT_TIMEOUT, FAULT_PAUSE, STALL_SWEEP};
use crate::tls::authority::TlsTrust;
use crate::tls::stream::ClientStream;

const READ_BYTES: usize = 256 << 10;
/// Reads or writes of one connection before the others get their turn.
const TURNS: usize = 4;
const EVENTS: usize = 64;
/// Faults without a right operation between them after which each is followed by [`FAULT_PAUSE`]: at full
/// speed, requests would keep an overloaded store from recovering.
const FAULTS_IN_A_ROW: u32 = 100;

/// One thread of the generator.
#[derive(Debug)]
pub struct Engine<'a> {
    nodes: Vec<NodeRequests>,
    stall: Duration,
    payloads: &'a Payloads,
    meter: &'a Meter<'a>,
    source: Source,
    schedule: Schedule,
    epoll: OwnedFd,
    connections: Vec<Connection>,
    /// Connections without an operation.
    idle: Vec<usize>,
    /// The time before which no operation begins.
    pause: Duration,
    scratch: Vec<u8>,
    begin: Instant,
    tally: Tally,
    /// Faults since the last right operation.
    faults_in_a_row: u32,
    /// Operations that were reported to the meter.
    shown: u64,
    /// Whether the meter was called at the window's opening and at its closing.
    metered: (bool, bool),
}

/// The parts of one thread.
#[derive(Debug)]
pub struct Parts<'a> {
    /// Where the store listens: its connections go round over them.
    pub nodes: Vec<NodeRequests>,
    /// The node of the first connection.
    pub first_node: usize,
    /// How long a connection may stand still.
    pub stall: Duration,
    /// Connections of this thread.
    pub clients: usize,
    /// Bytes of a multipart upload's parts.
    pub part_bytes: u64,
    /// Checksum that PUTs carry.
    pub checksum: Option<Checksum>,
    /// Contents of the objects.
    pub payloads: &'a Payloads,
    /// Reads the processors' time at both ends of the window.
    pub meter: &'a Meter<'a>,
    /// Chooses the tasks.
    pub source: Source,
    /// Decides when they begin.
    pub schedule: Schedule,
}

/// One node of a store, and the requests to it.
#[derive(Debug)]
pub struct NodeRequests {
    /// The node's address.
    pub address: SocketAddr,
    /// The trust of connections over TLS; in clear without.
    pub tls: Option<TlsTrust>,
    /// Builds requests with its name in them.
    pub requests: Requests,
}

#[derive(Debug)]
struct Connection {
    stream: Option<ClientStream>,
    /// The node that it goes to, every time that it is made.
    node: usize,
    /// Whether the epoll says when the socket takes more bytes.
    awaits_room: bool,
    busy: bool,
    /// When the operation was due.
    due: Duration,
    moved: Duration,
    /// When the first byte of the object came.
    first_byte: Option<Duration>,
    out: RequestBytes,
    decoder: Decoder,
    exchange: Exchange,
}

impl<'a> Engine<'a> {
    /// Connects nothing yet.
    ///
    /// # Errors
    /// The system has no more epolls.
    pub fn new(parts: Parts<'a>) -> io::Result<Self> {
        let Parts {
            nodes,
            first_node,
            stall,
            clients,
            part_bytes,
            checksum,
            payloads,
            meter,
            source,
            schedule,
        } = parts;
        let count = nodes.len().max(1);
        let connection = |index| Connection {
            stream: None,
            node: (first_node + index) % count,
            awaits_room: false,
            busy: false,
            due: Duration::ZERO,
            moved: Duration::ZERO,
            first_byte: None,
            out: RequestBytes::default(),
            decoder: Decoder::default(),
            exchange: Exchange::new(part_bytes, checksum),
        };
        Ok(Self {
            nodes,
            stall,
            payloads,
            meter,
            source,
            schedule,
            epoll: epoll::create(epoll::CreateFlags::CLOEXEC)?,
            connections: (0..clients).map(connection).collect(),
            idle: (0..clients).rev().collect(),
            pause: Duration::ZERO,
            scratch: vec![0; READ_BYTES],
            begin: Instant::now(),
            tally: Tally::default(),
            faults_in_a_row: 0,
            shown: 0,
            metered: (false, false),
        })
    }

    /// Runs the schedule to its end; returns its counts, and the objects that were deleted or not written.
    ///
    /// # Errors
    /// The system's polling fails.
    pub fn run(mut self, begin: Instant) -> io::Result<(Tally, Vec<u64>)> {
        self.begin = begin;
        let mut events = Vec::with_capacity(EVENTS);
        let mut swept = Duration::ZERO;
        let period = STALL_SWEEP.min(self.stall);
        loop {
            let now = self.now();
            let wake = self.begin_what_is_due(now);
            self.meter_window();
            if self.idle.len() == self.connections.len() && wake.is_none() {
                break;
            }
            if now > swept + period {
                swept = now;
                self.sweep(now);
                continue;
            }
            let until = wake.unwrap_or(Duration::MAX).min(swept + period);
            let timeout = Timespec::try_from(until.saturating_sub(self.now())).ok();
            match epoll::wait(&self.epoll, rustix::buffer::spare_capacity(&mut events), timeout.as_ref()) {
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => continue,
                Err(errno) => return Err(errno.into()),
            }
            for event in events.drain(..) {
                let index = usize::try_from(event.data.u64()).expect("an index of ours");
                self.attend(index, event.flags);
            }
        }
        if !self.metered.1 {
            self.meter.close();
        }
        self.tally.close(self.schedule.elapsed());
        Ok((self.tally, self.source.into_absent()))
    }

    fn now(&self) -> Duration {
        self.begin.elapsed()
    }

    /// Begins operations while they are due and connections are free; returns when the next one is due, if
    /// there is another.
    fn begin_what_is_due(&mut self, now: Duration) -> Option<Duration> {
        let unsent = self.schedule.abandon(now);
        if unsent > 0 {
            self.tally.fault(Fault::Unsent, unsent);
        }
        while let Some(index) = self.idle.last().copied() {
            let now = self.now();
            if now < self.pause {
                return Some(self.pause);
            }
            match self.schedule.next(now) {
                Next::Begin { due } => {
                    let Some(task) = self.source.draw() else {
                        self.schedule.exhaust();
                        return None;
                    };
                    self.idle.pop();
                    let connection = &mut self.connections[index];
                    connection.busy = true;
                    connection.due = due;
                    connection.first_byte = None;
                    connection.exchange.begin(task, &self.source);
                    self.send_request(index);
                }
                Next::Wait { until } => return Some(until),
                Next::Finished => return None,
            }
        }
        Some(Duration::MAX)
    }

    /// Calls the meter when the measured window opens and when it closes.
    fn meter_window(&mut self) {
        if !self.metered.0 && self.schedule.opened().is_some() {
            self.metered.0 = true;
            self.meter.open();
        }
        if !self.metered.1 && self.schedule.closed().is_some() {
            self.metered.1 = true;
            self.meter.close();
        }
    }

    fn send_request(&mut self, index: usize) {
        let now = self.now();
        let connection = &mut self.connections[index];
        connection.moved = now;
        let NodeRequests { address, tls, requests } = &mut self.nodes[connection.node];
        connection.exchange.request(&self.source, self.payloads, requests, &mut connection.out);
        connection.decoder.begin(connection.exchange.is_bodiless());
        if connection.stream.is_none()
            && let Err(error) = connection.connect((*address, tls.as_ref()), &self.epoll, index)
        {
            self.pause = now + FAULT_PAUSE;
            self.fail(index, connection_fault(&error));
            return;
        }
        self.send(index);
    }

    /// Sends until the socket is full.
    fn send(&mut self, index: usize) {
        for turn in 0.. {
            let connection = &mut self.connections[index];
            let Some(stream) = &mut connection.stream else {
                return;
            };
            let waits = if connection.out.is_sent() {
                match stream.push() {
                    Ok(is_pushed) => !is_pushed,
                    Err(error) => return self.receive_last(index, &error),
                }
            } else if turn == TURNS {
                true
            } else {
                match connection.out.send(stream, self.payloads) {
                    Ok(_) => {
                        connection.moved = self.begin.elapsed();
                        continue;
                    }
                    Err(error) if error.kind() == io::ErrorKind::WouldBlock => true,
                    // The server may have answered and closed before it had read everything: its answer
                    // says more than the broken pipe does.
                    Err(error) => return self.receive_last(index, &error),
                }
            };
            if waits != connection.awaits_room {
                let room = if waits { EventFlags::OUT } else { EventFlags::empty() };
                let data = EventData::new_u64(index as u64);
                if let Err(errno) = epoll::modify(&self.epoll, stream, data, EventFlags::IN | room) {
                    return self.fail(index, connection_fault(&errno.into()));
                }
                connection.awaits_room = waits;
            }
            return;
        }
    }

    /// Reads the answer on a connection whose peer no longer takes bytes.
    fn receive_last(&mut self, index: usize, error: &io::Error) {
        self.receive(index);
        if self.connections[index].busy && self.connections[index].stream.is_some() {
            self.fail(index, connection_fault(error));
        }
    }

    fn attend(&mut self, index: usize, flags: EventFlags) {
        if flags.contains(EventFlags::OUT) {
            self.send(index);
        }
        if flags.intersects(EventFlags::IN | EventFlags::HUP | EventFlags::ERR) {
            self.receive(index);
        }
    }

    fn receive(&mut self, index: usize) {
        for turn in 0.. {
            let connection = &mut self.connections[index];
            let Some(stream) = &mut connection.stream else {
                return;
            };
            // The epoll says nothing of bytes that were read already.
            if turn >= TURNS && !stream.holds_bytes() {
                return;
            }
            let length = match read_some(stream, &mut self.scratch) {
                Ok(length) => length,
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return,
                Err(error) => return self.fail(index, connection_fault(&error)),
            };
            if !connection.busy {
                // The server closed a connection that had nothing to do: not a fault of any operation.
                connection.stream = None;
                return;
            }
            let Connection { decoder, exchange, .. } = connection;
            if length == 0 {
                let (begun, whole) = (decoder.head().is_some(), decoder.close().is_ok());
                connection.stream = None;
                let place = if begun { "within" } else { "before" };
                if whole {
                    self.judge(index);
                } else {
                    self.fail(index, Fault::Connection(format!("closed {place} an answer")));
                }
                return;
            }
            let payloads = self.payloads;
            let progress = decoder
                .feed(&self.scratch[..length], &mut |head, piece| exchange.body(head, piece, payloads));
            if connection.first_byte.is_none() && connection.exchange.received() > 0 {
                connection.first_byte = Some(self.begin.elapsed());
            }
            match progress {
                Ok(Progress::More) => connection.moved = self.begin.elapsed(),
                Ok(Progress::Done) => return self.judge(index),
                Err(_) => return self.fail(index, Fault::Malformed),
            }
            if length < self.scratch.len() {
                return;
            }
        }
    }

    fn judge(&mut self, index: usize) {
        let connection = &mut self.connections[index];
        let head = connection.decoder.head().expect("the answer is whole");
        let closes = head.closes || !connection.out.is_sent();
        let verdict = connection.exchange.judge(head, &self.source);
        if closes {
            connection.stream = None;
        }
        match verdict {
            Verdict::Next => self.send_request(index),
            Verdict::Done(bytes) => self.end(index, Ok(bytes)),
            Verdict::Failed(fault) => self.end(index, Err(fault)),
        }
    }

    /// Ends the operation of a connection that can no longer be used.
    fn fail(&mut self, index: usize, fault: Fault) {
        self.connections[index].stream = None;
        if self.connections[index].busy {
            self.end(index, Err(fault));
        }
    }

    fn end(&mut self, index: usize, outcome: Result<u64, Fault>) {
        let now = self.now();
        let connection = &mut self.connections[index];
        connection.busy = false;
        self.idle.push(index);
        let counts = self.schedule.ended(connection.due, now);
        self.source.ended(connection.exchange.task(), outcome.is_ok());
        self.faults_in_a_row = if outcome.is_ok() { 0 } else { self.faults_in_a_row.saturating_add(1) };
        if self.faults_in_a_row >= FAULTS_IN_A_ROW {
            self.pause = now + FAULT_PAUSE;
        }
        match outcome {
            Ok(bytes) if counts => {
                self.tally.count(bytes, now.saturating_sub(connection.due));
                if let Some(first) = connection.first_byte {
                    self.tally.count_first_byte(first.saturating_sub(connection.due));
                }
            }
            Ok(_) => {}
            Err(fault) => self.tally.fault(fault, 1),
        }
        self.meter_window();
    }

    /// Adds finished operations to the meter, and ends operations on connections that stood still for too
    /// long.
    fn sweep(&mut self, now: Duration) {
        self.meter.progress(self.tally.ops - self.shown);
        self.shown = self.tally.ops;
        for index in 0..self.connections.len() {
            let connection = &self.connections[index];
            if connection.busy && now.saturating_sub(connection.moved) > self.stall {
                self.fail(index, Fault::Timeout);
            }
        }
    }
}

impl Connection {
    fn connect(
        &mut self,
        (address, tls): (SocketAddr, Option<&TlsTrust>),
        epoll: &OwnedFd,
        index: usize,
    ) -> io::Result<()> {
        let stream = ClientStream::connect(address, tls, CONNECT_TIMEOUT)?;
        stream.set_nonblocking()?;
        epoll::add(epoll, &stream, EventData::new_u64(index as u64), EventFlags::IN)?;
        self.stream = Some(stream);
        self.awaits_room = false;
        Ok(())
    }
}

fn connection_fault(error: &io::Error) -> Fault {
    Fault::Connection(error.kind().to_string())
}
