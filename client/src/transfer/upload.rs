//! A file to an object: one request, or parts with a journal.
//!
//! Each body's CRC64NVME is computed before it is sent, so that the service refuses what changed in between;
//! those of the parts make the one of the object, by which the upload is completed.

use std::collections::HashMap;
use std::os::unix::ffi::OsStrExt as _;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::engine::{Engine, blocking, run_parts};
use super::journal::{Journal, JournalName, JournalPart};
use super::plan::{PartPlan, PlannedPart};
use crate::checksum::{Checksum, ChecksumAlgorithm};
use crate::client::Client;
use crate::error::Error;
use crate::limits::WHOLE_BYTES_MAX;
use crate::payload::{FileRange, FileStamp, Payload, SourceFile};
use crate::s3::objects::{ObjectAttributes, ObjectName};
use crate::s3::uploads::{StoredPart, Upload, abort};

const ALGORITHM: ChecksumAlgorithm = ChecksumAlgorithm::Crc64Nvme;

/// The subject of an upload's journal.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct UploadSubject {
    stamp: FileStamp,
    part_bytes: u64,
    attributes: String,
    upload_id: String,
}

/// An upload that is begun or resumed, with the parts that are done.
struct UploadState {
    upload: Upload,
    journal: Option<Journal>,
    done: HashMap<u64, (StoredPart, Checksum)>,
}

impl Engine {
    /// Uploads a file. Returns the state in which it was read.
    pub(crate) async fn upload(
        &self,
        client: &Client,
        path: &Path,
        object: &ObjectName,
        attributes: &ObjectAttributes,
    ) -> Result<FileStamp, Error> {
        let opened = path.to_owned();
        let file = Arc::new(blocking(move || SourceFile::open(&opened)).await?);
        let plan = self.plan(file.stamp().bytes)?;
        if plan.parts == 1 {
            self.upload_whole(client, &file, object, attributes).await?;
        } else {
            self.upload_parts(client, &file, path, object, attributes, plan).await?;
        }
        Ok(file.stamp())
    }

    async fn upload_whole(
        &self,
        client: &Client,
        file: &Arc<SourceFile>,
        object: &ObjectName,
        attributes: &ObjectAttributes,
    ) -> Result<(), Error> {
        let _place = self.place().await;
        let range = FileRange { file: Arc::clone(file), offset: 0, bytes: file.stamp().bytes };
        let (payload, checksum) = blocking(move || summed(range)).await?;
        client.put(object, payload, checksum, attributes, &self.progress().meter()).await.map(drop)
    }

    async fn upload_parts(
        &self,
        client: &Client,
        file: &Arc<SourceFile>,
        path: &Path,
        object: &ObjectName,
        attributes: &ObjectAttributes,
        plan: PartPlan,
    ) -> Result<(), Error> {
        let state = self.begin(client, file, path, object, attributes, plan).await?;
        let UploadState { upload, mut journal, mut done } = state;
        let upload = Arc::new(upload);
        let resumed: u64 = done.values().map(|(part, _)| part.bytes).sum();
        self.progress().meter().add(usize::try_from(resumed).unwrap_or(usize::MAX));
        let left: Vec<PlannedPart> = plan.parts().filter(|part| !done.contains_key(&part.number)).collect();
        let send = |part: PlannedPart| {
            let (engine, upload, file) = (self.clone(), Arc::clone(&upload), Arc::clone(file));
            async move { engine.send_part(&upload, file, part).await }
        };
        let ran =
            run_parts(left.into_iter(), plan.in_flight, send, |(part, checksum): (StoredPart, Checksum)| {
                if let Some(journal) = &mut journal {
                    let line = JournalPart {
                        number: part.number,
                        etag: part.etag.clone(),
                        checksum: checksum.value,
                        bytes: part.bytes,
                    };
                    // Without the line the part is sent again after a crash.
                    let _sent_again = journal.record(&line);
                }
                done.insert(part.number, (part, checksum));
                Ok(())
            })
            .await;
        let mut upload = Arc::into_inner(upload).expect("the tasks of the parts have ended");
        let unchanged = {
            let file = Arc::clone(file);
            blocking(move || file.check()).await
        };
        if let Err(error) = ran.and(unchanged) {
            return Err(give_up(upload, journal, error).await);
        }
        let mut parts: Vec<_> = done.into_values().collect();
        parts.sort_unstable_by_key(|(part, _)| part.number);
        let whole = parts.iter().map(|(_, checksum)| *checksum).reduce(Checksum::followed_by);
        let parts: Vec<StoredPart> = parts.into_iter().map(|(part, _)| part).collect();
        if let Err(error) = upload.complete(&parts, whole).await {
            return Err(give_up(upload, journal, error).await);
        }
        if let Some(journal) = journal {
            journal.remove();
        }
        Ok(())
    }

    async fn send_part(
        &self,
        upload: &Upload,
        file: Arc<SourceFile>,
        part: PlannedPart,
    ) -> Result<(StoredPart, Checksum), Error> {
        let _place = self.place().await;
        let range = FileRange { file, offset: part.offset, bytes: part.bytes };
        let (payload, checksum) = blocking(move || summed(range)).await?;
        let stored = upload.put_part(part.number, payload, checksum, &self.progress().meter()).await?;
        Ok((stored, checksum))
    }

