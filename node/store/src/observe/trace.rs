//! Where the time of a request goes: measured in the request's own task, logged once if it was slow.
//!
//! ```text
//! server: begin -> scope { s3: identify -> object -> register, stripe: add } -> answered
//!                                  a body that is still read holds the trace: add -> dropped -> logged
//! ```
//! A [`RequestTrace`] is made for each S3 request and travels as a task-local value; work that is done for it
//! in another task carries a clone, or its id alone. A request is judged by the time that this node took:
//! what it waited for its client is left out. The last clone that is dropped logs, so a body is logged with
//! its request, and a request that was dropped without an answer is logged as one whose client left.
//! The time at which all of a write was read goes the same way, up to the register's first proposal, and from
//! a read the way to what it holds ahead of its client.

use std::future::Future;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use parking_lot::Mutex;
use sherd_core::id::VolumeId;
use tokio::time::Instant;
use tracing::Instrument as _;

use super::limits::{BUCKET_BYTES_MAX, SLOW_LINES_PER_SECOND};
use crate::machine::pulse::WholeWrite;
use crate::machine::quantity::LivePeriod;
use crate::machine::reclaim::ReadAhead;

/// Kind of work that a request waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Phase {
    /// A place among the requests that are worked on.
    Queue,
    /// The client's body.
    Client,
    /// A register, the rounds below and other writers of its key included.
    Register,
    /// The promises of a prepare round.
    Prepare,
    /// The votes of an accept round.
    Accept,
    /// The rows of a read round.
    Read,
    /// Volumes that take shards.
    ShardWrite,
    /// Volumes that give shards.
    ShardRead,
}

impl Phase {
    const COUNT: usize = 8;

    const fn name(self) -> &'static str {
        match self {
            Self::Queue => "queue",
            Self::Client => "client",
            Self::Register => "register",
            Self::Prepare => "prepare",
            Self::Accept => "accept",
            Self::Read => "read",
            Self::ShardWrite => "shard write",
            Self::ShardRead => "shard read",
        }
    }
}

/// A call of a volume that a request waited for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct VolumeCall {
    /// The kind of work.
    pub phase: Phase,
    /// The volume.
    pub volume: VolumeId,
    /// The name of its node; empty where a node stores alone.
    pub node: Arc<str>,
    /// From the call to its answer, or until it was no longer waited for.
    pub took: Duration,
}

/// Rule for the requests, and calls for other nodes' requests, that are logged as slow. Cheap to clone.
#[derive(Debug, Clone)]
pub struct SlowRequests(Arc<SlowState>);

#[derive(Debug)]
struct SlowState {
    /// Zero where none is logged.
    after: LivePeriod,
    /// Each has its own: where a disk is slow there are more calls than requests, and these say more.
    requests: LineLimit,
    calls: LineLimit,
}

/// How many lines of one kind are written in a second.
#[derive(Debug)]
struct LineLimit {
    begun: Instant,
    /// The second since then that lines are counted for, and how many were written in it.
    second: AtomicU64,
    lines: AtomicU32,
    passed_over: AtomicU64,
}

impl SlowRequests {
    /// Logs requests that take `after` or longer; none if that is zero.
    pub fn after(after: Duration) -> Self {
        let after = LivePeriod::new(after);
        Self(Arc::new(SlowState { after, requests: LineLimit::new(), calls: LineLimit::new() }))
    }

    /// Logs requests that take `after` or longer from here on; none if that is zero.
    pub fn change(&self, after: Duration) {
        self.0.after.set(after);
    }

    /// The time from which on a request is slow, where one may be.
    fn limit(&self) -> Option<Duration> {
        Some(self.0.after.get()).filter(|after| !after.is_zero())
    }

    /// Logs a call that another node made for a request, if it took as long as a slow request.
    pub fn call_ended(&self, request: u64, took: impl FnOnce() -> Duration) {
        let Some(after) = self.limit().filter(|_| request != 0) else { return };
        let (took, lines) = (took(), &self.0.calls);
        if took >= after && lines.takes_line() {
            tracing::warn!(
                request_id = format_args!("{request:016X}"),
                took_ms = took.as_millis(),
                passed_over = lines.take_passed_over(),
                "slow call for another node's request"
            );
        }
    }
}

impl LineLimit {
    fn new() -> Self {
        let (second, lines, passed_over) = (AtomicU64::new(0), AtomicU32::new(0), AtomicU64::new(0));
        Self { begun: Instant::now(), second, lines, passed_over }
    }

