//! The operations of S3: the one table of them (`table`), the row of a request ([`route`]), and the seam at
//! which they are run.

pub mod route;
mod table;

use std::time::Duration;

use futures::future::{self, BoxFuture, Either, Ready};

use crate::answer::{Failure, Outcome, Response};
use crate::gateway::Gateway;
use crate::head::columns::Columns;
use crate::head::names::NamedVersion;
use crate::object::missing_version;
use crate::request::Request;
use crate::wire::refusal::{Code, Refusal};
use sherd_core::config::public_access::PublicAccessBlock;
use sherd_core::iam::Account;
use sherd_core::id::ObjectKey;
use sherd_core::record::Tag;
use sherd_store::iam::IamReadError;
use sherd_store::object::{self as store, BucketRef, ObjectName};

pub use table::Operation;
use table::{ROWS, Row};

/// The look-up of a bucket: done where a view of it is remembered, which takes no allocation.
pub type BucketLookup<'a> = Either<Ready<BucketRef>, BoxFuture<'a, BucketRef>>;

/// The public access block of the account, as it was at most two seconds ago.
type AccountBlock = Result<PublicAccessBlock, IamReadError>;
/// The look-up of the account: done where it is remembered.
pub type AccountBlockLookup<'a> = Either<Ready<AccountBlock>, BoxFuture<'a, AccountBlock>>;

/// Runs operations: a gateway, or in tests what stands for one.
pub trait Operations: Send + Sync {
    /// Looks up the bucket of a request, once for all that the request does. A failure is answered by the
    /// operation, where it needs the bucket.
    fn bucket(&self, name: ObjectKey) -> BucketLookup<'_>;

    /// Looks up the public access block of the account.
    fn account_block(&self) -> AccountBlockLookup<'_>;

    /// Runs the operation of a request that was admitted.
    fn run<'a>(&'a self, operation: Operation, request: Request<'a>) -> BoxFuture<'a, Outcome<Response>>;

    /// The tags of an object, where a policy asks for them.
    fn tags<'a>(&'a self, name: &'a ObjectName) -> BoxFuture<'a, store::Result<Vec<Tag>>>;

    /// How long the space of deleted objects stays taken.
    fn release_grace(&self) -> Duration;
}

impl Operations for Gateway {
    fn bucket(&self, name: ObjectKey) -> BucketLookup<'_> {
        match self.objects.remembered_bucket(&name) {
            Some(view) => Either::Left(future::ready(view.into())),
            None => Either::Right(Box::pin(self.objects.bucket_of_request(name))),
        }
    }

    fn account_block(&self) -> AccountBlockLookup<'_> {
        let block = |account: Account| account.public_access_block.unwrap_or_default();
        match self.iam.remembered_account() {
            Some(account) => Either::Left(future::ready(Ok(block(account)))),
            None => Either::Right(Box::pin(async move { Ok(block(self.iam.account_view().await?)) })),
        }
    }

    fn run<'a>(&'a self, operation: Operation, request: Request<'a>) -> BoxFuture<'a, Outcome<Response>> {
        match request.version {
            Some(NamedVersion::Other(_)) => {
                let deletes = operation == Operation::DeleteObject;
                Box::pin(missing_version::answer(self, request, deletes))
            }
            Some(NamedVersion::Null) | None => match operation.row().handler {
                Some(handler) => handler(self, request),
                None => Box::pin(future::ready(Err(Failure::from(Refusal::new(Code::NotImplemented))))),
            },
        }
    }

    fn tags<'a>(&'a self, name: &'a ObjectName) -> BoxFuture<'a, store::Result<Vec<Tag>>> {
        Box::pin(self.objects.tags(name))
    }

    fn release_grace(&self) -> Duration {
        self.objects.release_grace()
    }
}

impl Operation {
    /// The operations that are served.
    pub fn served() -> impl Iterator<Item = Self> {
        ROWS.iter().filter(|row| row.handler.is_some()).map(|row| row.operation)
    }

    /// The operations that are not served, each with the reason, as `docs/s3.md` gives it.
    #[cfg(test)]
    pub(crate) fn unserved() -> impl Iterator<Item = (Self, &'static str)> {
        ROWS.iter().filter(|row| row.handler.is_none()).map(|row| (row.operation, row.why))
    }

    fn row(self) -> &'static Row {
        ROWS.get(self as usize).expect("an operation is its row's place")
    }

    /// The columns of its row.
    pub fn columns(self) -> &'static Columns {
        &self.row().columns
    }

    /// AWS's name, as it stands in its documentation.
    pub fn name(self) -> &'static str {
        self.columns().name
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::access;

    #[test]
    fn an_operation_finds_its_row() {
        for (place, row) in ROWS.iter().enumerate() {
            assert_eq!((row.operation as usize, row.operation.name()), (place, row.columns.name));
            let is_served = row.handler.is_some();
            assert_eq!(row.columns.action.starts_with("s3:"), is_served, "{}", row.columns.name);
            assert_eq!(row.why.is_empty(), is_served, "{}", row.columns.name);
        }
        assert_eq!(Operation::GetObject.columns().action, access::READ_OBJECT);
        assert_eq!(Operation::GetObjectTagging.columns().action, access::READ_TAGS);
        assert_eq!(Operation::PutObjectTagging.columns().action, access::WRITE_TAGS);
        assert_eq!(Operation::DeleteObjects.columns().action, access::DELETE_OBJECT);
    }
}
