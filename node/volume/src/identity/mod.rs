//! volume.json: identity of the volume, and the reasons to refuse it.
//!
//! The file is JSON of two layers: format version, checksum, and the body that the checksum covers
//! byte by byte. It is replaced as a whole: written beside, synced, renamed, directory synced; so a
//! crash leaves the old one or the new one. A directory without it is never taken for a volume
//! unless it is empty.
//!
//! ```text
//! {"format":1,"checksum":"<blake3 of the body's text, hex>","body":{"cluster":"<hex>",
//!  "volume":"<hex>","incarnation":1,"phase":"formed","topology":{..},"failed":null,
//!  "lost":null}}
//! ```

pub(crate) mod failure;

use std::io::{self, ErrorKind, IoSlice};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use serde_json::value::RawValue;

use sherd_core::id::{ClusterId, Life, VolumeId};

use crate::disk::{Disk, DiskFile, FileId, OpenMode};
use crate::error::{OpenError, SyncFailure};
use crate::limits::{IDENTITY_BYTES_MAX, LOST_RANGES_MAX};

/// The file's name.
pub const FILE_NAME: &str = "volume.json";
/// The lock's name.
pub const LOCK_NAME: &str = "lock";
/// Name of a new version until it is whole.
const NEW_NAME: &str = "volume.json.new";
const LOST_AND_FOUND: &str = "lost+found";
/// The version written and the only one read.
pub const FORMAT: u32 = 1;

/// Identity of a volume, and the facts of its life that must survive every loss.
#[derive(Debug, Clone, PartialEq)]
pub struct Identity {
    /// The cluster that it belongs to.
    pub cluster: ClusterId,
    /// Id of the volume.
    pub volume: VolumeId,
    /// Number of the volume's present life.
    pub life: Life,
    /// Whether its cluster was ever complete.
    pub phase: Phase,
    /// The topology that it adopted last, in the form that the node gives it.
    pub topology: Option<serde_json::Value>,
    /// Why it failed; it stays failed until it is replaced.
    pub failed: Option<String>,
    /// Why this life has not all that was acknowledged before; it does not vote until it has.
    pub lost: Option<String>,
    /// Ranges missing in the log that already cost an earlier life: while the current life is whole they are
    /// not counted as a loss again.
    pub noted_losses: Vec<LostRange>,
}

/// A stretch of a segment that cannot be used.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LostRange {
    /// The segment.
    pub segment: u64,
    /// Where it begins.
    pub offset: u64,
    /// Where it can be used again; none where nothing follows in the segment.
    pub until: Option<u64>,
}

impl LostRange {
    pub(crate) const fn begins(&self, segment: u64, offset: u64) -> bool {
        self.segment == segment && self.offset == offset
    }

    pub(crate) fn has(&self, segment: u64, offset: u64) -> bool {
        let Self { segment: own, offset: from, until } = *self;
        segment == own && offset >= from && until.is_none_or(|until| offset < until)
    }
}

/// How far the cluster is that a volume belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// The first members of the cluster are still being gathered.
    Forming,
    /// The cluster has served; an empty directory in it has lost something.
    Formed,
}

/// The owner that a directory must have; `None` accepts any.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct ExpectedIdentity {
    /// The cluster.
    pub cluster: Option<ClusterId>,
    /// The volume.
    pub volume: Option<VolumeId>,
}

/// The volume's directory is not what was opened any more.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct DirectoryGone {
    /// The reason it was not accepted.
    pub reason: String,
}

/// Why bytes are not a volume.json.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotAnIdentity {
    /// A format that is not known here.
    #[error("format version {version}")]
    Version {
        /// The version in it.
        version: u32,
    },
    /// Not what was written.
    #[error("{what}")]
    Damaged {
        /// How.
        what: String,
    },
}

