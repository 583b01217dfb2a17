//! A node's reports of itself: metrics as numbers, health as it is answered.

use std::collections::BTreeMap;

use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use super::Node;
use super::wait::{SOON, bounded, eventually};

/// One scrape: `name{label="value"}` to its number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Reads Prometheus' text format. Panics on what is not.
    pub(crate) fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.is_empty() && !line.starts_with('#'));
        let pairs = lines.map(|line| {
            let (name, number) = line.rsplit_once(' ').expect("a sample is a name and a number");
            (name.to_owned(), number.parse().expect("a sample's value is a number"))
        });
        Self(pairs.collect())
    }

    /// A sample by its whole name, labels included as they are written.
    pub(crate) fn get(&self, name: &str) -> f64 {
        *self.0.get(name).unwrap_or_else(|| panic!("no metric {name}"))
    }

    /// The sum of a family over all its labels.
    pub(crate) fn sum(&self, family: &str) -> f64 {
        let prefix = format!("{family}{{");
        self.0.iter().filter(|(name, _)| **name == family || name.starts_with(&prefix)).map(|(_, n)| n).sum()
    }

    /// The sum of a family's samples that have a label.
    pub(crate) fn sum_with(&self, family: &str, label: &str) -> f64 {
        let prefix = format!("{family}{{");
        let has = |name: &str| {
            let labels = name.strip_prefix(&prefix).and_then(|labels| labels.strip_suffix('}'));
            labels.is_some_and(|labels| labels.split(',').any(|found| found == label))
        };
        self.0.iter().filter(|(name, _)| has(name)).map(|(_, number)| number).sum()
    }

    /// The one state that a volume is in.
    pub(crate) fn state(&self, volume: &str) -> &str {
        let label = format!("volume=\"{volume}\"");
        let mut states = self.0.iter().filter_map(|(name, number)| {
            let labels = name.strip_prefix("sherd_volume_state{")?.strip_suffix('}')?;
            let state = labels.split(',').find_map(|label| label.strip_prefix("state=\""))?;
            let is = *number > 0.0 && labels.split(',').any(|found| found == label);
            is.then(|| state.trim_end_matches('"'))
        });
        let state = states.next().unwrap_or_else(|| panic!("{volume} is in no state: {:?}", self.0));
        assert_eq!(states.next(), None, "{volume} is in one state at a time");
        state
    }
}

/// Asks an admin listener, which is at `http://HOST:PORT`.
///
/// # Errors
/// The connection's, as text.
pub(crate) async fn ask(admin: &str, path: &str) -> Result<(u16, String), String> {
    let address = admin.strip_prefix("http://").expect("plain HTTP");
    let exchange = async {
        let mut stream = TcpStream::connect(address).await?;
        let request = format!("GET {path} HTTP/1.1\r\nHost: {address}\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await?;
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.map(|_| answer)
    };
    let answer = bounded(path, SOON, exchange).await.map_err(|error| error.to_string())?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or("no whole head")?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).ok_or("no status")?;
    Ok((status, body.to_owned()))
}

impl Node {
    /// Asks the admin listener.
    ///
    /// # Errors
    /// The connection's, as text.
    pub(crate) async fn ask(&self, path: &str) -> Result<(u16, String), String> {
        ask(&self.admin, path).await
    }

    /// Scrapes it.
    pub(crate) async fn metrics(&self) -> Metrics {
        let (status, text) = self.ask("/metrics").await.expect("a node that runs answers a scrape");
        assert_eq!(status, 200, "{text}");
        Metrics::parse(&text)
    }

    /// Readiness document of the node.
    pub(crate) async fn readiness(&self) -> serde_json::Value {
        let (_, body) = self.ask("/health/ready").await.expect("a node that runs answers a probe");
        serde_json::from_str(&body).expect("readiness is JSON")
    }

    /// How many lines of its log have a text.
    pub(crate) fn log_lines(&self, text: &str) -> usize {
        self.log().lines().filter(|line| line.contains(text)).count()
    }

    /// The state of a volume, counted from 1.
    pub(crate) async fn state(&self, volume: usize) -> String {
        let name = self.volume(volume).canonicalize().unwrap_or_else(|_| self.volume(volume));
        self.metrics().await.state(&name.to_string_lossy()).to_owned()
    }

    /// Waits until a volume is in a state.
    pub(crate) async fn until_state(&self, volume: usize, state: &str) {
        let what = format!("volume {volume} becomes {state}");
        eventually(&what, super::wait::LATER, async || {
            let now = self.state(volume).await;
            if now == state { Ok(()) } else { Err(format!("it is {now}")) }
        })
        .await;
    }

    /// Waits until every set has its write quorum.
    pub(crate) async fn until_ready(&self) {
        eventually("the node becomes ready", SOON, async || match self.ask("/health/ready").await {
            Ok((200, _)) => Ok(()),
            Ok((status, body)) => Err(format!("{status} {body}")),
            Err(error) => Err(error),
        })
        .await;
    }

    /// Waits until all volumes are online and nothing waits to be healed.
    pub(crate) async fn until_whole(&self) {
        eventually("all is healed", super::wait::LATER, async || {
            let metrics = self.metrics().await;
            for volume in self.volumes() {
                let name = volume.canonicalize().unwrap_or(volume);
                let state = metrics.state(&name.to_string_lossy());
                if state != "online" {
                    return Err(format!("{} is {state}", name.display()));
                }
            }
            match metrics.get("sherd_mrf_queue_length") {
                0.0 => Ok(()),
                left => Err(format!("{left} entries wait to be healed")),
            }
        })
        .await;
    }

    /// Seconds since it started, by its own metric.
    pub(crate) async fn uptime(&self) -> f64 {
        let now = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
        let started = self.metrics().await.get("process_start_time_seconds");
        now.expect("the clock is past 1970").as_secs_f64() - started
    }

    /// Waits until nothing waits to be healed, with the volumes in any state.
    pub(crate) async fn until_healed(&self) {
        eventually("all is healed", super::wait::LATER, async || {
            match self.metrics().await.get("sherd_mrf_queue_length") {
                0.0 => Ok(()),
                left => Err(format!("{left} entries wait to be healed")),
            }
        })
        .await;
    }

    /// How many descriptors its process has open.
    pub(crate) fn open_descriptors(&self) -> usize {
        std::fs::read_dir(format!("/proc/{}/fd", self.pid())).expect("it runs").count()
    }

    /// Kilobytes of a line of /proc/PID/status.
    pub(crate) fn memory_kib(&self, line: &str) -> u64 {
        let status = std::fs::read_to_string(format!("/proc/{}/status", self.pid())).expect("it runs");
        let value = status.lines().find_map(|found| found.strip_prefix(line)?.strip_prefix(':'));
        let number = value.and_then(|value| value.split_whitespace().next()?.parse().ok());
        number.unwrap_or_else(|| panic!("no {line} in {status}"))
    }
}

#[test]
fn a_scrape_is_read_with_its_labels() {
    let text = "# HELP a b\na 1\nb{x=\"1\"} 2\nb{x=\"2\"} 3.5\n\
                sherd_volume_state{state=\"online\",volume=\"/v\"} 1\n\
                sherd_volume_state{state=\"failed\",volume=\"/v\"} 0\n";
    let metrics = Metrics::parse(text);
    assert!((metrics.get("a") - 1.0).abs() < f64::EPSILON);
    assert!((metrics.sum("b") - 5.5).abs() < f64::EPSILON);
    assert_eq!(metrics.state("/v"), "online");
}
