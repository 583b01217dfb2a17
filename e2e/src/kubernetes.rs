//! A namespace of a Kubernetes cluster, through `kubectl`: reading objects, waiting for a state within a
//! deadline, and an S3 client for a StorageCluster in it.

use std::time::{Duration, Instant};

use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{BehaviorVersion, Credentials, Region, SharedHttpClient};
use aws_smithy_http_client::tls::rustls_provider::CryptoMode;
use aws_smithy_http_client::tls::{Provider, TlsContext, TrustStore};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::command::{CommandError, run, run_with};

/// A namespace.
#[derive(Debug, Clone)]
pub struct Namespace {
    /// The namespace's name.
    pub name: String,
}

impl Namespace {
    /// Runs `kubectl` in this namespace.
    ///
    /// # Errors
    /// [`CommandError`].
    pub fn kubectl(&self, arguments: &[&str]) -> Result<String, CommandError> {
        run("kubectl", &[&["--namespace", &self.name], arguments].concat())
    }

    /// Applies a manifest.
    ///
    /// # Errors
    /// [`CommandError`], with what the API server says.
    pub fn apply(&self, manifest: &str) -> Result<String, CommandError> {
        run_with("kubectl", &["--namespace", &self.name, "apply", "-f", "-"], manifest)
    }

    /// Returns an object, or nothing where it is not there.
    pub fn get(&self, kind: &str, name: &str) -> Option<Value> {
        let text = self.kubectl(&["get", kind, name, "--output", "json"]).ok()?;
        serde_json::from_str(&text).ok()
    }

    /// Returns the names of the objects that a selector fits.
    ///
    /// # Errors
    /// [`CommandError`].
    pub fn names(&self, kind: &str, selector: &str) -> Result<Vec<String>, CommandError> {
        let listed = self.kubectl(&["get", kind, "--selector", selector, "--output", "name"])?;
        Ok(listed.lines().filter_map(|line| line.rsplit_once('/')).map(|(_, name)| name.to_owned()).collect())
    }

    /// Returns status and reason of a StorageCluster's condition.
    pub fn condition(&self, cluster: &str, condition: &str) -> Option<(String, String)> {
        self.condition_of("storagecluster", cluster, condition)
    }

    /// Returns status and reason of an object's condition.
    pub fn condition_of(&self, kind: &str, name: &str, condition: &str) -> Option<(String, String)> {
        let found = condition_in(&self.get(kind, name)?, condition);
        Some((found["status"].as_str()?.to_owned(), found["reason"].as_str()?.to_owned()))
    }

    /// Returns the texts of a Secret.
    pub fn secret(&self, name: &str) -> Option<std::collections::BTreeMap<String, String>> {
        let secret = self.get("secret", name)?;
        let decode = |(key, value): (&String, &Value)| {
            let bytes = STANDARD.decode(value.as_str()?).ok()?;
            Some((key.clone(), String::from_utf8(bytes).ok()?))
        };
        secret["data"].as_object()?.iter().map(decode).collect()
    }

    /// Opens S3 of a StorageCluster to this machine, by a port of every host, and returns its address.
    ///
    /// # Errors
    /// [`CommandError`], or a text when no host shows an address.
    pub fn open_s3(&self, cluster: &str) -> Result<String, Box<dyn std::error::Error>> {
        let name = format!("{cluster}-e2e");
        let service = serde_json::json!({
            "apiVersion": "v1", "kind": "Service", "metadata": {"name": name},
            "spec": {
                "type": "NodePort",
                "selector": {"app.kubernetes.io/name": "sherd-node", "sherd.dev/cluster": cluster},
                "ports": [{"name": "s3", "port": 9000, "targetPort": "s3"}],
            },
        });
        self.apply(&service.to_string())?;
        let service = self.get("service", &name).ok_or("the service is not there")?;
        let port = service["spec"]["ports"][0]["nodePort"].as_u64().ok_or("no port of the hosts")?;
        let hosts: Value = serde_json::from_str(&run("kubectl", &["get", "nodes", "--output", "json"])?)?;
        let addresses = hosts["items"].as_array().ok_or("no hosts")?.iter();
        let mut addresses =
            addresses.flat_map(|host| host["status"]["addresses"].as_array().into_iter().flatten());
        let address = addresses.find(|address| address["type"] == "InternalIP");
        let address =
            address.and_then(|address| address["address"].as_str()).ok_or("no address of a host")?;
        Ok(format!("http://{address}:{port}"))
    }

