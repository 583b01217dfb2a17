//! A writer and its file: it appends, follows a rotation, and waits where it cannot write.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::thread::JoinHandle;

use sherd_store::machine::system::SystemClock;

use super::*;
use crate::audit::AuditLog;

struct Bench {
    dir: tempfile::TempDir,
    queue: Arc<AuditQueue>,
    metrics: AuditMetrics,
}

impl Bench {
    fn new() -> Self {
        let (dir, metrics) = (tempfile::tempdir().expect("a temporary folder"), AuditMetrics::unscraped());
        Self { dir, queue: Arc::new(AuditQueue::new(metrics.clone())), metrics }
    }

    fn writer(&self, path: impl AsRef<Path>) -> Writer {
        let target = AuditTarget::File(self.dir.path().join(path));
        Writer::new(Arc::clone(&self.queue), target, self.metrics.clone(), Arc::new(SystemClock::new()))
    }

    fn run(&self, path: impl AsRef<Path>) -> JoinHandle<()> {
        let writer = self.writer(path);
        std::thread::spawn(move || writer.run())
    }

    /// Queues lines and waits until they are written.
    fn written(&self, lines: &[&str]) {
        let before = self.metrics.lines.get();
        for line in lines {
            self.queue.push((*line).to_owned());
        }
        until(|| self.metrics.lines.get() == before + lines.len() as u64);
    }

    fn text(&self, path: &str) -> String {
        fs::read_to_string(self.dir.path().join(path)).expect("the file")
    }

    fn close(&self, running: JoinHandle<()>) {
        self.queue.close();
        running.join().expect("the writer does not panic");
    }
}

fn until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

#[test]
fn lines_are_appended_to_a_file_of_its_owner_alone() {
    let bench = Bench::new();
    let running = bench.run("audit.log");
    bench.written(&["a\n", "b\n"]);
    bench.close(running);
    let again = Bench { queue: Arc::new(AuditQueue::new(bench.metrics.clone())), ..bench };
    let running = again.run("audit.log");
    again.queue.push("c\n".to_owned());
    again.close(running);
    assert_eq!(again.text("audit.log"), "a\nb\nc\n");
    let mode = fs::metadata(again.dir.path().join("audit.log")).expect("the file").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
}

#[test]
fn a_file_that_was_moved_or_removed_is_made_again() {
    let bench = Bench::new();
    let path = |name: &str| bench.dir.path().join(name);
    let running = bench.run("audit.log");
    bench.written(&["a\n"]);
    fs::rename(path("audit.log"), path("audit.log.1")).expect("moved");
    bench.written(&["b\n"]);
    fs::remove_file(path("audit.log")).expect("removed");
    bench.written(&["c\n"]);
    fs::rename(path("audit.log"), path("audit.log.2")).expect("moved");
    // Asked to, it makes the file without a line.
    bench.queue.reopen();
    until(|| path("audit.log").exists());
    bench.written(&["d\n"]);
    bench.close(running);
    let texts = ["audit.log.1", "audit.log.2", "audit.log"].map(|name| bench.text(name));
    assert_eq!(texts, ["a\n", "c\n", "d\n"]);
}

#[test]
fn lines_wait_for_a_file_that_cannot_be_opened() {
    let bench = Bench::new();
    let running = bench.run("missing/audit.log");
    bench.queue.push("a\n".to_owned());
    until(|| bench.metrics.write_errors.get() >= 2);
    bench.queue.push("b\n".to_owned());
    fs::create_dir(bench.dir.path().join("missing")).expect("a new folder");
    bench.queue.reopen();
    until(|| bench.metrics.lines.get() == 2);
    bench.close(running);
    assert_eq!(bench.text("missing/audit.log"), "a\nb\n");
    assert_eq!(bench.metrics.dropped.get(), 0);
}

#[test]
fn a_disk_that_is_full_to_the_end_counts_what_it_did_not_take() {
    let bench = Bench::new();
    let running = bench.run("/dev/full");
    bench.queue.push("a\n".to_owned());
    until(|| bench.metrics.write_errors.get() >= 1);
    bench.queue.push("b\n".to_owned());
    bench.close(running);
    assert_eq!((bench.metrics.lines.get(), bench.metrics.dropped.get()), (0, 2));
}

#[test]
fn a_line_goes_on_in_its_file_and_begins_again_in_another() {
    let bench = Bench::new();
    let mut writer = bench.writer("audit.log");
    let text = b"one\ntwo\nthree\n";
    assert_eq!(writer.prepare(text, 0).expect("a new file"), 0);
    assert_eq!(writer.prepare(text, 6).expect("the open file"), 6);
    writer.open = None;
    assert_eq!(writer.prepare(text, 6).expect("the same file"), 6);
    fs::rename(bench.dir.path().join("audit.log"), bench.dir.path().join("moved")).expect("moved");
    assert_eq!(writer.prepare(text, 6).expect("another file"), 4);
    let mut written = 4;
    writer.write_from(text, &mut written).expect("room");
    assert_eq!((written, bench.text("audit.log").as_str()), (text.len(), "two\nthree\n"));
}

/// A pipe that nothing reads blocks the writer, and neither its requests nor the end of the process.
#[tokio::test(start_paused = true)]
async fn a_writer_that_stands_still_costs_lines_alone() {
    let bench = Bench::new();
    let path = bench.dir.path().join("pipe");
    rustix::fs::mkfifoat(rustix::fs::CWD, &path, 0o600.into()).expect("a new pipe");
    let clock = Arc::new(SystemClock::new());
    let log = AuditLog::start(AuditTarget::File(path), String::new(), bench.metrics.clone(), clock)
        .expect("a thread");
    for _ in 0..70_000 {
        let source = sherd_front::source::Source::of(&http::Extensions::new());
        log.begin("s3", source, None, &mut http::Request::new(()));
    }
    assert!(bench.metrics.dropped.get() > 0);
    log.close().await;
    assert_eq!(bench.metrics.lines.get(), 0);
}
