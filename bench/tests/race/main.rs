//! `sherd-bench race` as a person runs it, on a server whose objects are files: honest tools, tools that lie,
//! that fail, that move wrong bytes. No time is judged here.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]

mod folder_server;

use std::fmt::Write as _;
use std::fs;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::process::Command;

use sherd_bench::result::Results;
use tempfile::TempDir;

/// The rows of small files: the moment of the large ones takes a debug build a second each.
const SMALL: &str = "up-16k,down-16k,list-100k,sync-16k";

/// The commands of an honest tool; `ROOT` is the server's folder.
const HONEST: [(&str, &str); 4] = [
    ("up", "mkdir -p ROOT/{bucket}/{prefix} && cp -r {folder}/. ROOT/{bucket}/{prefix}"),
    ("down", "cp -r ROOT/{bucket}/{prefix}/. {folder}"),
    ("list", "cd ROOT/{bucket} && find {prefix} -type f"),
    ("sync", "mkdir -p ROOT/{bucket}/{prefix} && cp -ru {folder}/. ROOT/{bucket}/{prefix}"),
];

/// A row, the verb that it runs, and lies: a command in its place, and the reason for which it is out.
type RowLies<'a> = (&'a str, &'a str, &'a [(&'a str, &'a str)]);

/// A server, and the tools on it.
struct RaceTrack {
    folder: TempDir,
    root: PathBuf,
    address: SocketAddr,
}

/// The result of one race.
struct Ended {
    code: Option<i32>,
    text: String,
}

impl RaceTrack {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        let root = folder.path().join("root");
        fs::create_dir(&root).unwrap();
        let address = folder_server::start(&root);
        Self { folder, root, address }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// Writes the file of a tool that is honest but for one command.
    fn tool(&self, name: &str, (verb, command): (&str, &str)) -> String {
        let mut text = "binary = 'sh'\nversion = 'echo 1'\n".to_owned();
        for (honest_verb, honest) in HONEST {
            let command =
                if honest_verb == verb { command.replace("HONEST", honest) } else { honest.to_owned() };
            let command = command.replace("ROOT", self.root.to_str().unwrap());
            writeln!(text, "{honest_verb} = '''{command}'''").unwrap();
        }
        text.push_str("[environment]\nSECRET = '{secret_key}'\n");
        let path = self.path(&format!("{name}.toml"));
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    }

    fn honest(&self) -> String {
        self.tool("honest", ("", ""))
    }

    fn race(&self, arguments: &[&str]) -> Ended {
        let mut command = Command::new(env!("CARGO_BIN_EXE_sherd-bench"));
        command.arg("race").args(arguments);
        if !arguments.contains(&"--stores") {
            command.args(["--stores", &format!("http://{}", self.address)]);
        }
        command.arg("--folder").arg(self.path("work")).arg("--out").arg(self.path("out"));
        command.env("AWS_ACCESS_KEY_ID", "id").env("AWS_SECRET_ACCESS_KEY", "very-hidden");
        let output = command.output().expect("the program was built");
        let text =
            String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
        assert!(!text.contains("very-hidden"), "{text}");
        Ended { code: output.status.code(), text }
    }

    /// Races an honest tool against one that is honest but for one command.
    fn against(&self, row: &str, lie: (&str, &str)) -> Ended {
        let tools = format!("{},{}", self.honest(), self.tool("other", lie));
        self.race(&["--moment", "--rows", row, "--tools", &tools])
    }

    fn results(&self) -> Results {
        Results::read(&self.path("out").join("race.json")).unwrap()
    }
}

fn is_empty(folder: &Path) -> bool {
    fs::read_dir(folder).unwrap().next().is_none()
}

