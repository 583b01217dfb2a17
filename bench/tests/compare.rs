//! `sherd-bench compare` as a person runs it: two commands, their exit codes, and what is left in files.
//!
//! The commands print their figures, so nothing here depends on how fast the machine is.

use std::path::Path;
use std::process::{Command, Output};

use sherd_bench::result::Results;

fn compare(out: &Path, arguments: &[&str]) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sherd-bench"));
    command.arg("compare").args(arguments).arg("--out").arg(out).output().expect("the program was built")
}

/// Compares two commands that print `a` and `b` as their figures.
fn printed(out: &Path, a: &str, b: &str, more: &[&str]) -> Output {
    let (a, b) = (format!("echo '{a}'"), format!("echo '{b}'"));
    compare(out, &[&["--command", "--stdout", &a, &b, "--noise-runs", "2"], more].concat())
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

#[test]
fn the_exit_code_is_one_where_b_is_worse_and_zero_where_it_is_not() {
    let folder = tempfile::tempdir().unwrap();
    for (a, b, code, conclusion) in [
        ("100", "100", 0, "no regression"),
        ("100", "90", 0, "no regression"),
        ("100", "110", 1, "REGRESSION: command value"),
        ("{\"ops_s\": 100}", "{\"ops_s\": 110}", 0, "no regression"),
        ("{\"ops_s\": 100, \"p99_us\": 5}", "{\"ops_s\": 90, \"p99_us\": 6}", 1, "2 REGRESSIONS"),
    ] {
        let output = printed(folder.path(), a, b, &[]);
        assert_eq!(output.status.code(), Some(code), "{a} {b}: {}", text(&output));
        assert!(text(&output).contains(conclusion), "{a} {b}: {}", text(&output));
    }
}

#[test]
fn what_decides_and_which_way_is_better_can_be_said() {
    let folder = tempfile::tempdir().unwrap();
    let (a, b) = ("{\"hits\": 100, \"misses\": 10}", "{\"hits\": 90, \"misses\": 10}");
    for (more, code) in [
        (&[][..], 0),
        (&["--more", "hits"], 1),
        (&["--more", "hits", "--judge", "misses"], 0),
        (&["--more", "hits", "--moment"], 0),
    ] {
        let output = printed(folder.path(), a, b, more);
        assert_eq!(output.status.code(), Some(code), "{more:?}: {}", text(&output));
    }
}

#[test]
fn runs_and_verdicts_are_left_as_results_and_plots() {
    let folder = tempfile::tempdir().unwrap();
    let output = printed(folder.path(), "100", "110", &["--name", "example"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    let results = Results::read(&folder.path().join("example.json")).unwrap();
    assert_eq!(results.suite, "example");
    let verdict =
        results.rows.iter().find(|row| row.is(&[("kind", "verdict"), ("figure", "value")])).unwrap();
    assert!(verdict.is(&[("verdict", "worse"), ("operation", "command")]));
    assert_eq!(verdict.figure("ratio").map(|ratio| (ratio * 100.0).round()), Some(110.0));
    let runs = |side: &str, phase: &str| {
        let labels = [("kind", "run"), ("side", side), ("phase", phase)];
        results.rows.iter().filter(|row| row.is(&labels)).count()
    };
    assert_eq!((runs("A", "noise"), runs("A again", "noise")), (2, 2));
    assert_eq!((runs("A", "compare"), runs("B", "compare")), (5, 5));
    for name in ["example.svg", "example-command.svg"] {
        let svg = std::fs::read_to_string(folder.path().join(name)).unwrap();
        assert!(svg.starts_with("<svg") && svg.ends_with("</svg>\n"), "{name}");
    }
}

#[test]
fn use_of_a_command_is_measured_without_its_help() {
    let folder = tempfile::tempdir().unwrap();
    let busy = "i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done";
    let fixed = ["--noise-runs", "2", "--min-runs", "3", "--max-runs", "3"];
    let output = compare(folder.path(), &[&["--command", "true", busy], &fixed[..]].concat());
    let results = Results::read(&folder.path().join("compare.json")).unwrap();
    let verdict =
        results.rows.iter().find(|row| row.is(&[("kind", "verdict"), ("figure", "cpu_seconds")])).unwrap();
    // Processor time, not time: a busy machine does not change who works more.
    assert!(verdict.figure("b") > verdict.figure("a"), "{}", text(&output));
}

#[test]
fn what_cannot_be_compared_ends_with_two() {
    let folder = tempfile::tempdir().unwrap();
    for (arguments, part) in [
        (&["--command", "true", "exit 3"][..], "side B: `exit 3` ended with exit status: 3"),
        (&["--command", "--stdout", "echo fast", "echo fast"], "no figures"),
        (&["--command", "true"], "<B>"),
        (&["--command", "true", "true", "--min-runs", "1"], "--min-runs"),
        (&["--command", "true", "true", "--judge", "p99_us", "--moment"], "none of the figures that decide"),
        (&["a", "b", "--operations-from", "/nowhere"], "/nowhere"),
    ] {
        let output = compare(folder.path(), arguments);
        assert_eq!(output.status.code(), Some(2), "{arguments:?}: {}", text(&output));
        assert!(text(&output).contains(part), "{arguments:?}: {}", text(&output));
    }
    assert!(!folder.path().join("compare.json").exists(), "nothing is written of what failed");
}

#[test]
fn operations_come_from_files_and_are_chosen_by_name() {
    let folder = tempfile::tempdir().unwrap();
    let operations = folder.path().join("operations");
    std::fs::create_dir(&operations).unwrap();
    let file = "
        [[operation]]
        name = 'length'
        command = 'printf %s {side} | wc -c'
        figure = 'stdout'
        [[operation]]
        name = 'fails'
        command = 'exit 9'
    ";
    std::fs::write(operations.join("own.toml"), file).unwrap();
    let from = operations.to_str().unwrap();
    let run = |names: &[&str]| {
        let fixed = ["short", "muchlonger", "--noise-runs", "0", "--operations-from", from];
        compare(folder.path(), &[&fixed[..], names].concat())
    };
    let output = run(&["--operations", "length"]);
    assert_eq!(output.status.code(), Some(1), "{}", text(&output));
    assert!(text(&output).contains("REGRESSION: length value"), "{}", text(&output));
    assert_eq!(run(&["--operations", "fails"]).status.code(), Some(2));
    assert!(text(&run(&["--operations", "width"])).contains("no operation `width`, but: length, fails"));
}
