//! Operations, one by one, in the order in which they came: what is refused or known is answered at
//! once, what needs the log joins the batch.
//!
//! Everything is judged against what is durable *and* what this batch already holds; an answer that
//! depends on the batch leaves after its sync.

use bytes::Bytes;

use sherd_core::heal::HealId;
use sherd_core::id::{Ballot, DataId, Life, RegisterKey, ShardId};
use sherd_core::limits;
use sherd_core::message::{AdoptedRow, Answer, PulledRow, Target, ValueLimit};
use sherd_core::record::Value;
use sherd_core::register::acceptor::{
    AcceptVerdict, AcceptorState, VoterStatus, judge_accept, judge_drop, judge_epoch, judge_prepare,
    judge_raise, judge_read,
};
use sherd_core::register::heal::look::{ShownRow, treat_shown};
use sherd_core::register::heal::want::StoringVolume;
use sherd_core::register::recover::{Adoption, adopt};
use sherd_core::register::seal::Seals;
use sherd_core::register::{
    Accept, EncodedValue, Prepare, Refusal, Row, RowHead, ValueOrigin, ValueTraits, Vote,
};

use crate::error::Error;
use crate::format::{Flags, Hint, Subject};
use crate::index::table::{RowKeys, shard_key};
use crate::limits::HEAL_ENTRY_BYTES_MAX;
use crate::log::append::{HintedCommit, KnownRows, NewRecord, ReplacedEntry};
use crate::lookup::{Lookup, Source};
use crate::read::view::StoredRow;
use crate::request::{Completion, Op};
use crate::state::promises::{asked, key_state};
use crate::write::control::not_recovering;
use crate::write::piggyback_queue::hint_bytes;
use crate::write::plan::{BatchPlan, JudgedPlace, PendingRow};
use crate::write::volume::Volume;
use crate::write::wants::{is_wanted, put_want, put_want_of, want_bytes};

/// Bytes of a record beside its payload, about: for deciding whether an operation still fits.
const RECORD_OVERHEAD_BYTES: usize = 2048;

struct KnownRow {
    head: Option<RowHead>,
    value_bytes: u32,
    value: Option<Bytes>,
    stored: Option<StoredRow>,
    /// The entry in the index; not looked for where the batch has a newer row.
    before: ReplacedEntry,
    is_pending: bool,
}

/// A row that is to be stored: its register, its keys, and where the entry comes from that it replaces
/// (as [`KnownRow::before`]).
struct NewRow<'a> {
    key: &'a RegisterKey,
    keys: &'a RowKeys,
    before: ReplacedEntry,
}

impl KnownRow {
    fn row(self) -> Option<Row> {
        self.head.map(|head| Row { head, value_bytes: self.value_bytes, value: self.value })
    }
}

/// Whether a full volume has no room for a value that names no new data (a value that names new data was
/// admitted with its data: refused only here, volumes that fill up one after another would leave it accepted
/// by some, which is an unknown outcome). There is room for the value that the row has already, at another
/// ballot, which is a repair; for one that is smaller than the value it replaces; and for one that makes way,
/// of any size.
fn needs_room(
    plan: &BatchPlan,
    row: &Bytes,
    known: &KnownRow,
    value: &EncodedValue,
    traits: ValueTraits,
) -> bool {
    let repairs = known.head.is_some_and(|head| head.digest == traits.digest);
    let replaced = known
        .stored
        .as_ref()
        .map_or(0, |stored| stored.row.head_bytes as usize + stored.row.inline_bytes as usize);
    if repairs || value.head.len() + value.inline.len() < replaced {
        return false;
    }
    let pending = plan.rows.get(row).and_then(|pending| Some(pending.as_ref()?.value.clone()));
    let stored = || known.stored.as_ref().and_then(|stored| stored.row.value.clone());
    let before = pending.or_else(stored).and_then(|head| Value::decode(head).ok());
    !Value::decode(value.head.clone()).is_ok_and(|value| value.makes_way(before.as_ref()))
}

/// A value that a volume is to store for a row, by an accept or by a pull.
struct Offer<'a> {
    ballot: Ballot,
    value: EncodedValue,
    traits: ValueTraits,
    introduces: &'a [DataId],
    origin: ValueOrigin,
    flags: Flags,
    /// Whether a full volume may refuse it: it names no new data, and was not admitted elsewhere.
    is_new: bool,
}