#[test]
fn honest_tools_race_in_every_row_and_leave_nothing_behind() {
    let track = RaceTrack::new();
    let tools = format!("{},{}", track.honest(), track.tool("other", ("", "")));
    let ended = track.race(&["--moment", "--tools", &tools]);
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    let results = track.results();
    for row in ["up-1g", "down-1g", "up-16k", "down-16k", "list-100k", "sync-16k"] {
        for tool in ["honest", "honest again", "other"] {
            let found =
                results.rows.iter().find(|found| found.is(&[("kind", "tool"), ("row", row), ("tool", tool)]));
            let found = found.unwrap_or_else(|| panic!("{row} {tool}: {}", ended.text));
            assert_eq!(
                (found.figure("runs"), found.figure("errors")),
                (Some(2.0), Some(0.0)),
                "{row} {tool}"
            );
        }
    }
    assert_eq!(results.settings["tool other"], "1");
    assert!(is_empty(&track.path("work")) && is_empty(&track.root), "{}", ended.text);
    let svg = format!("race-{}.svg", track.address.to_string().replace(':', "-"));
    assert!(fs::read_to_string(track.path("out").join(svg)).unwrap().contains("sync-16k other"));
}

#[test]
fn a_tool_that_lies_or_moves_wrong_bytes_is_out_of_its_row_with_the_reason() {
    let track = RaceTrack::new();
    let flip =
        |path: &str| format!("HONEST && printf x | dd of={path} bs=1 seek=9000 conv=notrunc 2>/dev/null");
    let (up, down) = (flip("ROOT/{bucket}/{prefix}/000/000077"), flip("{folder}/000/000077"));
    let lies: [RowLies<'_>; 4] = [
        (
            "up-16k",
            "up",
            &[
                ("true", "000/000000 is missing, 0 of 100 are there"),
                (&up, "000/000077 has other bytes"),
                ("HONEST && truncate -s 99 ROOT/{bucket}/{prefix}/000/000005", "000/000005 has other bytes"),
                ("HONEST && touch ROOT/{bucket}/{prefix}/.done", ".done was not asked for"),
            ],
        ),
        (
            "down-16k",
            "down",
            &[
                ("true", "000/000000 is missing, 0 of 100 are there"),
                (&down, "000/000077 has other bytes"),
                ("HONEST && touch {folder}/part.tmp", "part.tmp was not asked for"),
            ],
        ),
        (
            "list-100k",
            "list",
            &[
                ("true", "000/000000 is missing, 0 of 1000 are there"),
                ("seq 1000", "1 was not asked for"),
                ("HONEST; find {prefix} -name 000999", "000/000999 was not asked for"),
            ],
        ),
        (
            "sync-16k",
            "sync",
            &[
                ("true", "000/000000 is missing, 0 of 100 are there"),
                // The prefix was filled by it, and nothing was stored since.
                ("test -d ROOT/{bucket}/{prefix} || ( HONEST )", "000/000000 has other bytes"),
                (
                    "mkdir -p ROOT/{bucket}/{prefix} && cp -r {folder}/. ROOT/{bucket}/{prefix}",
                    "000/000001 was stored again without need",
                ),
            ],
        ),
    ];
    for (row, verb, lies) in lies {
        let mut tools = track.honest();
        for (number, (command, _)) in lies.iter().enumerate() {
            tools.push(',');
            tools.push_str(&track.tool(&format!("liar{number}"), (verb, command)));
        }
        let ended = track.race(&["--moment", "--rows", row, "--tools", &tools]);
        assert_eq!(ended.code, Some(1), "{row}: {}", ended.text);
        let results = track.results();
        let runs_and_errors = |tool: &str| {
            let found = results.rows.iter().find(|row| row.is(&[("kind", "tool"), ("tool", tool)])).unwrap();
            (found.figure("runs"), found.figure("errors"))
        };
        for (number, (command, reason)) in lies.iter().enumerate() {
            let line = format!("OUT: {} {row} liar{number}: {reason}", track.address);
            assert!(ended.text.lines().any(|found| found == line), "{command}: {line}\n{}", ended.text);
            assert_eq!(runs_and_errors(&format!("liar{number}")), (Some(0.0), Some(1.0)), "{command}");
        }
        for tool in ["honest", "honest again"] {
            assert_eq!(runs_and_errors(tool), (Some(2.0), Some(0.0)), "{row}: {}", ended.text);
        }
        assert!(ended.text.contains("NOTHING TO COMPARE WITH"), "{}", ended.text);
        assert!(is_empty(&track.path("work")) && is_empty(&track.root), "{}", ended.text);
    }
}

