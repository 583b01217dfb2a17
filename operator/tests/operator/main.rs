//! The operator from outside: its types, rules and plans as tables, its children as files, and whole
//! reconciles against an API server and a cluster in memory.
//!
//! One binary for all of them: each one that links kube takes ten seconds to build.

mod converted;
mod rules;
mod access_rules;
mod definition;
mod plan;
mod build_golden;
mod placement;
mod status;
mod monitoring;
mod rollout;
mod scripted_api;
mod scripted_store;
