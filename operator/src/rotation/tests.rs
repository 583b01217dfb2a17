//! The law of a replacement of the CA, over random histories: at every moment each node trusts the
//! certificate of every other one, and the operator reaches all of them. Nodes load what is there at any
//! time, the operator is killed between any two writes, and a person deletes the Secrets or brings back older
//! ones. A seed is a history.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use sherd_core::id::ClusterId;
use sherd_proto::v1::{LoadedTrust, StatusReply};
use sherd_trust::{Authority, AuthorityCertificate};

use super::*;
use crate::rollout::NodeAnswers;

const CLUSTER: ClusterId = ClusterId([0x6a; 16]);
const NOW_S: i64 = 1_800_000_000;
const PODS: usize = 3;

/// Keys are costly to make, and histories share them.
static AUTHORITIES: LazyLock<Vec<Authority>> = LazyLock::new(|| {
    let now_ms = u64::try_from(NOW_S).expect("a time") * 1_000;
    (0..8).map(|_| Authority::init(CLUSTER, now_ms).expect("made")).collect()
});

type Texts = BTreeMap<String, String>;
type Print = [u8; 32];

fn prints(bundle: &str) -> Vec<Print> {
    AuthorityCertificate::read_all(bundle).expect("CAs").iter().map(|found| found.fingerprint).collect()
}

fn texts(record: &AuthorityRecord) -> Texts {
    record.texts().into_iter().map(|(key, text)| (key.to_owned(), text)).collect()
}

/// The certificates that one node has loaded: the CAs that it trusts, and the one that its own is of.
#[derive(Debug, Clone)]
struct Node {
    trusts: BTreeSet<Print>,
    shows: Print,
}

struct World {
    random: u64,
    history: Vec<String>,
    /// The CA's Secret, the copy, and the memory of the process.
    authority: Option<Texts>,
    copy: Option<Texts>,
    memory: Option<Texts>,
    /// Texts that a person may have in a backup.
    backups: Vec<Texts>,
    /// The Secret that pods mount: CAs, and the CA of each certificate.
    bundle: String,
    leaves: Vec<Print>,
    /// The CA's key in the status.
    known: Option<String>,
    request: String,
    nodes: Vec<Node>,
    made: usize,
    /// Whether the operator may be unable to reach nodes until they have loaded the CAs that are there: after
    /// a loss, and after a person brought an older Secret back.
    may_be_cut_off: bool,
    /// Whether a person brings older Secrets back.
    has_backups: bool,
}

impl World {
    fn new(seed: u64) -> Self {
        let first = AuthorityRecord::first(&AUTHORITIES[0], None);
        let print = prints(first.current())[0];
        let node = Node { trusts: [print].into(), shows: print };
        Self {
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
            history: vec![],
            authority: Some(texts(&first)),
            copy: Some(texts(&first)),
            memory: None,
            backups: vec![texts(&first)],
            bundle: first.bundle(),
            leaves: vec![print; PODS],
            known: first.key(),
            request: String::new(),
            nodes: vec![node; PODS],
            made: 1,
            may_be_cut_off: false,
            has_backups: seed.is_multiple_of(2),
        }
    }

    fn below(&mut self, bound: usize) -> usize {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        usize::try_from(self.random >> 33).expect("31 bits") % bound
    }

