//! A deterministic workload that does everything a volume does.

use std::sync::Arc;

use parking_lot::Mutex;

use sherd_core::env::Clock;
use sherd_core::heal::HealId;
use sherd_core::id::{Ballot, RegisterKey, Timestamp};
use sherd_core::limits::DATA_FLOOR_BEHIND_MS_MIN;
use sherd_core::message::{Answer, Control, PulledRow, ValueLimit};
use sherd_core::register::{Accept, EncodedValue, Prepare, RowHead};
use sherd_volume::error::Error;
use sherd_volume::request::{Completion, Op};

use crate::ledger::Ledger;
use crate::support::{
    BUCKET, Driver, START_MS, ballot, bytes, change, large_value, object, part, shard, target, tombstone,
    value,
};

/// Noted in the ledger when the answer of an operation is there.
type Note = Box<dyn FnOnce(&mut Ledger, bool)>;
type Reply = Arc<Mutex<Option<bool>>>;

/// Draws operations from a seed.
pub(crate) struct Script {
    random: u64,
    count: u64,
}

fn reply<R: Send + 'static>(is_yes: impl Fn(&R) -> bool + Send + 'static) -> (Reply, Completion<R>) {
    let reply: Reply = Arc::default();
    let into = Arc::clone(&reply);
    let done = Completion::new(move |result: Result<R, Error>| {
        *into.lock() = match result {
            Ok(answer) => Some(is_yes(&answer)),
            // Without an answer the outcome is unknown.
            Err(Error::Failed { .. }) => None,
            Err(_) => Some(false),
        };
    });
    (reply, done)
}

impl Script {
    pub(crate) fn new(seed: u64) -> Self {
        Self { random: seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1, count: 100 }
    }