/// Judges a value, and puts it into the batch where it is to be stored.
fn offer(
    volume: &mut Volume,
    plan: &mut BatchPlan,
    target: &Target,
    known: &KnownRow,
    offered: Offer<'_>,
) -> Result<Result<AcceptVerdict, Refusal>, Error> {
    let Offer { ballot, value, traits, introduces, origin, flags, is_new } = offered;
    let row = target.rows().row();
    let lacks_room = is_new && volume.shared.is_full() && needs_room(plan, row, known, &value, traits);
    let asked = asked(target, volume.shared.clock.as_ref());
    let verdict = {
        let mut promises = volume.shared.promises.lock();
        let key_state = key_state(&volume.working, target, known.head.as_ref(), promises.of(row));
        let state = volume.acceptor(promises.restart_bound);
        let verdict = judge_accept(&state, &key_state, asked, ballot, introduces);
        if verdict == Ok(AcceptVerdict::Store) && !lacks_room {
            promises.begin(row, ballot);
        }
        verdict
    };
    if verdict == Ok(AcceptVerdict::Store) {
        if lacks_room {
            return Err(Error::Full);
        }
        volume.see_epoch(plan, target);
        let own = StoringVolume {
            volume: volume.id,
            life: Life(volume.working.life),
            row_before: known.head.map_or(Ballot::ZERO, |head| head.ballot),
        };
        let now_ms = volume.shared.clock.wall_ms();
        put_want_of(plan, (own, &target.key), (&value, introduces, &origin), now_ms);
        let stored = NewRow { key: &target.key, keys: target.rows(), before: known.before };
        Volume::store(plan, &stored, ballot, value, (traits, flags));
    }
    Ok(verdict)
}

fn check_value(value: &EncodedValue, payload_max: usize) -> Result<ValueTraits, Error> {
    let bytes = value.head.len() + value.inline.len();
    if value.head.len() > limits::VALUE_BYTES_MAX
        || value.inline.len() > limits::INLINE_BYTES_MAX as usize
        || bytes > payload_max
    {
        return Err(Error::Corrupt { what: "value over its limit".to_owned() });
    }
    value.traits().map_err(|error| Error::Corrupt { what: format!("value: {error}") })
}

/// As [`check_value`], of the value of another volume's row.
fn check_row(value: &EncodedValue, head: &RowHead, payload_max: usize) -> Result<ValueTraits, Error> {
    let traits = check_value(value, payload_max)?;
    if traits.digest == head.digest {
        Ok(traits)
    } else {
        Err(Error::Corrupt { what: "the value of a row is not what its digest says".to_owned() })
    }
}

pub(crate) fn op_bytes(op: &Op) -> usize {
    let encoded = |value: &EncodedValue| value.head.len() + value.inline.len();
    let payload = match op {
        Op::Accept { target, accept, heal, .. } => {
            encoded(&accept.value)
                + heal.as_ref().map_or(0, |(_, entry)| entry.len() + RECORD_OVERHEAD_BYTES)
                + want_bytes(&target.key)
        }
        Op::PutShard { payload, .. } => payload.iter().map(Bytes::len).sum(),
        Op::HealPut { entry, .. } => entry.len(),
        Op::WantPut { want, .. } => want_bytes(&want.key),
        Op::Adopt { rows, .. } => rows.first().map_or(0, |row| encoded(&row.value)),
        Op::Pull { target, row, .. } => encoded(&row.value) + want_bytes(&target.key),
        Op::Control { control, .. } => super::control::control_bytes(control),
        Op::Prepare { .. }
        | Op::Commit { .. }
        | Op::Read { .. }
        | Op::DeleteShard { .. }
        | Op::HealDone { .. }
        | Op::WantDone { .. }
        | Op::ReleasePut { .. }
        | Op::ReleaseDone { .. }
        | Op::PeerSeen { .. }
        | Op::Asked(_)
        | Op::Drop { .. } => 0,
    };
    payload + payload / limits::HASH_BLOCK_BYTES * 32 + RECORD_OVERHEAD_BYTES
}

