//! Metrics of a node of ours, from its admin listener, as far as measurements use them.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;

use super::Subject;
use crate::limits::ADMIN_TIMEOUT;

/// One scrape: `name{label="value"}` to its number.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Metrics(BTreeMap<String, f64>);

impl Metrics {
    /// Reads Prometheus' text format; lines that are not of it are left out.
    pub fn parse(text: &str) -> Self {
        let lines = text.lines().filter(|line| !line.starts_with('#'));
        let pairs = lines.filter_map(|line| line.rsplit_once(' '));
        Self(pairs.filter_map(|(name, number)| Some((name.to_owned(), number.parse().ok()?))).collect())
    }

    /// A sample by its whole name, labels included as they are written.
    pub fn get(&self, name: &str) -> Option<f64> {
        self.0.get(name).copied()
    }

    /// The state that a volume is in.
    pub fn volume_state(&self, volume: &Path) -> Option<&str> {
        let volume = format!("volume=\"{}\"", volume.display());
        self.0.iter().filter(|(_, number)| **number > 0.0).find_map(|(name, _)| {
            let labels = name.strip_prefix("sherd_volume_state{")?.strip_suffix('}')?;
            let mut labels = labels.split(',');
            let is = labels.clone().any(|label| label == volume);
            let state = labels.find_map(|label| label.strip_prefix("state=\"")?.strip_suffix('"'));
            state.filter(|_| is)
        })
    }

    /// Entries that wait to be healed.
    pub fn heal_queue_len(&self) -> Option<f64> {
        self.get("sherd_mrf_queue_length")
    }
}

impl Subject {
    /// Where a node that was started here has its admin listener: it prints that when it listens.
    pub fn admin(&self) -> Option<SocketAddr> {
        let output = self.output();
        let (_, address) = output.split_once("Admin listening on http://")?;
        address.split_whitespace().next()?.parse().ok()
    }
}

/// Reads the metrics of the node whose admin listener is at `address`.
///
/// # Errors
/// The node does not answer, or not with 200.
pub fn scrape(address: SocketAddr) -> io::Result<Metrics> {
    let mut stream = TcpStream::connect_timeout(&address, ADMIN_TIMEOUT)?;
    stream.set_read_timeout(Some(ADMIN_TIMEOUT))?;
    stream.set_write_timeout(Some(ADMIN_TIMEOUT))?;
    write!(stream, "GET /metrics HTTP/1.1\r\nhost: {address}\r\nconnection: close\r\n\r\n")?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer)?;
    match answer.split_once("\r\n\r\n") {
        Some((head, body)) if head.starts_with("HTTP/1.1 200") => Ok(Metrics::parse(body)),
        _ => Err(io::Error::other("no metrics in the admin listener's answer")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_state_of_a_volume_is_the_one_that_is_set() {
        let metrics = Metrics::parse(
            "# HELP sherd_mrf_queue_length x\nsherd_mrf_queue_length 7\n\
             sherd_volume_state{state=\"online\",volume=\"/a/1\"} 0\n\
             sherd_volume_state{state=\"recovering\",volume=\"/a/1\"} 1\n\
             sherd_volume_state{state=\"online\",volume=\"/a/11\"} 1\n",
        );
        assert_eq!(metrics.heal_queue_len(), Some(7.0));
        assert_eq!(metrics.volume_state(Path::new("/a/1")), Some("recovering"));
        assert_eq!(metrics.volume_state(Path::new("/a/11")), Some("online"));
        assert_eq!(metrics.volume_state(Path::new("/a/2")), None);
    }
}