    /// Whether a line may be written now; if not, it is counted for the next one.
    fn takes_line(&self) -> bool {
        let now = self.begun.elapsed().as_secs();
        if self.second.swap(now, Ordering::Relaxed) != now {
            self.lines.store(0, Ordering::Relaxed);
        }
        let takes = self.lines.fetch_add(1, Ordering::Relaxed) < SLOW_LINES_PER_SECOND;
        if !takes {
            self.passed_over.fetch_add(1, Ordering::Relaxed);
        }
        takes
    }

    /// How many were not written since this was asked last.
    fn take_passed_over(&self) -> u64 {
        self.passed_over.swap(0, Ordering::Relaxed)
    }
}

/// The time of one request. Clones are the same.
#[derive(Debug, Clone)]
pub struct RequestTrace(Arc<TraceState>);

#[derive(Debug)]
struct TraceState {
    slow: SlowRequests,
    begun: Instant,
    /// Number of the request, once it is known; 0 before.
    id: AtomicU64,
    bucket: OnceLock<Box<str>>,
    operation: OnceLock<&'static str>,
    /// Microseconds of each phase.
    phases_us: [AtomicU64; Phase::COUNT],
    answer: OnceLock<AnsweredRequest>,
    /// There once a write's last byte was read.
    whole: OnceLock<WholeWrite>,
    /// Of the read that its answer's body is.
    ahead: OnceLock<ReadAhead>,
    slowest_us: AtomicU64,
    slowest: Mutex<Option<VolumeCall>>,
}

#[derive(Debug, Clone, Copy)]
struct AnsweredRequest {
    status: u16,
    /// Without the time that its client took.
    took: Duration,
    shard_read_us: u64,
}

tokio::task_local! {
    static CURRENT: RequestTrace;
    static CURRENT_ID: u64;
}

/// The trace of the request that this task works for.
pub fn current() -> Option<RequestTrace> {
    CURRENT.try_with(RequestTrace::clone).ok()
}

/// The number of the request that this task works for; 0 for none.
pub fn current_id() -> u64 {
    let own = CURRENT.try_with(RequestTrace::id);
    own.or_else(|_| CURRENT_ID.try_with(|id| *id)).unwrap_or(0)
}

/// Adds the time that `work` takes to a phase of this task's request, also where it is dropped before it is
/// done.
pub async fn timed<F: Future>(phase: Phase, work: F) -> F::Output {
    let _timer = timer(phase);
    work.await
}

/// As [`timed`], of what its caller does until the timer is dropped. A future that is handed to a function
/// lies twice in that function's own, so large ones are awaited beside a timer.
pub fn timer(phase: Phase) -> PhaseTimer {
    PhaseTimer { phase, begun: Instant::now() }
}

/// Adds the time of its life to a phase of the request of the task that drops it.
#[derive(Debug)]
pub struct PhaseTimer {
    phase: Phase,
    begun: Instant,
}

impl Drop for PhaseTimer {
    fn drop(&mut self) {
        add(self.phase, self.begun.elapsed());
    }
}

/// Adds to the time of a phase of this task's request.
pub fn add(phase: Phase, time: Duration) {
    // By reference: no clone for each phase.
    let _none = CURRENT.try_with(|trace| trace.add(phase, time));
}

/// Says which request this task works for.
pub fn identify(id: u64) {
    let _none = CURRENT.try_with(|trace| trace.identify(id));
}

/// Names the bucket of the request that this task works for, as [`RequestTrace::name_bucket`] does.
pub fn name_bucket(bucket: &str) {
    let _none = CURRENT.try_with(|trace| trace.name_bucket(bucket));
}

/// Names what the request that this task works for asks for, before it is answered.
pub fn name_operation(operation: &'static str) {
    let _none = CURRENT.try_with(|trace| trace.0.operation.set(operation));
}

/// Says that all of the write that this task works for was read; the first time counts.
pub fn is_whole(write: WholeWrite) {
    let _none = CURRENT.try_with(|trace| trace.0.whole.set(write));
}

/// Adds a call to this task's request.
pub fn called(call: impl FnOnce() -> VolumeCall, took: Duration) {
    let _none = CURRENT.try_with(|trace| trace.called(call, took));
}

/// Runs work of another task for a request of this number, which its log lines bear.
pub fn with_id<F: Future>(id: u64, work: F) -> impl Future<Output = F::Output> {
    let span = tracing::info_span!("request", request_id = format_args!("{id:016X}"));
    CURRENT_ID.scope(id, work.instrument(span))
}

/// Makes calls for a request of this number.
pub fn call_for<R>(id: u64, calls: impl FnOnce() -> R) -> R {
    CURRENT_ID.sync_scope(id, calls)
}