impl Volume {
    pub(crate) fn judge(&mut self, plan: &mut BatchPlan, op: Op) -> JudgedPlace {
        match op {
            Op::Prepare { target, prepare, values, done } => {
                self.prepare(plan, &target, prepare, values, done);
            }
            Op::Accept { target, accept, heal, done } => self.accept(plan, &target, accept, heal, done),
            Op::Commit { target, ballot, is_everywhere, positions } => {
                self.lazy_hint(&target, ballot, is_everywhere);
                self.see_positions(&positions);
            }
            Op::Read { target, values, done } => self.read(plan, &target, values, done),
            Op::PutShard { shard, target, payload, done } => {
                self.put_shard(plan, shard, &target, payload, done);
            }
            Op::DeleteShard { shard, done } => return self.delete_shard(plan, shard, done),
            Op::HealPut { id, entry, done } => self.heal_put(plan, id, entry, done),
            Op::HealDone { id } => self.lazy_healed(id),
            Op::WantPut { want, done } => {
                // A walk that is made again finds the same shards missing.
                if is_wanted(&self.shared, &self.piggyback, &want) {
                    done.complete(Ok(()));
                    return JudgedPlace::Done;
                }
                put_want(plan, &want);
                plan.confirm(done);
            }
            Op::WantDone { id, sequence } => {
                self.piggyback.end_want(id, sequence);
                self.piggyback_begins();
            }
            Op::ReleasePut { id, entry } => self.lazy_release(id, entry),
            Op::ReleaseDone { id } => self.lazy_released(id),
            Op::PeerSeen { volume, position } => {
                self.lazy_seen(volume, position.life, position.durable);
                self.see_positions(&[(volume, position)]);
            }
            Op::Asked(asker) => self.cover(plan, &asker),
            Op::Control { control, done } => return self.control(plan, control, done),
            Op::Adopt { rows, done } => return self.adopt(plan, rows, done),
            Op::Pull { target, row, done } => self.pull(plan, &target, row, done),
            Op::Drop { target, ballot, done } => return self.drop_row(plan, target, ballot, done),
        }
        JudgedPlace::Done
    }

    fn known(
        &self,
        plan: &BatchPlan,
        key: &RegisterKey,
        row: &Bytes,
        values: ValueLimit,
    ) -> Result<KnownRow, Error> {
        if let Some(pending) = plan.rows.get(row) {
            let (head, value_bytes, value) = match pending {
                Some(PendingRow { head, value }) => {
                    let bytes = u32::try_from(value.len()).expect("values are checked against their limit");
                    (Some(*head), bytes, values.takes(bytes).then(|| value.clone()))
                }
                None => (None, 0, None),
            };
            return Ok(KnownRow {
                head,
                value_bytes,
                value,
                stored: None,
                before: ReplacedEntry::Unknown,
                is_pending: true,
            });
        }
        let rows_after = self.working.rows_after();
        let entry = self.shared.entry(row)?;
        let before = entry.as_ref().map_or(ReplacedEntry::Absent, |entry| ReplacedEntry::At {
            origin: entry.origin,
            is_missed: entry.is_missed(),
        });
        let Some(stored) = entry.and_then(|entry| crate::read::view::as_stored(entry, rows_after)) else {
            return Ok(KnownRow {
                head: None,
                value_bytes: 0,
                value: None,
                stored: None,
                before,
                is_pending: false,
            });
        };
        let value_bytes = stored.row.head_bytes;
        let read = || self.shared.value(key, &stored, Source::Disk).and_then(Lookup::or_busy);
        let value = values.takes(value_bytes).then(read).transpose()?;
        let head = Some(stored.head());
        Ok(KnownRow { head, value_bytes, value, stored: Some(stored), before, is_pending: false })
    }

    /// The acceptor's state: everything that is decided, but only the bound and the reading of the clock
    /// that are durable.
    fn acceptor(&self, restart_bound: Ballot) -> AcceptorState {
        let (durable_bound, clock_reading) = (self.durable_bound, self.durable_reading);
        AcceptorState { durable_bound, clock_reading, ..self.working.acceptor(restart_bound) }
    }

    fn see_epoch(&mut self, plan: &mut BatchPlan, target: &Target) -> bool {
        let is_new = target.epoch > self.working.epoch_of(target.slot);
        if is_new {
            let subject = Subject::Epoch { slot: target.slot, epoch: target.epoch };
            plan.push_state(subject, &mut self.working);
        }
        is_new
    }