    fn next_authority(&mut self) -> &'static Authority {
        self.made += 1;
        &AUTHORITIES[(self.made - 1) % AUTHORITIES.len()]
    }

    #[track_caller]
    fn check(&self, at: &str) {
        for (a, node) in self.nodes.iter().enumerate() {
            for (b, other) in self.nodes.iter().enumerate() {
                assert!(
                    other.trusts.contains(&node.shows),
                    "{at}: node {b} does not trust node {a}: {:#?}",
                    self.history
                );
            }
        }
    }

    fn record(&self, known: Option<&str>) -> Option<AcceptedAuthority> {
        let accept = |texts: &Texts| AuthorityRecord::read(texts).ok()?.accept(known).ok();
        let copy = self.copy.as_ref().or(self.memory.as_ref());
        self.authority.as_ref().and_then(accept).or_else(|| copy.and_then(accept))
    }

    /// The record that a reconcile begins with: of another CA, as a person asked for, where each copy is
    /// gone.
    fn accepted(&mut self) -> Option<AcceptedAuthority> {
        if self.authority.is_none() && self.copy.is_none() && self.memory.is_none() {
            let record = AuthorityRecord::after_loss(self.bundle.clone(), self.next_authority(), None);
            self.may_be_cut_off = true;
            return Some(AcceptedAuthority { record, is_known: true });
        }
        let accepted = self.record(self.known.clone().as_deref());
        if accepted.is_none() {
            self.history.push("blocked".to_owned());
        }
        accepted
    }

    /// Makes one write, or is killed before it.
    fn write(&mut self, writes: &mut usize, write: impl FnOnce(&mut Self)) -> Option<()> {
        let Some(left) = writes.checked_sub(1) else {
            self.memory = None;
            return None;
        };
        *writes = left;
        write(self);
        Some(())
    }

    /// Writes a record, the copy first.
    fn write_record(&mut self, writes: &mut usize, record: &AuthorityRecord) -> Option<()> {
        self.write(writes, |world| world.copy = Some(texts(record)))?;
        self.write(writes, |world| world.authority = Some(texts(record)))
    }

    /// The answers of the nodes that the operator reaches.
    fn answers(&self, signer: Print, pods: &[String]) -> NodeAnswers {
        let roots = prints(&self.bundle);
        let mut answers = NodeAnswers::new();
        for (pod, node) in pods.iter().zip(&self.nodes) {
            let is_reached = node.trusts.contains(&signer) && roots.contains(&node.shows);
            assert!(is_reached || self.may_be_cut_off, "the operator: {:#?}", self.history);
            let trust = LoadedTrust {
                trusted_cas: node.trusts.iter().map(|print| print.to_vec().into()).collect(),
                certificate_ca: node.shows.to_vec().into(),
                certificate_expires_s: 0,
            };
            let reply = StatusReply { trust: Some(trust), ..StatusReply::default() };
            answers.insert(pod.clone(), if is_reached { Ok(reply) } else { Err("refused".to_owned()) });
        }
        answers
    }

    /// One reconcile, which is killed after `writes` writes.
    fn reconcile(&mut self, mut writes: usize) -> Option<RotationStep> {
        let seen_copy = self.copy.clone();
        let accepted = self.accepted()?;
        let record = &accepted.record;
        self.memory = Some(texts(record));
        self.history.push(format!("reconcile {} known {}", record.texts()["rotation"], accepted.is_known));
        self.write_record(&mut writes, record)?;
        let kept: Vec<Print> = accepted.keeps().into_iter().flat_map(prints).collect();
        let signer = prints(&record.signer().certificate)[0];
        self.write(&mut writes, |world| {
            world.bundle = record.bundle();
            if world.leaves.iter().any(|leaf| !kept.contains(leaf)) {
                world.leaves = vec![signer; PODS];
            }
        })?;
        let pods: Vec<String> = (0..PODS).map(|pod| format!("p{pod}")).collect();
        let (answers, request) = (self.answers(signer, &pods), self.request.clone());
        let input = RotationInput {
            accepted: &accepted,
            is_copied: seen_copy.as_ref() == Some(&texts(record)),
            request: Some(&request),
            pods: &pods,
            answers: &answers,
            now_s: NOW_S,
        };
        let (step, named) = (next_step(&input), named_key(&input, self.known.as_deref()));
        self.write(&mut writes, |world| world.known = named)?;
        let next = match step.clone() {
            RotationStep::Rest(rest) => {
                self.may_be_cut_off &= rest.is_some();
                return Some(step);
            }
            RotationStep::Wait(_) => return Some(step),
            RotationStep::Record(next) => next,
            RotationStep::MakeNext(current) => {
                let next = KeyedAuthority::of(self.next_authority());
                record.introducing(current, next, Some(&self.request))
            }
        };
        self.history.push(format!("records {}", next.texts()["rotation"]));
        self.write_record(&mut writes, &next)?;
        self.memory = Some(texts(&next));
        self.backups.push(texts(&next));
        Some(step)
    }

    /// A node takes up the CAs that are there, or starts again.
    fn load(&mut self, node: usize, starts: bool) {
        let trusts: BTreeSet<Print> = prints(&self.bundle).into_iter().collect();
        let shows = if starts { self.leaves[node] } else { self.nodes[node].shows };
        // A node refuses files that do not fit together, and one that starts would not come up.
        assert!(trusts.contains(&shows), "node {node}, starts {starts}: {:#?}", self.history);
        self.history.push(format!("node {node} loads, starts {starts}"));
        self.nodes[node] = Node { trusts, shows };
    }

    fn act(&mut self) {
        match self.below(14) {
            0..=4 => {
                let writes = self.below(8);
                drop(self.reconcile(writes));
            }
            5..=7 => {
                let node = self.below(PODS);
                self.load(node, false);
            }
            8 | 9 => {
                let node = self.below(PODS);
                self.load(node, true);
            }
            10 => self.request = format!("r{}", self.below(4)),
            11 => {
                self.history.push("the CA's Secret is deleted".to_owned());
                self.authority = None;
            }
            12 => {
                self.history.push("the copy is deleted".to_owned());
                self.copy = None;
            }
            _ if !self.has_backups => {}
            _ => {
                self.may_be_cut_off = true;
                let at = self.below(self.backups.len());
                let is_copy = self.below(2) == 0;
                self.history.push(format!("backup {at} is brought back, copy {is_copy}"));
                let backup = Some(self.backups[at].clone());
                *(if is_copy { &mut self.copy } else { &mut self.authority }) = backup;
            }
        }
    }

    /// Without further disturbance a replacement comes to its end.
    fn settle(&mut self) {
        if self.record(self.known.as_deref()).is_none()
            && (self.authority.is_some() || self.copy.is_some() || self.memory.is_some())
        {
            // Only older Secrets are left: a person removes them, and asks for another CA.
            (self.authority, self.copy, self.memory) = (None, None, None);
        }
        self.request = "settle".to_owned();
        for _ in 0..40 {
            let step = self.reconcile(usize::MAX);
            self.check("settling");
            for node in 0..PODS {
                for starts in [false, true] {
                    self.load(node, starts);
                    self.check("settling");
                }
            }
            if step == Some(RotationStep::Rest(None)) {
                break;
            }
        }
        let accepted = self.record(self.known.as_deref()).expect("it runs");
        assert!(matches!(accepted.record.state, RotationState::Steady { .. }), "{:#?}", self.history);
        assert_eq!(accepted.record.request.as_deref(), Some("settle"), "{:#?}", self.history);
        let current = prints(accepted.record.current())[0];
        for node in &self.nodes {
            assert_eq!((&node.trusts, node.shows), (&[current].into(), current), "{:#?}", self.history);
        }
    }
}

