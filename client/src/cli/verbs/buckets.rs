//! `mb` and `rb`.

use super::remove::remove_below;
use crate::cli::address::{Address, RemoteAddress};
use crate::cli::arguments::{BucketsArgs, RemoveBucketsArgs};
use crate::cli::exit::Exit;
use crate::cli::session::{Session, VerbError, VerbResult, usage};
use crate::error::Error;
use crate::glob::Filters;
use crate::s3::objects::ObjectName;
use crate::s3::uploads::abort;

fn buckets(addresses: &[std::ffi::OsString]) -> Result<Vec<RemoteAddress>, VerbError> {
    let mut parsed = Vec::new();
    for text in addresses {
        let address = Address::parse_remote(text).map_err(VerbError::Usage)?;
        if address.bucket.is_empty() || !address.key.is_empty() {
            return usage(format!("{address} is no bucket"));
        }
        parsed.push(address);
    }
    Ok(parsed)
}

pub(crate) async fn mb(session: &Session, arguments: BucketsArgs) -> VerbResult {
    for address in buckets(&arguments.addresses)? {
        let client = session.remotes.client(&address.scheme)?;
        match client.create_bucket(&address.bucket).await {
            Ok(()) => session.say("made", &address.to_string()),
            Err(Error::Refused { refusal, .. })
                if arguments.ignore_existing && refusal.code == "BucketAlreadyOwnedByYou" => {}
            Err(error) => session.fail("make", address.to_string(), error).await,
        }
    }
    Ok(Exit::Done)
}

pub(crate) async fn rb(session: &Session, arguments: RemoveBucketsArgs) -> VerbResult {
    for address in buckets(&arguments.addresses)? {
        match remove_bucket(session, &address, arguments.force).await {
            Ok(()) => session.say("removed", &address.to_string()),
            Err(error) => session.fail("remove", address.to_string(), error).await,
        }
    }
    Ok(Exit::Done)
}

async fn remove_bucket(session: &Session, address: &RemoteAddress, force: bool) -> Result<(), Error> {
    let client = session.remotes.client(&address.scheme)?;
    if force {
        remove_below(session, address, &Filters::default()).await?;
        loop {
            let uploads = client.uploads(&address.bucket).await?;
            if uploads.is_empty() {
                break;
            }
            for (key, id) in uploads {
                let object = ObjectName { bucket: address.bucket.clone(), key };
                abort(&client, &object, &id).await?;
            }
        }
    }
    client.delete_bucket(&address.bucket).await
}
