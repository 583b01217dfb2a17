//! Names of users and groups: found, given and changed.
//!
//! An entity stays in one register, its home, and each change of it is one compare-and-set there, also that
//! of its name. Memberships and keys name homes and ids: they find it by one read whichever name it has, and
//! a rename changes no right at any moment. A name stands for the entity that lives in the name's register
//! under this name, or for the entity of that register's claim, where that one's record has the name:
//!
//! ```text
//! rename a -> b  1. home: taking = t        it is `a`
//!                2. b: claim (home, id, t)  it is `a`, and `b` stands for nothing
//!                3. home: name = b          if still taking t: it is `b`, and `a` stands for nothing
//!                4. a: the claim goes       if `a` is not its home
//! ```
//! A crash behind any step leaves the entity whole under one name. A claim that is left keeps no other entity
//! from the name: the next call for `b` ends it first. If the claim's entity is taking t, that call removes t
//! from its home, so that step 3 fails and the rename begins again with another ticket. A claim whose entity
//! neither has nor takes the name stays dead, as each ticket is drawn once. A rename back to the home's name
//! is one compare-and-set of that register. An entity that is made under a name whose register another one
//! lives in has a home that is named by its id, and takes the name by the same steps: step 3 makes it.

use std::future::ready;

use sherd_core::env::Rng;
use sherd_core::iam::{EntityId, EntityKind, EntityRef, NameClaim, NameRegister, NamedRecord};

use super::error::{IamError, Result};
use super::limits::CHANGE_TRIES;
use super::records::{EntityRecord, Records, Step, home_of};
use super::{checked_path, kind_register, missing};

/// A user or a group, and the content of its register.
pub(super) trait NamedEntity: NamedRecord + EntityRecord<Register = NameRegister<Self>> {}

impl<E: NamedRecord + EntityRecord<Register = NameRegister<E>>> NamedEntity for E {}

/// The next name and path of a user or a group.
#[derive(Debug, Clone, Default)]
pub struct EntityUpdate {
    /// Next name; `None` leaves it.
    pub name: Option<String>,
    /// Next path; `None` leaves it.
    pub path: Option<String>,
}

impl EntityUpdate {
    pub(super) fn check(&self, kind: EntityKind) -> Result<()> {
        let field = if kind == EntityKind::User { "newUserName" } else { "newGroupName" };
        let name = self.name.as_ref().map_or(Ok(()), |name| kind.check_name(name));
        name.map_err(|source| IamError::Invalid { field, source })?;
        self.path.as_ref().map_or(Ok(()), |path| checked_path(path))
    }

    pub(super) fn apply<E: NamedEntity>(&self, entity: &mut E) {
        if let Some(name) = &self.name {
            entity.set_name(name.clone());
        }
        if let Some(path) = &self.path {
            entity.set_path(path.clone());
        }
    }
}

impl Records {
    /// The user or the group that a name stands for, in any case.
    pub(super) async fn named<E: NamedEntity>(&self, name: &str) -> Result<E> {
        Ok(self.find(name).await?.ok_or_else(|| missing(E::KIND, name))?)
    }

    async fn find<E: NamedEntity>(&self, name: &str) -> Result<Option<E>> {
        let found = self.read::<NameRegister<E>>(kind_register(E::KIND, name)?).await?;
        let NameRegister { resident, claim, .. } = found.map(|found| found.record).unwrap_or_default();
        if let Some(resident) = resident.filter(|resident| resident.is_named(name)) {
            return Ok(Some(resident));
        }
        let Some(claim) = claim else { return Ok(None) };
        let claimant = self.referred::<E>(&claim.entity).await?.map(|found| found.record);
        Ok(claimant.filter(|claimant| claimant.is_named(name)))
    }

    /// Changes the user or the group that a name stands for.
    pub(super) async fn change_named<E: NamedEntity, T: Send>(
        &self,
        name: &str,
        mut change: impl FnMut(&mut E) -> Result<T> + Send,
    ) -> Result<T> {
        let decide = |mut entity: E| {
            let changed = change(&mut entity);
            ready(changed.map(|outcome| (Step::Put(entity), outcome)))
        };
        self.change_named_by(name, decide).await
    }

