//! The faults of the cluster, and their times: drawn from a seed, so that a run can be repeated.
//!
//! A round is one loss of a volume's state at most, beside any number of disturbances that lose nothing. The
//! next round begins when all volumes are healed, for no store keeps what more volumes lose at one time than
//! it has copies. A volume whose bytes rotted counts as lost until it is replaced: not all that is on it was
//! read. So it is the one that the next round wipes.

use std::collections::BTreeSet;
use std::time::Duration;

use crate::harness::data::Dice;
use crate::harness::relay::{Link, Way};

/// How long clients leave a gateway alone before it is stopped for its bytes to rot: what it took last is
/// noted by its peers by then. The very last records of a log are the only ones whose loss may pass
/// unnoticed.
pub(super) const DRAIN: Duration = Duration::from_secs(3);
/// How long a gateway's accepts are kept back before it is stopped, so that it stands between two of them.
pub(super) const KEPT_BACK: Duration = Duration::from_millis(300);

/// A loss of a volume's state.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loss {
    /// Emptied.
    Wiped,
    /// Rolled back to an earlier round.
    RolledBack,
    /// Flipped bits in the log and the shards.
    Rotten,
}

/// A fault of a node or a link that loses nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Trouble {
    /// SIGKILL, and a start at the end. Its volume is copied meanwhile, to be rolled back to later.
    Killed(usize),
    /// SIGSTOP, and SIGCONT at the end.
    StandsStill(usize),
    /// SIGSTOP while accepts of its own are under way to others, which get them long after.
    SleepsBetweenAccepts(usize),
    /// Filesystem without room.
    Full(usize),
    /// The link that one node dials another over.
    Link(usize, usize, Link),
    /// The links between two nodes, both ways.
    Links(usize, usize, Link),
    /// A loss: the node is killed or stopped, and started at the end.
    Loses(usize, Loss),
}

/// A trouble and its time, counted from the beginning of its round.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Event {
    pub(super) begins: Duration,
    pub(super) ends: Duration,
    pub(super) trouble: Trouble,
}

/// The source that rounds are drawn from.
#[derive(Debug)]
pub(super) struct Planner {
    dice: Dice,
    nodes: usize,
    /// The node whose volume may be filled, if any.
    fillable: Option<usize>,
    /// The longest that a node stands still.
    still_max: Duration,
    rounds: usize,
    /// Nodes of whose volume there is a copy from before the last healing.
    copied: BTreeSet<usize>,
    rotten: Option<usize>,
}

impl Planner {
    /// For a number of nodes.
    pub(super) fn new(dice: Dice, nodes: usize, fillable: Option<usize>, still_max: Duration) -> Self {
        Self { dice, nodes, fillable, still_max, rounds: 0, copied: BTreeSet::new(), rotten: None }
    }

    /// The events of the next round.
    pub(super) fn next_round(&mut self) -> Vec<Event> {
        let (victim, loss) = self.loss();
        let mut events =
            vec![Event { begins: self.after(0), ends: self.after(6), trouble: Trouble::Loses(victim, loss) }];
        // Processes stop one after the other, for two at one time leave few that take writes.
        let mut now = self.after(1);
        let mut touched = BTreeSet::new();
        let kinds = self.kinds();
        for kind in kinds {
            let Some(node) = self.other_than(victim, &touched) else { break };
            let lasts = self.lasts(kind);
            let trouble = match kind {
                Kind::Killed => Trouble::Killed(node),
                Kind::StandsStill => Trouble::StandsStill(node),
                Kind::SleepsBetweenAccepts => Trouble::SleepsBetweenAccepts(node),
            };
            if kind == Kind::Killed {
                self.copied.insert(node);
            }
            touched.insert(node);
            events.push(Event { begins: now, ends: now + lasts, trouble });
            now += lasts + self.after(0);
        }
        for number in 0..3 {
            let begins = self.after(2 * number);
            let ends = begins + self.after(2);
            let trouble = self.link();
            events.push(Event { begins, ends, trouble });
        }
        if let Some(node) = self.fillable.filter(|node| *node != victim && !Self::copied_now(&events, *node))
        {
            let begins = self.after(1);
            events.push(Event { begins, ends: begins + self.after(4), trouble: Trouble::Full(node) });
        }
        self.rounds += 1;
        events
    }

    /// Whether a node's volume is copied in this round: what fills it would be copied with it.
    fn copied_now(events: &[Event], node: usize) -> bool {
        events.iter().any(|event| event.trouble == Trouble::Killed(node))
    }

