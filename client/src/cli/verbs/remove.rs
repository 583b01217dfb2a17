//! `rm`: one object, or all that is below an address.

use tokio::sync::mpsc;

use crate::cli::address::{Address, RemoteAddress};
use crate::cli::arguments::RemoveArgs;
use crate::cli::exit::Exit;
use crate::cli::session::{Session, VerbError, VerbResult, usage};
use crate::error::Error;
use crate::glob::Filters;
use crate::limits::JOBS_AHEAD_MAX;
use crate::s3::listing::{ListEntry, ListQuery};
use crate::transfer::delete::delete_keys;
use crate::transfer::progress::Event;

pub(crate) async fn rm(session: &Session, arguments: RemoveArgs) -> VerbResult {
    let RemoveArgs { addresses, recursive, dry_run: _, filters } = arguments;
    let filters = filters.filters();
    let mut parsed = Vec::new();
    for text in &addresses {
        let address = Address::parse_remote(text).map_err(VerbError::Usage)?;
        if address.bucket.is_empty() {
            return usage("the bucket is missing");
        }
        if !recursive && address.key.is_empty() {
            return usage(format!("{address} is a bucket; --recursive removes what is in it, rb the bucket"));
        }
        parsed.push(address);
    }
    for address in parsed {
        let removed = if recursive {
            remove_below(session, &address, &filters).await
        } else {
            remove_one(session, &address).await
        };
        if let Err(error) = removed {
            session.fail("delete", address.to_string(), error).await;
        }
    }
    Ok(Exit::Done)
}

async fn remove_one(session: &Session, address: &RemoteAddress) -> Result<(), Error> {
    let (client, object) = session.remotes.object(address)?;
    let progress = session.engine.progress();
    let info = client.head(&object).await?;
    progress.planned(0);
    let (source, target, bytes) = (address.to_string(), None, info.bytes);
    if session.is_dry_run {
        progress.report(Event::Planned { verb: "delete", source, target, bytes }).await;
        return Ok(());
    }
    client.delete(&object).await?;
    progress.report(Event::Done { verb: "delete", source, target, bytes }).await;
    Ok(())
}

/// Removes all objects below an address that the filters take.
pub(crate) async fn remove_below(
    session: &Session,
    address: &RemoteAddress,
    filters: &Filters,
) -> Result<(), Error> {
    let client = session.remotes.client(&address.scheme)?;
    let prefix = address.prefix();
    let prefix_bytes = prefix.len();
    let query = ListQuery { bucket: address.bucket.clone(), prefix, is_by_folder: false };
    let mut entries = client.list(query);
    let (doomed, keys) = mpsc::channel(JOBS_AHEAD_MAX);
    let progress = session.engine.progress();
    let plan = async {
        // Moved in, so that the deleter's channel ends with the plan.
        let doomed = doomed;
        while let Some(entry) = entries.recv().await {
            let ListEntry::Object(object) = entry? else { continue };
            if !filters.take(object.key.get(prefix_bytes..).unwrap_or_default()) {
                continue;
            }
            progress.planned(0);
            if session.is_dry_run {
                let source = format!("{}://{}/{}", address.scheme, address.bucket, object.key);
                let event = Event::Planned { verb: "delete", source, target: None, bytes: object.bytes };
                progress.report(event).await;
            } else {
                let _deleter_is_gone = doomed.send((object.key, object.bytes)).await;
            }
        }
        Ok(())
    };
    let delete = delete_keys(&session.engine, &client, &address.scheme, &address.bucket, keys);
    tokio::join!(plan, delete).0
}