    fn prepare(
        &mut self,
        plan: &mut BatchPlan,
        target: &Target,
        Prepare { ballot }: Prepare,
        values: ValueLimit,
        done: Completion<Answer<Vote>>,
    ) {
        let row = target.rows().row();
        let known = match self.known(plan, &target.key, row, values) {
            Ok(known) => known,
            Err(error) => return done.complete(Err(error)),
        };
        let asked = asked(target, self.shared.clock.as_ref());
        let judged = {
            let mut promises = self.shared.promises.lock();
            let state = self.acceptor(promises.restart_bound);
            let key_state = key_state(&self.working, target, known.head.as_ref(), promises.of(row));
            let judged = judge_prepare(&state, &key_state, asked, ballot);
            if judged.is_ok() {
                promises.note(row, ballot);
                promises.is_active = true;
            }
            judged
        };
        let mut waits = known.is_pending || plan.changes_state;
        let result = match judged {
            Ok(promise) => {
                waits |= self.see_epoch(plan, target);
                if let Some(bound) = promise.needs_bound {
                    if plan.bound.is_none_or(|planned| planned < ballot) {
                        self.push_bound(plan, bound, asked.now);
                    }
                    waits = true;
                }
                Ok(Vote { row: known.row(), floor: self.working.floor })
            }
            Err(refusal) => Err(refusal),
        };
        self.answer(plan, waits, done, result);
    }

    fn read(
        &mut self,
        plan: &mut BatchPlan,
        target: &Target,
        values: ValueLimit,
        done: Completion<Answer<Vote>>,
    ) {
        let row = target.rows().row();
        let known = match self.known(plan, &target.key, row, values) {
            Ok(known) => known,
            Err(error) => return done.complete(Err(error)),
        };
        let key_state = key_state(&self.working, target, known.head.as_ref(), Ballot::ZERO);
        let asked = asked(target, self.shared.clock.as_ref());
        let judged = judge_read(&self.acceptor(Ballot::ZERO), &key_state, asked);
        let mut waits = known.is_pending || plan.changes_state;
        if judged.is_ok() {
            waits |= self.see_epoch(plan, target);
        }
        let floor = self.working.floor;
        self.answer(plan, waits, done, judged.map(|()| Vote { row: known.row(), floor }));
    }

    fn accept(
        &mut self,
        plan: &mut BatchPlan,
        target: &Target,
        accept: Accept,
        heal: Option<(HealId, Bytes)>,
        done: Completion<Answer<()>>,
    ) {
        let Accept { ballot, value, introduces, finishes, positions, origin } = accept;
        self.see_positions(&positions);
        let judged = self.known(plan, &target.key, target.rows().row(), ValueLimit::NOTHING);
        let payload_max = self.log.record_payload_max();
        let judged = judged.and_then(|known| Ok((known, check_value(&value, payload_max)?)));
        let (known, traits) = match judged {
            Ok(judged) => judged,
            Err(error) => return done.complete(Err(error)),
        };
        let waits = known.is_pending || plan.changes_state;
        let is_new = !finishes && introduces.is_empty();
        let offered =
            Offer { ballot, value, traits, introduces: &introduces, origin, flags: Flags::default(), is_new };
        let verdict = match offer(self, plan, target, &known, offered) {
            Ok(verdict) => verdict,
            Err(error) => return done.complete(Err(error)),
        };
        let mut waits = waits || verdict == Ok(AcceptVerdict::Store);
        let result = verdict.map(|_| ());
        if let (Some((id, entry)), Ok(())) = (heal, &result)
            && entry.len() <= HEAL_ENTRY_BYTES_MAX
        {
            self.put_heal(plan, id, entry);
            waits = true;
        }
        if waits && !plan.is_empty() {
            plan.answer_accept(done, result);
        } else {
            self.answer(plan, false, done, result);
        }
    }

    /// Puts a row into the batch; [`Promises::begin`](crate::state::promises::Promises::begin) said so under
    /// the lock that judged it.
    fn store(
        plan: &mut BatchPlan,
        row: &NewRow<'_>,
        ballot: Ballot,
        value: EncodedValue,
        (traits, flags): (ValueTraits, Flags),
    ) {
        let NewRow { key, keys, before } = *row;
        let EncodedValue { head, inline, .. } = value;
        let ValueTraits { digest, tombstone } = traits;
        let head_bytes = u32::try_from(head.len()).expect("values are checked against their limit");
        let (flags, committed) = (flags.with(Flags::TOMBSTONE, tombstone), flags.has(Flags::COMMITTED));
        let subject = Subject::Row { key: key.clone(), ballot, digest, head_bytes };
        let pending = PendingRow { head: RowHead { ballot, digest, committed }, value: head.clone() };
        plan.rows.insert(keys.row().clone(), Some(pending));
        let known = KnownRows::Row { keys: keys.clone(), before };
        plan.push(NewRecord::new(subject, flags, [head, inline]).knowing(known));
    }

