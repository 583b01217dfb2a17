//! An exhaustive model of how a cluster of three nodes gets its first topology.
//!
//! Node 0 makes. Requests come late and repeatedly, answers get lost, nodes are killed and wiped at any step,
//! and a maker that starts again may begin with a number that was used, as with a clock that was set back.
//! Every decision is `sherd_core::topology::formation`'s. Checked in every state, while at most one node was
//! wiped: no two topologies are held, so no data is stored under one and looked for under another; and if
//! from here on nothing failed, all nodes would hold one, with a maker or, where another node holds it,
//! without. Then each rule marked [m] is taken out once and must be missed. Two nodes wiped during one
//! attempt can end with two topologies.

#![expect(clippy::cast_possible_truncation, reason = "three nodes and a handful of numbers")]

use std::time::Instant;

use sherd_core::topology::formation::{
    AttemptOutcome, FormAnswer, FormAttempt, FormationMember, PullTicket, next_attempt,
};
use sherd_models::search::{Model, search};

const NODES: usize = 3;
const STATES_MAX: usize = 20_000_000;

/// A topology is the ids that it was made of; 0 for a node that it was made without.
type Formed = [u8; NODES];
type Member = FormationMember<u8, Formed>;
type Attempt = FormAttempt<u8, Formed>;

/// A rule taken out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Without {
    /// Every rule is in.
    Nothing,
    /// A topology is made of the ids of two nodes.
    All,
    /// Attempts are answered in any order, and again.
    Order,
    /// A topology is taken in spite of any answer since it was asked for.
    Pull,
}

/// A configuration.
#[derive(Debug, Clone)]
struct FormingCluster {
    without: Without,
    attempts: u8,
    kills: u8,
    wipes: u8,
}

/// A node, and what is under way for it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct NodeOfModel {
    member: Member,
    /// Requests of attempts up to this number died with an earlier process.
    died: u8,
    /// How often it was wiped: its next ids differ.
    wiped: u8,
    /// A question for the topology, and a reply that is under way.
    pull: Option<(PullTicket, Option<Formed>)>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct State {
    nodes: [NodeOfModel; NODES],
    /// The maker's attempt; gone with its process.
    attempt: Option<Attempt>,
    /// The highest number of any attempt.
    highest: u8,
    attempts: u8,
    kills: u8,
    wipes: u8,
}

#[derive(Debug, Clone, Copy)]
#[expect(dead_code, reason = "read in traces")]
enum Step {
    Begin(u8),
    Answer { node: usize, attempt: u8, is_heard: bool },
    MakerTakes(Formed),
    MakerMakes(Formed),
    Ask(usize),
    Reply { to: usize, topology: Formed },
    Take(usize),
    Kill(usize),
    Wipe(usize),
}

impl State {
    fn after(&self, change: impl FnOnce(&mut Self)) -> Self {
        let mut after = self.clone();
        change(&mut after);
        for node in &mut after.nodes {
            if node.member.topology().is_some() {
                node.pull = None;
            }
        }
        after
    }

    fn held(&self) -> impl Iterator<Item = Formed> {
        self.nodes.iter().filter_map(|node| node.member.topology().copied())
    }

    /// A new process on what the volumes hold.
    fn restart(&mut self, node: usize, is_wiped: bool) {
        let NodeOfModel { member, wiped, .. } = &self.nodes[node];
        let wiped = wiped + u8::from(is_wiped);
        let (ids, topology) = (member.ids().copied(), member.topology().copied());
        let member = if is_wiped { Member::new(None, None) } else { Member::new(ids, topology) };
        self.nodes[node] = NodeOfModel { member, died: self.highest, wiped, pull: None };
        if node == 0 {
            self.attempt = None;
        }
    }

    fn number(&self) -> Option<u8> {
        self.attempt.as_ref().map(|attempt| attempt.number() as u8)
    }
}

impl FormingCluster {
    const fn all(attempts: u8, kills: u8, wipes: u8) -> Self {
        Self { without: Without::Nothing, attempts, kills, wipes }
    }

    fn is_out(&self, rule: Without) -> bool {
        self.without == rule
    }

    /// A node answers; ids are made durable first.
    fn answer(&self, state: &mut State, node: usize, attempt: u8) -> FormAnswer<u8, Formed> {
        let NodeOfModel { member, wiped, .. } = &mut state.nodes[node];
        member.hold_ids(10 * *wiped + node as u8 + 1);
        if self.is_out(Without::Order) {
            *member = Member::new(member.ids().copied(), member.topology().copied());
        }
        member.answer(attempt.into()).expect("it has ids")
    }

