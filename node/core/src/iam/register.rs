//! The register of a name of users or of groups.
//!
//! An entity is made in the register of its first name and stays there, its home, when it is renamed. The
//! register of its next name has a claim, which names the home. So a register has up to two entities to do
//! with: the one that lives in it, which may be named otherwise, and the one that its name stands for. One
//! that is made under a name whose register another one lives in has a home by its id.
//!
//! ```text
//! register := record: a user or a group of another version, which lives under its own name, or
//!             version u8 = 3, record blob (empty without one), taking n u32 = 0 or 1 x ticket u64,
//!             claim n u32 = 0 or 1 x (ref, ticket u64)
//! home     := iam/<kind>/<first name in lower case>, or iam/<kind>/~<id in lower case>
//! ```
//! A program that does not rename refuses version 3, and with it the entity: it must not take a name for
//! another one's, or leave out a group whose policies deny.

use bytes::Bytes;

use super::name::{EntityId, EntityKind};
use super::principal::{GroupRecord, UserRecord};
use super::reference::EntityRef;
use super::{VERSION, VERSION_OF_AWS, VERSION_OF_GIVEN_KEYS, VERSION_OF_RENAMES, begin_of};
use crate::codec::{DecodeError, Reader, Writer};

/// A user or a group.
pub trait NamedRecord: Sized {
    /// Kind of the record.
    const KIND: EntityKind;
    /// Id of the record.
    fn id(&self) -> &EntityId;
    /// Name of the record, as it is capitalised.
    fn name(&self) -> &str;
    /// Gives it another name.
    fn set_name(&mut self, name: String);
    /// Gives it another path.
    fn set_path(&mut self, path: String);
    /// The last part of its home's name, in any case.
    fn home(&self) -> &str;
    /// Sets its home, which its own bytes do not have.
    fn set_home(&mut self, home: String);
    /// The entities that it names, whose homes it names them by.
    fn named_by_it(&self) -> &[EntityRef];
    /// Stored bytes of the record.
    fn encode(&self) -> Bytes;
    /// From its stored bytes.
    ///
    /// # Errors
    /// [`DecodeError`] where they have another form.
    fn decode(bytes: Bytes) -> Result<Self, DecodeError>;

    /// Whether a name is its own, in any case.
    fn is_named(&self, name: &str) -> bool {
        self.name().eq_ignore_ascii_case(name)
    }

    /// Names it for other records.
    fn reference(&self) -> EntityRef {
        EntityRef { home: self.home().to_owned(), id: self.id().clone() }
    }
}

/// A name that an entity takes or has, in the register of that name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameClaim {
    /// The entity. The name is its own where its record has it, and it may take it while its home has the
    /// ticket; else the claim is dead.
    pub entity: EntityRef,
    /// Drawn for this claim alone.
    pub ticket: u64,
}

/// The register of a name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NameRegister<E> {
    /// The entity that lives here.
    pub resident: Option<E>,
    /// The ticket of the claim by which that entity takes another name, or by which one that is made here
    /// takes its first.
    pub taking: Option<u64>,
    /// The claim of an entity that lives elsewhere to this name.
    pub claim: Option<NameClaim>,
}

impl<E> Default for NameRegister<E> {
    fn default() -> Self {
        Self { resident: None, taking: None, claim: None }
    }
}

impl<E: NamedRecord> NameRegister<E> {
    /// The register of an entity that lives under its own name.
    pub const fn of(resident: E) -> Self {
        Self { resident: Some(resident), taking: None, claim: None }
    }

    /// Whether there is nothing in it.
    pub const fn is_empty(&self) -> bool {
        self.resident.is_none() && self.taking.is_none() && self.claim.is_none()
    }

