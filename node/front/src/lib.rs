//! The front door of a node's services: who sends a request, how that is proven, whether it may, and the line
//! that the audit log has of it. S3 and IAM stand on it, and give its refusals in their own codes.
//!
//! ```text
//! verifier   the proof that a request was made with an access key
//! decision   whether a caller may do something, by its rights and the facts of its request
//! callers    access keys, and whom they belong to: root's, those that the store keeps, none
//! unproven   work before a proof, and how much of it there is at one time
//! denial     the message of AccessDenied
//! audit      one line for each request
//! source     the place that a request came from
//! limits     bounds of clocks, of unproven work and of rights that are kept
//! ```

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

pub mod verifier;
pub mod decision;
pub mod callers;
pub mod unproven;
pub mod denial;
pub mod audit;
pub mod source;
mod limits;
