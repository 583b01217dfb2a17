//! States that are violations, and whether healing ends from each.

use super::{Cluster, Standing, State, bit, keys_of, members, numbers};

/// Rounds in which healing ends without faults.
const ROUNDS: usize = 7;

impl Cluster {
    pub(super) fn check(&self, state: &State) -> Option<String> {
        if state.was_filled_wrongly {
            return Some(
                "an empty directory is filled while data needs the disk that may come back".to_owned(),
            );
        }
        let whole = self.all().filter(|at| self.is_whole(state, *at));
        let lacks = whole.flat_map(|at| (0..self.keys).map(move |key| (at, key)));
        lacks
            .into_iter()
            .find_map(|(at, key)| self.lacks(state, at, key))
            .or_else(|| if self.converges { self.ends_badly(state) } else { None })
    }

    /// Row or shard of a key's newest value that a whole volume lacks, where the value was acknowledged
    /// before its cut.
    fn lacks(&self, state: &State, at: usize, key: usize) -> Option<String> {
        let (volume, newest) = (&state.volumes[at], Self::newest(state, key));
        if newest == 0 || !super::holds(volume.cut.unwrap_or(0), newest) {
            return None;
        }
        let names = state.values[usize::from(newest)].names;
        let was_dropped = names == 0 && volume.floor >= newest;
        if volume.rows[key].ballot < newest && !was_dropped {
            return Some(format!("volume {at} counts as whole without row {newest} of key {key}"));
        }
        let missing = numbers(names & !volume.shards);
        missing.into_iter().find(|data| !self.is_gone(state, *data)).map(|data| {
            format!("volume {at} counts as whole without its shard of data {data}, which can be read")
        })
    }

    /// Whether data cannot be read with any volume or disk that may come back.
    fn is_gone(&self, state: &State, data: u8) -> bool {
        let volumes = self.all().map(|at| &state.volumes[at]);
        let shards = volumes.filter(|volume| super::holds(volume.shards | volume.disk, data)).count();
        shards < self.data_shards as usize
    }

    /// How healing ends badly without further faults; `None` where it does not.
    fn ends_badly(&self, state: &State) -> Option<String> {
        let mut end = *state;
        end.staged = None;
        for at in self.all() {
            end.volumes[at].is_up = true;
        }
        for round in 0..ROUNDS {
            if !self.heal_round(&mut end, round) {
                return None;
            }
        }
        self.unequal_rows(&end).or_else(|| self.unended_wants(&end))
    }

    /// One round; `false` where too few volumes vote for a recovery.
    fn heal_round(&self, state: &mut State, round: usize) -> bool {
        for at in self.all() {
            if !self.recover(state, at) {
                return false;
            }
        }
        for at in self.all() {
            Self::cut(state, at);
            for peer in members(self.voting(state)).filter(|peer| *peer != at) {
                self.ask(state, at, peer);
                self.answer(state, at);
            }
        }
        // Writes under way have ended by the second round.
        for key in (0..self.keys).filter(|_| round > 0) {
            self.settle(state, key);
            if self.all().any(|at| keys_of(state.volumes[at].stuck).any(|stuck| stuck == key)) {
                self.finish(state, key);
            }
        }
        for at in self.all() {
            for data in numbers(state.volumes[at].wants) {
                self.work(state, at, data);
            }
        }
        true
    }

    fn recover(&self, state: &mut State, at: usize) -> bool {
        if state.volumes[at].standing == Standing::Refilling && !Self::voters_are_there(state, at) {
            state.volumes[at].standing = Standing::Lost;
        }
        if matches!(state.volumes[at].standing, Standing::Vacant | Standing::Lost) {
            let voting = self.voting(state) & !bit(at);
            let quorum = self.quorums().prepare();
            if (voting.count_ones() as usize) < quorum {
                return false;
            }
            let voters = members(voting).take(quorum).map(bit).sum();
            self.begin_adoption(state, at, voters);
        }
        if state.volumes[at].standing == Standing::Refilling {
            if !state.volumes[at].scan.is_through {
                self.scan(state, at);
            }
            self.vote(state, at);
        }
        if !state.volumes[at].has_walked {
            self.walk(state, at);
        }
        true
    }

    fn unequal_rows(&self, end: &State) -> Option<String> {
        for key in 0..self.keys {
            let newest = self.all().map(|at| end.volumes[at].rows[key].ballot).max().unwrap_or(0);
            for (at, volume) in self.all().map(|at| (at, &end.volumes[at])) {
                let row = volume.rows[key];
                if row.ballot != newest {
                    return Some(format!("healing ends with volume {at} at row {} of {newest}", row.ballot));
                }
                if newest > 0 && !row.committed {
                    return Some(format!("healing ends with an unsettled row on volume {at}"));
                }
                if volume.listed[key] {
                    return Some(format!("healing ends with a row on the list of volume {at}"));
                }
                let names = end.values[usize::from(newest)].names;
                let missing = numbers(names & !volume.shards & !volume.lost).next();
                if let Some(data) = missing {
                    return Some(format!("healing ends with volume {at} without its shard of data {data}"));
                }
            }
        }
        None
    }

    fn unended_wants(&self, end: &State) -> Option<String> {
        for (at, volume) in self.all().map(|at| (at, &end.volumes[at])) {
            if let Some(data) = numbers(volume.lost).find(|data| !self.is_gone(end, *data)) {
                return Some(format!("volume {at} calls data {data} lost, which can be read"));
            }
            if volume.wants & !volume.lost != 0 {
                return Some(format!("volume {at} wants data for ever"));
            }
            if !self.is_whole(end, at) {
                return Some(format!("volume {at} is never whole"));
            }
        }
        None
    }
}
