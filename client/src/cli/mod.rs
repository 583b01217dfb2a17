//! The command line: arguments, addresses, the accounts that they name, output, and a file for each group of
//! verbs.

pub mod run;
pub(crate) mod verbs;
pub(crate) mod session;
pub(crate) mod output;
pub(crate) mod remotes;
pub(crate) mod arguments;
pub(crate) mod stop;
pub(crate) mod address;
pub(crate) mod exit;
