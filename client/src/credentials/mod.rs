//! Keys and endpoints: from the environment, from AWS's files of profiles, and from the aliases of `sherd`.

pub mod alias;
pub mod profile;
pub mod source;