    fn put_shard(
        &mut self,
        plan: &mut BatchPlan,
        shard: ShardId,
        target: &Target,
        payload: Vec<Bytes>,
        done: Completion<()>,
    ) {
        if let Err(refusal) = judge_epoch(target.epoch, self.working.epoch_of(target.slot)) {
            return done.complete(Err(Error::Refused(refusal)));
        }
        let bytes: usize = payload.iter().map(Bytes::len).sum();
        if bytes > self.log.record_payload_max() {
            return done.complete(Err(Error::Corrupt { what: "shard over its limit".to_owned() }));
        }
        if self.shared.is_full() {
            return done.complete(Err(Error::Full));
        }
        self.see_epoch(plan, target);
        let subject = Subject::Shard { shard, key: target.key.clone() };
        plan.push(NewRecord::new(subject, Flags::default(), payload));
        plan.confirm(done);
    }

    fn delete_shard(&mut self, plan: &mut BatchPlan, shard: ShardId, done: Completion<()>) -> JudgedPlace {
        let key = shard_key(shard);
        if plan.keys.contains(&key) {
            return JudgedPlace::Later(Op::DeleteShard { shard, done });
        }
        match self.shared.entry(&key) {
            Ok(Some(entry)) => {
                let (oldest, newest) = (entry.origin.oldest, entry.origin.placed);
                plan.push(NewRecord::bare(Subject::Delete { key, oldest, newest }));
                plan.confirm(done);
            }
            Ok(None) => done.complete(Ok(())),
            Err(error) => done.complete(Err(error)),
        }
        JudgedPlace::Done
    }

    fn heal_put(&mut self, plan: &mut BatchPlan, id: HealId, entry: Bytes, done: Completion<()>) {
        if entry.len() > HEAL_ENTRY_BYTES_MAX {
            return done.complete(Err(Error::Corrupt { what: "heal entry over its limit".to_owned() }));
        }
        self.put_heal(plan, id, entry);
        plan.confirm(done);
    }

    /// An end that came before and is not written yet was that of an earlier entry.
    fn put_heal(&mut self, plan: &mut BatchPlan, id: HealId, entry: Bytes) {
        self.piggyback.healed.remove(&id);
        plan.push(NewRecord::new(Subject::Heal { id }, Flags::default(), [entry]));
    }

    fn drop_row(
        &mut self,
        plan: &mut BatchPlan,
        target: Target,
        ballot: Ballot,
        done: Completion<Answer<()>>,
    ) -> JudgedPlace {
        let row = target.rows().row().clone();
        if plan.rows.contains_key(&row) || plan.changes_state {
            return JudgedPlace::Later(Op::Drop { target, ballot, done });
        }
        let judged = judge_raise(self.working.standing())
            .and_then(|()| judge_epoch(target.epoch, self.working.epoch_of(target.slot)));
        if judged.is_err() {
            self.answer(plan, false, done, judged);
            return JudgedPlace::Done;
        }
        let known = match self.known(plan, &target.key, &row, ValueLimit::NOTHING) {
            Ok(known) => known,
            Err(error) => {
                done.complete(Err(error));
                return JudgedPlace::Done;
            }
        };
        // Under a final seal no row is ever shown again, with any value: a bucket's id is not used twice.
        let is_gone = self.working.seals_of(target.key.bucket) == Seals::Final;
        let is_dead = |stored: &StoredRow| {
            stored.row.tombstone && judge_drop(known.head.as_ref(), ballot, self.working.floor)
        };
        let goes =
            |stored: &StoredRow| if is_gone { stored.head().ballot == ballot } else { is_dead(stored) };
        match &known.stored {
            Some(stored) if goes(stored) => {
                self.shared.promises.lock().begin_drop(&row);
                plan.rows.insert(row.clone(), None);
                let (oldest, newest) = (stored.origin.oldest, stored.origin.placed);
                plan.push(NewRecord::bare(Subject::Delete { key: row, oldest, newest }));
                self.answer(plan, true, done, Ok(()));
            }
            _ => self.answer(plan, false, done, Ok(())),
        }
        JudgedPlace::Done
    }

