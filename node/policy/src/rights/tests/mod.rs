//! Decisions over documents, as the store and the S3 surface ask for them.

mod examples;