    /// The volume that loses data in this round, and its loss.
    fn loss(&mut self) -> (usize, Loss) {
        if let Some(rotten) = self.rotten.take() {
            self.copied.remove(&rotten);
            return (rotten, Loss::Wiped);
        }
        let copied: Vec<usize> = self.copied.iter().copied().collect();
        let loss = match self.rounds % 3 {
            1 if !copied.is_empty() => Loss::RolledBack,
            2 => Loss::Rotten,
            _ => Loss::Wiped,
        };
        let victim = match loss {
            Loss::RolledBack => copied[self.dice.below(copied.len())],
            Loss::Wiped | Loss::Rotten => self.dice.below(self.nodes),
        };
        if loss == Loss::Rotten {
            self.rotten = Some(victim);
        }
        (victim, loss)
    }

    /// Faults of processes: a kill in each round, for the next one may need its copy.
    fn kinds(&mut self) -> Vec<Kind> {
        let mut kinds = vec![Kind::Killed, Kind::StandsStill, Kind::SleepsBetweenAccepts];
        let first = self.dice.below(kinds.len());
        kinds.rotate_left(first);
        kinds
    }

    fn lasts(&mut self, kind: Kind) -> Duration {
        match kind {
            Kind::Killed => self.after(1),
            Kind::StandsStill | Kind::SleepsBetweenAccepts => {
                let most = u64::try_from(self.still_max.as_millis()).expect("minutes at most");
                Duration::from_millis(self.dice.within(2_000..=most))
            }
        }
    }

    fn link(&mut self) -> Trouble {
        let from = self.dice.below(self.nodes);
        let to = (from + 1 + self.dice.below(self.nodes - 1)) % self.nodes;
        match self.dice.below(7) {
            0 => Trouble::Link(from, to, Link::Cut),
            1 => Trouble::Links(from, to, Link::Cut),
            2 => Trouble::Link(from, to, Link::Held(Way::Requests)),
            3 => Trouble::Link(from, to, Link::Held(Way::Replies)),
            4 => Trouble::Links(from, to, Link::Silent),
            _ => {
                let delay = Duration::from_millis(self.dice.within(20..=400));
                Trouble::Links(from, to, Link::Slow(delay))
            }
        }
    }

    fn other_than(&mut self, victim: usize, touched: &BTreeSet<usize>) -> Option<usize> {
        let free: Vec<usize> =
            (0..self.nodes).filter(|node| *node != victim && !touched.contains(node)).collect();
        (!free.is_empty()).then(|| free[self.dice.below(free.len())])
    }

    /// From this second to the next.
    fn after(&mut self, seconds: u64) -> Duration {
        Duration::from_millis(seconds * 1000 + self.dice.within(0..=1000))
    }
}

/// A fault of a process.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Killed,
    StandsStill,
    SleepsBetweenAccepts,
}

#[test]
fn a_plan_is_that_of_its_seed_and_loses_one_volume_at_a_time() {
    let plan = |seed| {
        let mut planner = Planner::new(Dice::new(seed), 4, Some(0), Duration::from_secs(5));
        (0..12).map(|_| planner.next_round()).collect::<Vec<_>>()
    };
    assert_eq!(plan(7), plan(7));
    assert_ne!(plan(7), plan(8));
    for seed in 0..50 {
        let (mut copied, mut rotten, mut seen) = (BTreeSet::new(), None, BTreeSet::new());
        for round in plan(seed) {
            let losses: Vec<_> = round
                .iter()
                .filter_map(|event| match event.trouble {
                    Trouble::Loses(node, loss) => Some((node, loss)),
                    _ => None,
                })
                .collect();
            let [(victim, loss)] = losses[..] else { panic!("one loss a round: {round:?}") };
            if let Some(rotten) = rotten.take() {
                assert_eq!((victim, loss), (rotten, Loss::Wiped), "what is rotten is replaced");
            }
            match loss {
                Loss::RolledBack => assert!(copied.contains(&victim), "there is a copy"),
                Loss::Rotten => rotten = Some(victim),
                Loss::Wiped => {}
            }
            seen.insert(loss);
            for event in &round {
                assert!(event.begins < event.ends, "{event:?}");
                match event.trouble {
                    Trouble::Killed(node) => {
                        assert_ne!(node, victim);
                        copied.insert(node);
                    }
                    Trouble::StandsStill(node)
                    | Trouble::SleepsBetweenAccepts(node)
                    | Trouble::Full(node) => {
                        assert_ne!(node, victim);
                    }
                    Trouble::Link(from, to, _) | Trouble::Links(from, to, _) => assert_ne!(from, to),
                    Trouble::Loses(..) => {}
                }
            }
        }
        assert_eq!(seen.len(), 3, "every loss is in twelve rounds");
    }
}