    /// As [`Self::change_named`], where the decision reads other records, or removes the entity.
    pub(super) async fn change_named_by<E: NamedEntity, T: Send, D>(
        &self,
        name: &str,
        mut decide: impl FnMut(E) -> D + Send,
    ) -> Result<T>
    where
        D: Future<Output = Result<(Step<E>, T)>> + Send,
    {
        let entity = self.named::<E>(name).await?.reference();
        let decide = |found: Option<NameRegister<E>>| {
            let mut register = found.unwrap_or_default();
            let decided = register.resident.take_if(|resident| resident.is_named(name)).map(&mut decide);
            async move {
                let (step, outcome) = decided.ok_or_else(|| missing(E::KIND, name))?.await?;
                let is_removed = matches!(step, Step::Remove);
                let step = match step {
                    Step::Put(entity) => Step::Put(NameRegister { resident: Some(entity), ..register }),
                    Step::Remove => next(NameRegister { taking: None, ..register }),
                    Step::Keep => Step::Keep,
                };
                Ok((step, (outcome, is_removed)))
            }
        };
        let (outcome, is_removed) = self.change_by(&home_of::<E>(&entity)?, decide).await?;
        if is_removed {
            self.release::<E>(name, &entity.id).await;
        }
        Ok(outcome)
    }

    /// Makes a user or a group, under a name that stands for no other.
    pub(super) async fn create_named<E: NamedEntity>(&self, mut entity: E, rng: &dyn Rng) -> Result<E> {
        let name = entity.name().to_owned();
        let live = |register: &mut NameRegister<E>| {
            if register.resident.is_none() {
                register.resident = Some(entity.clone());
            }
            Ok(register.resident.as_ref().is_some_and(|resident| resident.id() == entity.id()))
        };
        if self.change_free(&name, live).await? {
            return Ok(entity);
        }
        let named = EntityRef::by_id(entity.id().clone());
        entity.set_home(named.home.clone());
        for _ in 0..CHANGE_TRIES {
            let settle = |register: &mut NameRegister<E>| {
                register.taking = None;
                register.resident = Some(entity.clone());
                Ok(())
            };
            if self.take(&named, &name, draw_ticket(rng), |_| Ok(()), settle).await? {
                return Ok(entity);
            }
        }
        Err(IamError::ConcurrentModification)
    }

    /// Gives a user or a group another name, which stands for no other.
    pub(super) async fn rename<E: NamedEntity>(
        &self,
        name: &str,
        new: &str,
        update: &EntityUpdate,
        rng: &dyn Rng,
    ) -> Result<()> {
        for _ in 0..CHANGE_TRIES {
            let entity = self.named::<E>(name).await?.reference();
            let is_done = match self.rename_entity::<E>(&entity, [name, new], update, rng).await {
                Ok(is_done) => is_done,
                Err(taken @ IamError::EntityAlreadyExists { .. }) => {
                    // By the entity itself, where another call gave it the name.
                    self.named::<E>(name).await?;
                    return Err(taken);
                }
                Err(error) => return Err(error),
            };
            self.release::<E>(if is_done { name } else { new }, &entity.id).await;
            if is_done {
                return Ok(());
            }
        }
        Err(IamError::ConcurrentModification)
    }

    /// Tries to rename an entity once; `false` where another call took the name away in between.
    async fn rename_entity<E: NamedEntity>(
        &self,
        entity: &EntityRef,
        [name, new]: [&str; 2],
        update: &EntityUpdate,
        rng: &dyn Rng,
    ) -> Result<bool> {
        let is_it = |found: &E| *NamedRecord::id(found) == entity.id && found.is_named(name);
        let rename = |register: &mut NameRegister<E>| {
            register.taking = None;
            let resident = register.resident.as_mut().filter(|found| is_it(found));
            resident.map(|resident| update.apply(resident)).ok_or_else(|| missing(E::KIND, name).into())
        };
        if entity.home.eq_ignore_ascii_case(new) {
            self.change_free(new, rename).await?;
            return Ok(true);
        }
        if self.find::<E>(new).await?.is_some() {
            return Err(already_there::<E>(new));
        }
        let begin = |register: &mut NameRegister<E>| {
            let is_there = register.resident.as_ref().is_some_and(is_it);
            if is_there { Ok(()) } else { Err(missing(E::KIND, name).into()) }
        };
        self.take(entity, new, draw_ticket(rng), begin, rename).await
    }