    /// Goes on with ballots above those of another script.
    pub(crate) fn skip_to(&mut self, count: u64) {
        self.count = count;
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.random =
            self.random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) % bound
    }

    fn next(&mut self) -> u64 {
        self.count += 1;
        self.count
    }

    /// A fresh ballot: of this moment, or of one that no durable bound covers yet.
    fn ballot(&mut self, volume: &Driver) -> (u64, Ballot) {
        let count = self.next();
        let ahead_ms = self.below(3) * 2_500;
        let since_ms = volume.clock.wall_ms() - START_MS + ahead_ms;
        (count, ballot((since_ms << 16) + count))
    }

    fn key(&mut self) -> RegisterKey {
        match self.below(7) {
            0 => part("a", 1, 2),
            other => object(&format!("key-{other}")),
        }
    }

    /// One step: some operations in one batch, or something in the background.
    pub(crate) fn step(&mut self, volume: &mut Driver, ledger: &mut Ledger) {
        match self.below(12) {
            0 => volume.settle(),
            1 => drop(volume.reader.flush()),
            2 => {
                let _ = volume.reader.upkeep();
            }
            3 | 4 => {
                let _ = volume.volume.compact_step(40 << 10);
            }
            _ => {
                let mut notes = Vec::new();
                for _ in 0..=self.below(4) {
                    self.operation(volume, ledger, &mut notes);
                }
                volume.run();
                for (reply, note) in notes {
                    let reply: Reply = reply;
                    let answer = *reply.lock();
                    let note: Note = note;
                    // A refused operation changed nothing.
                    if answer != Some(false) {
                        note(ledger, answer == Some(true));
                    }
                }
            }
        }
    }

    fn operation(&mut self, volume: &mut Driver, ledger: &mut Ledger, notes: &mut Vec<(Reply, Note)>) {
        match self.below(20) {
            0..=5 => self.write(volume, ledger, notes),
            6 => {
                let (key, (_, ballot)) = (self.key(), self.ballot(volume));
                Self::prepare(volume, ledger, notes, &key, ballot);
            }
            7..=10 => self.put_shard(volume, notes),
            11..=13 => self.delete_shard(volume, notes),
            14 => self.heal(volume, notes),
            15 => {
                let id = HealId([self.heal_number(); 16]);
                volume.volume.submit(Op::HealDone { id });
                // The operation has no answer: it goes with some frame.
                notes.push((
                    Arc::default(),
                    Box::new(move |ledger, _| {
                        if let Some(fate) = ledger.heals.get_mut(&id) {
                            fate.note(None, false);
                        }
                    }),
                ));
            }
            16 => self.raise(volume, notes),
            17 => self.seal(volume, notes),
            18 => self.pull(volume, ledger, notes),
            _ => self.delete_row(volume, ledger, notes),
        }
    }

    fn heal_number(&mut self) -> u8 {
        u8::try_from(self.below(5)).unwrap()
    }

    fn prepare(
        volume: &mut Driver,
        ledger: &mut Ledger,
        notes: &mut Vec<(Reply, Note)>,
        key: &RegisterKey,
        ballot: Ballot,
    ) {
        let name = ledger.name(key);
        let (reply, done) = reply(|answer: &Answer<_>| answer.result.is_ok());
        let prepare = Prepare { ballot };
        volume.volume.submit(Op::Prepare { target: target(key), prepare, values: ValueLimit::NOTHING, done });
        notes.push((
            reply,
            Box::new(move |ledger, yes| {
                if yes {
                    let promised = ledger.promised.entry(name).or_default();
                    *promised = ballot.max(*promised);
                }
            }),
        ));
    }

    fn accept(
        &mut self,
        volume: &mut Driver,
        ledger: &mut Ledger,
        notes: &mut Vec<(Reply, Note)>,
        key: &RegisterKey,
        (ballot, value): (Ballot, EncodedValue),
    ) {
        let name = ledger.name(key);
        // With or without an answer the commit may be stored: hints need no answer.
        ledger.hinted.insert((name.clone(), ballot));
        let (reply, done) = reply(|answer: &Answer<()>| answer.result.is_ok());
        let accept = Accept {
            ballot,
            value: value.clone(),
            introduces: Vec::new(),
            finishes: false,
            positions: Arc::default(),
            origin: sherd_core::register::ValueOrigin::default(),
        };
        let heal =
            (self.below(6) == 0).then(|| (HealId([self.heal_number(); 16]), bytes(ballot.time.as_u64(), 60)));
        let healed = heal.clone();
        volume.volume.submit(Op::Accept { target: target(key), accept, heal, done });
        notes.push((
            reply,
            Box::new(move |ledger, yes| {
                ledger.rows.entry(name).or_default().note(Some((ballot, value)), yes);
                if let Some((id, entry)) = healed {
                    ledger.heals.entry(id).or_default().note(Some(entry), yes);
                }
            }),
        ));
    }

    fn write(&mut self, volume: &mut Driver, ledger: &mut Ledger, notes: &mut Vec<(Reply, Note)>) {
        let (key, (count, ballot)) = (self.key(), self.ballot(volume));
        let length = usize::try_from(self.below(9_000)).unwrap();
        let value = if self.below(8) == 0 { large_value(count) } else { value(count, length) };
        Self::prepare(volume, ledger, notes, &key, ballot);
        self.accept(volume, ledger, notes, &key, (ballot, value));
        if self.below(3) > 0 {
            let is_everywhere = count % 2 == 0;
            if !is_everywhere {
                let name = ledger.name(&key);
                ledger.missed.insert((name, ballot));
            }
            volume.volume.submit(Op::Commit {
                target: target(&key),
                ballot,
                is_everywhere,
                positions: Arc::default(),
            });
        }
    }

    /// A row of a peer, committed there or not.
    fn pull(&mut self, volume: &mut Driver, ledger: &mut Ledger, notes: &mut Vec<(Reply, Note)>) {
        let (key, (count, ballot)) = (self.key(), self.ballot(volume));
        let value = value(count, usize::try_from(self.below(9_000)).unwrap());
        let committed = self.below(2) == 0;
        let name = ledger.name(&key);
        if committed {
            ledger.hinted.insert((name.clone(), ballot));
        }
        let digest = value.traits().unwrap().digest;
        let row = PulledRow { head: RowHead { ballot, digest, committed }, value: value.clone() };
        let (reply, done) = reply(|answer: &Answer<()>| answer.result.is_ok());
        volume.volume.submit(Op::Pull { target: target(&key), row, done });
        notes.push((
            reply,
            Box::new(move |ledger, yes| {
                let fate = ledger.rows.entry(name).or_default();
                // A newer row stays, and the answer is the same.
                let is_newer = fate.sure.as_ref().is_some_and(|(sure, _)| *sure > ballot);
                if !(yes && is_newer) {
                    fate.note(Some((ballot, value)), yes);
                }
            }),
        ));
    }

    fn put_shard(&mut self, volume: &mut Driver, notes: &mut Vec<(Reply, Note)>) {
        let shard = shard(self.below(12), 1);
        let length = usize::try_from(1 + self.below(30_000)).unwrap();
        let payload = bytes(self.next(), length);
        let (reply, done) = reply(|(): &()| true);
        let pieces = vec![payload.slice(..length / 2), payload.slice(length / 2..)];
        volume.volume.submit(Op::PutShard { shard, target: target(&object("owner")), payload: pieces, done });
        notes.push((
            reply,
            Box::new(move |ledger, yes| {
                ledger.shards.entry(shard).or_default().note(Some(payload), yes);
            }),
        ));
    }

    fn delete_shard(&mut self, volume: &mut Driver, notes: &mut Vec<(Reply, Note)>) {
        let shard = shard(self.below(12), 1);
        let (reply, done) = reply(|(): &()| true);
        volume.volume.submit(Op::DeleteShard { shard, done });
        notes.push((
            reply,
            Box::new(move |ledger, yes| {
                ledger.shards.entry(shard).or_default().note(None, yes);
            }),
        ));
    }

    fn heal(&mut self, volume: &mut Driver, notes: &mut Vec<(Reply, Note)>) {
        let id = HealId([self.heal_number(); 16]);
        let entry = bytes(self.next(), 80);
        let (reply, done) = reply(|(): &()| true);
        volume.volume.submit(Op::HealPut { id, entry: entry.clone(), done });
        notes.push((
            reply,
            Box::new(move |ledger, yes| {
                ledger.heals.entry(id).or_default().note(Some(entry), yes);
            }),
        ));
    }

    fn raise(&mut self, volume: &mut Driver, notes: &mut Vec<(Reply, Note)>) {
        let floor = Timestamp::from_ms(START_MS - DATA_FLOOR_BEHIND_MS_MIN - self.next() % 1_000);
        let (reply, done) = reply(|answer: &Answer<_>| answer.result.is_ok());
        volume.volume.submit(Op::Control { control: Control::RaiseDataFloor { floor }, done });
        notes.push((
            reply,
            Box::new(move |ledger, yes| {
                if yes {
                    ledger.data_floor = ledger.data_floor.max(floor);
                }
            }),
        ));
    }

    /// Seals a bucket that is not written to.
    fn seal(&mut self, volume: &mut Driver, notes: &mut Vec<(Reply, Note)>) {
        let deletion = change(self.below(3));
        let bucket = if self.below(40) == 0 { BUCKET } else { sherd_core::id::BucketId([9; 16]) };
        let control = if self.below(3) == 0 {
            Control::Unseal { bucket, deletion }
        } else {
            Control::Seal { bucket, deletion, epoch: sherd_core::id::Epoch(1) }
        };
        let state = matches!(control, Control::Seal { .. }).then_some(());
        let (reply, done) = reply(|answer: &Answer<_>| answer.result.is_ok());
        volume.volume.submit(Op::Control { control, done });
        notes.push((
            reply,
            Box::new(move |ledger, yes| {
                if bucket == BUCKET {
                    ledger.seals.entry(deletion).or_default().note(state, yes);
                }
            }),
        ));
    }

    /// A tombstone, its floor, its drop: as the sweeper does it.
    fn delete_row(&mut self, volume: &mut Driver, ledger: &mut Ledger, notes: &mut Vec<(Reply, Note)>) {
        let (key, (count, ballot)) = (self.key(), self.ballot(volume));
        Self::prepare(volume, ledger, notes, &key, ballot);
        self.accept(volume, ledger, notes, &key, (ballot, tombstone(count)));
        volume.volume.submit(Op::Commit {
            target: target(&key),
            ballot,
            is_everywhere: true,
            positions: Arc::default(),
        });
        if self.below(2) == 0 {
            return;
        }
        let (floor, done) = reply(|answer: &Answer<_>| answer.result.is_ok());
        volume.volume.submit(Op::Control { control: Control::RaiseFloor { floor: ballot }, done });
        notes.push((
            floor,
            Box::new(move |ledger, yes| {
                if yes {
                    ledger.floor = ledger.floor.max(ballot);
                }
            }),
        ));
        let name = ledger.name(&key);
        let (dropped, done) = reply(|answer: &Answer<()>| answer.result.is_ok());
        volume.volume.submit(Op::Drop { target: target(&key), ballot, done });
        notes.push((
            dropped,
            Box::new(move |ledger, yes| {
                let fate = ledger.rows.entry(name).or_default();
                // The call drops this tombstone and no other row.
                let is_sure = fate.sure.as_ref().is_some_and(|(sure, _)| *sure == ballot);
                if is_sure || !yes {
                    fate.note(None, yes);
                }
            }),
        ));
    }
}