    /// Takes up the upload of an earlier run of the same file, cut alike, or begins one.
    async fn begin(
        &self,
        client: &Client,
        file: &SourceFile,
        path: &Path,
        object: &ObjectName,
        attributes: &ObjectAttributes,
        plan: PartPlan,
    ) -> Result<UploadState, Error> {
        let path = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let endpoint = client.account().endpoint.url();
        let name = JournalName::of([
            b"upload".as_slice(),
            path.as_os_str().as_bytes(),
            endpoint.as_bytes(),
            object.bucket.as_bytes(),
            object.key.as_bytes(),
        ]);
        let opened = match self.settings().state.clone() {
            Some(folder) => blocking(move || Journal::open::<UploadSubject>(&folder, &name)).await,
            None => None,
        };
        let (mut journal, left) = match opened {
            Some((journal, left)) => (Some(journal), left),
            None => (None, None),
        };
        let mut subject = UploadSubject {
            stamp: file.stamp(),
            part_bytes: plan.part_bytes,
            attributes: format!("{attributes:?}"),
            upload_id: String::new(),
        };
        if let Some(left) = left {
            subject.upload_id = left.subject.upload_id.clone();
            if left.subject == subject {
                let upload = Upload::resume(client, object, left.subject.upload_id);
                match upload.parts().await {
                    Ok(Some(stored)) => {
                        let done = done_parts(&left.parts, &stored, plan);
                        return Ok(UploadState { upload, journal, done });
                    }
                    Ok(None) => upload.leave(),
                    Err(error) => {
                        upload.leave();
                        return Err(error);
                    }
                }
            } else {
                let _gone_or_left_for_rules = abort(client, object, &left.subject.upload_id).await;
            }
        }
        let upload = Upload::begin(client, object, attributes).await?;
        upload.id().clone_into(&mut subject.upload_id);
        if journal.as_mut().is_some_and(|journal| journal.begin(&subject).is_err()) {
            journal = None;
        }
        Ok(UploadState { upload, journal, done: HashMap::new() })
    }
}

/// Removes an upload that failed. Where that fails, too, for the service is out of reach, the journal stays
/// for a later run.
async fn give_up(upload: Upload, journal: Option<Journal>, error: Error) -> Error {
    let aborted = upload.abort().await;
    if let Some(journal) = journal
        && aborted.is_ok()
    {
        journal.remove();
    }
    error
}

/// The parts of a journal that the service has, too.
fn done_parts(
    journal: &[JournalPart],
    stored: &[StoredPart],
    plan: PartPlan,
) -> HashMap<u64, (StoredPart, Checksum)> {
    let planned: HashMap<u64, u64> = plan.parts().map(|part| (part.number, part.bytes)).collect();
    let stored: HashMap<u64, &StoredPart> = stored.iter().map(|part| (part.number, part)).collect();
    let of_line = |line: &JournalPart| {
        let part = *stored.get(&line.number)?;
        let is_same = part.etag == line.etag
            && part.bytes == line.bytes
            && planned.get(&line.number) == Some(&line.bytes);
        let checksum = Checksum { algorithm: ALGORITHM, value: line.checksum, bytes: line.bytes };
        is_same.then(|| (line.number, (StoredPart { checksum: Some(checksum), ..part.clone() }, checksum)))
    };
    journal.iter().filter_map(of_line).collect()
}

/// The body of a range and its checksum: a small one is kept in memory. Blocks.
fn summed(range: FileRange) -> Result<(Payload, Checksum), Error> {
    if range.bytes > WHOLE_BYTES_MAX {
        let checksum = range.checksum(ALGORITHM)?;
        return Ok((Payload::File(range), checksum));
    }
    let bytes = range.file.read(range.offset, usize::try_from(range.bytes).expect("it is small"))?.freeze();
    range.file.check()?;
    let checksum = Checksum::of(ALGORITHM, &bytes);
    Ok((Payload::Bytes(bytes), checksum))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_that_journal_service_and_plan_agree_on_are_done() {
        let plan = PartPlan::new(45 << 20, 4, Some(20 << 20)).expect("three parts");
        let line = |number, etag: &str, bytes| JournalPart {
            number,
            etag: etag.to_owned(),
            checksum: number,
            bytes,
        };
        let stored =
            |number, etag: &str, bytes| StoredPart { number, etag: etag.to_owned(), bytes, checksum: None };
        let (part, last) = (20 << 20, 5 << 20);
        let journal = [line(1, "a", part), line(2, "b", part), line(3, "c", last), line(4, "d", part)];
        let service =
            [stored(1, "a", part), stored(2, "x", part), stored(3, "c", last), stored(4, "d", part)];
        let mut done: Vec<_> = done_parts(&journal, &service, plan).into_keys().collect();
        done.sort_unstable();
        assert_eq!(done, [1, 3]);
        assert!(done_parts(&journal, &service[..1], plan).contains_key(&1));
        assert!(done_parts(&journal, &[], plan).is_empty());
    }
}
