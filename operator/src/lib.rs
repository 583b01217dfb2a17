//! The operator of Sherd: makes a `StorageCluster` true in Kubernetes.
//!
//! A reconcile is observe, validate, plan, material, build, apply, status: [`reconcile`] draws it. Only
//! observe, apply and status hold a client; validate, plan and build are plain functions over values.

#[expect(unreachable_pub, reason = "the derive of KubeSchema copies each type into a function")]
pub mod api;
pub mod limits;
pub mod names;
pub mod metrics;
pub mod lease;
pub mod reconcile;
pub mod controller;
pub mod listener;
