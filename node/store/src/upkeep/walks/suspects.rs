//! Data that no register seems to name, held until the sweeper has judged it.

use std::collections::BTreeMap;

use parking_lot::Mutex;

use sherd_core::id::{DataId, RegisterKey};
use sherd_core::record::Home;
use sherd_core::register::sweep::horizon;

use crate::cluster::SetView;
use crate::upkeep::deps::Deps;
use crate::upkeep::limits::{SUSPECT_TRIES_MAX, SUSPECTS_MAX};

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Suspect {
    pub(crate) key: RegisterKey,
    pub(crate) data: DataId,
    pub(crate) home: Home,
}

#[derive(Debug)]
pub(crate) struct Suspects {
    deps: Deps,
    /// With how often each was judged in vain.
    held: Mutex<BTreeMap<DataId, (Suspect, u32)>>,
}

impl Suspects {
    pub(crate) fn new(deps: &Deps) -> Self {
        Self { deps: deps.clone(), held: Mutex::default() }
    }

    pub(crate) fn len(&self) -> usize {
        self.held.lock().len()
    }

    /// Takes a suspect in, where there is room.
    pub(crate) fn add(&self, suspect: Suspect) {
        let mut held = self.held.lock();
        if held.len() < SUSPECTS_MAX {
            held.entry(suspect.data).or_insert((suspect, 0));
        }
    }

    /// Whether data of a set waits to be judged.
    pub(crate) fn has_any_of(&self, set: &SetView) -> bool {
        self.held.lock().values().any(|(suspect, _)| self.is_of(suspect, set))
    }

    /// The suspects of a set, with how often each was judged in vain. They stay held until they are judged:
    /// the scrubber's place waits for that.
    pub(super) fn of(&self, set: &SetView) -> Vec<(Suspect, u32)> {
        let held = self.held.lock();
        held.values().filter(|(suspect, _)| self.is_of(suspect, set)).cloned().collect()
    }

    fn is_of(&self, suspect: &Suspect, set: &SetView) -> bool {
        self.deps.cluster.set_of(&suspect.key).id == set.id
    }

    /// A suspect was judged, and is held no more; or it could not be, and comes again.
    pub(super) fn judged(&self, data: DataId, is_settled: bool) {
        let mut held = self.held.lock();
        let Some((_, tries)) = held.get_mut(&data) else { return };
        *tries += 1;
        if is_settled || *tries >= SUSPECT_TRIES_MAX {
            held.remove(&data);
        }
    }
}

/// Whether data is old enough to be an orphan.
pub(crate) fn is_older_than_orphans(deps: &Deps, data: DataId) -> bool {
    data.birth < horizon(deps.now())
}
