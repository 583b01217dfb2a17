//! A look at an object that misses no change: `kubectl get --watch` runs beside a case, and each line that it
//! prints is kept in order.

use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};

use sherd_e2e::kubernetes::Namespace;

/// A watch that runs.
pub(crate) struct Watched {
    child: Child,
    lines: Receiver<String>,
}

impl Watched {
    /// Watches an object; each state of it is a line of this JSONPath template.
    pub(crate) fn start(
        namespace: &Namespace,
        object: [&str; 2],
        template: &str,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let output = format!("--output=jsonpath={template}{{\"\\n\"}}");
        let mut child = Command::new("kubectl")
            .args(["--namespace", &namespace.name, "get", object[0], object[1], "--watch", &output])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        let (sender, lines) = channel();
        let stdout = child.stdout.take().ok_or("kubectl has no output")?;
        std::thread::spawn(move || {
            let printed = BufReader::new(stdout).lines().map_while(Result::ok);
            for line in printed {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        Ok(Self { child, lines })
    }

    /// The states that were printed since the last look.
    ///
    /// # Errors
    /// The watch has ended: what it would have shown is not known.
    pub(crate) fn news(&mut self) -> Result<Vec<String>, String> {
        let news = self.lines.try_iter().collect();
        match self.child.try_wait() {
            Ok(None) => Ok(news),
            ended => Err(format!("kubectl get --watch ended: {ended:?}")),
        }
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