    /// Takes a name for an entity, in the three steps of this file's head; `false` where another call took it
    /// away in between.
    async fn take<E: NamedEntity>(
        &self,
        entity: &EntityRef,
        name: &str,
        ticket: u64,
        begin: impl Fn(&mut NameRegister<E>) -> Result<()> + Send + Sync,
        settle: impl Fn(&mut NameRegister<E>) -> Result<()> + Send + Sync,
    ) -> Result<bool> {
        let home = home_of::<E>(entity)?;
        let begin = |found: Option<NameRegister<E>>| {
            let mut register = found.unwrap_or_default();
            begin(&mut register)?;
            Ok((Step::Put(NameRegister { taking: Some(ticket), ..register }), ()))
        };
        self.change(&home, begin).await?;
        let claim = NameClaim { entity: entity.clone(), ticket };
        let claim_name = |register: &mut NameRegister<E>| {
            register.claim = Some(claim.clone());
            Ok(())
        };
        if let Err(error) = self.change_free(name, claim_name).await {
            let withdrawn = self.end_claim::<E>(&claim, name).await;
            tracing::debug!(?claim, ?withdrawn, "a name is not taken");
            return Err(error);
        }
        let settle = |found: Option<NameRegister<E>>| {
            let mut register = found.unwrap_or_default();
            if register.taking != Some(ticket) {
                return Ok((Step::Keep, false));
            }
            settle(&mut register)?;
            Ok((Step::Put(register), true))
        };
        self.change(&home, settle).await
    }

    /// Changes the register of a name that stands for nothing, behind the end of its claim.
    async fn change_free<E: NamedEntity, T: Send>(
        &self,
        name: &str,
        change: impl Fn(&mut NameRegister<E>) -> Result<T> + Send + Sync,
    ) -> Result<T> {
        let change = &change;
        let decide = |found: Option<NameRegister<E>>| async move {
            let mut register = found.unwrap_or_default();
            let is_resident = register.resident.as_ref().is_some_and(|resident| resident.is_named(name));
            let has_claimant = match register.claim.take() {
                Some(claim) if !is_resident => !self.end_claim::<E>(&claim, name).await?,
                _ => false,
            };
            if is_resident || has_claimant {
                return Err(already_there::<E>(name));
            }
            let outcome = change(&mut register)?;
            Ok((next(register), outcome))
        };
        self.change_by(&kind_register(E::KIND, name)?, decide).await
    }

    /// Makes a claim dead; `false` where its entity has the name.
    async fn end_claim<E: NamedEntity>(&self, claim: &NameClaim, name: &str) -> Result<bool> {
        let end = |found: Option<NameRegister<E>>| {
            let mut register = found.unwrap_or_default();
            if has_name(&register, claim, name) {
                return Ok((Step::Keep, false));
            }
            if register.taking != Some(claim.ticket) {
                return Ok((Step::Keep, true));
            }
            register.taking = None;
            Ok((next(register), true))
        };
        self.change(&home_of::<E>(&claim.entity)?, end).await
    }

    /// Removes the claim that an entity has of a name, where it is dead. Where this fails it is left, and
    /// keeps no other entity from the name.
    async fn release<E: NamedEntity>(&self, name: &str, id: &EntityId) {
        let decide = |found: Option<NameRegister<E>>| async move {
            let mut register = found.unwrap_or_default();
            let Some(claim) = register.claim.take_if(|claim| claim.entity.id == *id) else {
                return Ok((Step::Keep, ()));
            };
            let home = self.read::<NameRegister<E>>(home_of::<E>(&claim.entity)?).await?;
            let home = home.map(|found| found.record).unwrap_or_default();
            let is_alive = has_name(&home, &claim, name) || home.taking == Some(claim.ticket);
            Ok((if is_alive { Step::Keep } else { next(register) }, ()))
        };
        let released = match kind_register(E::KIND, name) {
            Ok(register) => self.change_by(&register, decide).await,
            Err(error) => Err(error),
        };
        if let Err(error) = released {
            tracing::debug!(name, %error, "a claim of a name that stands for nothing is left");
        }
    }
}

/// Whether the entity of a claim lives in its home under the name.
fn has_name<E: NamedEntity>(home: &NameRegister<E>, claim: &NameClaim, name: &str) -> bool {
    let resident = home.resident.as_ref().filter(|resident| *resident.id() == claim.entity.id);
    resident.is_some_and(|resident| resident.is_named(name))
}

/// The next state of a register, which is removed where there is nothing in it.
fn next<E: NamedEntity>(register: NameRegister<E>) -> Step<NameRegister<E>> {
    if register.is_empty() { Step::Remove } else { Step::Put(register) }
}

fn already_there<E: NamedEntity>(name: &str) -> IamError {
    IamError::EntityAlreadyExists { kind: E::KIND, name: name.to_owned() }
}

fn draw_ticket(rng: &dyn Rng) -> u64 {
    let mut drawn = [0; 8];
    rng.fill(&mut drawn);
    u64::from_le_bytes(drawn)
}