    fn may_take(&self, member: &Member, ticket: PullTicket) -> bool {
        let ticket = if self.is_out(Without::Pull) { member.ticket() } else { ticket };
        member.may_take(ticket)
    }

    fn outcome(&self, attempt: &Attempt) -> AttemptOutcome<u8, Formed> {
        match attempt.outcome() {
            AttemptOutcome::Waiting(missing) if self.is_out(Without::All) && missing.len() == 1 => {
                let mut filled = attempt.clone();
                filled.note(missing[0], FormAnswer::Ids(0));
                filled.outcome()
            }
            outcome => outcome,
        }
    }

    fn attempts(&self, state: &State, out: &mut Vec<(Step, State)>) {
        if state.attempts < self.attempts {
            // A running maker counts on; a new process begins with its clock, which may have been set back.
            let refused = state.attempt.as_ref().and_then(Attempt::refused_by);
            let numbers = match state.number() {
                Some(number) => vec![next_attempt(0, refused.max(Some(number.into()))) as u8],
                None if state.highest == 0 => vec![1],
                None => vec![1, state.highest + 1],
            };
            for number in numbers {
                let begun = state.after(|after| {
                    after.attempt = Some(Attempt::new(number.into(), NODES));
                    after.attempts += 1;
                    after.highest = after.highest.max(number);
                });
                out.push((Step::Begin(number), begun));
            }
        }
        for attempt in 1..=state.highest {
            let is_current = state.number() == Some(attempt);
            for node in 0..NODES {
                // The maker asks itself in its own process.
                if !(is_current || node != 0 && attempt > state.nodes[node].died) {
                    continue;
                }
                // A node always gets its own answers; a late answer of another is lost.
                let heard: &[bool] = match (is_current, node) {
                    (true, 0) => &[true],
                    (true, _) => &[true, false],
                    (false, _) => &[false],
                };
                for is_heard in heard.iter().copied() {
                    let answered = state.after(|after| {
                        let answer = self.answer(after, node, attempt);
                        if let Some(own) = after.attempt.as_mut().filter(|_| is_current && is_heard) {
                            own.note(node, answer);
                        }
                    });
                    out.push((Step::Answer { node, attempt, is_heard }, answered));
                }
            }
        }
    }

    fn decisions(&self, state: &State, out: &mut Vec<(Step, State)>) {
        let Some(attempt) = &state.attempt else { return };
        if !self.may_take(&state.nodes[0].member, attempt.ticket()) {
            return;
        }
        match self.outcome(attempt) {
            AttemptOutcome::Waiting(_) => {}
            AttemptOutcome::Take(formed) => {
                let taken = state.after(|after| after.nodes[0].member.hold(formed));
                out.push((Step::MakerTakes(formed), taken));
            }
            AttemptOutcome::Make(ids) => {
                let formed: Formed = ids.try_into().expect("an id of each node");
                let made = state.after(|after| after.nodes[0].member.hold(formed));
                out.push((Step::MakerMakes(formed), made));
            }
        }
    }

    fn pulls(&self, state: &State, out: &mut Vec<(Step, State)>) {
        for (at, node) in state.nodes.iter().enumerate() {
            if node.member.topology().is_some() {
                continue;
            }
            let asked = (node.member.ticket(), None);
            if node.pull != Some(asked) {
                out.push((Step::Ask(at), state.after(|after| after.nodes[at].pull = Some(asked))));
            }
            match node.pull {
                Some((ticket, None)) => {
                    let mut said: Vec<Formed> = state.held().collect();
                    said.dedup();
                    for topology in said {
                        let replied =
                            state.after(|after| after.nodes[at].pull = Some((ticket, Some(topology))));
                        out.push((Step::Reply { to: at, topology }, replied));
                    }
                }
                Some((ticket, Some(topology))) if self.may_take(&node.member, ticket) => {
                    let taken = state.after(|after| after.nodes[at].member.hold(topology));
                    out.push((Step::Take(at), taken));
                }
                None | Some(_) => {}
            }
        }
    }

    fn failures(&self, state: &State, out: &mut Vec<(Step, State)>) {
        for node in 0..NODES {
            if state.kills < self.kills {
                let killed = state.after(|after| {
                    after.restart(node, false);
                    after.kills += 1;
                });
                out.push((Step::Kill(node), killed));
            }
            if state.wipes < self.wipes {
                let wiped = state.after(|after| {
                    after.restart(node, true);
                    after.wipes += 1;
                });
                out.push((Step::Wipe(node), wiped));
            }
        }
    }

