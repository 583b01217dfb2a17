//! The index of a volume's directory, as production opens it: one LSM tree in `index/`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use sherd_volume::index::lsm::{IndexCache, LsmIndex};
use sherd_volume::index::{Index, IndexError};
use sherd_volume::open::IndexSource;

use super::config::IndexFactory;

pub(crate) const DIRECTORY: &str = "index";

/// Opens LSM trees that share one cache.
pub fn lsm_indexes(cache: IndexCache) -> IndexFactory {
    Arc::new(move |volume: &Path| {
        Box::new(LsmSource { directory: volume.join(DIRECTORY), cache: cache.clone() })
            as Box<dyn IndexSource>
    })
}

struct LsmSource {
    directory: PathBuf,
    cache: IndexCache,
}

impl IndexSource for LsmSource {
    fn open(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        Ok(Arc::new(LsmIndex::open(&self.directory, &self.cache)?))
    }

    fn reset(&mut self) -> Result<Arc<dyn Index>, IndexError> {
        LsmIndex::remove(&self.directory)?;
        self.open()
    }
}
