//! report
pub mod markdown;
