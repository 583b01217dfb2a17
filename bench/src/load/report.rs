//! A measurement as a row of results.

use std::collections::BTreeMap;
use std::time::Duration;

use super::meter::{BUSY_WITH_OTHERS, OTHERS_SHARE};
use super::run::{Outcome, Plan};
use crate::result::Row;

/// A generator whose threads used more of their cores than this had no time to spare.
const THREAD_SHARE_MAX: f64 = 0.85;
/// Share of the machine that the client may use when the server's processor time is unknown.
const MACHINE_SHARE_MAX: f64 = 0.5;
const MIB: f64 = (1 << 20) as f64;

/// The row of `outcome`, labelled with the store, operation, size and clients.
#[expect(clippy::cast_precision_loss, reason = "counts and bytes are far below 2^53")]
pub fn row(subject: &str, size: &str, plan: &Plan, outcome: &Outcome) -> Row {
    let Outcome { tally, spent, server_anon } = outcome;
    let mut row = Row::new([
        ("subject", subject.to_owned()),
        ("op", plan.op.to_string()),
        ("size", size.to_owned()),
        ("clients", plan.clients.to_string()),
    ]);
    if let Some(mix) = &plan.mix {
        row.labels.insert("mix".to_owned(), mix.to_string());
    }
    if let Some(rate) = plan.rate {
        row.labels.insert("rate".to_owned(), rate.to_string());
    }
    let figures = [
        ("ops_s", tally.ops_s),
        ("mib_s", tally.bytes_s / MIB),
        ("p50_us", tally.latency_us(50.0)),
        ("p90_us", tally.latency_us(90.0)),
        ("p99_us", tally.latency_us(99.0)),
        ("p999_us", tally.latency_us(99.9)),
        ("max_us", tally.latency_us(100.0)),
        ("ops", tally.ops as f64),
        ("errors", tally.errors() as f64),
        ("seconds", tally.elapsed.as_secs_f64()),
    ];
    row.figures = figures.into_iter().map(|(name, value)| (name.to_owned(), value)).collect();
    for (name, percent) in [("first_byte_p50_us", 50.0), ("first_byte_p99_us", 99.0)] {
        if let Some(time) = tally.first_byte_us(percent) {
            row = row.with(name, time);
        }
    }
    for (fault, times) in &tally.faults {
        row.flags.push(format!("{times} x {fault}"));
    }
    if let Some(bytes) = server_anon {
        row = row.with("server_anon_mib", *bytes as f64 / MIB);
    }
    if tally.ops == 0 {
        row.flags.push("nothing measured".to_owned());
    } else if let Some(spent) = spent {
        let cores = std::thread::available_parallelism().map_or(1.0, |cores| cores.get() as f64);
        let wall = spent.wall.as_secs_f64().max(1e-9);
        let client = spent.client.as_secs_f64();
        let server = spent.server.map(|time| time.as_secs_f64());
        let ops = tally.ops as f64;
        row = row
            .with("client_cpu_us_op", client * 1e6 / ops)
            .with("client_cpu_share", client / (wall * cores));
        if let Some(server) = server {
            row = row.with("server_cpu_us_op", server * 1e6 / ops);
            row = row.with("server_cpu_share", server / (wall * cores));
        }
        if is_client_bound(client, server, wall, cores, plan.threads) {
            row.flags.push("client bound".to_owned());
        }
        if let Some(others) = spent.others_share(Duration::ZERO) {
            row = row.with("others_cpu_share", others);
            if others > OTHERS_SHARE {
                row.flags.push(BUSY_WITH_OTHERS.to_owned());
            }
        }
    }
    row
}

/// Whether the client, which spent `client` seconds on `threads` threads in `wall` seconds, limited what
/// was measured: its threads were busy all the time, or it took more of the machine than the server.
/// Being a part of a machine that is busy is not enough: on few cores that holds for every client.
fn is_client_bound(client: f64, server: Option<f64>, wall: f64, cores: f64, threads: usize) -> bool {
    #[expect(clippy::cast_precision_loss, reason = "a few threads")]
    let threads = threads as f64;
    let most = server.unwrap_or(MACHINE_SHARE_MAX * wall * cores);
    client > most || client > THREAD_SHARE_MAX * wall * threads.min(cores)
}