#[derive(Deserialize)]
struct Format {
    format: u32,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IdentityEnvelope {
    format: u32,
    checksum: String,
    body: Box<RawValue>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct IdentityBody {
    cluster: String,
    volume: String,
    #[serde(rename = "incarnation")]
    life: u32,
    phase: Phase,
    topology: Option<serde_json::Value>,
    failed: Option<String>,
    lost: Option<String>,
    #[serde(rename = "told", default, skip_serializing_if = "Vec::is_empty")]
    noted_losses: Vec<LostRange>,
}

impl Identity {
    /// The file's bytes.
    pub fn encode(&self) -> Vec<u8> {
        let Self { cluster, volume, life, phase, topology, failed, lost, noted_losses } = self;
        let body = IdentityBody {
            cluster: cluster.to_string(),
            volume: volume.to_string(),
            life: life.0,
            phase: *phase,
            topology: topology.clone(),
            failed: failed.clone(),
            lost: lost.clone(),
            noted_losses: noted_losses.iter().copied().take(LOST_RANGES_MAX).collect(),
        };
        let body = serde_json::value::to_raw_value(&body).expect("strings and numbers are JSON");
        let checksum = blake3::hash(body.get().as_bytes()).to_hex().to_string();
        let mut bytes = serde_json::to_vec(&IdentityEnvelope { format: FORMAT, checksum, body })
            .expect("strings and numbers are JSON");
        bytes.push(b'\n');
        bytes
    }

    /// From the file's bytes.
    ///
    /// # Errors
    /// [`NotAnIdentity`] on any other bytes.
    pub fn decode(bytes: &[u8]) -> Result<Self, NotAnIdentity> {
        let damaged = |error: serde_json::Error| NotAnIdentity::Damaged { what: error.to_string() };
        let Format { format } = serde_json::from_slice(bytes).map_err(damaged)?;
        if format != FORMAT {
            return Err(NotAnIdentity::Version { version: format });
        }
        let outer: IdentityEnvelope = serde_json::from_slice(bytes).map_err(damaged)?;
        if blake3::hash(outer.body.get().as_bytes()).to_hex().as_str() != outer.checksum {
            return Err(NotAnIdentity::Damaged { what: "the checksum is another".to_owned() });
        }
        let body: IdentityBody = serde_json::from_str(outer.body.get()).map_err(damaged)?;
        let invalid = |_| NotAnIdentity::Damaged { what: "an id is no id".to_owned() };
        Ok(Self {
            cluster: ClusterId::parse(&body.cluster).map_err(invalid)?,
            volume: VolumeId::parse(&body.volume).map_err(invalid)?,
            life: Life(body.life),
            phase: body.phase,
            topology: body.topology,
            failed: body.failed,
            lost: body.lost,
            noted_losses: body.noted_losses,
        })
    }

    /// Notes why the volume failed, so that it stays failed after a restart. The first reason stays.
    pub fn fail(&mut self, reason: &str) {
        self.failed.get_or_insert_with(|| reason.to_owned());
    }

    fn check(&self, directory: &Path, expected: ExpectedIdentity) -> Result<(), OpenError> {
        let cluster = expected.cluster.unwrap_or(self.cluster);
        let volume = expected.volume.unwrap_or(self.volume);
        if cluster == self.cluster && volume == self.volume {
            return Ok(());
        }
        Err(OpenError::Foreign {
            path: directory.to_path_buf(),
            found: format!("cluster {} volume {}", self.cluster, self.volume),
            expected: format!("cluster {cluster} volume {volume}"),
        })
    }
}

/// The lock on a volume's directory; released when it is dropped.
pub struct VolumeLock(#[expect(dead_code, reason = "held, not read")] Box<dyn Send + Sync>);

impl std::fmt::Debug for VolumeLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("VolumeLock")
    }
}

/// Takes a volume's directory for this process.
///
/// # Errors
/// [`OpenError::InUse`] when another process has it; [`OpenError::Io`].
pub fn lock(disk: &dyn Disk, directory: &Path) -> Result<VolumeLock, OpenError> {
    let path = directory.join(LOCK_NAME);
    disk.lock(&path).map(VolumeLock).map_err(|source| match source.kind() {
        ErrorKind::WouldBlock => OpenError::InUse { path: directory.to_path_buf() },
        _ => OpenError::Io { op: "lock", path, source },
    })
}

/// The volume.json of an open volume.
#[derive(Debug)]
pub struct IdentityFile {
    disk: Arc<dyn Disk>,
    directory: PathBuf,
    state: Mutex<IdentityOnDisk>,
}

#[derive(Debug)]
struct IdentityOnDisk {
    identity: Identity,
    id: FileId,
    /// Held, not read: a filesystem gives the inode of a removed file to the next one it makes, unless the
    /// removed one is open.
    _file: Arc<dyn DiskFile>,
}

impl IdentityFile {
    /// Reads and judges the identity in a directory. `None` when the directory is empty, or holds
    /// only what an empty filesystem or a format that a crash interrupted leaves.
    ///
    /// # Errors
    /// [`OpenError::Foreign`], [`OpenError::Version`], [`OpenError::Damaged`] (also when the file is
    /// missing among others), [`OpenError::Failed`], [`OpenError::Io`].
    pub fn open(
        disk: Arc<dyn Disk>,
        directory: &Path,
        expected: ExpectedIdentity,
    ) -> Result<Option<Self>, OpenError> {
        let path = directory.join(FILE_NAME);
        let io = |op| {
            let path = path.clone();
            move |source| OpenError::Io { op, path, source }
        };
        let damaged = |what: String| OpenError::Damaged { path: path.clone(), what };
        let file = match disk.open(&path, OpenMode::Read) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let entries = disk.list(directory).map_err(io("list"))?;
                let harmless = [LOST_AND_FOUND, LOCK_NAME, NEW_NAME];
                return match entries.iter().find(|entry| !harmless.contains(&entry.name.as_str())) {
                    None => Ok(None),
                    Some(other) => Err(damaged(format!("it is missing, and {} is there", other.name))),
                };
            }
            Err(error) => return Err(io("open")(error)),
        };
        let id = disk.file_id(&path).map_err(io("stat"))?;
        let length = file.length().map_err(io("stat"))?;
        let length = usize::try_from(length).ok().filter(|length| *length as u64 <= IDENTITY_BYTES_MAX);
        let length = length.ok_or_else(|| damaged("it is too long".to_owned()))?;
        let mut bytes = vec![0; length];
        let read = file.read_at(&mut bytes, 0).map_err(io("read"))?;
        bytes.truncate(read);
        let identity = Identity::decode(&bytes).map_err(|error| match error {
            NotAnIdentity::Version { version } => {
                OpenError::Version { path: path.clone(), version, supported: FORMAT }
            }
            NotAnIdentity::Damaged { what } => damaged(what),
        })?;
        identity.check(directory, expected)?;
        if let Some(reason) = identity.failed {
            return Err(OpenError::Failed { path: directory.to_path_buf(), reason });
        }
        let state = Mutex::new(IdentityOnDisk { identity, id, _file: file });
        Ok(Some(Self { disk, directory: directory.to_path_buf(), state }))
    }

    /// Makes an empty directory a volume. This is the first file of a format: what else a volume
    /// needs is made after it.
    ///
    /// # Errors
    /// [`OpenError::Damaged`] when the directory has an identity; [`OpenError::Io`].
    pub fn create(disk: Arc<dyn Disk>, directory: &Path, identity: Identity) -> Result<Self, OpenError> {
        let path = directory.join(FILE_NAME);
        if disk.file_id(&path).is_ok() {
            return Err(OpenError::Damaged { path, what: "it is there already".to_owned() });
        }
        let state = Mutex::new(write(&*disk, directory, identity, None)?);
        Ok(Self { disk, directory: directory.to_path_buf(), state })
    }

    /// Content of the file.
    pub fn identity(&self) -> Identity {
        self.state.lock().identity.clone()
    }

    /// Changes the identity, durably. Another file in its place is left alone.
    ///
    /// # Errors
    /// [`OpenError::Io`]; the file then says the old or the new. `NotFound` where it is another file, or
    /// none.
    pub fn update(&self, change: impl FnOnce(&mut Identity)) -> Result<(), OpenError> {
        let mut state = self.state.lock();
        let mut identity = state.identity.clone();
        change(&mut identity);
        if identity != state.identity {
            *state = write(&*self.disk, &self.directory, identity, Some(state.id))?;
        }
        Ok(())
    }

    /// Whether the directory still holds this very file. Called about each second.
    ///
    /// # Errors
    /// [`DirectoryGone`] when it is removed, replaced, or cannot be asked.
    pub fn still_here(&self) -> Result<(), DirectoryGone> {
        let path = self.directory.join(FILE_NAME);
        let state = self.state.lock();
        match self.disk.file_id(&path) {
            Ok(id) if id == state.id => Ok(()),
            Ok(_) => Err(DirectoryGone { reason: format!("{} was replaced", path.display()) }),
            Err(error) => Err(DirectoryGone { reason: format!("{}: {error}", path.display()) }),
        }
    }
}

