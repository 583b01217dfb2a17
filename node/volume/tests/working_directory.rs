//! A process whose working directory was removed. The directory is the whole process's, so this story stands
//! in a file of its own.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on fails")]

use std::path::Path;

use bytes::Bytes;

use sherd_core::id::Sequence;
use sherd_volume::index::lsm::{IndexCache, LsmIndex};
use sherd_volume::index::{Change, Index as _, IndexError};

fn open(directory: &Path) -> Result<LsmIndex, IndexError> {
    LsmIndex::open(directory, &IndexCache::new(1 << 20, 16))
}

#[test]
fn an_index_is_left_alone_while_the_process_has_no_working_directory() {
    let (volume, removed) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let directory = volume.path().join("index");
    let index = open(&directory).unwrap();
    let (key, value) = (Bytes::from_static(b"key"), Bytes::from_static(b"value"));
    index.apply(vec![Change::Put { key, value: value.clone() }], Sequence(1)).unwrap();
    index.flush().unwrap();
    drop(index);

    std::env::set_current_dir(removed.path()).unwrap();
    removed.close().unwrap();
    let refused = open(&directory).unwrap_err();
    assert!(matches!(refused, IndexError::Unavailable { .. }), "its files are well: {refused}");

    std::env::set_current_dir("/").unwrap();
    assert_eq!(open(&directory).unwrap().get(b"key").unwrap(), Some(value));
}
