//! The CA of a cluster and its replacement: plain functions over the record in the CA's Secret and the nodes'
//! answers, without a client and without a clock.
//!
//! ```text
//!   AuthorityRecord   what the Secret holds: the CAs, and how far a replacement came
//!   accept            whether the cluster runs with them                -> AcceptedAuthority
//!   ClusterTrust      the certificate that the operator shows, and the CAs that it trusts
//!   next_step         the record, and what every node has loaded        -> the next record, or why it waits
//!
//!   Steady        one CA is trusted, and signs         until it is asked for, or due
//!   Introducing   both are trusted, the former signs   until every node trusts both
//!   Switched      both are trusted, the new one signs  until every node shows its certificate of that
//!   Steady
//! ```
//!
//! The rule that they guard: at each moment every node and the operator trust every certificate that another
//! one may show. A CA signs nothing before every node trusts it, and is trusted until no node shows a
//! certificate of it. The record is the only memory: a step is written before anything follows from it, to
//! the copy first, and repeating it changes nothing. Certificates of a new CA are issued once the status of
//! the cluster names it, so that an older record that is brought back later is recognised: it goes on with
//! the new CA where it has its key, and is refused where it has not.

mod record;
mod connection;
mod step;

pub use connection::ClusterTrust;
pub use record::{
    AcceptedAuthority, AuthorityRecord, KeyedAuthority, OtherAuthority, RecordFault, RotationState,
};
pub use step::{RotationInput, RotationStep, first_loaded_end_s, named_key, next_step};

#[cfg(test)]
mod tests;
