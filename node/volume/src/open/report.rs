//! The source of an opening's index, and the opening's report.

use std::path::PathBuf;
use std::sync::Arc;

use crate::format::Subject;
use crate::index::{Index, IndexError};

/// Opens a volume's index, and wipes it when it has to be rebuilt.
pub trait IndexSource: Send {
    /// Opens the index, or makes an empty one.
    ///
    /// # Errors
    /// [`IndexError::Damaged`]: it is reset then. [`IndexError::Unavailable`], [`IndexError::Full`]: it is
    /// left alone, and the volume does not open.
    fn open(&mut self) -> Result<Arc<dyn Index>, IndexError>;

    /// Removes the existing files and makes an empty index.
    ///
    /// # Errors
    /// [`IndexError`] when even that fails.
    fn reset(&mut self) -> Result<Arc<dyn Index>, IndexError>;
}

/// Findings of an opening.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct OpenReport {
    /// Records read from the log.
    pub replayed_records: u64,
    /// Whether something that was never acknowledged lay at the end of the log.
    pub torn_tail: bool,
    /// Why the index was rebuilt from the log.
    pub index_rebuilt: Option<String>,
    /// Why the volume is recovering: acknowledged state is gone, now or since an earlier open.
    pub lost_state: Option<String>,
    /// Records whose payload is not what was written, by what they are about: the first ones, where there are
    /// very many.
    pub rotten: Vec<Subject>,
    /// Whether rotten records are left for which there was no room in the queue, or in memory: the next
    /// opening finds them again.
    pub rotten_left: bool,
    /// Files that were named as segments, held none, and were removed.
    pub removed: Vec<RemovedFile>,
    /// How long it took.
    pub took_us: u64,
}

/// A file that an opening took out of the log's directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RemovedFile {
    /// Where it was.
    pub path: PathBuf,
    /// How long it was.
    pub bytes: u64,
    /// Why it is not a part of the log.
    pub why: String,
}