/// Runs work of another task that this task's request waits for.
pub fn inherited<F: Future>(work: F) -> impl Future<Output = F::Output> {
    let trace = current();
    async move {
        match trace {
            Some(trace) => CURRENT.scope(trace, work).await,
            None => work.await,
        }
    }
}

impl RequestTrace {
    /// Begins now.
    pub fn begin(slow: &SlowRequests) -> Self {
        Self(Arc::new(TraceState {
            slow: slow.clone(),
            begun: Instant::now(),
            id: AtomicU64::new(0),
            bucket: OnceLock::new(),
            operation: OnceLock::new(),
            phases_us: Default::default(),
            answer: OnceLock::new(),
            whole: OnceLock::new(),
            ahead: OnceLock::new(),
            slowest_us: AtomicU64::new(0),
            slowest: Mutex::new(None),
        }))
    }

    /// Runs the work of the request.
    pub fn scope<F: Future>(&self, work: F) -> impl Future<Output = F::Output> {
        CURRENT.scope(self.clone(), work)
    }

    /// Says which request it is.
    pub fn identify(&self, id: u64) {
        self.0.id.store(id, Ordering::Relaxed);
    }

    /// Names its bucket, where it has one: as its client wrote it, and as much of it as a bucket's name has.
    pub fn name_bucket(&self, bucket: &str) {
        let length = bucket.floor_char_boundary(BUCKET_BYTES_MAX);
        if length > 0 && self.0.slow.limit().is_some() {
            let _first_stays = self.0.bucket.set(bucket[..length].into());
        }
    }

    /// The request's number; 0 before it is known.
    pub fn id(&self) -> u64 {
        self.0.id.load(Ordering::Relaxed)
    }

    /// Whether it is a write whose client has given up since all of it was read (see [`WholeWrite`]).
    pub fn is_given_up(&self) -> bool {
        self.0.whole.get().is_some_and(WholeWrite::is_given_up)
    }

    /// The bytes that the read of its answer holds ahead of its client: made with the first read.
    pub fn read_ahead(&self) -> &ReadAhead {
        self.0.ahead.get_or_init(ReadAhead::default)
    }

    /// The same, where a read began.
    pub fn begun_read(&self) -> Option<&ReadAhead> {
        self.0.ahead.get()
    }

    /// Adds to the time of a phase.
    pub fn add(&self, phase: Phase, time: Duration) {
        self.0.phases_us[phase as usize].fetch_add(micros(time), Ordering::Relaxed);
    }

    /// Notes a call that the request waited for; `call` is made only of the slowest so far.
    pub fn called(&self, call: impl FnOnce() -> VolumeCall, took: Duration) {
        if self.0.slowest_us.fetch_max(micros(took), Ordering::Relaxed) < micros(took) {
            let call = call();
            let mut slowest = self.0.slowest.lock();
            if slowest.as_ref().is_none_or(|known| known.took < call.took) {
                *slowest = Some(call);
            }
        }
    }

    /// The head of the response is made. Gives the time until then.
    pub fn answered(&self, operation: &'static str, status: u16) -> Duration {
        let whole = self.0.begun.elapsed();
        let took = whole.saturating_sub(self.0.phase(Phase::Client));
        let shard_read_us = micros(self.0.phase(Phase::ShardRead));
        let _first_stays = self.0.operation.set(operation);
        let _first_stays = self.0.answer.set(AnsweredRequest { status, took, shard_read_us });
        whole
    }
}

impl TraceState {
    fn phase(&self, phase: Phase) -> Duration {
        Duration::from_micros(self.phases_us[phase as usize].load(Ordering::Relaxed))
    }

    /// The time that this node took: until the head of the answer, and what a body waited for volumes behind
    /// it; until now where no head was sent.
    fn own_time(&self) -> Duration {
        let Some(answer) = self.answer.get() else {
            return self.begun.elapsed().saturating_sub(self.phase(Phase::Client));
        };
        let behind_us = micros(self.phase(Phase::ShardRead)).saturating_sub(answer.shard_read_us);
        answer.took + Duration::from_micros(behind_us)
    }
}

