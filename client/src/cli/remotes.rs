//! The clients of the services that a command names, each made when it is first used.

use std::collections::HashMap;
use std::path::PathBuf;

use tokio_util::sync::CancellationToken;

use super::address::{RemoteAddress, S3};
use crate::client::Client;
use crate::credentials::alias::Aliases;
use crate::credentials::source::{Account, Overrides, ProcessVariables, alias_file};
use crate::error::Error;
use crate::s3::objects::ObjectName;

/// The services of a command.
#[derive(Debug)]
pub(crate) struct Remotes {
    overrides: Overrides,
    attempts: u32,
    cancelled: CancellationToken,
    clients: parking_lot::Mutex<HashMap<String, Client>>,
}

impl Remotes {
    pub(crate) fn new(overrides: Overrides, attempts: u32, cancelled: CancellationToken) -> Self {
        Self { overrides, attempts, cancelled, clients: parking_lot::Mutex::default() }
    }

    /// The file of aliases.
    pub(crate) fn alias_file() -> PathBuf {
        alias_file(&ProcessVariables)
    }

    /// Returns the client of `s3`, or of an alias.
    pub(crate) fn client(&self, scheme: &str) -> Result<Client, Error> {
        if let Some(client) = self.clients.lock().get(scheme) {
            return Ok(client.clone());
        }
        let account = if scheme == S3 {
            Account::of_environment(&ProcessVariables, &self.overrides)?
        } else {
            let aliases = Aliases::read(&Self::alias_file())?;
            Account::of_alias(aliases.get(scheme)?, &self.overrides)?
        };
        let client = Client::new(account, self.attempts, self.cancelled.clone())?;
        self.clients.lock().insert(scheme.to_owned(), client.clone());
        Ok(client)
    }

    /// Returns the client of an address, and the object that it names.
    pub(crate) fn object(&self, address: &RemoteAddress) -> Result<(Client, ObjectName), Error> {
        let object = ObjectName { bucket: address.bucket.clone(), key: address.key.clone() };
        Ok((self.client(&address.scheme)?, object))
    }

    /// Waits until what dropped transfers left behind is cleaned up.
    pub(crate) async fn finish(&self) {
        let clients: Vec<Client> = self.clients.lock().drain().map(|(_, client)| client).collect();
        for client in clients {
            client.finish().await;
        }
    }
}
