//! Disks that hang in an opening: the other volumes serve, and the one that hung does when it is through.

use std::io;
use std::sync::Weak;

use sherd_volume::disk::{DiskFile, Entry, FileId, FileKeeper, Space};

use super::*;

/// A disk on which calls about one directory last as long as a test holds the lock.
#[derive(Debug)]
struct HangingDisk {
    disk: FaultyDisk,
    under: PathBuf,
    lock: Arc<parking_lot::Mutex<()>>,
}

impl HangingDisk {
    fn reach(&self, path: &Path) -> &FaultyDisk {
        if path.starts_with(&self.under) {
            drop(self.lock.lock());
        }
        &self.disk
    }
}

impl Disk for HangingDisk {
    fn open(&self, path: &Path, mode: OpenMode) -> io::Result<Arc<dyn DiskFile>> {
        self.reach(path).open(path, mode)
    }
    fn create_dir(&self, path: &Path) -> io::Result<()> {
        self.reach(path).create_dir(path)
    }
    fn rename(&self, from: &Path, to: &Path) -> io::Result<()> {
        self.reach(from).rename(from, to)
    }
    fn remove(&self, path: &Path) -> io::Result<()> {
        self.reach(path).remove(path)
    }
    fn list(&self, path: &Path) -> io::Result<Vec<Entry>> {
        self.reach(path).list(path)
    }
    fn sync_dir(&self, path: &Path) -> io::Result<()> {
        self.reach(path).sync_dir(path)
    }
    fn file_id(&self, path: &Path) -> io::Result<FileId> {
        self.reach(path).file_id(path)
    }
    fn names_mark(&self, path: &Path) -> io::Result<u64> {
        self.reach(path).names_mark(path)
    }
    fn lock(&self, path: &Path) -> io::Result<Box<dyn Send + Sync>> {
        self.reach(path).lock(path)
    }
    fn space(&self, path: &Path) -> io::Result<Space> {
        self.reach(path).space(path)
    }
    fn note_keeper(&self, keeper: Weak<dyn FileKeeper>) {
        self.disk.note_keeper(keeper);
    }
}

async fn start_hanging(
    disk: &FaultyDisk,
    lock: &Arc<parking_lot::Mutex<()>>,
    pace: Pace,
) -> (Volumes, LocalPeer) {
    let formation = form(disk, &["/data/a", "/data/b"]);
    let (under, lock) = (formation.volumes[0].1.clone(), Arc::clone(lock));
    let hanging = Arc::new(HangingDisk { disk: disk.clone(), under, lock });
    let index: IndexFactory = Arc::new(|_: &Path| Box::new(Forgetful) as Box<dyn IndexSource>);
    let clock = Arc::new(SystemClock::new());
    let volumes = start_on(hanging, formation, pace, index, small(), clock).await;
    (volumes.clone(), LocalPeer::new(volumes))
}

/// [`start_on`] waits until the volumes are settled, for much longer than the keepers' patience.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_hangs_while_it_opens_keeps_the_others_from_nothing() {
    let disk = new_disk();
    let (volumes, _) = start(&disk, Duration::from_millis(20)).await;
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
    let lock = Arc::new(parking_lot::Mutex::new(()));
    let (held, until) = hold(Arc::clone(&lock));
    let pace = Pace {
        look_every: Duration::from_millis(20),
        stuck_after: Duration::from_millis(300),
        ..Pace::default()
    };
    let (volumes, peer) = start_hanging(&disk, &lock, pace).await;
    let [hung, healthy] = [0, 1].map(|n| Arc::clone(&volumes.all()[n]));
    let is_hung = |state: &VolumeState| matches!(state, VolumeState::Offline { reason } if reason.contains("directory does not answer"));
    assert!(is_hung(&hung.state()), "{:?}", hung.state());
    assert!(matches!(put(&peer, hung.id(), 1).await, Err(message::Error::Unreachable { .. })));
    wait_for(&volumes, &healthy, VolumeState::is_reachable).await;
    healthy.vouch().await.expect("it serves");
    put(&peer, healthy.id(), 1).await.expect("durable");
    assert_eq!((hung.opened_count(), healthy.opened_count()), (0, 1));

    drop(until);
    held.join().expect("it ends");
    wait_for(&volumes, &hung, VolumeState::is_reachable).await;
    hung.vouch().await.expect("it serves");
    put(&peer, hung.id(), 1).await.expect("durable");
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
    for volume in [&hung, &healthy] {
        volume.watch(u64::MAX, Duration::ZERO);
        assert_eq!(volume.state(), VolumeState::Closed);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_hangs_while_it_is_adopted_is_offline_until_it_does_not() {
    let disk = new_disk();
    let lock = Arc::new(parking_lot::Mutex::new(()));
    // The watch looks as rarely: the test does.
    let (volumes, _) = start_hanging(&disk, &lock, only_ordered()).await;
    let volume = Arc::clone(&volumes.all()[0]);
    disk.vanish(volume.path()).expect("unplugged");
    disk.create_dir(volume.path()).expect("another disk");
    volume.look();
    // The log thread that ends may make the keeper look before the test does.
    let is_gone =
        |state: &VolumeState| matches!(state, VolumeState::Offline { .. } | VolumeState::Vacant { .. });
    wait_for(&volumes, &volume, is_gone).await;
    volume.look();
    wait_for(&volumes, &volume, |state| matches!(state, VolumeState::Vacant { .. })).await;
    let_go(&disk, volume.path());
    let (held, until) = hold(Arc::clone(&lock));
    let adopting = tokio::spawn({
        let volume = Arc::clone(&volume);
        async move { volume.adopt(Life(2)).await }
    });
    let hangs = async {
        while !matches!(volume.state(), VolumeState::Offline { .. }) {
            volume.watch(u64::MAX, Duration::from_hours(1));
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(DEADLINE, hangs).await.expect("it is seen to hang");
    drop(until);
    held.join().expect("it ends");
    adopting.await.expect("no panic").expect("adopted");
    wait_for(&volumes, &volume, |state| *state == VolumeState::Recovering).await;
    assert_eq!(volumes.close(DEADLINE).await, Vec::new());
}