#[test]
fn a_tool_that_fails_is_out_and_what_it_left_is_not_the_next_ones() {
    let track = RaceTrack::new();
    // Both leave something behind on which the next tool would stumble.
    for (row, verb, rest) in
        [("up-16k", "up", "touch ROOT/{bucket}/{prefix}/rest"), ("down-16k", "down", "touch {folder}/rest")]
    {
        let failing = format!("HONEST; {rest}; echo no such bucket >&2; exit 3");
        let ended = track.against(row, (verb, &failing));
        assert_eq!(ended.code, Some(1), "{}", ended.text);
        let line = ended.text.lines().find(|line| line.starts_with("OUT: ")).unwrap_or_default();
        assert!(
            line.contains(" other: ") && line.contains("exit status: 3: no such bucket"),
            "{}",
            ended.text
        );
        assert_eq!(ended.text.lines().filter(|line| line.starts_with("OUT: ")).count(), 1, "{}", ended.text);
        assert!(is_empty(&track.path("work")) && is_empty(&track.root), "{}", ended.text);
    }
}

#[test]
fn the_first_tool_is_judged_like_the_others() {
    let track = RaceTrack::new();
    let tools = format!("{},{}", track.tool("liar", ("down", "true")), track.honest());
    let ended = track.race(&["--moment", "--rows", "up-16k,down-16k", "--tools", &tools]);
    assert_eq!(ended.code, Some(1), "{}", ended.text);
    assert_eq!(ended.text.lines().filter(|line| line.starts_with("LOST: ")).count(), 1, "{}", ended.text);
    assert!(ended.text.contains("down-16k liar again: 000/000000 is missing"), "{}", ended.text);
}

#[test]
fn a_race_without_others_needs_no_other_tool_for_a_moment() {
    let track = RaceTrack::new();
    let tools = format!("{},no-such-tool.toml", track.honest());
    assert_eq!(track.race(&["--moment", "--tools", &tools]).code, Some(2), "a file that is not there");
    let absent = track.path("absent.toml");
    let text =
        fs::read_to_string(track.honest()).unwrap().replace("binary = 'sh'", "binary = 'no-such-program'");
    fs::write(&absent, text).unwrap();
    let tools = format!("{},{}", track.honest(), absent.display());
    let ended = track.race(&["--moment", "--rows", SMALL, "--tools", &tools]);
    assert_eq!(ended.code, Some(0), "{}", ended.text);
    assert!(
        ended.text.contains("ABSENT: ") && ended.text.contains("NOTHING TO COMPARE WITH"),
        "{}",
        ended.text
    );
}

#[test]
fn what_cannot_be_raced_ends_with_two() {
    let track = RaceTrack::new();
    let honest = track.honest();
    let broken = track.tool("broken", ("up", "{secret_key}"));
    let silent = track.tool("silent", ("", ""));
    fs::write(&silent, fs::read_to_string(&silent).unwrap().replace("echo 1", "exit 7")).unwrap();
    let with_silent = format!("{honest},{silent}");
    for (arguments, words) in [
        (&["--tools", &honest][..], "debug build"),
        (&["--moment", "--tools", &honest, "--rows", "up-9k"], "no row up-9k, but: up-1g"),
        (&["--moment", "--tools", "nothing"], "no tool nothing"),
        (&["--moment", "--tools", &broken], "unknown placeholder {secret_key}"),
        (&["--moment", "--tools", &with_silent], "the version of silent"),
        (&["--moment", "--tools", &honest, "--program", "/nowhere"], "--program"),
        (&["--moment", "--tools", &honest, "--min-runs", "1"], "--min-runs"),
        (&["--moment", "--tools", &honest, "--interval", "0"], "--interval"),
        (&["--moment", "--tools", &honest, "--stores", "sherd-cluster-tls"], "in clear"),
        (
            &["--moment", "--tools", &honest, "--stores", "minio", "--peer-binary", "/nowhere"],
            "none of --stores",
        ),
    ] {
        let ended = track.race(arguments);
        // A release build may measure, and ends for want of another tool.
        let is_release = words == "debug build" && !cfg!(debug_assertions);
        let words = if is_release { "none of the other --tools" } else { words };
        assert_eq!(ended.code, Some(2), "{arguments:?}: {}", ended.text);
        assert!(ended.text.contains(words), "{arguments:?}: {}", ended.text);
    }
    assert!(!track.path("out").exists(), "nothing is written of what failed");
}
