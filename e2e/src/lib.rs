//! What the tests on a real Kubernetes cluster are made of: commands (`kubectl`, `helm`), an S3 client, a
//! load whose history is checked, and a Prometheus that scrapes through the API server.
//!
//! Nothing here knows kind: any KUBECONFIG will do whose nodes' addresses can be reached.

pub mod command;
pub mod history;
pub mod kubernetes;
pub mod prometheus;
