//! A comparison: some operations of every size, ours beside the peer's, from the results of a suite.

use super::markdown::{Align, Table};
use super::targets::{times, times_better};
use crate::figure;
use crate::result::{Results, Row};

/// The two stores, by their names in the rows.
const SIDES: [&str; 2] = ["sherd", "minio"];
const FIGURES: [&str; 3] = ["ops_s", "p99_us", "server_cpu_us_op"];

pub(super) fn table(results: &Results, ops: &[&str]) -> String {
    let mut table = Table::new();
    for heading in ["op", "size", "clients"] {
        table.column(heading, Align::Left);
    }
    for name in FIGURES {
        for side in SIDES {
            table.column(format!("{side} {}", figure::heading(name)), Align::Right);
        }
        table.column("times better", Align::Right);
    }
    table.column("flags", Align::Left);
    let ours = |row: &&Row| row.is(&[("subject", SIDES[0])]);
    for op in ops {
        for row in results.rows.iter().filter(ours).filter(|row| row.is(&[("op", op)])) {
            let of = |label: &str| row.labels.get(label).map_or("", String::as_str);
            let (size, clients) = (of("size"), of("clients"));
            let labels = [("subject", SIDES[1]), ("op", op), ("size", size), ("clients", clients)];
            let peer = results.rows.iter().find(|row| row.is(&labels));
            let mut cells = vec![(*op).to_owned(), size.to_owned(), clients.to_owned()];
            for name in FIGURES {
                let (own, other) = (row.figure(name), peer.and_then(|row| row.figure(name)));
                let show = |value: Option<f64>| {
                    value.map_or_else(|| "-".to_owned(), |value| figure::show(name, value))
                };
                let better = times_better(name, own, other).map_or_else(|| "-".to_owned(), times);
                cells.extend([show(own), show(other), better]);
            }
            let flags = |side: &str, row: &Row| {
                row.flags.iter().map(|flag| format!("{side}: {flag}")).collect::<Vec<_>>()
            };
            let flags = [flags(SIDES[0], row), peer.map(|row| flags(SIDES[1], row)).unwrap_or_default()];
            cells.push(flags.concat().join("; "));
            table.line(cells);
        }
    }
    table.text()
}