    /// Stored bytes of the record.
    pub fn encode(&self) -> Bytes {
        let Self { resident, taking, claim } = self;
        if let (Some(resident), None, None) = (resident, taking, claim)
            && is_plain(resident)
        {
            return resident.encode();
        }
        let mut writer = Writer::new();
        writer.u8(VERSION_OF_RENAMES);
        writer.blob(&resident.as_ref().map(E::encode).unwrap_or_default());
        writer.count(usize::from(taking.is_some()));
        if let Some(ticket) = taking {
            writer.u64(*ticket);
        }
        writer.count(usize::from(claim.is_some()));
        if let Some(NameClaim { entity, ticket }) = claim {
            entity.write(&mut writer);
            writer.u64(*ticket);
        }
        writer.finish()
    }

    /// From its stored bytes, and the last part of the register's name.
    ///
    /// # Errors
    /// [`DecodeError`] where they have another form.
    pub fn decode(bytes: Bytes, home: &str) -> Result<Self, DecodeError> {
        let mut found = match bytes.first() {
            Some(&(VERSION | VERSION_OF_AWS | VERSION_OF_GIVEN_KEYS)) => Self::of(E::decode(bytes)?),
            _ => Self::decode_parts(bytes)?,
        };
        if let Some(resident) = &mut found.resident {
            let home = if resident.is_named(home) { resident.name() } else { home }.to_owned();
            resident.set_home(home);
        }
        Ok(found)
    }

    fn decode_parts(bytes: Bytes) -> Result<Self, DecodeError> {
        let (mut reader, version) = begin_of(bytes, E::KIND.word(), VERSION_OF_RENAMES)?;
        if version != VERSION_OF_RENAMES {
            return Err(DecodeError::Version { field: E::KIND.word(), version });
        }
        let record = reader.blob("record")?;
        let resident = if record.is_empty() { None } else { Some(E::decode(record)?) };
        let taking = at_most_one(&mut reader, "taking")?.then(|| reader.u64("ticket")).transpose()?;
        let claim = at_most_one(&mut reader, "claim")?.then(|| read_claim(&mut reader)).transpose()?;
        reader.finish(E::KIND.word())?;
        let found = Self { resident, taking, claim };
        if found.is_empty() { Err(DecodeError::Invalid { field: "register" }) } else { Ok(found) }
    }
}

/// Whether programs that do not rename read an entity rightly: it lives under its own name or its id, and
/// names none that has a home by its id.
fn is_plain<E: NamedRecord>(resident: &E) -> bool {
    let is_at_home = resident.is_named(resident.home()) || resident.reference().is_by_id();
    is_at_home && !resident.named_by_it().iter().any(EntityRef::is_by_id)
}

fn at_most_one(reader: &mut Reader, field: &'static str) -> Result<bool, DecodeError> {
    match reader.u32(field)? {
        0 => Ok(false),
        1 => Ok(true),
        _ => Err(DecodeError::Invalid { field }),
    }
}

fn read_claim(reader: &mut Reader) -> Result<NameClaim, DecodeError> {
    Ok(NameClaim { entity: EntityRef::read(reader)?, ticket: reader.u64("ticket")? })
}

macro_rules! named_records {
    ($($record:ident, $kind:ident, $named:expr;)+) => {
        $(impl NamedRecord for $record {
            const KIND: EntityKind = EntityKind::$kind;

            fn id(&self) -> &EntityId {
                &self.id
            }

            fn name(&self) -> &str {
                &self.name
            }

            fn set_name(&mut self, name: String) {
                self.name = name;
            }

            fn set_path(&mut self, path: String) {
                self.path = path;
            }

            fn home(&self) -> &str {
                &self.home
            }

            fn set_home(&mut self, home: String) {
                self.home = home;
            }

            fn named_by_it(&self) -> &[EntityRef] {
                let named: fn(&Self) -> &[EntityRef] = $named;
                named(self)
            }

            fn encode(&self) -> Bytes {
                Self::encode(self)
            }

            fn decode(bytes: Bytes) -> Result<Self, DecodeError> {
                Self::decode(bytes)
            }
        })+
    };
}

named_records! {
    UserRecord, User, |user| &user.groups;
    GroupRecord, Group, |_| &[];
}
