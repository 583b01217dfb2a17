//! The API server, as the kubeconfig names it, and its namespace.

use std::ffi::OsStr;
use std::future::Future;
use std::path::{Path, PathBuf};

use clap::Args;
use kube::api::ListParams;
use kube::config::{KubeConfigOptions, Kubeconfig};
use kube::{Client, Config, Result as KubeResult};
use tokio::time::timeout;

use crate::error::{PluginError, Right};
use crate::limits::{ANSWER_TIMEOUT, CONNECT_TIMEOUT};

/// How the API server is reached, as kubectl takes it.
#[derive(Debug, Clone, Default, Args)]
pub struct SessionArgs {
    /// Namespace of the StorageCluster [default: that of the context]
    #[arg(short, long, global = true, value_name = "NAMESPACE")]
    pub namespace: Option<String>,
    /// Context of the kubeconfig [default: its current one]
    #[arg(long, global = true, value_name = "CONTEXT")]
    pub context: Option<String>,
    /// The kubeconfig [default: KUBECONFIG, or ~/.kube/config, or the service account of the pod]
    #[arg(long, global = true, value_name = "FILE")]
    pub kubeconfig: Option<PathBuf>,
}

/// A client of the API server, and the namespace that is looked at.
#[derive(Clone)]
pub struct Session {
    /// The client.
    pub client: Client,
    /// The namespace.
    pub namespace: String,
}

impl std::fmt::Debug for Session {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Session").field("namespace", &self.namespace).finish_non_exhaustive()
    }
}

impl Session {
    /// Reads the kubeconfig. Nothing is sent yet.
    ///
    /// # Errors
    /// [`PluginError::Kubeconfig`].
    pub async fn new(arguments: &SessionArgs) -> Result<Self, PluginError> {
        let SessionArgs { namespace, context, kubeconfig } = arguments;
        let refused = |error: &dyn std::fmt::Display| PluginError::Kubeconfig(error.to_string());
        let options = KubeConfigOptions { context: context.clone(), ..KubeConfigOptions::default() };
        let read = match kubeconfig {
            Some(path) => Kubeconfig::read_from(path),
            None => Kubeconfig::read(),
        };
        let mut config = match read {
            Ok(read) => {
                Config::from_custom_kubeconfig(read, &options).await.map_err(|error| refused(&error))?
            }
            // A pod has its service account in place of a file; a file that cannot be read names another
            // cluster.
            Err(error) if kubeconfig.is_none() && context.is_none() && has_no_kubeconfig() => {
                Config::incluster().map_err(|_| refused(&error))?
            }
            Err(error) => return Err(refused(&error)),
        };
        config.connect_timeout = Some(CONNECT_TIMEOUT);
        // A log that is followed is silent for as long as its pod is; other requests have deadlines here.
        config.read_timeout = None;
        config.write_timeout = None;
        let namespace = namespace.clone().unwrap_or_else(|| config.default_namespace.clone());
        let client = Client::try_from(config).map_err(|error| refused(&error))?;
        Ok(Self { client, namespace })
    }

    /// A right to an object, or to all, in this namespace.
    pub fn right(&self, verb: &'static str, resource: &'static str, name: &str) -> Right {
        Right { verb, resource, name: name.to_owned(), namespace: self.namespace.clone() }
    }

    /// Waits for an answer.
    ///
    /// # Errors
    /// [`PluginError`] names the right where it is missing.
    pub async fn ask<T>(
        &self,
        right: Right,
        request: impl Future<Output = KubeResult<T>>,
    ) -> Result<T, PluginError> {
        match timeout(ANSWER_TIMEOUT, request).await {
            Ok(Ok(answer)) => Ok(answer),
            Ok(Err(error)) => Err(PluginError::api(right, &error)),
            Err(_) => Err(PluginError::late(right)),
        }
    }
}

/// Whether neither the environment nor the home folder names a kubeconfig.
fn has_no_kubeconfig() -> bool {
    names_no_kubeconfig(std::env::var_os("KUBECONFIG").as_deref(), std::env::home_dir().as_deref())
}

fn names_no_kubeconfig(variable: Option<&OsStr>, home: Option<&Path>) -> bool {
    let is_absent = |file: PathBuf| {
        std::fs::symlink_metadata(file).is_err_and(|error| error.kind() == std::io::ErrorKind::NotFound)
    };
    variable.is_none_or(OsStr::is_empty) && home.is_none_or(|home| is_absent(home.join(".kube/config")))
}

/// A list by labels, of `objects_max` objects at most.
pub fn list_params<'a>(
    labels: impl IntoIterator<Item = (&'a String, &'a String)>,
    objects_max: u32,
) -> ListParams {
    let labels: Vec<String> = labels.into_iter().map(|(key, value)| format!("{key}={value}")).collect();
    let params = ListParams::default().limit(objects_max);
    if labels.is_empty() { params } else { params.labels(&labels.join(",")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_service_account_is_taken_only_where_no_kubeconfig_is_named() {
        let home = tempfile::tempdir().expect("a folder");
        let path = Some(home.path());
        assert!(names_no_kubeconfig(None, path) && names_no_kubeconfig(Some(OsStr::new("")), None));
        assert!(!names_no_kubeconfig(Some(OsStr::new("/absent")), path));
        std::fs::create_dir(home.path().join(".kube")).expect("a folder");
        std::fs::write(home.path().join(".kube/config"), "broken").expect("a file");
        assert!(!names_no_kubeconfig(None, path));
    }
}