    /// Returns an S3 client with the root credentials of a StorageCluster.
    ///
    /// # Errors
    /// A text when the credentials are not there.
    pub fn client(&self, cluster: &str, endpoint: &str) -> Result<Client, Box<dyn std::error::Error>> {
        Ok(client_with(endpoint, self.root_credentials(cluster)?))
    }

    /// Returns such a client that trusts these CAs, in PEM, alone.
    ///
    /// # Errors
    /// A text when the credentials are not there, or the CAs are not readable.
    pub fn client_over_tls(
        &self,
        cluster: &str,
        endpoint: &str,
        authorities: &str,
    ) -> Result<Client, Box<dyn std::error::Error>> {
        let trust = TrustStore::empty().with_pem_certificate(authorities.as_bytes());
        let context = TlsContext::builder().with_trust_store(trust).build()?;
        let builder = aws_smithy_http_client::Builder::new();
        let builder = builder.tls_provider(Provider::Rustls(CryptoMode::Ring)).tls_context(context);
        Ok(client_by(endpoint, self.root_credentials(cluster)?, builder.build_https()))
    }

    /// Returns the root credentials that the operator made for a StorageCluster.
    ///
    /// # Errors
    /// A text when they are not there.
    pub fn root_credentials(&self, cluster: &str) -> Result<Credentials, String> {
        let secret = self.secret(&format!("{cluster}-root-credentials")).ok_or("no credentials")?;
        let part = |key: &str| secret.get(key).ok_or_else(|| format!("no {key}"));
        Ok(Credentials::new(part("AWS_ACCESS_KEY_ID")?, part("AWS_SECRET_ACCESS_KEY")?, None, None, "e2e"))
    }
}

/// Returns a condition of an object, or null.
pub fn condition_in(object: &Value, condition: &str) -> Value {
    let mut conditions = object["status"]["conditions"].as_array().into_iter().flatten();
    conditions.find(|found| found["type"] == condition).cloned().unwrap_or_default()
}

/// Returns an S3 client with these credentials. It opens connections of its own.
pub fn client_with(endpoint: &str, credentials: Credentials) -> Client {
    client_by(endpoint, credentials, aws_smithy_http_client::Builder::new().build_http())
}

/// Tries of a request, the first among them: as applications have it, unless `SHERD_E2E_ATTEMPTS` asks for
/// more because the nodes share the machine with other work.
fn attempts_max() -> u32 {
    const DEFAULT: u32 = 3;
    std::env::var("SHERD_E2E_ATTEMPTS").map_or(DEFAULT, |text| text.parse().expect("a number"))
}

fn client_by(endpoint: &str, credentials: Credentials, http: SharedHttpClient) -> Client {
    let timeouts = TimeoutConfig::builder().operation_attempt_timeout(Duration::from_secs(30)).build();
    let config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(http)
        .endpoint_url(endpoint)
        .region(Region::new("us-east-1"))
        .credentials_provider(credentials)
        .force_path_style(true)
        .retry_config(RetryConfig::standard().with_max_attempts(attempts_max()))
        .timeout_config(timeouts)
        .build();
    Client::from_conf(config)
}

/// Waits until a look succeeds, and says how long that took.
///
/// # Errors
/// The last text of the look, when the deadline is over.
pub async fn wait_for(
    what: &str,
    deadline: Duration,
    mut look: impl FnMut() -> Result<(), String>,
) -> Result<Duration, String> {
    let begun = Instant::now();
    loop {
        let last = match look() {
            Ok(()) => return Ok(begun.elapsed()),
            Err(last) => last,
        };
        if begun.elapsed() > deadline {
            return Err(format!("{what}: not within {deadline:?}: {last}"));
        }
        tokio::time::sleep(Duration::from_millis(500)).await;
    }
}
