//! Before a measurement: writes the objects that it reads. After it: deletes all.

use std::collections::BTreeMap;
use std::fmt;

use super::bucket;
use super::error::Error;
use super::keys::Keys;
use super::run::{self, Outcome, Plan, Target};
use super::schedule::Limit;
use super::tally::Fault;
use super::work::Op;

/// Clients that write what a measurement reads.
const PREPARING_CLIENTS: usize = 64;
/// Clients that delete it afterwards, a page at a time.
const CLEANING_CLIENTS: usize = 4;

/// Writes objects until `wanted` are there, with fewer clients after each time that some were refused.
///
/// # Errors
/// Not all of them could be written.
pub fn write(target: &Target<'_>, wanted: u64, keys: &mut Keys) -> Result<(), Error> {
    let mut clients = PREPARING_CLIENTS;
    loop {
        let before = keys.count();
        let missing = wanted.saturating_sub(before);
        let plan = Plan::new(
            Op::Put,
            clients.min(usize::try_from(missing).unwrap_or(clients)),
            Limit::Count(missing),
        );
        match write_as(target, &plan, wanted, keys) {
            // Refused for load by a store that takes fewer requests at one time.
            Err(Error::Preparation { .. }) if keys.count() > before && clients > 1 => clients /= 2,
            outcome => return outcome.map(drop),
        }
    }
}

/// Writes objects as `plan` says, after which `wanted` must be there; says what came of it, which is a
/// measurement too.
///
/// # Errors
/// Not all of them could be written.
pub fn write_as(
    target: &Target<'_>,
    plan: &Plan,
    wanted: u64,
    keys: &mut Keys,
) -> Result<Option<Outcome>, Error> {
    if keys.count() >= wanted {
        return Ok(None);
    }
    let outcome = run::run(target, plan, keys)?;
    let written = keys.count();
    if written < wanted {
        let faults = Faults(&outcome.tally.faults).to_string();
        let subject = target.subject.name.clone();
        return Err(Error::Preparation { subject, written, wanted, faults });
    }
    Ok(Some(outcome))
}

/// Deletes all objects, and the bucket if it was `made` for them. An object that cannot be deleted is
/// reported on standard error and is not an error: the measurement is complete.
///
/// # Errors
/// The system lacks threads or polling.
pub fn clean(target: &Target<'_>, keys: &mut Keys, made: bool) -> Result<(), Error> {
    let pages = keys.count().div_ceil(1000);
    let mut faults = BTreeMap::new();
    if pages > 0 {
        let plan = Plan::new(Op::DeleteObjects, CLEANING_CLIENTS, Limit::Count(pages));
        faults = run::run(target, &plan, keys)?.tally.faults;
    }
    if !faults.is_empty() {
        eprintln!("sherd-bench: some objects are left in {}: {}", target.bucket, Faults(&faults));
    } else if made && let Err(error) = bucket::remove(target.subject, target.bucket) {
        eprintln!("sherd-bench: {} is left: {error}", target.bucket);
    }
    Ok(())
}

/// Faults for people.
#[derive(Debug)]
pub struct Faults<'a>(pub &'a BTreeMap<Fault, u64>);

impl fmt::Display for Faults<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (fault, times)) in self.0.iter().enumerate() {
            let comma = if index == 0 { "" } else { ", " };
            write!(f, "{comma}{times} x {fault}")?;
        }
        Ok(())
    }
}
