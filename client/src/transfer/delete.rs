//! Removal of many objects of a bucket, a thousand in a request.

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::engine::Engine;
use super::progress::Event;
use crate::client::Client;
use crate::error::Error;
use crate::limits::{DELETE_KEYS_MAX, DELETES_IN_FLIGHT_MAX};

/// Keys that are to be removed, each with its size, in any order.
pub(crate) type DoomedKeys = mpsc::Receiver<(String, u64)>;

/// Removes the keys that a planner sends. Each is an event.
pub(crate) async fn delete_keys(
    engine: &Engine,
    client: &Client,
    scheme: &str,
    bucket: &str,
    mut keys: DoomedKeys,
) {
    let mut running = JoinSet::new();
    let mut batch = Vec::new();
    loop {
        let room = DELETE_KEYS_MAX - batch.len();
        let received = keys.recv_many(&mut batch, room).await;
        if batch.len() < DELETE_KEYS_MAX && received > 0 {
            continue;
        }
        if batch.is_empty() {
            break;
        }
        if running.len() >= DELETES_IN_FLIGHT_MAX {
            running.join_next().await;
        }
        let (engine, client) = (engine.clone(), client.clone());
        let (scheme, bucket, batch) = (scheme.to_owned(), bucket.to_owned(), std::mem::take(&mut batch));
        running.spawn(async move { delete_batch(&engine, &client, &scheme, &bucket, batch).await });
    }
    while running.join_next().await.is_some() {}
}

async fn delete_batch(
    engine: &Engine,
    client: &Client,
    scheme: &str,
    bucket: &str,
    batch: Vec<(String, u64)>,
) {
    let keys: Vec<String> = batch.iter().map(|(key, _)| key.clone()).collect();
    let deleted = {
        let _place = engine.place().await;
        client.delete_many(bucket, &keys).await
    };
    let name = |key: &str| format!("{scheme}://{bucket}/{key}");
    let refused = match deleted {
        Ok(refused) => refused,
        Err(error) => {
            let source = match keys.as_slice() {
                [key] => name(key),
                keys => format!("{} and {} more", name(&keys[0]), keys.len() - 1),
            };
            engine.progress().report(Event::Failed { verb: "delete", source, error }).await;
            return;
        }
    };
    for (key, bytes) in batch {
        let source = name(&key);
        let event = match refused.iter().find(|refusal| refusal.key == key) {
            Some(refusal) => Event::Failed {
                verb: "delete",
                error: Error::Refused {
                    resource: source.clone(),
                    refusal: Box::new(refusal.refusal.clone()),
                },
                source,
            },
            None => Event::Done { verb: "delete", source, target: None, bytes },
        };
        engine.progress().report(event).await;
    }
}
