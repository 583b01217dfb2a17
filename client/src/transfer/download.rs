//! An object to a file: one request, or ranges of one version with a journal.
//!
//! The file has a temporary name until all of it is there and its checksum is that of the object. Ranges that
//! an earlier run left are read again before they count.

use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio_util::task::TaskTracker;

use super::engine::{Engine, blocking, run_parts};
use super::fetch::{FetchPart, Sink, fetch, verify};
use super::journal::{Journal, JournalContent, JournalName, JournalPart};
use super::plan::{PartPlan, PlannedPart};
use crate::checksum::{Checksum, ChecksumAlgorithm, Summer};
use crate::client::Client;
use crate::error::Error;
use crate::limits::FRAME_BYTES;
use crate::local::target::TargetFile;
use crate::s3::objects::{ObjectInfo, ObjectName, ObjectRange};

/// The subject of a download's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct DownloadSubject {
    etag: String,
    bytes: u64,
    part_bytes: u64,
    algorithm: String,
}

/// Writes a body into a file from an offset on.
struct FileSink {
    file: Arc<TargetFile>,
    offset: u64,
    /// Counts the writes that hold the file: they go on when the task that began them is dropped.
    writes: TaskTracker,
}

impl Sink for FileSink {
    async fn write(&mut self, at: u64, bytes: Bytes) -> Result<(), Error> {
        let (file, at) = (Arc::clone(&self.file), self.offset + at);
        match self.writes.spawn_blocking(move || file.write(at, &bytes)).await {
            Ok(written) => written,
            Err(error) => std::panic::resume_unwind(error.into_panic()),
        }
    }
}

impl Engine {
    /// Downloads an object. `bytes` is its size as far as it is known. Returns what was read.
    pub(crate) async fn download(
        &self,
        client: &Client,
        object: &ObjectName,
        path: &Path,
        bytes: Option<u64>,
    ) -> Result<ObjectInfo, Error> {
        if let Some(bytes) = bytes
            && self.plan(bytes)?.parts == 1
        {
            return self.download_whole(client, object, path).await;
        }
        let info = {
            let _place = self.place().await;
            client.head(object).await?
        };
        let plan = self.plan(info.bytes)?;
        if plan.parts == 1 {
            return self.download_whole(client, object, path).await;
        }
        self.download_parts(client, object, path, &info, plan).await?;
        Ok(info)
    }

    async fn download_whole(
        &self,
        client: &Client,
        object: &ObjectName,
        path: &Path,
    ) -> Result<ObjectInfo, Error> {
        let opened = path.to_owned();
        let file = blocking(move || {
            let file = TargetFile::open(&opened)?;
            file.reserve(0).map(|()| file)
        });
        let writes = TaskTracker::new();
        let mut sink = FileSink { file: Arc::new(file.await?), offset: 0, writes };
        let fetched = fetch(self, client, object, FetchPart::Whole, &mut sink).await?;
        let is_durable = self.settings().is_durable;
        commit(sink.file, fetched.info.modified, is_durable).await?;
        Ok(fetched.info)
    }

    async fn download_parts(
        &self,
        client: &Client,
        object: &ObjectName,
        path: &Path,
        info: &ObjectInfo,
        plan: PartPlan,
    ) -> Result<(), Error> {
        let algorithm =
            info.checksum.as_ref().map_or(ChecksumAlgorithm::Crc64Nvme, |(algorithm, _)| *algorithm);
        let opened = path.to_owned();
        let file = Arc::new(blocking(move || TargetFile::open(&opened)).await?);
        let subject = DownloadSubject {
            etag: info.etag.clone(),
            bytes: plan.bytes,
            part_bytes: plan.part_bytes,
            algorithm: algorithm.name().to_owned(),
        };
        let opened = self.open_download(client, object, path).await;
        let (mut journal, left) = opened.map_or((None, None), |(journal, left)| (Some(journal), left));
        let left = left.filter(|left| left.subject == subject).map_or_else(Vec::new, |left| left.parts);
        let mut done = {
            let file = Arc::clone(&file);
            blocking(move || verified_parts(&file, left, plan, algorithm)).await
        };
        if done.is_empty() {
            let file = Arc::clone(&file);
            blocking(move || file.reserve(plan.bytes)).await?;
            if journal.as_mut().is_some_and(|journal| journal.begin(&subject).is_err()) {
                journal = None;
            }
        }
        let resumed: u64 = done.iter().map(|(_, checksum)| checksum.bytes).sum();
        self.progress().meter().add(usize::try_from(resumed).unwrap_or(usize::MAX));
        let missing: Vec<PlannedPart> =
            plan.parts().filter(|part| done.iter().all(|(number, _)| *number != part.number)).collect();
        let writes = TaskTracker::new();
        let ran = {
            let read = |part: PlannedPart| {
                let (engine, client, object) = (self.clone(), client.clone(), object.clone());
                let (file, etag, writes) = (Arc::clone(&file), info.etag.clone(), writes.clone());
                async move {
                    let range = ObjectRange { offset: part.offset, bytes: part.bytes, etag };
                    let mut sink = FileSink { file, offset: part.offset, writes };
                    let part_of = FetchPart::Range(range, algorithm);
                    let fetched = fetch(&engine, &client, &object, part_of, &mut sink).await?;
                    Ok((part.number, fetched.checksum))
                }
            };
            run_parts(missing.into_iter(), plan.in_flight, read, |(number, checksum): (u64, Checksum)| {
                if let Some(journal) = &mut journal {
                    let line = JournalPart {
                        number,
                        etag: String::new(),
                        checksum: checksum.value,
                        bytes: checksum.bytes,
                    };
                    // Without the line the range is read again after a crash.
                    let _read_again = journal.record(&line);
                }
                done.push((number, checksum));
                Ok(())
            })
            .await
        };
        writes.close();
        writes.wait().await;
        done.sort_unstable_by_key(|(number, _)| *number);
        let whole = done.iter().map(|(_, checksum)| *checksum).reduce(Checksum::followed_by);
        let ended = match (ran, whole) {
            (Ok(()), Some(whole)) => verify(object, info, whole),
            (ran, _) => ran,
        };
        end_download(file, journal, ended, info.modified).await
    }

