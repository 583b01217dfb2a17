//! Formation: what one node decides while its cluster has no topology that it holds.
//!
//! ```text
//! maker, attempt a     every node                      node without a topology -> any holder
//!   | -- Form(a) ------> | refuses a <= last answered      | ticket := last answered
//!   | <-- ids | topology | last answered := a              | -- Topology? ------------>
//!   |   a topology: takes it                               | <----------- topology ----
//!   |   ids of all: makes one of them                      |   takes it if ticket = last answered
//! ```
//! Ids and topologies are durable before they are said. So an attempt that gets ids from every node makes the
//! first topology: an older one would have been in an answer, and one that a node pulls after its answer does
//! not descend from an older one. The node's runtime and `node/models/tests/formation_model.rs` call the same
//! functions.

/// State of one node, durable before it is sent. `I` stands for the durable ids of its volumes, `T` for a
/// topology.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FormationMember<I, T> {
    ids: Option<I>,
    topology: Option<T>,
    /// The number of the attempt that was answered last, by this process.
    last_answered: Option<u64>,
}

/// A node's answer to an attempt.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum FormAnswer<I, T> {
    /// An attempt of this number or a higher one was answered already.
    Refused(u64),
    /// The node holds no topology; these are its volumes, by ordinal.
    Ids(I),
    /// The topology that the node holds.
    Topology(T),
}

/// A node cannot answer an attempt: it has no ids yet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the node's volumes have no durable ids yet")]
pub struct NoIds;

/// How a question for a topology, or an attempt, stands to what the node answered since.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct PullTicket(Option<u64>);

impl<I: Clone, T: Clone> FormationMember<I, T> {
    /// A process that starts on volumes that hold this.
    pub const fn new(ids: Option<I>, topology: Option<T>) -> Self {
        Self { ids, topology, last_answered: None }
    }

    /// The topology that it holds durably.
    pub const fn topology(&self) -> Option<&T> {
        self.topology.as_ref()
    }

    /// The ids that its volumes hold durably.
    pub const fn ids(&self) -> Option<&I> {
        self.ids.as_ref()
    }

    /// The number of the attempt that it answered last.
    pub const fn last_answered(&self) -> Option<u64> {
        self.last_answered
    }

    /// Notes ids that are durable; those that it has already stay.
    pub fn hold_ids(&mut self, ids: I) {
        self.ids.get_or_insert(ids);
    }

    /// Notes a topology that is durable on its volumes; the one that it has already stays.
    pub fn hold(&mut self, topology: T) {
        self.topology.get_or_insert(topology);
    }

    /// Answers an attempt. No number is answered twice and none after a higher one, so an unchanged last
    /// number proves that nothing was answered.
    ///
    /// # Errors
    /// [`NoIds`]: the caller makes them durable first. Nothing counts as answered.
    pub fn answer(&mut self, attempt: u64) -> Result<FormAnswer<I, T>, NoIds> {
        if let Some(last) = self.last_answered.filter(|last| attempt <= *last) {
            return Ok(FormAnswer::Refused(last));
        }
        let answer = match (&self.topology, &self.ids) {
            (Some(topology), _) => FormAnswer::Topology(topology.clone()),
            (None, Some(ids)) => FormAnswer::Ids(ids.clone()),
            (None, None) => return Err(NoIds),
        };
        self.last_answered = Some(attempt);
        Ok(answer)
    }

    /// Taken before a holder is asked for its topology.
    pub const fn ticket(&self) -> PullTicket {
        PullTicket(self.last_answered)
    }

    /// Whether a topology that came for this ticket may be taken: the node holds none, and answered no
    /// attempt since. One that it answered since may be making another one of its ids.
    pub fn may_take(&self, ticket: PullTicket) -> bool {
        self.topology.is_none() && ticket.0 == self.last_answered
    }
}

/// One attempt of the maker: the answers that came to it.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct FormAttempt<I, T> {
    number: u64,
    answers: Vec<Option<FormAnswer<I, T>>>,
}

/// The maker's next step, by the answers that it has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AttemptOutcome<I, T> {
    /// These nodes, by ordinal, did not answer this attempt.
    Waiting(Vec<usize>),
    /// A node answered with a topology: that is the cluster's.
    Take(T),
    /// Every node answered with ids, by ordinal: a topology is made of them.
    Make(Vec<I>),
}

impl<I: Clone, T: Clone> FormAttempt<I, T> {
    /// An attempt among `nodes` nodes.
    pub fn new(number: u64, nodes: usize) -> Self {
        Self { number, answers: (0..nodes).map(|_| None).collect() }
    }

    /// Number of the attempt.
    pub const fn number(&self) -> u64 {
        self.number
    }

    /// The maker takes and makes topologies under this ticket: its own answer to the attempt is its last.
    pub const fn ticket(&self) -> PullTicket {
        PullTicket(Some(self.number))
    }

    /// Notes a node's answer to this attempt; of several the first counts.
    pub fn note(&mut self, node: usize, answer: FormAnswer<I, T>) {
        if let Some(place @ None) = self.answers.get_mut(node) {
            *place = Some(answer);
        }
    }

    /// Outcome by the answers. One topology is enough; ids are needed of every node, because the one that did
    /// not answer may hold a topology.
    pub fn outcome(&self) -> AttemptOutcome<I, T> {
        let mut waiting = Vec::new();
        let mut ids = Vec::with_capacity(self.answers.len());
        for (node, answer) in self.answers.iter().enumerate() {
            match answer {
                Some(FormAnswer::Topology(topology)) => return AttemptOutcome::Take(topology.clone()),
                Some(FormAnswer::Ids(own)) => ids.push(own.clone()),
                Some(FormAnswer::Refused(_)) | None => waiting.push(node),
            }
        }
        if waiting.is_empty() { AttemptOutcome::Make(ids) } else { AttemptOutcome::Waiting(waiting) }
    }

    /// The highest number that a refusal named.
    pub fn refused_by(&self) -> Option<u64> {
        let refused = |answer: &Option<FormAnswer<I, T>>| match answer {
            Some(FormAnswer::Refused(last)) => Some(*last),
            Some(FormAnswer::Ids(_) | FormAnswer::Topology(_)) | None => None,
        };
        self.answers.iter().filter_map(refused).max()
    }
}

/// Whether a node that holds `own` serves beside nodes that hold `others`: all of these are one topology, or
/// more nodes hold this one than any other. Two nodes that are wiped during one attempt can leave two
/// topologies of one configuration, and data stored under one is not found under the other.
pub fn may_serve<T: PartialEq>(own: &T, others: &[T]) -> bool {
    let holders = |held: &T| others.iter().filter(|other| *other == held).count();
    let own_holders = 1 + holders(own);
    others.iter().all(|other| other == own || holders(other) < own_holders)
}

/// The number of the maker's next attempt: above every one that it made or received, and not below its clock,
/// so that a maker that starts again is seldom refused.
pub fn next_attempt(clock_ms: u64, highest: Option<u64>) -> u64 {
    highest.map_or(clock_ms, |highest| clock_ms.max(highest.saturating_add(1)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_two_topologies_the_one_that_more_nodes_hold_is_served() {
        assert!(may_serve(&1, &[]));
        assert!(may_serve(&1, &[1, 1]));
        assert!(may_serve(&1, &[1, 2]));
        assert!(!may_serve(&2, &[1, 1]));
        assert!(!may_serve(&1, &[2]) && !may_serve(&1, &[1, 2, 2]), "which one is unknown");
        assert!(may_serve(&1, &[1, 2, 3]));
    }
}
