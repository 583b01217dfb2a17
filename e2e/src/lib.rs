//! Parts of the tests on a real Kubernetes cluster: commands (`kubectl`, `helm`), an S3 client, a load whose
//! history is checked, and a Prometheus that scrapes through the API server.
//!
//! Nothing here depends on kind: any KUBECONFIG does whose nodes' addresses can be reached.

pub mod command;
pub mod history;
pub mod kubernetes;
pub mod prometheus;
