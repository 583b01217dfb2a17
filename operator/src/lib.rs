//! The operator of Sherd: makes `StorageCluster`, `Bucket` and `BucketUser` true in Kubernetes.
//!
//! A reconcile of a cluster is observe, validate, plan, material, build, apply, status: [`reconcile`] draws
//! it. Only observe, apply and status hold a client; validate, plan and build are plain functions over
//! values. Those of buckets and users are in [`buckets`], and ask the cluster's nodes by [`calls`].

#[expect(unreachable_pub, reason = "the derive of KubeSchema copies each type into a function")]
pub mod api;
pub mod limits;
pub mod names;
pub mod mutual_tls;
pub mod secret_text;
pub mod api_words;
pub mod calls;
pub mod metrics;
pub mod lease;
pub mod rollout;
pub mod rotation;
pub mod turns;
pub mod reconcile;
pub mod buckets;
pub mod controller;
pub mod listener;
