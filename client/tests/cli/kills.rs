//! A tree and a large file go up and down, each way killed in its midst and started again: every byte is
//! there, and nothing else.

use std::io::Write as _;

use crate::fixture::{Ended, Sherd, noise, same};
use crate::relay::{Relay, Rule, Way};

const MIB: u64 = 1 << 20;

/// The files that go up and down.
struct Tree {
    files: u64,
    file_bytes: u64,
    large_bytes: u64,
}

impl Tree {
    const fn bytes(&self) -> u64 {
        self.files * self.file_bytes + self.large_bytes
    }

    fn write(&self, sherd: &Sherd) {
        for index in 0..self.files {
            let content = noise(usize::try_from(self.file_bytes).expect("small"), index);
            sherd.write(&format!("t/{}/{index}", index % 50), content);
        }
        // First by its name, so that it is under way beside the others.
        let mut large = std::fs::File::create(sherd.path("t/0-large")).expect("a file");
        for index in 0..self.large_bytes / MIB {
            large.write_all(&noise(1 << 20, 1_000_000 + index)).expect("room on the disk");
        }
    }

    /// Runs a copy through a relay, kills it behind the middle, and runs it again. Returns the bytes that
    /// went the relay's way the second time.
    fn copied_in_two_runs(&self, sherd: &Sherd, way: Way, copy: &[&str]) -> u64 {
        let bytes = self.files * self.file_bytes + self.large_bytes / 2;
        let relay = Relay::new(way, Rule::Hold { bytes });
        let mut child = sherd.command_at(relay.address, copy).spawn().expect("it was built");
        relay.wait_until_held();
        child.kill().expect("it runs");
        assert_eq!(child.wait().expect("it ended").code(), None, "it was killed");
        assert_eq!(sherd.journals().len(), 1, "the large file goes on");
        relay.pass();
        let ended = Ended::of(sherd.command_at(relay.address, copy).output().expect("it runs"));
        assert_eq!(ended.code, Some(0), "{ended:?}");
        assert_eq!((sherd.uploads(), sherd.journals()), (vec![], vec![]));
        relay.passed()
    }

    fn go_up_and_down(&self) {
        let sherd = Sherd::new();
        self.write(&sherd);
        let (folder, url, back) = (sherd.text("t"), sherd.url("p"), sherd.text("back"));
        let up = ["cp", "-r", &folder, &url, "--quiet", "--workers", "4"];
        let again = self.copied_in_two_runs(&sherd, Way::Up, &up);
        assert!(again < self.bytes(), "{again} of {} bytes went up again", self.bytes());
        let down = ["cp", "-r", &url, &back, "--quiet", "--workers", "4"];
        let again = self.copied_in_two_runs(&sherd, Way::Down, &down);
        assert!(again < self.bytes(), "{again} of {} bytes came down again", self.bytes());
        let files = sherd.files("t");
        assert_eq!(files.len() as u64, self.files + 1);
        assert_eq!(sherd.files("back"), files);
        for name in files {
            assert!(same(&sherd.path("t").join(&name), &sherd.path("back").join(&name)), "{name}");
        }
    }
}

#[test]
fn a_tree_that_is_killed_on_both_ways_arrives_whole() {
    Tree { files: 200, file_bytes: 16 << 10, large_bytes: 120 * MIB }.go_up_and_down();
}

#[test]
#[ignore = "writes six gigabytes"]
fn a_large_tree_that_is_killed_on_both_ways_arrives_whole() {
    Tree { files: 5_000, file_bytes: 16 << 10, large_bytes: 2_048 * MIB }.go_up_and_down();
}