impl Drop for TraceState {
    fn drop(&mut self) {
        let Some(after) = self.slow.limit() else { return };
        let (answer, took, lines) = (self.answer.get(), self.own_time(), &self.slow.0.requests);
        if took < after || !lines.takes_line() {
            return;
        }
        let slowest = self.slowest.lock().take();
        let millis = |phase| self.phase(phase).as_millis();
        tracing::warn!(
            request_id = format_args!("{:016X}", self.id.load(Ordering::Relaxed)),
            operation = self.operation.get(),
            bucket = self.bucket.get().map(|bucket| &**bucket),
            status = answer.map(|answer| answer.status),
            // The connection drops what it works on when its client goes away.
            outcome = answer.is_none().then_some("client left"),
            total_ms = took.as_millis(),
            queue_ms = millis(Phase::Queue),
            register_ms = millis(Phase::Register),
            prepare_ms = millis(Phase::Prepare),
            accept_ms = millis(Phase::Accept),
            read_ms = millis(Phase::Read),
            shard_write_ms = millis(Phase::ShardWrite),
            shard_read_ms = millis(Phase::ShardRead),
            client_ms = millis(Phase::Client),
            slowest_phase = slowest.as_ref().map(|call| call.phase.name()),
            slowest_node = slowest.as_ref().map(|call| &*call.node),
            slowest_volume = slowest.as_ref().map(|call| tracing::field::display(call.volume)),
            slowest_ms = slowest.as_ref().map(|call| call.took.as_millis()),
            passed_over = lines.take_passed_over(),
            "slow request"
        );
    }
}