/// Writes a new file and puts it in the place of the old one, which must be the one that is replaced.
fn write(
    disk: &dyn Disk,
    directory: &Path,
    identity: Identity,
    replaces: Option<FileId>,
) -> Result<IdentityOnDisk, OpenError> {
    let path = directory.join(FILE_NAME);
    let new = directory.join(NEW_NAME);
    let refused = |op| {
        let path = new.clone();
        move |source| OpenError::Io { op, path, source }
    };
    // A directory that was removed and made again holds another volume, or none: the fate of this one must
    // not be written there.
    let is_still_here = || match replaces {
        Some(old) if disk.file_id(&path)? != old => {
            Err(io::Error::new(ErrorKind::NotFound, "another file is in its place"))
        }
        _ => Ok(()),
    };
    is_still_here().map_err(refused("find"))?;
    match disk.remove(&new) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(refused("remove")(error)),
        _ => {}
    }
    let file: Arc<dyn DiskFile> = disk.open(&new, OpenMode::CreateNew).map_err(refused("create"))?;
    file.write_at(&[IoSlice::new(&identity.encode())], 0).map_err(refused("write"))?;
    // A crash before the rename is durable leaves the old file; the new one was whole before.
    file.sync_data().map_err(SyncFailure::of_a_new_file).map_err(refused("sync"))?;
    is_still_here().map_err(refused("find"))?;
    disk.rename(&new, &path).map_err(refused("rename"))?;
    disk.sync_dir(directory).map_err(refused("sync directory of"))?;
    let id = disk.file_id(&path).map_err(refused("stat"))?;
    Ok(IdentityOnDisk { identity, id, _file: file })
}

#[cfg(test)]
mod tests;
