//! Transfers that break: killed in the middle, cut connections, objects and files that change, a full disk.
//! The tests look at what is left, and how it goes on.

use std::fs;
use std::io::Write as _;
use std::process::{Child, Command, Stdio};

use rustix::process::Signal;

use crate::fixture::{Ended, Sherd, node, noise, same};
use crate::relay::{Relay, Rule, Way};

const MIB: usize = 1 << 20;

/// Kills a command with SIGKILL while the relay holds it.
fn kill_while_held(sherd: &Sherd, relay: &Relay, arguments: &[&str]) {
    let mut child = sherd.command_at(relay.address, arguments).spawn().expect("it was built");
    relay.wait_until_held();
    child.kill().expect("it runs");
    assert_eq!(child.wait().expect("it ended").code(), None, "it was killed");
    relay.pass();
}

#[test]
fn an_upload_that_was_killed_goes_on() {
    let sherd = Sherd::new();
    let file = sherd.write("big", noise(200 * MIB, 1));
    let relay = Relay::new(Way::Up, Rule::Hold { bytes: 100 * MIB as u64 });
    let copy = ["cp", &file, &sherd.url("big"), "--workers", "4"];
    kill_while_held(&sherd, &relay, &copy);
    assert_eq!((sherd.uploads().len(), sherd.journals().len()), (1, 1), "it is left to the next run");
    assert_eq!(sherd.run(&["stat", &sherd.url("big")]).code, Some(3), "nothing has the final name");
    let ended = Ended::of(sherd.command_at(relay.address, &copy).output().expect("it runs"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let sent = relay.passed();
    assert!(sent < 160 * MIB as u64, "{sent} bytes went up again");
    assert_eq!((sherd.uploads(), sherd.journals()), (vec![], vec![]));
    sherd.ok(&["cp", &sherd.url("big"), &sherd.text("back")]);
    assert!(same(&sherd.path("big"), &sherd.path("back")));
}

#[test]
fn a_download_that_was_killed_goes_on() {
    let sherd = Sherd::new();
    let file = sherd.write("big", noise(120 * MIB, 2));
    sherd.ok(&["cp", &file, &sherd.url("big")]);
    let relay = Relay::new(Way::Down, Rule::Hold { bytes: 60 * MIB as u64 });
    let copy = ["cp", &sherd.url("big"), &sherd.text("down/back"), "--workers", "4"];
    kill_while_held(&sherd, &relay, &copy);
    let left = sherd.files("down");
    assert!(left.len() == 1 && left[0].starts_with(".sherd-") && sherd.journals().len() == 1, "{left:?}");
    let ended = Ended::of(sherd.command_at(relay.address, &copy).output().expect("it runs"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    let received = relay.passed();
    assert!(received < 100 * MIB as u64, "{received} bytes came down again");
    assert_eq!((sherd.files("down"), sherd.journals()), (vec!["back".to_owned()], vec![]));
    assert!(same(&sherd.path("big"), &sherd.path("down/back")));
}

#[test]
fn bodies_that_break_go_on_at_the_byte() {
    let sherd = Sherd::new();
    let file = sherd.write("file", noise(12 * MIB, 3));
    sherd.ok(&["cp", &file, &sherd.url("file")]);
    let relay = Relay::new(Way::Down, Rule::Cut { bytes: 3 * MIB as u64, times: 3 });
    let back = sherd.text("back");
    let ended =
        sherd.command_at(relay.address, &["cp", &sherd.url("file"), &back]).output().expect("it runs");
    assert_eq!(Ended::of(ended).code, Some(0));
    assert!(same(&sherd.path("file"), &sherd.path("back")));
    let received = relay.passed();
    assert!(received < 14 * MIB as u64, "{received} bytes came for 12 MiB");
}

#[test]
fn requests_that_break_are_sent_again() {
    let sherd = Sherd::new();
    let file = sherd.write("file", noise(30 * MIB, 4));
    let relay = Relay::new(Way::Up, Rule::Cut { bytes: 2 * MIB as u64, times: 4 });
    let copy = ["cp", &file, &sherd.url("file"), "--part-size", "6MiB"];
    let ended = Ended::of(sherd.command_at(relay.address, &copy).output().expect("it runs"));
    assert_eq!(ended.code, Some(0), "{ended:?}");
    assert_eq!(sherd.uploads(), []);
    sherd.ok(&["cp", &sherd.url("file"), &sherd.text("back")]);
    assert!(same(&sherd.path("file"), &sherd.path("back")));
}

#[test]
fn an_object_overwritten_during_its_download_is_an_error_and_no_file() {
    let sherd = Sherd::new();
    let file = sherd.write("file", noise(40 * MIB, 5));
    sherd.ok(&["cp", &file, &sherd.url("file")]);
    let relay = Relay::new(Way::Down, Rule::Hold { bytes: 10 * MIB as u64 });
    let copy = ["cp", &sherd.url("file"), &sherd.text("down/back"), "--workers", "1"];
    let child = sherd.command_at(relay.address, &copy).spawn().expect("it was built");
    relay.wait_until_held();
    let other = sherd.write("other", noise(40 * MIB, 6));
    sherd.ok(&["cp", &other, &sherd.url("file")]);
    relay.pass();
    let ended = Ended::of(child.wait_with_output().expect("it ends"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("was overwritten while it was read"), "{ended:?}");
    assert_eq!((sherd.files("down"), sherd.journals()), (vec![], vec![]));
}

#[test]
fn a_file_that_changes_during_its_upload_is_not_stored() {
    let sherd = Sherd::new();
    let file = sherd.write("file", noise(40 * MIB, 7));
    let relay = Relay::new(Way::Up, Rule::Hold { bytes: 10 * MIB as u64 });
    let copy = ["cp", &file, &sherd.url("file"), "--workers", "1"];
    let child = sherd.command_at(relay.address, &copy).spawn().expect("it was built");
    relay.wait_until_held();
    fs::write(&file, noise(39 * MIB, 8)).expect("it shrinks");
    relay.pass();
    let ended = Ended::of(child.wait_with_output().expect("it ends"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("changed while it was read"), "{ended:?}");
    assert_eq!(sherd.run(&["stat", &sherd.url("file")]).code, Some(3));
    assert_eq!((sherd.uploads(), sherd.journals()), (vec![], vec![]), "no upload is left behind");
}

fn send(signal: Signal, child: &Child) {
    rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).expect("it runs");
}

#[test]
fn an_interrupt_removes_what_was_under_way() {
    let sherd = Sherd::new();
    let file = sherd.write("file", noise(40 * MIB, 9));
    sherd.ok(&["cp", &file, &sherd.url("there")]);
    for (signal, code) in [(Signal::INT, 130), (Signal::TERM, 143)] {
        for (way, source, target) in
            [(Way::Up, &file, &sherd.url("file")), (Way::Down, &sherd.url("there"), &sherd.text("down/back"))]
        {
            let relay = Relay::new(way, Rule::Hold { bytes: 10 * MIB as u64 });
            let child =
                sherd.command_at(relay.address, &["cp", source, target]).spawn().expect("it was built");
            relay.wait_until_held();
            send(signal, &child);
            relay.pass();
            let ended = Ended::of(child.wait_with_output().expect("it ends"));
            assert_eq!((ended.code, ended.err.as_str()), (Some(code), ""), "{ended:?}");
            assert_eq!((sherd.uploads(), sherd.journals()), (vec![], vec![]));
            assert_eq!(sherd.files("down"), [""; 0]);
        }
    }
}

#[test]
fn an_interrupt_does_not_wait_for_standard_input() {
    let sherd = Sherd::new();
    let relay = Relay::new(Way::Up, Rule::Hold { bytes: MIB as u64 });
    let mut command = sherd.command_at(relay.address, &["pipe", &sherd.url("k")]);
    let mut child = command.stdin(Stdio::piped()).spawn().expect("it was built");
    let mut input = child.stdin.take().expect("piped");
    input.write_all(&noise(9 * MIB, 11)).expect("it reads");
    relay.wait_until_held();
    send(Signal::INT, &child);
    relay.pass();
    let ended = Ended::of(child.wait_with_output().expect("it ends"));
    assert_eq!(ended.code, Some(130), "{ended:?}");
    assert_eq!(sherd.uploads(), []);
    drop(input);
}

#[test]
fn an_output_without_a_reader_ends_the_command_quietly() {
    let sherd = Sherd::new();
    let file = sherd.write("file", noise(4 * MIB, 12));
    sherd.ok(&["cp", &file, &sherd.url("file")]);
    for arguments in [vec!["cat", &sherd.url("file")], vec!["ls", &sherd.url(""), "-r"]] {
        let mut child = sherd.command(&arguments).spawn().expect("it was built");
        drop(child.stdout.take());
        let ended = Ended::of(child.wait_with_output().expect("it ends"));
        assert_eq!((ended.code, ended.err.as_str()), (Some(141), ""), "{arguments:?}");
    }
}

#[test]
fn a_transfer_that_cannot_begin_leaves_no_journal() {
    let sherd = Sherd::new();
    let file = sherd.write("file", noise(20 * MIB, 13));
    assert_eq!(sherd.run(&["cp", &file, "s3://no-such-bucket/k"]).code, Some(3));
    sherd.ok(&["cp", &file, &sherd.url("file")]);
    let ended = sherd.run(&["cp", &sherd.url("file"), "/proc/none/file"]);
    assert_ne!(ended.code, Some(0), "{ended:?}");
    assert_eq!(sherd.journals(), [""; 0]);
}

/// A limit of the size of files stands for a full disk: reserving room and writing fail at once.
#[test]
fn a_full_disk_is_an_error_and_leaves_no_file() {
    let sherd = Sherd::new();
    let (small, large) = (sherd.write("t/a", "a"), sherd.write("t/b", noise(20 * MIB, 10)));
    sherd.ok(&["cp", &small, &large, &sherd.url("t/")]);
    let copy = sherd.command(&["cp", "-r", &sherd.url("t"), &sherd.text("down")]);
    let script = "trap '' XFSZ; ulimit -f 2000; exec \"$0\" \"$@\"";
    let mut limited = Command::new("/bin/sh");
    limited.arg("-c").arg(script).arg(copy.get_program()).args(copy.get_args());
    limited.envs(copy.get_envs().filter_map(|(name, value)| Some((name, value?))));
    let ended = Ended::of(limited.output().expect("there is a shell"));
    assert_eq!(ended.code, Some(1), "{ended:?}");
    assert!(ended.err.contains("down/b"), "{ended:?}");
    assert_eq!(sherd.files("down"), ["a"], "the rest went on");
}

#[test]
fn an_endpoint_that_is_gone_has_an_exit_code_of_its_own() {
    let sherd = Sherd::new();
    let closed = "127.0.0.1:1".parse().expect("an address");
    let ended = sherd.command_at(closed, &["ls", "s3://b", "--attempts", "2"]).output().expect("it runs");
    let ended = Ended::of(ended);
    assert_eq!(ended.code, Some(5), "{ended:?}");
    assert!(ended.err.contains("in 2 attempts"), "{ended:?}");
    assert_ne!(node(), closed);
}
