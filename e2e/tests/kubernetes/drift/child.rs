//! One child under a watch. An edit is measured from the moment at which the watch shows it to the one at
//! which the watch shows it undone; each version of the object is looked at, so that no look is too early.

use std::io::BufReader;
use std::process::{Child as Process, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use sherd_e2e::kubernetes::Namespace;

use super::added::{additions, has_addition};
use super::fields::{entries, is_foreign, is_kept, leaves, others};
use super::{DriftReport, PROMISED};

/// When an edit counts as lost.
const LOST: Duration = Duration::from_mins(1);
/// The label and annotation of others.
const MARK: &str = "e2e.sherd.dev/theirs";

/// A child, and the watch on it.
pub(super) struct Child {
    namespace: Namespace,
    kind: &'static str,
    name: String,
    before: Value,
    /// Another one once the child was deleted and made again.
    uid: Value,
    process: Process,
    versions: Receiver<(Instant, Value)>,
    report: DriftReport,
}

impl Drop for Child {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl Child {
    pub(super) fn watch(namespace: &Namespace, kind: &'static str, name: &str) -> Result<Self, String> {
        let before = namespace.get(kind, name).ok_or_else(|| format!("no {kind} {name}"))?;
        let mut process = Command::new("kubectl")
            .args(["--namespace", &namespace.name, "get", kind, name, "--watch", "--output=json"])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(|error| format!("kubectl: {error}"))?;
        let (sender, versions) = channel();
        let stdout = process.stdout.take().ok_or("kubectl has no output")?;
        std::thread::spawn(move || {
            let printed = serde_json::Deserializer::from_reader(BufReader::new(stdout)).into_iter();
            for version in printed.map_while(Result::ok) {
                if sender.send((Instant::now(), version)).is_err() {
                    break;
                }
            }
        });
        let (namespace, name, report) = (namespace.clone(), name.to_owned(), DriftReport::default());
        let uid = before["metadata"]["uid"].clone();
        Ok(Self { namespace, kind, name, before, uid, process, versions, report })
    }

    /// Makes every edit, one after the other.
    pub(super) fn fuzz(mut self) -> Result<DriftReport, String> {
        self.mark()?;
        let (mut fields, mut listed) = (vec![], vec![]);
        leaves(&self.before, "", &mut fields);
        entries(&self.before, "", &mut listed);
        for (path, value) in &fields {
            self.change(path, value)?;
        }
        for (path, value) in &fields {
            self.take_away(path, value)?;
        }
        for (list, entry) in &listed {
            self.take_entry_away(list, entry)?;
        }
        self.add_entries(&fields)?;
        self.marks_stayed()?;
        Ok(std::mem::take(&mut self.report))
    }

    fn title(&self, what: &str) -> String {
        format!("{} {} {what}", self.before["kind"].as_str().unwrap_or_default(), self.name)
    }

    fn is_foreign(&self, path: &str) -> bool {
        // A certificate that is edited is issued again, and its pods are replaced for it.
        let is_issued = self.name.ends_with("-certificates");
        (is_issued && path.starts_with("/data/") && path != "/data/ca.crt")
            || is_foreign(self.before["kind"].as_str().unwrap_or_default(), path)
    }

    fn change(&mut self, path: &str, value: &Value) -> Result<(), String> {
        if self.is_foreign(path) {
            self.report.foreign.insert(self.title(path));
            return Ok(());
        }
        for other in others(value, path) {
            let request = json!([{"op": "replace", "path": path, "value": other}]);
            let is_back = self.is_back(path, value);
            let is_back = |now: &Value| now.pointer(path) != Some(&other) && is_back(now);
            if self.edit(&format!("{path} changed"), &request, is_back)? {
                return Ok(());
            }
        }
        self.report.refused += 1;
        Ok(())
    }

    fn take_away(&mut self, path: &str, value: &Value) -> Result<(), String> {
        if self.is_foreign(path) || is_kept(self.before["kind"].as_str().unwrap_or_default(), path) {
            return Ok(());
        }
        let request = json!([{"op": "remove", "path": path}]);
        let is_back = self.is_back(path, value);
        if !self.edit(&format!("{path} taken away"), &request, is_back)? {
            self.report.refused += 1;
        }
        Ok(())
    }

    fn take_entry_away(&mut self, list: &str, entry: &Value) -> Result<(), String> {
        let now = self.now()?;
        let place =
            |object: &Value| object.pointer(list)?.as_array()?.iter().position(|other| other == entry);
        let title = format!("{list} without {}", first_text(entry));
        let Some(at) = place(&now) else {
            let fault = self.title(&format!("{title}: it is not there before"));
            self.report.faults.push(fault);
            return Ok(());
        };
        let patch = json!([{"op": "remove", "path": format!("{list}/{at}")}]);
        if !self.edit(&title, &patch, |now| place(now).is_some())? {
            self.report.refused += 1;
        }
        Ok(())
    }

    fn add_entries(&mut self, fields: &[(String, Value)]) -> Result<(), String> {
        for addition in additions(self.kind) {
            let Some(undo) = addition.undo else {
                if !self
                    .edit(&format!("with {}", addition.name), &addition.patch, |now| !has_addition(now))?
                {
                    self.report.refused += 1;
                }
                continue;
            };
            if self.patched(&addition.patch).is_none() {
                self.report.refused += 1;
                continue;
            }
            // The operator has written the child with the entry once another edit is undone.
            // A Secret without an owner, with another manager and with a key that the copy lacks, is as
            // good as another person's: those labels are edited without the entry.
            let own = fields.iter().find(|(path, _)| path == "/metadata/labels/app.kubernetes.io~1name");
            let (path, value) = own.ok_or("no label of the operator's")?;
            self.change(path, value)?;
            let title = self.title(&format!("{} that is added", addition.name));
            if has_addition(&self.now()?) {
                self.report.foreign.insert(title);
            } else {
                self.report.faults.push(format!("{title} was taken away"));
            }
            self.kubectl(&[
                "patch",
                self.kind,
                &self.name,
                "--type=strategic",
                "--patch",
                &undo.to_string(),
            ])?;
        }
        Ok(())
    }

    fn mark(&self) -> Result<(), String> {
        let mark = format!("{MARK}=kept");
        self.kubectl(&["label", self.kind, &self.name, &mark])?;
        self.kubectl(&["annotate", self.kind, &self.name, &mark])
    }

    fn marks_stayed(&mut self) -> Result<(), String> {
        let now = self.now()?;
        for marked in ["labels", "annotations"] {
            let title = self.title(&format!("/metadata/{marked}/{MARK} that is added"));
            if now["metadata"][marked][MARK] == "kept" {
                self.report.foreign.insert(title);
            } else {
                self.report.faults.push(format!("{title} was taken away"));
            }
        }
        let without = format!("{MARK}-");
        self.kubectl(&["label", self.kind, &self.name, &without])?;
        self.kubectl(&["annotate", self.kind, &self.name, &without])?;
        Ok(())
    }

    /// Whether a field is what it was, or what may stand in its place.
    fn is_back(&self, path: &str, value: &Value) -> impl Fn(&Value) -> bool + use<> {
        // A budget follows what is healed, which may be another number than before.
        let is_budget = self.kind == "poddisruptionbudget" && path == "/spec/maxUnavailable";
        let (path, value) = (path.to_owned(), value.clone());
        move |now: &Value| match now.pointer(&path) {
            Some(now) => *now == value || (is_budget && (*now == 0 || *now == 1)),
            None => false,
        }
    }

    /// Makes an edit, and waits until it is undone. Returns false where the API server does not take it, or
    /// takes it back itself.
    fn edit(&mut self, what: &str, patch: &Value, is_back: impl Fn(&Value) -> bool) -> Result<bool, String> {
        let Some(edited) = self.patched(patch) else { return Ok(false) };
        if is_back(&edited) {
            return Ok(false);
        }
        let (edit, mut begun) = (version(&edited), Instant::now());
        loop {
            let (when, now) = match self.versions.recv_timeout(LOST.saturating_sub(begun.elapsed())) {
                Ok(found) => found,
                Err(RecvTimeoutError::Timeout) => {
                    let fault = self.title(&format!("{what}: not within {LOST:?}"));
                    self.report.faults.push(fault);
                    return Ok(true);
                }
                Err(RecvTimeoutError::Disconnected) => return Err(self.title("is not watched any more")),
            };
            if version(&now) == edit {
                begun = when;
            }
            if version(&now) <= edit || !is_back(&now) {
                continue;
            }
            let took = when.saturating_duration_since(begun);
            let title = self.title(what);
            if now["metadata"]["uid"] != self.uid {
                // As the documentation says of fixed fields; labels and annotations of others go with it.
                self.uid = now["metadata"]["uid"].clone();
                self.report.made_again.insert(title.clone());
                self.mark()?;
            }
            if took > PROMISED {
                self.report.faults.push(format!("{title}: after {:.1} s", took.as_secs_f64()));
            }
            let (slowest, slowest_edit) = (took, title);
            self.report.add(DriftReport { back: 1, slowest, slowest_edit, ..DriftReport::default() });
            return Ok(true);
        }
    }

    /// The object as the API server takes a JSON patch; nothing where it refuses it.
    fn patched(&self, patch: &Value) -> Option<Value> {
        let patch = patch.to_string();
        let request = ["patch", self.kind, &self.name, "--type=json", "--patch", &patch, "--output=json"];
        serde_json::from_str(&self.namespace.kubectl(&request).ok()?).ok()
    }

    fn now(&self) -> Result<Value, String> {
        self.namespace.get(self.kind, &self.name).ok_or_else(|| self.title("is not there"))
    }

    fn kubectl(&self, arguments: &[&str]) -> Result<(), String> {
        self.namespace.kubectl(arguments).map(|_| ()).map_err(|error| error.to_string())
    }
}

/// The API server counts the versions of all objects of a kind.
fn version(object: &Value) -> u64 {
    object["metadata"]["resourceVersion"].as_str().and_then(|version| version.parse().ok()).unwrap_or(0)
}

/// The text that distinguishes an entry of a list.
fn first_text(entry: &Value) -> String {
    let name = ["name", "mountPath", "port", "kind"].iter().find_map(|field| entry.get(*field));
    name.map_or_else(|| entry.to_string(), Value::to_string)
}