#[test]
fn at_every_moment_all_trust_each_other_and_a_replacement_ends() {
    for seed in 1..=100 {
        let mut world = World::new(seed);
        for _ in 0..80 {
            world.act();
            world.check(&format!("seed {seed}"));
        }
        world.settle();
    }
}

fn answer(trusts: &[&str], shows: &str) -> StatusReply {
    let bytes = |print: Print| print.to_vec().into();
    let trust = LoadedTrust {
        trusted_cas: trusts.iter().flat_map(|text| prints(text)).map(bytes).collect(),
        certificate_ca: bytes(prints(shows)[0]),
        certificate_expires_s: 0,
    };
    StatusReply { trust: Some(trust), ..StatusReply::default() }
}

/// A step that waits names the nodes and their lack.
#[test]
fn a_step_waits_with_words_for_every_node() {
    let [old, new] = [0, 1].map(|at| KeyedAuthority::of(&AUTHORITIES[at]));
    let first = AuthorityRecord::first(&AUTHORITIES[0], None);
    let record = first.introducing(old.clone(), new.clone(), Some("r1"));
    let accepted = record.accept(first.key().as_deref()).expect("the cluster's");
    let pods = ["p0".to_owned(), "p1".to_owned()];
    let step = |one: Result<StatusReply, String>| {
        let both = answer(&[&old.certificate, &new.certificate], &old.certificate);
        let answers = NodeAnswers::from([("p0".to_owned(), Ok(both)), ("p1".to_owned(), one)]);
        next_step(&RotationInput {
            accepted: &accepted,
            is_copied: true,
            request: Some("r1"),
            pods: &pods,
            answers: &answers,
            now_s: NOW_S,
        })
    };
    for (answer, words) in [
        (Err("connection refused".to_owned()), "do not answer: p1"),
        (Ok(StatusReply::default()), "older build"),
        (Ok(answer(&[&old.certificate], &old.certificate)), "do not trust the next CA yet: p1"),
    ] {
        let RotationStep::Wait(said) = step(answer) else { panic!("{words}") };
        assert!(said.contains(words), "{said}");
    }
    let both = answer(&[&old.certificate, &new.certificate], &old.certificate);
    let RotationStep::Record(switched) = step(Ok(both)) else { panic!("all have both") };
    let expected = RotationState::Switched { current: new, previous: old.certificate.clone() };
    assert_eq!(switched.state, expected, "the former key is not kept");
    assert!(!texts(&switched).values().any(|text| *text == old.key.0));
}

