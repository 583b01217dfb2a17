//! A side of a copy or comparison: the files below a folder or the objects below a prefix, in the order of
//! their names.

use std::fs;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::time::SystemTime;

use tokio::sync::mpsc;

use crate::client::Client;
use crate::error::{Error, NameFault};
use crate::limits::ENTRIES_AHEAD_MAX;
use crate::local::path::{key_of, path_of};
use crate::local::walk::Walk;
use crate::s3::listing::{ListEntry, ListQuery};
use crate::s3::objects::ObjectName;
use crate::transfer::job::JobEnd;

/// A folder, or all keys with a prefix.
#[derive(Debug, Clone)]
pub(crate) enum Side {
    Folder(PathBuf),
    Prefix {
        client: Client,
        scheme: String,
        bucket: String,
        /// Empty, or with a slash at its end.
        prefix: String,
    },
}

/// A file or object of a side.
#[derive(Debug, Clone)]
pub(crate) struct SideEntry {
    /// Below the folder or behind the prefix.
    pub(crate) name: String,
    pub(crate) bytes: u64,
    pub(crate) modified: Option<SystemTime>,
    /// Of an object.
    pub(crate) etag: Option<String>,
    pub(crate) end: JobEnd,
    /// Of a file: whether a link leads to it, away from the folder.
    pub(crate) is_behind_link: bool,
}

impl SideEntry {
    /// Whether it is an object that stands for a folder.
    pub(crate) fn is_folder(&self) -> bool {
        self.name.is_empty() || self.name.ends_with('/')
    }
}

/// Entries in the order of their names. Behind an error of a folder others follow.
pub(crate) type SideEntries = mpsc::Receiver<Result<SideEntry, Error>>;

impl Side {
    /// Lists the side, ahead of the reader.
    pub(crate) fn entries(&self) -> SideEntries {
        let (sender, receiver) = mpsc::channel(ENTRIES_AHEAD_MAX);
        match self {
            Self::Folder(root) => {
                let root = root.clone();
                tokio::task::spawn_blocking(move || {
                    for file in Walk::new(&root) {
                        let entry = file.map(|file| SideEntry {
                            name: file.name,
                            bytes: file.bytes,
                            modified: file.modified,
                            etag: None,
                            end: JobEnd::File(file.path),
                            is_behind_link: file.is_behind_link,
                        });
                        if sender.blocking_send(entry).is_err() {
                            return;
                        }
                    }
                });
            }
            Self::Prefix { client, scheme, bucket, prefix } => {
                let query = ListQuery { bucket: bucket.clone(), prefix: prefix.clone(), is_by_folder: false };
                let mut entries = client.list(query);
                let (client, scheme, bucket) = (client.clone(), scheme.clone(), bucket.clone());
                let prefix_bytes = prefix.len();
                let spawner = client.clone();
                spawner.spawn(async move {
                    while let Some(entry) = entries.recv().await {
                        let entry = match entry {
                            Ok(ListEntry::Object(object)) => Ok(SideEntry {
                                name: object.key.get(prefix_bytes..).unwrap_or_default().to_owned(),
                                bytes: object.bytes,
                                modified: object.modified,
                                etag: Some(object.etag),
                                end: JobEnd::Object {
                                    client: client.clone(),
                                    object: ObjectName { bucket: bucket.clone(), key: object.key },
                                    scheme: scheme.clone(),
                                },
                                is_behind_link: false,
                            }),
                            Ok(ListEntry::Prefix(_)) => continue,
                            Err(error) => Err(error),
                        };
                        if sender.send(entry).await.is_err() {
                            return;
                        }
                    }
                });
            }
        }
        receiver
    }

    /// Lists the side that a copy goes to, as [`Self::entries`]: a folder that is not there yet is empty.
    pub(crate) fn entries_of_target(&self) -> SideEntries {
        match self {
            Self::Folder(root)
                if fs::symlink_metadata(root).is_err_and(|error| error.kind() == ErrorKind::NotFound) =>
            {
                mpsc::channel(ENTRIES_AHEAD_MAX).1
            }
            _ => self.entries(),
        }
    }

    /// The place of a name on this side.
    pub(crate) fn end(&self, name: &str) -> Result<JobEnd, Error> {
        match self {
            Self::Folder(root) => Ok(JobEnd::File(path_of(root, name)?)),
            Self::Prefix { client, scheme, bucket, prefix } => Ok(JobEnd::Object {
                client: client.clone(),
                object: ObjectName { bucket: bucket.clone(), key: key_of(prefix, name)? },
                scheme: scheme.clone(),
            }),
        }
    }

    /// Whether names of this side are below the other one, as names of it.
    pub(crate) fn is_below(&self, other: &Self) -> bool {
        match (self, other) {
            (
                Self::Prefix { client, bucket, prefix, .. },
                Self::Prefix { client: of, bucket: other_bucket, prefix: other_prefix, .. },
            ) => {
                client.is_same_service(of)
                    && bucket == other_bucket
                    && prefix.starts_with(other_prefix.as_str())
            }
            (Self::Folder(_) | Self::Prefix { .. }, Self::Folder(_))
            | (Self::Folder(_), Self::Prefix { .. }) => false,
        }
    }

    /// Whether a copy at this end would be an entry of this side.
    pub(crate) fn contains(&self, end: &JobEnd) -> bool {
        match (self, end) {
            (Self::Prefix { client, bucket, prefix, .. }, JobEnd::Object { client: of, object, .. }) => {
                client.is_same_service(of) && *bucket == object.bucket && object.key.starts_with(prefix)
            }
            (Self::Prefix { .. } | Self::Folder(_), _) => false,
        }
    }

    /// Whether an entry of another side can be on this one; nothing for one that is left out silently: an
    /// object that stands for a folder, which is made with its first file.
    pub(crate) fn admits(&self, entry: &SideEntry) -> Option<Result<(), Error>> {
        match self {
            Self::Folder(_) if entry.is_folder() && entry.bytes == 0 => None,
            Self::Folder(_) if entry.is_folder() => {
                Some(Err(Error::name(entry.end.to_string(), NameFault::FolderWithBytes)))
            }
            Self::Folder(_) | Self::Prefix { .. } => Some(Ok(())),
        }
    }
}