/// Settings of `plan` that hold for all rows.
pub fn settings(plan: &Plan) -> BTreeMap<String, String> {
    let Plan {
        op: _,
        mix: _,
        clients: _,
        threads,
        rate: _,
        limit,
        warm_up,
        page,
        part_bytes,
        overwrite,
        seed,
        stall: _,
        checksum,
    } = plan;
    let mut settings = BTreeMap::from([
        ("generator_threads".to_owned(), threads.to_string()),
        ("limit".to_owned(), format!("{limit:?}")),
        ("warm_up_s".to_owned(), warm_up.as_secs_f64().to_string()),
        ("page".to_owned(), page.to_string()),
        ("part_bytes".to_owned(), part_bytes.to_string()),
        ("seed".to_owned(), seed.to_string()),
    ]);
    if let Some(count) = overwrite {
        settings.insert("overwritten_keys".to_owned(), count.to_string());
    }
    if let Some(checksum) = checksum {
        settings.insert("checksum".to_owned(), checksum.to_string());
    }
    settings
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::load::meter::CpuTime;
    use crate::load::schedule::Limit;
    use crate::load::tally::{Fault, Tally};
    use crate::load::work::Op;
    use std::time::Duration;

    fn outcome(ops: u64, client_ms: u64, server_ms: u64) -> Outcome {
        let mut tally = Tally::default();
        (0..ops).for_each(|_| tally.count(4096, Duration::from_micros(250)));
        tally.close(Duration::from_secs(1));
        let spent = CpuTime {
            wall: Duration::from_secs(1),
            client: Duration::from_millis(client_ms),
            server: Some(Duration::from_millis(server_ms)),
            machine: Some(Duration::from_millis(client_ms + server_ms)),
        };
        Outcome { tally, spent: Some(spent), server_anon: Some(3 << 20) }
    }

    fn row_of(outcome: &Outcome) -> Row {
        row("sherd", "4KiB", &Plan::new(Op::Get, 32, Limit::Count(1)), outcome)
    }

    #[test]
    fn a_row_states_what_was_done_and_what_it_cost_both_sides() {
        let row = row_of(&outcome(1000, 100, 500));
        assert!(row.is(&[("subject", "sherd"), ("op", "get"), ("size", "4KiB"), ("clients", "32")]));
        for (name, value) in [
            ("ops_s", 1000.0),
            ("mib_s", 3.90625),
            ("errors", 0.0),
            ("client_cpu_us_op", 100.0),
            ("server_cpu_us_op", 500.0),
            ("server_anon_mib", 3.0),
        ] {
            assert!(row.figure(name).is_some_and(|found| (found - value).abs() < 1e-6), "{name}: {row:?}");
        }
        assert!(row.figure("p50_us").is_some_and(|found| (found - 250.0).abs() < 1.0));
        assert!(row.flags.is_empty(), "{:?}", row.flags);
    }

    #[test]
    fn a_client_that_cost_more_than_the_server_or_had_no_time_to_spare_is_flagged() {
        assert!(row_of(&outcome(1000, 600, 500)).flags.contains(&"client bound".to_owned()));
        assert!(row_of(&outcome(1000, 900, 1000)).flags.contains(&"client bound".to_owned()));
        assert!(row_of(&outcome(1000, 300, 1700)).flags.is_empty(), "the machine is full, of the server");
        assert!(is_client_bound(1.1, None, 1.0, 2.0, 2));
        assert!(!is_client_bound(0.9, None, 1.0, 2.0, 2));
    }

    #[test]
    fn faults_and_others_on_the_machine_are_flagged() {
        let mut outcome = outcome(10, 100, 500);
        outcome.tally.fault(Fault::SlowDown, 3);
        if let Some(spent) = &mut outcome.spent {
            spent.machine = Some(Duration::from_secs(1));
        }
        assert_eq!(row_of(&outcome).flags, ["3 x 503 SlowDown", "machine busy with others"]);
        outcome.tally.ops = 0;
        let row = row_of(&outcome);
        assert!(row.flags.contains(&"nothing measured".to_owned()));
        assert_eq!(row.figure("server_cpu_us_op"), None, "there is no operation to share it");
    }
}
