//! The report as a whole, from files to a document: what is filled in, what is refused, what `--check` sees.

use std::collections::BTreeMap;
use std::fs;

use super::*;
use crate::result::{Row, SCHEMA};

const SETTINGS: &str = r#"
title = "Performance"
introduction = "Ratios above 1 are in the subject's favour."

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
    fn new() -> Self {
        let folders = Self(tempfile::tempdir().unwrap());
        for name in ["sections", "results"] {
            fs::create_dir(folders.path(name)).unwrap();
        }
        folders.put("sections/report.toml", SETTINGS);
        folders
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn put(&self, name: &str, text: &str) {
        fs::write(self.path(name), text).unwrap();
    }

    fn measured(self) -> Self {
        results().write(&self.path("results")).unwrap();
        self
    }

    fn section(self, text: &str) -> Self {
        self.put("sections/10-loads.md", text);
        self
    }

    fn generate(&self) -> Result<Report, Error> {
        Report::generate(&self.path("sections"), &self.path("results"))
    }

    fn arguments(&self, check: bool) -> Arguments {
        let (results, sections, out) = (self.path("results"), self.path("sections"), self.path("docs"));
        Arguments { results, sections, out, check }
    }

    fn run(&self, check: bool) -> ExitCode {
        run(&self.arguments(check)).unwrap()
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

const SECTION: &str = "\
## Loads

What the rows mean.
{{table load op=put rows=size,clients columns=subject figures=ops_s ratio=sherd/minio}}
{{targets load}}

Why.
";

#[test]
fn a_section_is_filled_from_the_results() {
    let report = Folders::new().measured().section(SECTION).generate().unwrap();
    let expected = "\
<!-- Written by `sherd-bench report` from bench/report/ and bench/results/: change those. -->

# Performance

Ratios above 1 are in the subject's favour.

## Loads

> Run `load` of 2026-11-21 13:03:00 UTC: commit abc1234; durability fsync; cpu Example CPU.
>
> The device in the same run: fdatasync p50 480 µs, read 1,900 MiB/s.

What the rows mean.

| size  | clients | sherd ops/s | minio ops/s | sherd : minio | at least | aim | met    |
| ----- | ------- | ----------: | ----------: | ------------: | -------: | --: | ------ |
| 4 KiB | 1       |         700 |         192 |         3.65x |       4x | 10x | **no** |
| 4 KiB | 32      |       5,000 |         480 |         10.4x |       4x | 10x | yes    |
| 1 MiB | 32      |     321 [1] |           - |             - |          |     |        |

[1] client bound

| work                     | figure        | subject |    peer | times better |        required | aim | met          |
| ------------------------ | ------------- | ------: | ------: | -----------: | --------------: | --: | ------------ |
| 4 KiB PUT, clients 1     | ops/s         |     700 |     192 |        3.65x |              4x | 10x | **no**       |
| 4 KiB PUT, clients 32    | ops/s         |   5,000 |     480 |        10.4x |              4x | 10x | yes          |
| 4 KiB PUT, clients 128   | ops/s         |       - |       - |            - |              4x | 10x | not measured |
| CPU of a PUT             | server CPU/op |  150 µs | 1.40 ms |        9.33x |              3x |     | yes          |
| a lone PUT against syncs | p50           | 1.50 ms |       - |            - | at most 1.44 ms |     | **no**       |

Met: 2 of 5, 2 of them in full; not met: 2; not measured: 1.

Why.
";
    assert_eq!(report.document, expected);
}

#[test]
fn targets_are_judged_case_by_case() {
    let document = Folders::new().measured().section(SECTION).generate().unwrap().document;
    let line = |begin: &str| {
        let found = document.lines().find(|line| line.starts_with(begin));
        found
            .unwrap_or_else(|| panic!("no {begin} in {document}"))
            .split('|')
            .map(str::trim)
            .collect::<Vec<_>>()
    };
    let cells = line("| 4 KiB PUT, clients 32 ");
    assert_eq!(cells[2..9], ["ops/s", "5,000", "480", "10.4x", "4x", "10x", "yes"]);
    assert_eq!(line("| 4 KiB PUT, clients 1 ")[8], "**no**");
    assert_eq!(line("| 4 KiB PUT, clients 128 ")[8], "not measured");
    // Less is better: peer over subject.
    assert_eq!(line("| CPU of a PUT ")[5], "9.33x");
    // 1.5 ms against three syncs of 480 µs each.
    let cells = line("| a lone PUT against syncs ");
    assert_eq!((cells[6], cells[8]), ("at most 1.44 ms", "**no**"));
    assert!(document.contains("Met: 2 of 5, 2 of them in full; not met: 2; not measured: 1."), "{document}");
}

#[test]
fn a_flag_stands_beside_the_target_too() {
    let folders = Folders::new().section("## Loads\n{{targets load}}\n");
    let mut flagged = results();
    flagged.rows[0].flags.push("client bound".to_owned());
    flagged.write(&folders.path("results")).unwrap();
    let document = folders.generate().unwrap().document;
    assert!(document.contains(" 5,000 [1] |") && document.contains("\n[1] client bound\n"), "{document}");
}

#[test]
fn a_target_that_two_rows_could_mean_is_refused() {
    let folders = Folders::new().measured().section("## Loads\n{{targets load}}\n");
    folders.put(
        "sections/report.toml",
        &SETTINGS.replace("op = \"put\", size = \"4KiB\", clients = \"32\"", "clients = \"32\""),
    );
    let error = folders.generate().unwrap_err().to_string();
    assert!(
        error.contains(":2: ") && error.contains("`CPU of a PUT`") && error.contains("differ by: size"),
        "{error}"
    );
}

#[test]
fn what_is_not_measured_says_what_measures_it() {
    let unmeasured = Folders::new().section(SECTION).generate().unwrap();
    assert_eq!(unmeasured.document.matches("*Not measured yet; `sherd-bench load` measures it.*").count(), 1);
    assert!(!unmeasured.document.contains("> Run"));
    let section = "## Gets\n{{table load op=get rows=size figures=ops_s}}\n";
    let partly = Folders::new().measured().section(section).generate().unwrap();
    assert!(partly.document.contains("*Not part of the run; `sherd-bench load` measures it.*"));
}

#[test]
fn rows_without_a_label_can_be_chosen() {
    let folders = Folders::new()
        .section("## Loads\n{{table load kind=- op=put clients=32 subject=sherd rows=size figures=ops_s}}\n");
    let mut some = results();
    some.rows[0].labels.insert("kind".to_owned(), "packed".to_owned());
    some.write(&folders.path("results")).unwrap();
    let document = folders.generate().unwrap().document;
    assert!(document.contains("| 1 MiB ") && !document.contains("| 4 KiB "), "{document}");
}

#[test]
fn suites_are_listed_with_their_last_run() {
    let document = Folders::new().measured().section("## Runs\n{{suites}}\n").generate().unwrap().document;
    let lines: Vec<_> = document.lines().filter(|line| line.contains("`sherd-bench l")).collect();
    assert!(lines[0].contains("layers") && lines[0].contains("not yet"), "{document}");
    assert!(lines[1].contains("2026-11-21") && lines[1].contains("abc1234"), "{document}");
}

#[test]
fn a_run_for_a_moment_is_called_one() {
    let folders = Folders::new().section("## Loads\n{{targets load}}\n");
    let mut moment = results();
    for (name, value) in
        [("moment", "true"), ("memory_mib", "2048"), ("cores", "2"), ("commit", "12345678e901")]
    {
        moment.settings.insert(name.to_owned(), value.to_owned());
    }
    moment.write(&folders.path("results")).unwrap();
    let document = folders.generate().unwrap().document;
    assert!(
        document.contains("> **A run for a moment") && document.contains("commit 12345678e901;"),
        "{document}"
    );
    assert!(document.contains("; cores 2; memory 2 GiB; moment true."), "{document}");
}

#[test]
fn limits_stand_where_they_are_asked_for() {
    let section = "## Loads\nFirst this.\n{{limits}}\n{{table load size=1MiB rows=size figures=ops_s}}\n";
    let document = Folders::new().measured().section(section).generate().unwrap().document;
    assert_eq!(document.matches("> Run `load`").count(), 1);
    assert!(document.find("First this").unwrap() < document.find("> Run").unwrap());
}

#[test]
fn what_a_section_asks_for_and_cannot_have_is_said_with_its_place() {
    for (line, part) in [
        ("{{tabel load}}", "{{tabel ...}}: is not known"),
        ("{{table}}", "is written"),
        ("{{table lod rows=op figures=ops_s}}", "no suite `lod` in report.toml, but: layers, load"),
        ("{{table load rows=op}}", "`rows` and `figures`"),
        ("{{table load rows=op,sise figures=ops_s}}", "label `sise`, but: clients, op"),
        ("{{table load rows=op sise=4KiB figures=ops_s}}", "label `sise`"),
        ("{{table load rows=op figures=opss}}", "figure `opss`, but: ops_s"),
        ("{{table load rows=op figures=ops_s}}", "they differ by: subject"),
        ("{{table load rows=op figures=ops_s ratio=a/b}}", "`columns`"),
        ("see {{limits}}", "alone"),
    ] {
        let section = format!("## Loads\n\nText.\n{line}\n");
        let error = Folders::new().measured().section(&section).generate().unwrap_err().to_string();
        assert!(error.contains("10-loads.md:4: ") && error.contains(part), "{line}: {error}");
    }
    let error = Folders::new().section("Text first.\n").generate().unwrap_err().to_string();
    assert!(error.contains("10-loads.md:1: a section begins with a heading"), "{error}");
}

#[test]
fn check_notices_what_is_missing_and_what_changed() {
    let folders = Folders::new().measured().section(SECTION);
    let (same, different) = (ExitCode::SUCCESS, ExitCode::from(DIFFERENT));
    assert_eq!(folders.run(true), different, "nothing was written yet");
    assert!(!folders.path("docs").exists(), "a check writes nothing");
    assert_eq!(folders.run(false), same);
    assert_eq!(folders.run(true), same);

    let mut changed = results();
    changed.rows[1].figures.insert("ops_s".to_owned(), 481.0);
    changed.write(&folders.path("results")).unwrap();
    assert_eq!(folders.run(true), different);
    let difference = folders.generate().unwrap().difference(&folders.path("docs")).unwrap();
    assert!(difference.is_some_and(|line| line.contains("performance.md:") && line.ends_with(": differs")));
    assert_eq!(folders.run(false), same);
    assert_eq!(folders.run(true), same);
}

#[test]
fn results_of_another_form_are_refused() {
    let folders = Folders::new().section(SECTION);
    folders.put("results/load.json", "{}");
    assert!(folders.generate().unwrap_err().to_string().contains("load.json"));
}