fn micros(time: Duration) -> u64 {
    u64::try_from(time.as_micros()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    use crate::observe::log_buffer::LogBuffer;

    fn call(number: u8, took: Duration) -> VolumeCall {
        VolumeCall { phase: Phase::Accept, volume: VolumeId([number; 16]), node: "n3".into(), took }
    }

    /// The lines that a request of a second writes, of which it waits `client` for its client.
    async fn lines(after: Duration, client: Duration) -> String {
        let log = LogBuffer::default();
        let _logged = log.keep("warn");
        let trace = RequestTrace::begin(&SlowRequests::after(after));
        let work = async {
            identify(0xAB);
            name_bucket("bucket");
            timed(Phase::Client, tokio::time::sleep(client)).await;
            timed(Phase::Register, tokio::time::sleep(Duration::from_secs(1).saturating_sub(client))).await;
            for (number, ms) in [(1, 20), (2, 700), (3, 30)] {
                let took = Duration::from_millis(ms);
                called(|| call(number, took), took);
            }
        };
        trace.scope(work).await;
        trace.answered("PutObject", 200);
        assert_eq!(log.text(), "", "it may go on");
        drop(trace);
        log.text()
    }

    #[tokio::test(start_paused = true)]
    async fn a_slow_request_says_once_where_its_time_went() {
        let text = lines(Duration::from_secs(1), Duration::ZERO).await;
        assert_eq!(text.lines().count(), 1, "{text}");
        for word in [
            "WARN",
            "request_id=00000000000000AB",
            "operation=\"PutObject\"",
            "bucket=\"bucket\"",
            "total_ms=1000",
            "register_ms=1000",
            "slowest_phase=\"accept\"",
            "slowest_node=\"n3\"",
            "slowest_volume=02020202",
            "slowest_ms=700",
        ] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn the_clients_time_is_not_counted_and_zero_logs_nothing() {
        assert_eq!(lines(Duration::from_secs(1), Duration::from_millis(100)).await, "");
        assert_eq!(lines(Duration::ZERO, Duration::ZERO).await, "");
        assert_ne!(lines(Duration::from_millis(900), Duration::from_millis(100)).await, "");
    }

    #[tokio::test(start_paused = true)]
    async fn a_body_that_is_read_behind_the_head_counts_and_others_are_passed_over() {
        let log = LogBuffer::default();
        let _logged = log.keep("warn");
        let slow = SlowRequests::after(Duration::from_millis(500));
        for number in 0..SLOW_LINES_PER_SECOND + 2 {
            let trace = RequestTrace::begin(&slow);
            trace.identify(number.into());
            trace.answered("GetObject", 200);
            let body = trace.clone();
            drop(trace);
            body.add(Phase::ShardRead, Duration::from_millis(600));
        }
        let lines = SLOW_LINES_PER_SECOND as usize;
        assert_eq!(log.text().matches("shard_read_ms=600").count(), lines, "{}", log.text());
        tokio::time::advance(Duration::from_secs(1)).await;
        let trace = RequestTrace::begin(&slow);
        trace.add(Phase::ShardRead, Duration::from_secs(1));
        tokio::time::advance(Duration::from_secs(1)).await;
        trace.answered("GetObject", 200);
        drop(trace);
        assert_eq!(log.text().lines().count(), lines + 1);
        assert!(log.text().contains("passed_over=2"), "{}", log.text());
    }

    /// The wait that was under way when it was dropped is counted, also if that was for its client.
    #[tokio::test(start_paused = true)]
    async fn a_slow_request_whose_client_left_is_logged_without_the_time_of_the_client() {
        let log = LogBuffer::default();
        let _logged = log.keep("warn");
        let slow = SlowRequests::after(Duration::from_secs(1));
        let dropped_after = async |client_ms: u64, register_ms: u64, waits: Phase| {
            let trace = RequestTrace::begin(&slow);
            let work = trace.scope(async {
                name_operation("PutObject");
                for (phase, ms) in [(Phase::Client, client_ms), (Phase::Register, register_ms)] {
                    timed(phase, tokio::time::sleep(Duration::from_millis(ms))).await;
                }
                timed(waits, std::future::pending::<()>()).await;
            });
            let until = Duration::from_millis(client_ms + register_ms + 800);
            assert!(tokio::time::timeout(until, work).await.is_err(), "it goes on until it is dropped");
        };
        dropped_after(900, 0, Phase::Register).await;
        dropped_after(0, 900, Phase::Client).await;
        assert_eq!(log.text(), "", "it took the node less than a second");
        dropped_after(100, 300, Phase::Register).await;
        let text = log.text();
        for word in
            ["outcome=\"client left\"", "operation=\"PutObject\"", "total_ms=1100", "register_ms=1100"]
        {
            assert!(text.contains(word), "{word}: {text}");
        }
        assert!(!text.contains("status=") && text.lines().count() == 1, "{text}");
    }

    #[tokio::test(start_paused = true)]
    async fn slow_calls_take_no_line_from_slow_requests() {
        let log = LogBuffer::default();
        let _logged = log.keep("warn");
        let slow = SlowRequests::after(Duration::from_millis(500));
        for number in 1..=u64::from(SLOW_LINES_PER_SECOND) * 3 {
            slow.call_ended(number, || Duration::from_secs(1));
        }
        let calls = |text: &str| text.matches("slow call").count();
        assert_eq!(calls(&log.text()), SLOW_LINES_PER_SECOND as usize);
        let trace = RequestTrace::begin(&slow);
        trace.add(Phase::ShardRead, Duration::from_secs(1));
        trace.answered("GetObject", 200);
        trace.add(Phase::ShardRead, Duration::from_secs(1));
        drop(trace);
        let text = log.text();
        assert!(text.contains("slow request") && text.contains("passed_over=0"), "{text}");
        tokio::time::advance(Duration::from_secs(1)).await;
        slow.call_ended(1, || Duration::from_secs(1));
        assert!(log.text().contains("passed_over=20"), "{}", log.text());
    }

    /// As a PUT of a packed object does it. The quickest of many batches: others may take the processor in
    /// between.
    #[tokio::test]
    async fn a_trace_costs_a_request_little() {
        const BATCHES: u32 = 200;
        const REQUESTS: u32 = 20;
        let slow = SlowRequests::after(Duration::from_mins(1));
        let mut quickest = Duration::MAX;
        for _ in 0..BATCHES {
            let begun = Instant::now();
            for number in 0..REQUESTS {
                let trace = RequestTrace::begin(&slow);
                let work = async {
                    identify(number.into());
                    name_bucket("bucket");
                    timed(Phase::ShardWrite, std::future::ready(())).await;
                    timed(Phase::Register, std::future::ready(())).await;
                    for took_us in [100, 200, 300] {
                        let took = Duration::from_micros(took_us);
                        called(|| call(1, took), took);
                    }
                };
                trace.scope(work).await;
                trace.answered("PutObject", 200);
            }
            quickest = quickest.min(begun.elapsed() / REQUESTS);
        }
        eprintln!("trace: {quickest:?} for a request");
        // Of a millisecond that a request takes; not optimised, this is a few microseconds.
        assert!(quickest < Duration::from_micros(200), "{quickest:?}");
    }

    #[tokio::test]
    async fn work_in_another_task_is_counted_for_the_request_that_waits_for_it() {
        let trace = RequestTrace::begin(&SlowRequests::after(Duration::ZERO));
        trace.identify(7);
        assert_eq!((current_id(), current().is_none()), (0, true));
        let tasks = tokio_util::task::TaskTracker::new();
        let ids = trace.scope(async { (current_id(), tasks.spawn(inherited(async { current_id() })).await) });
        let (own, other) = ids.await;
        assert_eq!((own, other.expect("it ran")), (7, 7));
        assert_eq!(with_id(9, async { current_id() }).await, 9);
    }
}