    /// Takes a row as a late accept that introduces nothing, with the committed flag of its source; of an
    /// equal row it takes over that flag alone, as from a commit hint. Guards I-22.
    fn pull(
        &mut self,
        plan: &mut BatchPlan,
        target: &Target,
        pulled: PulledRow,
        done: Completion<Answer<()>>,
    ) {
        let PulledRow { head, value } = pulled;
        let judged = self.known(plan, &target.key, target.rows().row(), ValueLimit::NOTHING);
        let payload_max = self.log.record_payload_max();
        let judged = judged.and_then(|known| Ok((known, check_row(&value, &head, payload_max)?)));
        let (known, traits) = match judged {
            Ok(judged) => judged,
            Err(error) => return done.complete(Err(error)),
        };
        let waits = known.is_pending || plan.changes_state;
        match treat_shown(known.head.as_ref(), &head) {
            ShownRow::Pull => {
                let flags = Flags::default().with(Flags::COMMITTED, head.committed);
                // Data of a pulled row was never on its way here: all that it names is looked at.
                let origin = ValueOrigin::default();
                let offered = Offer {
                    ballot: head.ballot,
                    value,
                    traits,
                    introduces: &[],
                    origin,
                    flags,
                    is_new: true,
                };
                match offer(self, plan, target, &known, offered) {
                    Ok(verdict) => {
                        let waits = waits || verdict == Ok(AcceptVerdict::Store);
                        self.answer(plan, waits, done, verdict.map(|_| ()));
                    }
                    Err(error) => done.complete(Err(error)),
                }
            }
            ShownRow::LearnCommitted => {
                let (key, keys) = (target.key.clone(), target.rows().clone());
                let hint = Hint { key, ballot: head.ballot, is_everywhere: false };
                plan.push_hints([HintedCommit { hint, keys }]);
                self.answer(plan, true, done, Ok(()));
            }
            ShownRow::Keep => self.answer(plan, waits, done, Ok(())),
        }
    }

    fn adopt(
        &mut self,
        plan: &mut BatchPlan,
        rows: Vec<AdoptedRow>,
        done: Completion<Answer<()>>,
    ) -> JudgedPlace {
        match self.working.standing() {
            VoterStatus::Refilling => {}
            VoterStatus::Voting => {
                done.complete(Err(not_recovering()));
                return JudgedPlace::Done;
            }
            VoterStatus::Lost | VoterStatus::Unconfirmed => {
                self.answer(plan, false, done, Err(Refusal::Recovering));
                return JudgedPlace::Done;
            }
        }
        let mut hints = Vec::new();
        let mut rows = rows.into_iter();
        let limit = self.log.batch_bytes_max();
        while let Some(row) = rows.next() {
            let bytes = row.value.head.len() + row.value.inline.len() + RECORD_OVERHEAD_BYTES;
            let hints_bytes: usize = hints.iter().map(|one: &HintedCommit| hint_bytes(&one.hint)).sum();
            let is_first = plan.is_empty() && hints.is_empty();
            if !is_first && plan.bytes + hints_bytes + bytes > limit {
                plan.push_hints(hints);
                let rest = std::iter::once(row).chain(rows).collect();
                return JudgedPlace::Later(Op::Adopt { rows: rest, done: plan.answer_with_later(done) });
            }
            if let Err(error) = self.adopt_one(plan, row, &mut hints) {
                done.complete(Err(error));
                return JudgedPlace::Done;
            }
        }
        plan.push_hints(hints);
        let waits = !plan.is_empty();
        self.answer(plan, waits, done, Ok(()));
        JudgedPlace::Done
    }

    fn adopt_one(
        &mut self,
        plan: &mut BatchPlan,
        adopted: AdoptedRow,
        hints: &mut Vec<HintedCommit>,
    ) -> Result<(), Error> {
        let AdoptedRow { key, head, value, is_missed } = adopted;
        let traits = check_row(&value, &head, self.log.record_payload_max())?;
        let keys = RowKeys::of(&key);
        let row = keys.row();
        let known = self.known(plan, &key, row, ValueLimit::NOTHING)?;
        let own = known.head;
        let ballot = head.ballot;
        match adopt(own.as_ref(), &head) {
            Adoption::Take => {
                self.shared.promises.lock().begin(row, ballot);
                let adopted = NewRow { key: &key, keys: &keys, before: known.before };
                let flags = Flags::default()
                    .with(Flags::COMMITTED, head.committed)
                    .with(Flags::MISSED, head.committed && is_missed);
                Self::store(plan, &adopted, ballot, value, (traits, flags));
            }
            Adoption::LearnCommitted => {
                hints.push(HintedCommit { hint: Hint { key, ballot, is_everywhere: !is_missed }, keys });
            }
            Adoption::Keep => {}
        }
        Ok(())
    }
}