    async fn open_download(
        &self,
        client: &Client,
        object: &ObjectName,
        path: &Path,
    ) -> Option<(Journal, Option<JournalContent<DownloadSubject>>)> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let endpoint = client.account().endpoint.url();
        let name = JournalName::of([
            b"download".as_slice(),
            path.as_os_str().as_bytes(),
            endpoint.as_bytes(),
            object.bucket.as_bytes(),
            object.key.as_bytes(),
        ]);
        let folder = self.settings().state.clone()?;
        blocking(move || Journal::open(&folder, &name)).await
    }
}

/// Gives a file its name, or removes it. Where the service is out of reach, file and journal stay for a later
/// run.
async fn end_download(
    file: Arc<TargetFile>,
    journal: Option<Journal>,
    ended: Result<(), Error>,
    modified: Option<SystemTime>,
) -> Result<(), Error> {
    match ended {
        Ok(()) => commit(file, modified, true).await?,
        Err(error @ Error::NoAnswer { .. }) if journal.is_some() => {
            Arc::into_inner(file).expect("the tasks of the ranges have ended").keep();
            return Err(error);
        }
        Err(error) => {
            if let Some(journal) = journal {
                journal.remove();
            }
            return Err(error);
        }
    }
    if let Some(journal) = journal {
        journal.remove();
    }
    Ok(())
}

async fn commit(file: Arc<TargetFile>, modified: Option<SystemTime>, is_durable: bool) -> Result<(), Error> {
    let file = Arc::into_inner(file).expect("the tasks of the ranges have ended");
    blocking(move || file.commit(modified, is_durable)).await
}

/// The parts of a journal whose bytes are in the file. Blocks.
fn verified_parts(
    file: &TargetFile,
    lines: Vec<JournalPart>,
    plan: PartPlan,
    algorithm: ChecksumAlgorithm,
) -> Vec<(u64, Checksum)> {
    if lines.is_empty() || file.len().ok() != Some(plan.bytes) {
        return Vec::new();
    }
    let mut buffer = vec![0; FRAME_BYTES];
    let mut found: Vec<(u64, Checksum)> = Vec::new();
    for line in lines {
        let planned = plan.parts().nth(usize::try_from(line.number.wrapping_sub(1)).unwrap_or(usize::MAX));
        let Some(part) = planned.filter(|part| part.bytes == line.bytes) else { continue };
        let mut summer = Summer::new(algorithm);
        let mut at = 0;
        while at < part.bytes {
            let bytes = usize::try_from(part.bytes - at).map_or(FRAME_BYTES, |left| left.min(FRAME_BYTES));
            let Some(frame) = buffer.get_mut(..bytes) else { break };
            if file.read(part.offset + at, frame).is_err() {
                break;
            }
            summer.update(frame);
            at += bytes as u64;
        }
        let checksum = summer.finish();
        let is_new = found.iter().all(|(number, _)| *number != line.number);
        if is_new && checksum.bytes == line.bytes && checksum.value == line.checksum {
            found.push((line.number, checksum));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_ranges_whose_bytes_are_there_are_done() {
        let folder = tempfile::tempdir().unwrap();
        let file = TargetFile::open(&folder.path().join("a")).unwrap();
        let plan = PartPlan::new(11 << 20, 4, Some(5 << 20)).expect("three parts");
        let algorithm = ChecksumAlgorithm::Crc64Nvme;
        file.reserve(plan.bytes).unwrap();
        file.write(0, &vec![1; 5 << 20]).unwrap();
        let line = |number, content: u8, bytes: usize| JournalPart {
            number,
            etag: String::new(),
            checksum: Checksum::of(algorithm, &vec![content; bytes]).value,
            bytes: bytes as u64,
        };
        let lines = [line(1, 1, 5 << 20), line(2, 1, 5 << 20), line(3, 0, 1 << 20), line(9, 1, 5 << 20)];
        let numbers = |lines: &[JournalPart]| {
            let found = verified_parts(&file, lines.to_vec(), plan, algorithm);
            found.into_iter().map(|(number, _)| number).collect::<Vec<_>>()
        };
        assert_eq!(numbers(&lines), [1, 3], "part 2 never reached the disk, and there is no part 9");
        assert_eq!(numbers(&[line(1, 1, 5 << 20), line(1, 1, 5 << 20)]), [1]);
        file.reserve(plan.bytes - 1).unwrap();
        assert_eq!(numbers(&lines), [0; 0], "the file is of another length");
    }
}
