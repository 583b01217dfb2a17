//! A volume that was opened comes to vote, and then to where it is known what it lacks. One that lost its
//! state gets its rows and then its shards, newest first; one that was away is compared with its peers. Which
//! shards are there is seen on the volume itself.

mod adopt;
mod attempt;
pub(crate) mod barrier;
pub(crate) mod catch_up;
pub(crate) mod confirm;
pub(crate) mod follow;
pub(crate) mod found;
mod limits;
pub(crate) mod notes;
pub(crate) mod orders;
pub(crate) mod shards;
mod retry;
mod sources;
pub(crate) mod stall;
pub(crate) mod status;
pub(crate) mod stuck;
mod voter_seals;
