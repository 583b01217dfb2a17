//! A real Prometheus on this machine that scrapes pods through the API server's proxy, as a check that
//! what nodes and operator serve is what Prometheus reads.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Child, Command, Stdio};

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::Value;

use crate::command::{CommandError, run};

/// A Prometheus; it ends when it is dropped.
#[derive(Debug)]
pub struct Prometheus {
    process: Child,
    address: String,
}

impl Drop for Prometheus {
    fn drop(&mut self) {
        // A process that is gone already needs no end.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// A pod's port that is scraped.
#[derive(Debug, Clone)]
pub struct Target {
    /// The pod's namespace.
    pub namespace: String,
    /// The pod.
    pub pod: String,
    /// The pod's port.
    pub port: u16,
    /// The job, as the chart's PodMonitors name it.
    pub job: &'static str,
    /// The StorageCluster of a node.
    pub cluster: Option<String>,
}

impl Prometheus {
    /// Starts one with a folder of its own, which scrapes these targets each two seconds.
    ///
    /// # Errors
    /// If the KUBECONFIG cannot be read, or Prometheus not be configured or started.
    pub fn start(folder: &Path, port: u16, targets: &[Target]) -> Result<Self, Box<dyn std::error::Error>> {
        std::fs::create_dir_all(folder)?;
        let access = Access::read(folder)?;
        let jobs: Vec<Value> = targets.iter().map(|target| access.job(target)).collect();
        let config = serde_json::json!({
            "global": {"scrape_interval": "2s", "scrape_timeout": "2s"},
            "scrape_configs": jobs,
        });
        // JSON is YAML.
        let file = folder.join("prometheus.yml");
        std::fs::write(&file, config.to_string())?;
        let address = format!("127.0.0.1:{port}");
        let log = std::fs::File::create(folder.join("prometheus.log"))?;
        let process = Command::new("prometheus")
            .arg(format!("--config.file={}", file.display()))
            .arg(format!("--storage.tsdb.path={}", folder.join("data").display()))
            .arg(format!("--web.listen-address={address}"))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(log)
            .spawn()?;
        Ok(Self { process, address })
    }

    /// Asks for an expression, and returns its values by pod.
    ///
    /// # Errors
    /// [`CommandError`] while it does not answer, or an answer of another form.
    pub fn query(&self, expression: &str) -> Result<BTreeMap<String, f64>, Box<dyn std::error::Error>> {
        let value = |result: &Value| {
            let pod = result["metric"]["pod"].as_str()?.to_owned();
            Some((pod, result["value"][1].as_str()?.parse().ok()?))
        };
        Ok(self.series(expression)?.iter().filter_map(value).collect())
    }

    /// Asks for an expression, and returns its series.
    ///
    /// # Errors
    /// As [`Prometheus::query`].
    pub fn series(&self, expression: &str) -> Result<Vec<Value>, Box<dyn std::error::Error>> {
        let url = format!("http://{}/api/v1/query", self.address);
        let query = format!("query={expression}");
        let answer = run("curl", &["--silent", "--fail", "--get", &url, "--data-urlencode", &query])?;
        let mut answer: Value = serde_json::from_str(&answer)?;
        match answer["data"]["result"].take() {
            Value::Array(series) => Ok(series),
            _ => Err("no result".into()),
        }
    }
}

struct Access {
    host: String,
    folder: String,
}

impl Access {
    /// Writes the certificates of the KUBECONFIG beside Prometheus.
    fn read(folder: &Path) -> Result<Self, Box<dyn std::error::Error>> {
        let config = run("kubectl", &["config", "view", "--raw", "--minify", "--output", "json"])?;
        let config: Value = serde_json::from_str(&config)?;
        let (cluster, user) = (&config["clusters"][0]["cluster"], &config["users"][0]["user"]);
        let server = cluster["server"].as_str().ok_or("no server")?;
        for (name, value) in [
            ("ca.crt", &cluster["certificate-authority-data"]),
            ("client.crt", &user["client-certificate-data"]),
            ("client.key", &user["client-key-data"]),
        ] {
            let text = value.as_str().ok_or_else(|| format!("the KUBECONFIG holds no {name}"))?;
            std::fs::write(folder.join(name), STANDARD.decode(text)?)?;
        }
        let host = server.trim_start_matches("https://").to_owned();
        Ok(Self { host, folder: folder.display().to_string() })
    }

    fn job(&self, target: &Target) -> Value {
        let Target { namespace, pod, port, job, cluster } = target;
        // The labels are those that the PodMonitors give to what they scrape.
        let mut labels = serde_json::json!({"namespace": namespace, "pod": pod, "job": job});
        if let Some(cluster) = cluster {
            labels["cluster"] = serde_json::json!(cluster);
        }
        serde_json::json!({
            "job_name": pod,
            "scheme": "https",
            "honor_labels": true,
            "metrics_path": format!("/api/v1/namespaces/{namespace}/pods/{pod}:{port}/proxy/metrics"),
            "tls_config": {
                "ca_file": format!("{}/ca.crt", self.folder),
                "cert_file": format!("{}/client.crt", self.folder),
                "key_file": format!("{}/client.key", self.folder),
            },
            "static_configs": [{"targets": [self.host], "labels": labels}],
        })
    }
}

/// Whether Prometheus can be started here.
///
/// # Errors
/// [`CommandError`] says why not.
pub fn is_there() -> Result<(), CommandError> {
    run("prometheus", &["--version"]).map(|_| ())
}
