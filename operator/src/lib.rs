//! The operator of Sherd: makes a `StorageCluster` true in Kubernetes.
//!
//! A reconcile is observe, validate, plan, build, apply, status. Only observe, apply and status hold a
//! client; validate, plan and build are plain functions over values.

#[expect(unreachable_pub, reason = "the derive of KubeSchema copies each type into a function")]
pub mod api;
pub mod limits;
pub mod names;
pub mod validate;
pub mod plan;
pub mod build;
pub mod metrics;
pub mod reconcile;
pub mod controller;
pub mod lease;
pub mod listener;
