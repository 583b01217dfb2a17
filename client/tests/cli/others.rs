//! The same cases with another server of S3: this program, run once more, with that server as its service.

use std::io::Write as _;
use std::process::Command;

use crate::fixture::OTHER;

/// Names a program with the command line of `minio server`.
const VARIABLE: &str = "SHERD_OTHER_S3";
/// The cases. The others have scripted answers, or keys that servers may refuse.
const CASES: [&str; 5] = ["verbs::", "trees::", "breaks::", "kills::", "loads::"];

#[test]
fn every_verb_works_with_another_server() {
    if std::env::var_os(OTHER).is_some() {
        return;
    }
    let Some(program) = std::env::var_os(VARIABLE) else {
        // Past the harness, which shows only what failed.
        let words =
            format!("SKIPPED: tests of sherd with another server: {VARIABLE} names no program such as minio");
        let _nobody_reads = writeln!(std::io::stderr().lock(), "{words}");
        return;
    };
    let mut command = Command::new(std::env::current_exe().expect("this program has a path"));
    let status = command.args(CASES).env(OTHER, program).status().expect("it runs");
    assert!(status.success(), "{status}");
}
