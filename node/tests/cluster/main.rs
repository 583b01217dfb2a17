//! Stories of several nodes that are one store: real processes with certificates, driven through S3 by the
//! SDK and through their node ports by hand, while nodes are killed, wiped, suspended and cut off.
//!
//! Each module is one story and each test has a cluster, ports and folders of its own. Nothing sleeps:
//! a test waits for what it needs to see, with a deadline. `SHERD_TEST_SEED` repeats the choices of a run;
//! what takes minutes is ignored unless asked for. docs/testing.md has the commands.

#[path = "../harness/mod.rs"]
mod harness;
#[path = "../history/mod.rs"]
mod history;
#[path = "../process/load.rs"]
mod load;

mod wire;

mod anonymous;
mod asleep;
mod chaos;
mod conditions;
mod configured;
mod contention;
mod cors;
mod crowds;
mod emptied;
mod formed_before;
mod forms;
mod iam;
mod import;
mod intruders;
mod left;
mod links;
mod lists;
mod lost_answers;
mod nodes;
mod paused;
mod policies;
mod readers;
mod renewal;
mod requests;
mod restarts;
mod revoked;
mod roles;
mod slow;
mod tags;
mod too_few;
mod twins;
mod under_way;
