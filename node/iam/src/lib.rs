//! The query API of IAM, and GetCallerIdentity of STS: users, groups, access keys and policies for tools that
//! speak with AWS. In rooms, from top to bottom:
//!
//! ```text
//! service    from an HTTP request to an answer: body, signature, action, rights
//! intake     bodies of requests that are not proven yet
//! actions    the table of actions, and what each does
//! simulation decisions of the engine about requests that are described and not made
//! authorize  whether a caller may
//! request    the parameters of an action, and its caller
//! auth       the signature
//! answer     documents in the form of the API
//! fault      refusals, in AWS's codes and words
//! form       the parameters as they are sent
//! limits     bounds of a request
//! ```
//! The table in `actions` names, protects and runs each action. The store keeps what they change
//! (`sherd_store::iam`).

#![cfg_attr(not(test), warn(clippy::disallowed_methods))]

mod service;
mod intake;
mod actions;
mod simulation;
mod authorize;
mod request;
mod auth;
mod answer;
mod fault;
pub mod form;
mod limits;

pub use limits::{FORM_BYTES_MAX, UNPROVEN_MAX};
pub use service::{QueryApi, QueryApiConfig};
