//! Power is cut before every disk operation of a workload. With any rest of the bytes that were not durable:
//! acknowledged writes are found, others are absent or whole, and no promise, floor or seal is ever taken
//! back. Rot in the middle of the log never ends it early.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

#[path = "../support/mod.rs"]
mod support;

mod ledger;
mod rot;
mod script;

use sherd_volume::disk::faulty::Keep;
use sherd_volume::options::Options;

use ledger::Ledger;
use script::Script;
use support::Bench;

/// Runs a script until it ends or the power is cut.
fn run(bench: &Bench, seed: u64, steps: usize) -> Ledger {
    let mut ledger = Ledger::default();
    let Ok((mut volume, report)) = bench.open() else {
        assert!(bench.disk.is_off(), "only a cut keeps a fresh volume from opening");
        return ledger;
    };
    assert_eq!(report.lost_state, None);
    let mut script = Script::new(seed);
    for _ in 0..steps {
        script.step(&mut volume, &mut ledger);
        if bench.disk.is_off() {
            break;
        }
    }
    ledger
}

/// A volume whose list of missed rows holds fewer than the workload makes.
fn bench(seed: u64) -> Bench {
    let mut bench = Bench::new(seed);
    bench.options = Options { missed_rows_max: 2, ..bench.options };
    bench
}

fn cut_and_check(seed: u64, cut: u64, keep: Keep) {
    let bench = bench(seed);
    let start = bench.disk.operations();
    bench.disk.cut_power_at(start + cut);
    let mut ledger = run(&bench, seed, STEPS);
    let story = format!("seed {seed}, cut before operation {cut}, {keep:?}");
    bench.disk.restart(seed ^ cut, keep);
    bench.index.crash();
    let mut volume = bench.reopen();
    ledger.check(&mut volume, &story);
    // Life goes on, and nothing of it is lost by a clean end, a lost index, or compaction.
    let mut script = Script::new(seed + 1000);
    script.skip_to(5_000);
    bench.clock.advance_ms(10_000);
    for _ in 0..6 {
        script.step(&mut volume, &mut ledger);
    }
    volume.settle();
    volume.reader.flush().unwrap();
    volume.compact();
    ledger.check(&mut volume, &story);
    bench.kill();
    bench.index.wipe();
    let mut volume = bench.reopen();
    ledger.check(&mut volume, &format!("{story}, index rebuilt"));
}

const STEPS: usize = 120;

fn cut_everywhere(seed: u64) {
    let bench = bench(seed);
    let start = bench.disk.operations();
    run(&bench, seed, STEPS);
    let operations = bench.disk.operations() - start;
    assert!(operations > 120, "the workload touches the disk: {operations}");
    for cut in 0..operations {
        let keep = match (cut + seed) % 3 {
            0 => Keep::Some,
            1 => Keep::Nothing,
            _ => Keep::Everything,
        };
        cut_and_check(seed, cut, keep);
        if keep != Keep::Some {
            cut_and_check(seed, cut, Keep::Some);
        }
    }
}

#[test]
fn a_power_cut_anywhere_keeps_what_was_acknowledged_first_workload() {
    cut_everywhere(1);
}

#[test]
fn a_power_cut_anywhere_keeps_what_was_acknowledged_second_workload() {
    cut_everywhere(2);
}

#[test]
fn a_power_cut_anywhere_keeps_what_was_acknowledged_third_workload() {
    cut_everywhere(3);
}

#[test]
#[ignore = "minutes: twenty more workloads"]
fn a_power_cut_anywhere_keeps_what_was_acknowledged_many_workloads() {
    for seed in 4..24 {
        cut_everywhere(seed);
    }
}
