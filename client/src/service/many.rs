//! Many objects of a bucket, each whole in memory, read ahead of their reader and given in order: what a
//! training loop takes its samples from.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use futures::stream::{self, BoxStream};
use futures::{Stream, StreamExt as _};
use tokio::sync::mpsc;
use tokio_util::task::AbortOnDropHandle;

use super::{Service, check_bucket};
use crate::error::Error;
use crate::s3::listing::{ListEntry, ListQuery};
use crate::s3::objects::ObjectName;
use crate::transfer::plan::check_workers;

/// The objects that are read.
#[derive(Debug, Clone)]
pub enum ObjectChoice {
    /// The objects with these keys, in this order.
    Keys(Vec<String>),
    /// All whose keys begin so, in the order of their keys.
    Prefix(String),
}

/// An object of many: its key, and its bytes or why they could not be read.
pub type ReadObject = (String, Result<Bytes, Error>);

/// Objects in order. One that cannot be read does not end them; a list that breaks does.
#[derive(Debug)]
pub struct ObjectsReader {
    objects: mpsc::Receiver<Result<ReadObject, Error>>,
}

impl ObjectsReader {
    /// Returns the next object; none at the end. An error is one of the list.
    pub async fn next(&mut self) -> Option<Result<ReadObject, Error>> {
        self.objects.recv().await
    }
}

impl Stream for ObjectsReader {
    type Item = Result<ReadObject, Error>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        self.objects.poll_recv(context)
    }
}

impl Service {
    /// Reads objects into memory, up to `ahead` of them before their reader takes them.
    ///
    /// # Errors
    /// [`crate::error::PlanError::Workers`] for no or too many objects ahead, [`Error::Name`].
    pub fn read_many(
        &self,
        bucket: &str,
        choice: ObjectChoice,
        ahead: usize,
    ) -> Result<ObjectsReader, Error> {
        check_bucket(bucket)?;
        check_workers(ahead)?;
        let keys = match choice {
            ObjectChoice::Keys(keys) => stream::iter(keys).map(Ok).boxed(),
            ObjectChoice::Prefix(prefix) => self.keys_below(bucket, prefix),
        };
        let (service, bucket) = (self.clone(), bucket.to_owned());
        let mut objects = keys
            .map(move |key: Result<String, Error>| {
                let (service, bucket) = (service.clone(), bucket.clone());
                // Each is a task: one that drives all bodies would be as fast as one processor.
                let task = key.map(|key| {
                    let object = ObjectName { bucket, key };
                    AbortOnDropHandle::new(tokio::spawn(async move {
                        let read = service.get(&object, None).await;
                        (object.key, read)
                    }))
                });
                async move {
                    match task?.await {
                        Ok(read) => Ok(read),
                        Err(error) if error.is_panic() => std::panic::resume_unwind(error.into_panic()),
                        Err(_) => Err(Error::Cancelled),
                    }
                }
            })
            .buffered(ahead);
        let (sender, receiver) = mpsc::channel(1);
        self.client.spawn(async move {
            loop {
                let object = tokio::select! {
                    // Objects that are under way end with their reader.
                    biased;
                    () = sender.closed() => return,
                    object = objects.next() => object,
                };
                let Some(object) = object else { return };
                let is_end = object.is_err();
                if sender.send(object).await.is_err() || is_end {
                    return;
                }
            }
        });
        Ok(ObjectsReader { objects: receiver })
    }

    fn keys_below(&self, bucket: &str, prefix: String) -> BoxStream<'static, Result<String, Error>> {
        let query = ListQuery { bucket: bucket.to_owned(), prefix, ..ListQuery::default() };
        let entries = stream::unfold(self.client.list(query), |mut entries| async move {
            let entry = entries.recv().await?;
            Some((entry, entries))
        });
        let key = async |entry| match entry {
            Ok(ListEntry::Object(object)) => Some(Ok(object.key)),
            Ok(ListEntry::Prefix(_)) => None,
            Err(error) => Some(Err(error)),
        };
        entries.filter_map(key).boxed()
    }
}
