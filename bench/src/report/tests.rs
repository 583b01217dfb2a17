//! The report as a whole, from files to a document: what is filled in, what is refused, what `--check` sees.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::result::{Row, SCHEMA};

const SETTINGS: &str = r#"
[suites.load]
about = "requests"
command = "sherd-bench load"

[suites.layers]
about = "layers"
command = "sherd-bench layers"

[[target]]
suite = "load"
work = "4 KiB PUT"
where = { op = "put", size = "4KiB", clients = ["1", "32", "128"] }
figure = "ops_s"
peer = "minio"
at_least = 4.0
aim = 10.0

[[target]]
suite = "load"
work = "CPU of a PUT"
where = { op = "put", size = "4KiB", clients = "32" }
figure = "server_cpu_us_op"
peer = "minio"
at_least = 3.0

[[target]]
suite = "load"
work = "a lone PUT against syncs"
where = { subject = "sherd", op = "put", clients = "1" }
figure = "p50_us"
at_most = 3.0
device = "fdatasync_p50_us"
"#;

struct Folders(tempfile::TempDir);

impl Folders {
    fn new(text: &str) -> Self {
        let folders = Self(tempfile::tempdir().unwrap());
        for name in ["sections", "results"] {
            fs::create_dir(folders.path(name)).unwrap();
        }
        fs::write(folders.path("sections/report.toml"), SETTINGS).unwrap();
        fs::write(folders.path("sections/performance.md"), text).unwrap();
        folders
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn measured(self, results: &Results) -> Self {
        results.write(&self.path("results")).unwrap();
        self
    }

    fn generate(&self) -> Result<String, Error> {
        generate(&self.path("sections"), &self.path("results"))
    }

    fn run(&self, check: bool) -> ExitCode {
        let (results, sections, out) = (self.path("results"), self.path("sections"), self.path("docs"));
        run(&Arguments { results, sections, out, check }).unwrap()
    }
}

fn row(subject: &str, size: &str, clients: u32, figures: [(&str, f64); 3]) -> Row {
    let mut row = Row::new([
        ("subject", subject.to_owned()),
        ("op", "put".to_owned()),
        ("size", size.to_owned()),
        ("clients", clients.to_string()),
    ]);
    row.figures.extend(figures.map(|(name, value)| (name.to_owned(), value)));
    row
}

fn results() -> Results {
    let figures = |ops, p50, cpu| [("ops_s", ops), ("p50_us", p50), ("server_cpu_us_op", cpu)];
    let mut rows = vec![
        row("sherd", "4KiB", 32, figures(5_000.0, 6_400.0, 150.0)),
        row("minio", "4KiB", 32, figures(480.0, 66_000.0, 1_400.0)),
        row("sherd", "4KiB", 1, figures(700.0, 1_500.0, 200.0)),
        row("minio", "4KiB", 1, figures(192.0, 5_200.0, 1_500.0)),
        row("sherd", "1MiB", 32, figures(321.0, 99_600.0, 2_100.0)),
    ];
    rows[4].flags.push("client bound".to_owned());
    Results {
        schema: SCHEMA,
        suite: "load".to_owned(),
        started: 1_795_266_180,
        settings: BTreeMap::from(
            [("cpu", "Example CPU"), ("commit", "abc1234"), ("durability", "fsync")]
                .map(|(name, value)| (name.to_owned(), value.to_owned())),
        ),
        device: BTreeMap::from([("fdatasync_p50_us".to_owned(), 480.0), ("read_mib_s".to_owned(), 1_900.0)]),
        rows,
    }
}

const TEXT: &str = "# Performance\n\n{{limits load}}\n{{comparison load}}\n{{targets}}\nWhy.\n";

#[test]
fn the_text_is_filled_from_the_results() {
    let document = Folders::new(TEXT).measured(&results()).generate().unwrap();
    let expected = "\
<!-- Written by `sherd-bench report` from bench/report/ and bench/results/: change those. -->

# Performance

> Run `load` of 2026-11-21 13:03:00 UTC: commit abc1234; durability fsync; cpu Example CPU.
>
> The device in the same run: fdatasync p50 480 µs, read 1,900 MiB/s.
";
    assert!(document.starts_with(expected), "{document}");
    assert!(document.ends_with("\nMet: 2 of 5 cases; not met: 2; not measured: 1.\nWhy.\n"), "{document}");
    let cells = |begin: &str| {
        let found = document.lines().find(|line| line.starts_with(begin));
        let found = found.unwrap_or_else(|| panic!("no {begin} in {document}"));
        found.split('|').map(str::trim).map(str::to_owned).collect::<Vec<_>>()
    };
    // The worst measured case; a target is fulfilled only with all of its cases.
    assert_eq!(
        cells("| 4 KiB PUT ")[2..9],
        ["ops/s", "4x", "10x", "3.65x", "clients 1", "**1 of 3**", "1 of 3"]
    );
    // Less is better: peer over subject.
    assert_eq!(cells("| CPU of a PUT ")[5], "9.33x");
    // 1.5 ms against three syncs of 480 µs each.
    let lone = cells("| a lone PUT against syncs ");
    assert_eq!(
        (lone[3].as_str(), lone[5].as_str(), lone[7].as_str()),
        ("at most 1.44 ms", "1.50 ms", "**0 of 1**")
    );
    assert_eq!(cells("| put | 4KiB | 32 ")[4..7], ["5,000", "480", "10.4x"]);
    assert_eq!(cells("| put | 1MiB | 32 ")[4..7], ["321", "-", "-"]);
    assert!(document.contains("| sherd: client bound |"), "what speaks against a figure stands beside it");
}

#[test]
fn a_flag_stands_beside_the_target_too() {
    let mut flagged = results();
    flagged.rows[2].flags.push("client bound".to_owned());
    let document = Folders::new("{{targets}}\n").measured(&flagged).generate().unwrap();
    assert!(document.contains("| clients 1; client bound |"), "{document}");
}

#[test]
fn a_target_that_two_rows_could_mean_is_refused() {
    let folders = Folders::new("\n{{targets}}\n").measured(&results());
    let settings = SETTINGS.replace("op = \"put\", size = \"4KiB\", clients = \"32\"", "clients = \"32\"");
    fs::write(folders.path("sections/report.toml"), settings).unwrap();
    let error = folders.generate().unwrap_err().to_string();
    assert!(error.contains("performance.md:2: ") && error.contains("`CPU of a PUT`"), "{error}");
    assert!(error.contains("differ by: size"), "{error}");
}

#[test]
fn what_is_not_measured_says_what_measures_it() {
    let document = Folders::new(TEXT).generate().unwrap();
    assert!(document.contains("*Not measured yet; `sherd-bench load` measures it.*"));
    assert!(document.contains("Met: 0 of 5 cases; not met: 0; not measured: 5."), "{document}");
}

#[test]
fn suites_are_listed_with_their_files_and_last_run() {
    let document = Folders::new("{{suites}}\n").measured(&results()).generate().unwrap();
    let lines: Vec<_> = document.lines().filter(|line| line.contains("`sherd-bench l")).collect();
    assert!(lines[0].contains("| layers ") && lines[0].contains("not yet"), "{document}");
    assert!(lines[1].contains("](../bench/results/load.json)") && lines[1].contains("abc1234"), "{document}");
}

#[test]
fn a_run_for_a_moment_is_called_one() {
    let mut moment = results();
    for (name, value) in
        [("moment", "true"), ("memory_mib", "2048"), ("cores", "2"), ("commit", "12345678e901")]
    {
        moment.settings.insert(name.to_owned(), value.to_owned());
    }
    let document = Folders::new("{{limits load}}\n").measured(&moment).generate().unwrap();
    assert!(
        document.contains("> **A run for a moment") && document.contains("commit 12345678e901;"),
        "{document}"
    );
    assert!(document.contains("; cores 2; memory 2 GiB; moment true."), "{document}");
}

#[test]
fn what_the_text_asks_for_and_cannot_have_is_said_with_its_place() {
    for (line, part) in [
        ("{{tabel load}}", "{{tabel load}} is not known"),
        ("{{limits}}", "is not known; there are {{suites}}"),
        ("{{limits lod}}", "no suite `lod` in report.toml, but: layers, load"),
        ("see {{limits load}}", "alone"),
        ("{{limits load", "alone"),
    ] {
        let text = format!("# Loads\n\nText.\n{line}\n");
        let error = Folders::new(&text).measured(&results()).generate().unwrap_err().to_string();
        assert!(error.contains("performance.md:4: ") && error.contains(part), "{line}: {error}");
    }
}

#[test]
fn check_notices_what_is_missing_and_what_changed() {
    let folders = Folders::new(TEXT).measured(&results());
    let (same, different) = (ExitCode::SUCCESS, ExitCode::from(DIFFERENT));
    assert_eq!(folders.run(true), different, "nothing was written yet");
    assert!(!folders.path("docs").exists(), "a check writes nothing");
    assert_eq!(folders.run(false), same);
    assert_eq!(folders.run(true), same);
    let mut changed = results();
    changed.rows[1].figures.insert("ops_s".to_owned(), 481.0);
    let folders = folders.measured(&changed);
    assert_eq!(folders.run(true), different);
    assert_eq!(folders.run(false), same);
    assert_eq!(folders.run(true), same);
}

#[test]
fn results_of_another_form_are_refused() {
    let folders = Folders::new(TEXT);
    fs::write(folders.path("results/load.json"), "{}").unwrap();
    assert!(folders.generate().unwrap_err().to_string().contains("load.json"));
}