/// Each text of the annotation asks once; and the end of the CA asks, too.
#[test]
fn a_replacement_begins_when_it_is_asked_for_or_due() {
    let first = AuthorityRecord::first(&AUTHORITIES[0], Some("r1".to_owned()));
    let accepted = first.accept(None).expect("the cluster's");
    let (pods, answers) = ([], NodeAnswers::new());
    let begins = |request: Option<&str>, now_s: i64| {
        let step = next_step(&RotationInput {
            accepted: &accepted,
            is_copied: true,
            request,
            pods: &pods,
            answers: &answers,
            now_s,
        });
        matches!(step, RotationStep::MakeNext(_))
    };
    assert!(!begins(None, NOW_S) && !begins(Some("r1"), NOW_S) && !begins(Some(""), NOW_S));
    assert!(begins(Some("r2"), NOW_S));
    let ends = AUTHORITIES[0].not_after_s();
    let day = 24 * 3_600;
    assert!(!begins(None, ends - 396 * day) && begins(None, ends - 394 * day));
}

/// A Secret is read as it was written, and holds nothing of the states before.
#[test]
fn a_record_is_read_as_it_was_written() {
    let [old, new] = [0, 1].map(|at| KeyedAuthority::of(&AUTHORITIES[at]));
    let first = AuthorityRecord::first(&AUTHORITIES[0], Some("r1".to_owned()));
    let introducing = first.introducing(old.clone(), new.clone(), None);
    let switched = RotationState::Switched { current: new, previous: old.certificate.clone() };
    let switched = AuthorityRecord { state: switched, ..first.clone() };
    let lost = AuthorityRecord::after_loss(old.certificate, &AUTHORITIES[2], None);
    for record in [&first, &introducing, &switched, &lost] {
        let mut written = texts(&introducing);
        written.extend(texts(record));
        assert_eq!(AuthorityRecord::read(&written).expect("whole"), *record);
        assert_eq!(written, texts(record));
    }
    let mut restored = texts(&first);
    restored.retain(|key, _| ["cluster-id", "ca.crt", "ca.key", "rotation-request"].contains(&key.as_str()));
    assert_eq!(AuthorityRecord::read(&restored).expect("with the CA alone"), first);
    for (key, text, words) in [
        ("ca.key", "", "lacks ca.key"),
        ("cluster-id", "x", "cluster-id is malformed"),
        ("ca.crt", "x", "ca.crt: "),
        ("rotation", "later", "rotation says \"later\""),
        ("ca.key", &AUTHORITIES[1].key(), "does not fit"),
        ("cluster-id", &"0b".repeat(16), "is of cluster 6a"),
    ] {
        let mut broken = texts(&first);
        broken.insert(key.to_owned(), text.to_owned());
        let said = AuthorityRecord::read(&broken).expect_err(words).to_string();
        assert!(said.contains(words), "{said}");
    }
}
