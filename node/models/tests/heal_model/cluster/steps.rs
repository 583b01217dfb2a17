//! Steps of one volume: its looks and wants, and the faults that strike it.

use super::{Cluster, Cursor, Standing, State, Step, VOLUMES, Volume, has, members, numbers};
use crate::rules::Without;

impl Cluster {
    pub(super) fn volume_steps(&self, state: &State, at: usize, out: &mut Vec<(Step, State)>) {
        if !state.volumes[at].is_up {
            let mut after = *state;
            after.volumes[at].is_up = true;
            out.push((Step::Back { at: at as u8 }, after));
            return;
        }
        if at < self.lookers {
            self.look_steps(state, at, out);
        }
        if at < self.victims {
            self.fault_steps(state, at, out);
        }
        self.recovery_steps(state, at, out);
    }

    fn look_steps(&self, state: &State, at: usize, out: &mut Vec<(Step, State)>) {
        let (volume, name) = (&state.volumes[at], at as u8);
        if volume.votes() {
            let is_seen =
                |other: &Volume| other.standing != Standing::Vacant || has(other.cut_after_empty, at);
            if volume.cut != Some(state.chosen) || !state.volumes.iter().all(is_seen) {
                let mut after = *state;
                Self::cut(&mut after, at);
                out.push((Step::Cut { at: name }, after));
            }
            if volume.question.life > 0 {
                let mut after = *state;
                self.answer(&mut after, at);
                out.push((Step::Answer { at: name }, after));
            } else if volume.cut.is_some() {
                for peer in members(self.voting(state)).filter(|peer| *peer != at) {
                    let mut after = *state;
                    self.ask(&mut after, at, peer);
                    out.push((Step::Ask { at: name, peer: peer as u8 }, after));
                }
            }
            if !volume.has_walked {
                let mut after = *state;
                self.walk(&mut after, at);
                out.push((Step::Walk { at: name }, after));
            }
        }
        for data in numbers(volume.wants) {
            let mut after = *state;
            if self.work(&mut after, at, data) {
                out.push((Step::Work { at: name, data }, after));
            }
        }
    }

    fn fault_steps(&self, state: &State, at: usize, out: &mut Vec<(Step, State)>) {
        let (volume, name) = (&state.volumes[at], at as u8);
        let has_state = volume.standing != Standing::Vacant;
        if state.crashes > 0 && has_state {
            let mut after = *state;
            after.crashes -= 1;
            self.restart(&mut after.volumes[at]);
            out.push((Step::Crash { at: name }, after));
        }
        if state.aways > 0 && has_state {
            let mut after = *state;
            after.aways -= 1;
            after.volumes[at].is_up = false;
            out.push((Step::Away { at: name }, after));
        }
        if state.wipes > 0 && volume.standing == Standing::Voting {
            let mut after = *state;
            after.wipes -= 1;
            after.volumes[at] = Volume {
                is_up: true,
                standing: Standing::Vacant,
                life: volume.life,
                disk: volume.shards,
                ..Volume::default()
            };
            out.push((Step::Wipe { at: name }, after));
        }
        if at == 0 && volume.standing == Standing::Voting {
            self.rollback_steps(state, out);
        }
    }

    fn rollback_steps(&self, state: &State, out: &mut Vec<(Step, State)>) {
        let volume = &state.volumes[0];
        match state.image {
            None if self.rollbacks > 0 => {
                let (mut after, mut image) = (*state, *volume);
                self.restart(&mut image);
                after.image = Some(image);
                out.push((Step::Image, after));
            }
            Some(image) if state.rollbacks > 0 => {
                let mut after = *state;
                after.rollbacks -= 1;
                after.volumes[0] = Volume { life: volume.life, ..image };
                if !self.is_without(Without::RollbackIsSeen) {
                    after.volumes[0].standing = Standing::Lost;
                }
                out.push((Step::GoBack, after));
            }
            _ => {}
        }
    }

    /// A restart: what is in memory alone is gone.
    fn restart(&self, volume: &mut Volume) {
        let question = volume.question;
        if self.is_without(Without::RestartEndsLook) && question.life > 0 {
            let cursor = Cursor { life: question.life, sequence: question.durable };
            volume.cursors[usize::from(question.peer)] = cursor;
        }
        volume.forget_look();
        volume.sent = [0; VOLUMES];
        volume.bound = volume.promised.iter().copied().fold(volume.bound, u8::max);
        volume.promised = Default::default();
    }

    /// Looks and wants of the volumes that have no steps of their own, all at once.
    pub(super) fn heal_others(&self, state: &State, out: &mut Vec<(Step, State)>) {
        let mut after = *state;
        for at in self.all().filter(|at| *at >= self.lookers) {
            if !after.volumes[at].votes() {
                continue;
            }
            Self::cut(&mut after, at);
            for peer in members(self.voting(&after)).filter(|peer| *peer != at) {
                self.ask(&mut after, at, peer);
                self.answer(&mut after, at);
            }
            if !after.volumes[at].has_walked {
                self.walk(&mut after, at);
            }
            for data in numbers(after.volumes[at].wants) {
                self.work(&mut after, at, data);
            }
            if self.wipes == 0 {
                // The cuts of these volumes matter to an empty directory alone.
                after.volumes[at].forget_look();
            }
        }
        if after != *state {
            out.push((Step::HealOthers, after));
        }
    }
}
