//! The notes that upkeep keeps of a volume over restarts: `upkeep.json` in its directory.
//!
//! It is not part of what the volume promises: lost or damaged, it only makes upkeep look at things
//! once more. Two layers, as `volume.json`: a checksum, and the body that it covers.

use std::collections::HashMap;
use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;
use tokio::sync::OwnedMutexGuard;

use sherd_core::id::VolumeId;
use sherd_volume::disk::{Disk, OpenMode};

use super::deps::Deps;
use crate::upkeep::limits::PROGRESS_BYTES_MAX;
use crate::volumes::{UPKEEP_FILE as FILE_NAME, UPKEEP_FILE_NEW as NEW_NAME};

/// The version written, and the only one read.
const FORMAT: u32 = 2;

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct VolumeProgress {
    /// Set while shards of a recovered volume are being rebuilt.
    pub(crate) wants_shards: bool,
    /// The scrubber's walk, when it is under way.
    pub(crate) scrub: Option<ScrubProgress>,
    /// The last walk of tombstones.
    pub(crate) sweep: Option<SweepProgress>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct ScrubProgress {
    /// When the pass began, in milliseconds since the Unix epoch.
    pub(crate) began_ms: u64,
    /// Where the walk stands, in the scrubber's own form.
    pub(crate) place: Option<String>,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct SweepProgress {
    /// When the walk began, in milliseconds since the Unix epoch.
    pub(crate) began_ms: u64,
    /// Where it stands, in the sweeper's own form; absent once it ended.
    pub(crate) place: Option<String>,
}

#[derive(Serialize, Deserialize)]
struct ProgressEnvelope {
    format: u32,
    checksum: String,
    body: Box<RawValue>,
}

impl VolumeProgress {
    fn encode(&self) -> Vec<u8> {
        let body = serde_json::value::to_raw_value(self).expect("strings and numbers are JSON");
        let checksum = blake3::hash(body.get().as_bytes()).to_hex().to_string();
        serde_json::to_vec(&ProgressEnvelope { format: FORMAT, checksum, body })
            .expect("strings and numbers are JSON")
    }

    /// `None` for anything that is not whole, or of another version.
    fn decode(bytes: &[u8]) -> Option<Self> {
        let outer: ProgressEnvelope = serde_json::from_slice(bytes).ok()?;
        let checksum = blake3::hash(outer.body.get().as_bytes()).to_hex();
        if outer.format != FORMAT || checksum.as_str() != outer.checksum {
            return None;
        }
        serde_json::from_str(outer.body.get()).ok()
    }

    /// Reads what is remembered in a volume's directory. Where that is not whole the volume's shards are
    /// looked for: they may have been.
    pub(crate) fn load(disk: &dyn Disk, directory: &Path) -> io::Result<Self> {
        let file = match disk.open(&directory.join(FILE_NAME), OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Self::default()),
            Err(error) => return Err(error),
        };
        let length = file.length()?.min(PROGRESS_BYTES_MAX);
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        let read = file.read_at(&mut bytes, 0)?;
        let decoded = Self::decode(bytes.get(..read).unwrap_or_default());
        Ok(decoded.unwrap_or_else(|| Self { wants_shards: true, ..Self::default() }))
    }

    pub(crate) fn store(&self, disk: &dyn Disk, directory: &Path) -> io::Result<()> {
        let (new, path) = (directory.join(NEW_NAME), directory.join(FILE_NAME));
        match disk.remove(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let file = disk.open(&new, OpenMode::CreateNew)?;
        file.write_at(&[IoSlice::new(&self.encode())], 0)?;
        file.sync_data()?;
        disk.rename(&new, &path)?;
        disk.sync_dir(directory)
    }
}

#[derive(Debug)]
pub(crate) struct ProgressFiles {
    deps: Deps,
    /// One change at a time to a volume's.
    locks: Mutex<HashMap<VolumeId, Arc<tokio::sync::Mutex<()>>>>,
}

impl ProgressFiles {
    pub(crate) fn new(deps: &Deps) -> Self {
        Self { deps: deps.clone(), locks: Mutex::default() }
    }

    async fn lock(&self, volume: VolumeId) -> OwnedMutexGuard<()> {
        let lock = Arc::clone(self.locks.lock().entry(volume).or_default());
        lock.lock_owned().await
    }

    /// Reads the notes of a volume of this node.
    pub(crate) async fn read(&self, volume: VolumeId) -> Result<VolumeProgress, String> {
        self.on_volume(volume, |disk, directory| VolumeProgress::load(disk, &directory)).await
    }

    pub(crate) async fn change(
        &self,
        volume: VolumeId,
        change: impl FnOnce(&mut VolumeProgress) + Send + 'static,
    ) -> Result<(), String> {
        let alone = self.lock(volume).await;
        self.on_volume(volume, move |disk, directory| {
            // Held by the work itself: its caller may be gone before it ends.
            let _alone = alone;
            let before = VolumeProgress::load(disk, &directory)?;
            let mut progress = before.clone();
            change(&mut progress);
            if progress == before { Ok(()) } else { progress.store(disk, &directory) }
        })
        .await
    }

    /// Runs blocking work on a volume's directory, on its own write workers.
    async fn on_volume<R: Send + 'static>(
        &self,
        volume: VolumeId,
        work: impl FnOnce(&dyn Disk, PathBuf) -> io::Result<R> + Send + 'static,
    ) -> Result<R, String> {
        let local = self.deps.volumes.get(volume).ok_or("the volume is not on this node")?;
        let serving = local.serving().map_err(|error| error.to_string())?;
        let (disk, directory) = (self.deps.volumes.disk(), local.path().to_owned());
        let (done, wait) = tokio::sync::oneshot::channel();
        serving
            .writes
            .run(move || drop(done.send(work(&*disk, directory))))
            .map_err(|crate::machine::workers::QueueFull| "the volume is busy")?;
        wait.await.map_err(|_| "the volume went away")?.map_err(|error| error.to_string())
    }
}

#[cfg(test)]
mod tests {
    use sherd_volume::disk::real::RealDisk;

    use super::*;

    fn progress() -> VolumeProgress {
        let scrub = ScrubProgress { began_ms: 7, place: Some("ab".to_owned()) };
        let sweep = SweepProgress { began_ms: 9, place: Some("cd".to_owned()) };
        VolumeProgress { wants_shards: true, scrub: Some(scrub), sweep: Some(sweep) }
    }

    #[test]
    fn what_is_remembered_comes_back() {
        assert_eq!(VolumeProgress::decode(&progress().encode()), Some(progress()));
    }

    fn outer(format: u32, body: &str) -> String {
        let checksum = blake3::hash(body.as_bytes()).to_hex();
        format!(r#"{{"format":{format},"checksum":"{checksum}","body":{body}}}"#)
    }

    #[test]
    fn the_bytes_of_format_2_never_change() {
        let scrub = r#"{"began_ms":7,"place":"ab"}"#;
        let body =
            format!(r#"{{"wants_shards":true,"scrub":{scrub},"sweep":{{"began_ms":9,"place":"cd"}}}}"#);
        let wanted = outer(2, &body);
        assert_eq!(String::from_utf8(progress().encode()).expect("JSON is text"), wanted);
        for format in [0, 1, 3] {
            assert_eq!(VolumeProgress::decode(outer(format, &body).as_bytes()), None, "format {format}");
        }
    }

    #[test]
    fn what_is_damaged_is_forgotten() {
        let bytes = progress().encode();
        for at in 0..bytes.len() {
            let mut damaged = bytes.clone();
            damaged[at] ^= 1;
            if let Some(decoded) = VolumeProgress::decode(&damaged) {
                assert_eq!(decoded, progress(), "byte {at}");
            }
        }
    }

    #[test]
    fn what_is_damaged_may_have_wanted_shards() {
        let directory = tempfile::TempDir::new().expect("a directory for tests");
        let load = || VolumeProgress::load(&RealDisk::new(), directory.path()).expect("readable");
        assert!(!load().wants_shards, "nothing was ever remembered");
        progress().store(&RealDisk::new(), directory.path()).expect("stored");
        assert_eq!(load(), progress());
        std::fs::write(directory.path().join(FILE_NAME), "{").expect("written");
        assert_eq!(load(), VolumeProgress { wants_shards: true, ..VolumeProgress::default() });
    }
}