    /// Whether the formation ends if nothing fails from here on: attempts above every refusal, then pulls.
    fn comes_to_an_end(&self, state: &State, with_maker: bool) -> bool {
        let mut calm = state.clone();
        let mut highest = None;
        for _ in 0..3 {
            if !with_maker || calm.nodes[0].member.topology().is_some() {
                break;
            }
            let mut attempt = Attempt::new(next_attempt(0, highest), NODES);
            for node in 0..NODES {
                let answer = self.answer(&mut calm, node, attempt.number() as u8);
                attempt.note(node, answer);
            }
            highest = attempt.refused_by().max(Some(attempt.number()));
            let maker = &mut calm.nodes[0].member;
            match attempt.outcome() {
                AttemptOutcome::Take(formed) if maker.may_take(attempt.ticket()) => maker.hold(formed),
                AttemptOutcome::Make(ids) if maker.may_take(attempt.ticket()) => {
                    maker.hold(ids.try_into().expect("an id of each node"));
                }
                _ => {}
            }
        }
        for node in 0..NODES {
            if node == 0 && !with_maker {
                continue;
            }
            let ticket = calm.nodes[node].member.ticket();
            let formed = calm.held().next();
            if let Some(formed) = formed.filter(|_| calm.nodes[node].member.may_take(ticket)) {
                calm.nodes[node].member.hold(formed);
            }
        }
        let mut waiting = calm.nodes.iter().skip(usize::from(!with_maker));
        waiting.all(|node| node.member.topology().is_some())
    }
}

impl Model for FormingCluster {
    type State = State;
    type Step = Step;

    fn start(&self) -> State {
        let node = NodeOfModel { member: Member::new(None, None), died: 0, wiped: 0, pull: None };
        State {
            nodes: [node.clone(), node.clone(), node],
            attempt: None,
            highest: 0,
            attempts: 0,
            kills: 0,
            wipes: 0,
        }
    }

    fn steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        self.attempts(state, out);
        self.decisions(state, out);
        self.pulls(state, out);
        self.failures(state, out);
        // With every rule in, a reply whose ticket is out of date is never taken: it need not be kept.
        if self.is_out(Without::Nothing) {
            for (_, after) in out {
                for node in &mut after.nodes {
                    let is_late = |pull: &(PullTicket, _)| !node.member.may_take(pull.0);
                    node.pull = node.pull.filter(|pull| !is_late(pull));
                }
            }
        }
    }

    fn violation(&self, state: &State) -> Option<String> {
        let held: Vec<Formed> = state.held().collect();
        if held.iter().any(|formed| *formed != held[0]) {
            return Some(format!("two topologies: {held:?}"));
        }
        if !self.comes_to_an_end(state, true) {
            return Some("a node is left without a topology".to_owned());
        }
        // A dead maker keeps no node out.
        let others_hold = state.nodes[1..].iter().any(|node| node.member.topology().is_some());
        (others_hold && !self.comes_to_an_end(state, false))
            .then(|| "a node is left without a topology that another one holds".to_owned())
    }
}

fn holds(model: &FormingCluster) {
    let began = Instant::now();
    let found = search(model, STATES_MAX);
    println!(
        "{model:?}: {} states, depth {}, {:.1} s",
        found.states,
        found.depth,
        began.elapsed().as_secs_f32()
    );
    assert!(
        found.violation.is_none(),
        "{model:?}: {}",
        found.violation.map_or_else(String::new, |t| t.text())
    );
    assert!(found.complete, "{model:?}: cut short, which proves nothing");
}

fn breaks(without: Without) {
    let model = FormingCluster { without, ..FormingCluster::all(2, 1, 1) };
    let found = search(&model, STATES_MAX);
    let trace = found.violation.unwrap_or_else(|| panic!("{without:?} is not needed in {model:?}"));
    println!("without {without:?}: {}", trace.text());
}

#[test]
fn no_second_topology_is_made_while_at_most_one_node_is_wiped() {
    holds(&FormingCluster::all(2, 1, 1));
    holds(&FormingCluster::all(3, 0, 1));
    holds(&FormingCluster::all(3, 2, 1));
    holds(&FormingCluster::all(4, 1, 1));
}

#[test]
fn no_second_topology_is_made_by_makers_that_are_killed() {
    holds(&FormingCluster::all(3, 2, 0));
}

#[test]
fn a_topology_is_made_of_the_ids_of_all_nodes() {
    breaks(Without::All);
}

#[test]
fn attempts_are_answered_in_order() {
    breaks(Without::Order);
}

#[test]
fn a_topology_is_taken_only_where_nothing_was_answered_since_it_was_asked_for() {
    breaks(Without::Pull);
}
