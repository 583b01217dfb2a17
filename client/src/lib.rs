//! The transfer engine of S3 and the command line `sherd` over it, for any S3 service.
//!
//! A program holds a [`Service`]. Futures need tokio's runtime; one that is dropped ends its work and leaves
//! nothing half-written behind.
//!
//! ```no_run
//! use std::path::Path;
//!
//! use sherd_client::{Error, ObjectAttributes, ObjectName, Service, ServiceOptions};
//!
//! # async fn example() -> Result<(), Error> {
//! // Endpoint, region and keys of AWS's variables and profiles.
//! let service = Service::open(&ServiceOptions::default())?;
//! let object = ObjectName::new("bucket", "photos/a.jpg");
//! service.upload(Path::new("a.jpg"), &object, &ObjectAttributes::default()).await?;
//! match service.stat(&object).await {
//!     Ok(info) => println!("{} bytes, {}", info.bytes, info.etag),
//!     Err(error) if error.is_absent() => println!("not there"),
//!     Err(error) => return Err(error),
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Keys and an endpoint of its own, bytes from and to memory, and a list:
//!
//! ```no_run
//! use sherd_client::{
//!     Error, KeyPair, ListEntry, ListQuery, ObjectAttributes, ObjectName, Overrides, Secret, Service,
//!     ServiceOptions,
//! };
//!
//! # async fn example() -> Result<(), Error> {
//! let secret = Secret::new("the secret key");
//! let service = Service::open(&ServiceOptions {
//!     keys: Some(KeyPair { access_key: "AKID".to_owned(), secret, session_token: None }),
//!     overrides: Overrides { endpoint: Some("http://127.0.0.1:9000".to_owned()), ..Overrides::default() },
//!     ..ServiceOptions::default()
//! })?;
//! let object = ObjectName::new("bucket", "greeting");
//! service.put(&object, "hello".into(), &ObjectAttributes::default()).await?;
//! assert_eq!(service.get(&object, None).await?, "hello");
//! let mut entries = service.list(ListQuery { bucket: "bucket".to_owned(), ..ListQuery::default() })?;
//! while let Some(entry) = entries.recv().await {
//!     if let ListEntry::Object(entry) = entry? {
//!         println!("{} {}", entry.bytes, entry.key);
//!     }
//! }
//! # Ok(())
//! # }
//! ```
//!
//! Bytes that come and go piece by piece, and progress:
//!
//! ```no_run
//! use sherd_client::{Error, ObjectAttributes, ObjectName, Progress, Service};
//!
//! # async fn example(service: Service) -> Result<(), Error> {
//! let (progress, _events) = Progress::new();
//! let service = service.reporting_to(progress.clone());
//! let mut reader = service.read(&ObjectName::new("bucket", "a"), None).await?;
//! let mut writer = service.write(&ObjectName::new("bucket", "b"), &ObjectAttributes::default())?;
//! while let Some(bytes) = reader.next().await {
//!     writer.write(bytes?).await?;
//! }
//! writer.finish().await?;
//! println!("{} bytes moved", progress.counters().bytes.load(std::sync::atomic::Ordering::Relaxed));
//! # Ok(())
//! # }
//! ```

#![cfg_attr(
    not(feature = "cli"),
    allow(dead_code, reason = "a part of each room is of the command line alone")
)]

#[cfg(feature = "cli")]
pub mod cli;
mod sync;
pub mod service;
pub mod transfer;
mod local;
pub mod s3;
pub mod client;
mod document;
mod transport;
mod payload;
pub mod credentials;
pub mod endpoint;
pub mod checksum;
pub mod glob;
pub mod error;
pub mod limits;

pub use sherd_signature::Secret;
pub use sherd_signature::signer::KeyPair;

pub use client::Client;
pub use credentials::source::Overrides;
pub use endpoint::AddressingStyle;
pub use error::Error;
pub use s3::listing::{ListEntry, ListQuery, ObjectEntry};
pub use s3::objects::{DeleteRefusal, ObjectAttributes, ObjectInfo, ObjectName};
pub use service::many::{ObjectChoice, ObjectsReader};
pub use service::options::ServiceOptions;
pub use service::stream::{ObjectReader, ObjectWriter};
pub use service::{ByteRange, PresignedMethod, Service};
pub use transfer::engine::TransferSettings;
pub use transfer::progress::Progress;
