//! The layer between the wire and the operations, over real connections.
//!
//! A hyper server on a port of its own serves the layer over operations that keep their input. Requests are
//! written and signed byte by byte (`wire`), and once by the AWS SDK (`sdk`). Each request that it must or
//! must not let pass has a test: signatures and table in `admission`, bodies in `bodies`, the form of answers
//! in `answers`, their headers for pages of other origins in `cors`.

#[path = "harness/record.rs"]
mod record;

#[path = "s3_protocol/memory.rs"]
mod memory;
#[path = "s3_protocol/wire.rs"]
mod wire;

#[path = "s3_protocol/admission.rs"]
mod admission;
#[path = "s3_protocol/answers.rs"]
mod answers;
#[path = "s3_protocol/bodies.rs"]
mod bodies;
#[path = "s3_protocol/cors.rs"]
mod cors;
#[path = "s3_protocol/moments.rs"]
mod moments;
#[path = "s3_protocol/presigned.rs"]
mod presigned;
#[path = "s3_protocol/sdk.rs"]
mod sdk;
#[path = "s3_protocol/users.rs"]
mod users;
