//! Each record's golden bytes, and bytes that do not decode.

use super::*;
use crate::config::public_access::PublicAccessBlock;

/// Draws zeros: every letter is A.
#[derive(Debug)]
struct Zeros;

impl crate::env::Rng for Zeros {
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(0);
    }
}

/// Text as it is stored.
fn text(text: &str) -> String {
    let length = u32::try_from(text.len()).expect("short").to_le_bytes();
    format!("{}{}", hex::encode(length), hex::encode(text))
}

fn reference(kind: EntityKind, name: &str) -> EntityRef {
    EntityRef { home: name.to_owned(), id: EntityId::draw(kind, &Zeros) }
}

fn user() -> UserRecord {
    UserRecord {
        id: EntityId::draw(EntityKind::User, &Zeros),
        home: "Ada".to_owned(),
        name: "Ada".to_owned(),
        path: "/a/".to_owned(),
        created_ms: 0x0102,
        tags: vec![Tag { key: "k".to_owned(), value: "v".to_owned() }],
        policies: PolicySet {
            inline: vec![InlinePolicy { name: "i".to_owned(), document: "{}".to_owned() }],
            attached: vec![reference(EntityKind::Policy, "p")],
            aws: Vec::new(),
        },
        groups: vec![reference(EntityKind::Group, "g")],
        keys: vec![key()],
    }
}

fn group_of(id: EntityId, path: String, created_ms: u64, policies: PolicySet) -> GroupRecord {
    GroupRecord { id, home: "Ops".to_owned(), name: "Ops".to_owned(), path, created_ms, policies }
}

fn key() -> UserKey {
    UserKey { id: AccessKeyId::draw(&Zeros), status: KeyStatus::Inactive }
}

fn named(id: &str, name: &str) -> String {
    [text(id), text(name), text("/a/"), "0201000000000000".to_owned()].concat()
}

/// Checks the golden bytes, that they come back, and that no other length of them does.
fn holds<R: PartialEq + std::fmt::Debug>(
    record: &R,
    encode: impl Fn(&R) -> Bytes,
    decode: impl Fn(Bytes) -> Result<R, DecodeError>,
    golden: &str,
) {
    let bytes = encode(record);
    assert_eq!(hex::encode(&bytes), golden);
    assert_eq!(decode(bytes.clone()).as_ref(), Ok(record));
    for length in 0..bytes.len() {
        assert!(decode(bytes.slice(..length)).is_err(), "cut at {length}");
    }
    let longer = Bytes::from([&bytes[..], &[0]].concat());
    assert!(decode(longer).is_err());
    let mut later = bytes.to_vec();
    later.splice(..1, [5]);
    let later = Bytes::from(later);
    assert!(matches!(decode(later), Err(DecodeError::Version { version: 5, .. })));
}

#[test]
fn a_user_is_these_bytes() {
    let (user, one) = (user(), "01000000");
    let golden = [
        "01".to_owned(),
        named("AIDAAAAAAAAAAAAAAAAAA", "Ada"),
        [one, &text("k"), &text("v")].concat(),
        [one, &text("i"), &text("{}")].concat(),
        [one, &text("p"), &text("ANPAAAAAAAAAAAAAAAAAA")].concat(),
        [one, &text("g"), &text("AGPAAAAAAAAAAAAAAAAAA")].concat(),
        [one, &text("AKIAAAAAAAAAAAAAAAAA"), "02"].concat(),
    ];
    holds(&user, UserRecord::encode, UserRecord::decode, &golden.concat());
    assert_eq!(user.arn(), "arn:aws:iam::000000000001:user/a/Ada");
}

#[test]
fn a_group_is_these_bytes() {
    let UserRecord { path, created_ms, policies, .. } = user();
    let id = EntityId::draw(EntityKind::Group, &Zeros);
    let group = group_of(id, path, created_ms, policies);
    let golden = [
        "01".to_owned(),
        named("AGPAAAAAAAAAAAAAAAAAA", "Ops"),
        ["01000000", &text("i"), &text("{}")].concat(),
        ["01000000", &text("p"), &text("ANPAAAAAAAAAAAAAAAAAA")].concat(),
    ];
    holds(&group, GroupRecord::encode, GroupRecord::decode, &golden.concat());
}

#[test]
fn policies_of_aws_make_a_user_and_a_group_version_2() {
    let UserRecord { path, created_ms, mut policies, .. } = user();
    policies.aws = vec!["AWSDenyAll".to_owned(), "ReadOnlyAccess".to_owned()];
    let id = EntityId::draw(EntityKind::Group, &Zeros);
    let group = group_of(id, path, created_ms, policies.clone());
    let aws = ["02000000", &text("AWSDenyAll"), &text("ReadOnlyAccess")].concat();
    let golden = [
        "02".to_owned(),
        named("AGPAAAAAAAAAAAAAAAAAA", "Ops"),
        ["01000000", &text("i"), &text("{}")].concat(),
        ["01000000", &text("p"), &text("ANPAAAAAAAAAAAAAAAAAA")].concat(),
        aws.clone(),
    ];
    holds(&group, GroupRecord::encode, GroupRecord::decode, &golden.concat());
    let user = UserRecord { policies, ..user() };
    let bytes = user.encode();
    assert_eq!((bytes.first(), UserRecord::decode(bytes.clone())), (Some(&2), Ok(user)));
    for other in [
        "00000000".to_owned(),
        ["02000000", &text("a"), &text("a")].concat(),
        "01000000".to_owned() + &text("a/b"),
    ] {
        let refused = hex::decode(hex::encode(&bytes).replace(&aws, &other)).expect("hex");
        assert!(UserRecord::decode(Bytes::from(refused)).is_err(), "{other}");
    }
}

#[test]
fn a_managed_policy_is_these_bytes() {
    let policy = ManagedPolicy {
        vendor: PolicyVendor::Account,
        id: EntityId::draw(EntityKind::Policy, &Zeros),
        name: "Read".to_owned(),
        path: "/a/".to_owned(),
        created_ms: 0x0102,
        description: "d".to_owned(),
        updated_ms: 3,
        tags: Vec::new(),
        default: 2,
        last: 4,
        versions: vec![PolicyVersion { number: 2, created_ms: 5, document: "{}".to_owned() }],
    };
    let golden = [
        "01".to_owned(),
        named("ANPAAAAAAAAAAAAAAAAAA", "Read"),
        [&text("d"), "0300000000000000", "00000000"].concat(),
        "02000000 04000000 01000000 02000000 0500000000000000".replace(' ', ""),
        text("{}"),
    ];
    holds(&policy, ManagedPolicy::encode, ManagedPolicy::decode, &golden.concat());
    let without = ManagedPolicy { default: 3, ..policy };
    assert!(ManagedPolicy::decode(without.encode()).is_err(), "its default is none of its versions");
}

#[test]
fn a_key_is_these_bytes_and_shows_nothing_of_its_secret() {
    let sealed = Bytes::from_static(b"sealed bytes");
    let key = KeyRecord {
        id: AccessKeyId::draw(&Zeros),
        user: reference(EntityKind::User, "Ada"),
        created_ms: 0x0102,
        secret: WrappedSecret { fingerprint: [7; 8], nonce: [8; 12], sealed: sealed.clone() },
    };
    let golden = [
        ["01", &text("AKIAAAAAAAAAAAAAAAAA"), &text("Ada"), &text("AIDAAAAAAAAAAAAAAAAAA")].concat(),
        "0201000000000000 0707070707070707 080808080808080808080808".replace(' ', ""),
        text("sealed bytes"),
    ];
    holds(&key, KeyRecord::encode, KeyRecord::decode, &golden.concat());
    let shown = format!("{key:?}");
    assert!(shown.contains("0707070707070707") && !shown.contains("sealed bytes"), "{shown}");
    let secret = WrappedSecret { sealed: vec![0; IAM_RECORD_BYTES_MAX / 2].into(), ..key.secret.clone() };
    assert!(KeyRecord::decode(KeyRecord { secret, ..key }.encode()).is_err());
}

#[test]
fn the_account_and_a_use_are_these_bytes() {
    let block = |block| Account { public_access_block: block };
    holds(&block(None), Account::encode, Account::decode, "0100000000");
    holds(&block(Some(PublicAccessBlock::ALL)), Account::encode, Account::decode, "0102000000010f");
    let used = KeyUse { used_ms: 9, service: "s3".to_owned(), region: "r".to_owned() };
    let golden = ["01", "0900000000000000", &text("s3"), &text("r")].concat();
    holds(&used, KeyUse::encode, KeyUse::decode, &golden);
}

#[test]
fn records_past_their_limits_are_refused() {
    let many = |count: usize| (0..count).map(|_| reference(EntityKind::Group, "g")).collect::<Vec<_>>();
    let keys = |count: usize| vec![key(); count];
    assert!(UserRecord::decode(UserRecord { groups: many(10), ..user() }.encode()).is_ok());
    assert!(UserRecord::decode(UserRecord { groups: many(11), ..user() }.encode()).is_err());
    assert!(UserRecord::decode(UserRecord { keys: keys(3), ..user() }.encode()).is_err());
    let inline = InlinePolicy { name: "i".to_owned(), document: " ".repeat(IAM_RECORD_BYTES_MAX) };
    let policies = PolicySet { inline: vec![inline], ..PolicySet::default() };
    assert!(UserRecord::decode(UserRecord { policies, ..user() }.encode()).is_err());
    for (name, path) in [("", "/"), ("a/b", "/"), ("a", ""), ("a", "/a"), ("a", "//")] {
        let user = UserRecord { name: name.to_owned(), path: path.to_owned(), ..user() };
        assert!(UserRecord::decode(user.encode()).is_err(), "{name:?} {path:?}");
    }
}

#[test]
fn a_register_of_renames_is_these_bytes_and_others_are_their_record() {
    let id = || EntityId::draw(EntityKind::User, &Zeros);
    let plain = NameRegister::of(user());
    assert_eq!(plain.encode(), user().encode());
    assert_eq!(NameRegister::decode(user().encode(), "ada"), Ok(plain));
    let renamed = UserRecord { home: "eve".to_owned(), ..user() };
    let record = user().encode();
    let blob = [hex::encode(u32::try_from(record.len()).expect("short").to_le_bytes()), hex::encode(&record)];
    let (taken, none) = ("01000000 0807060504030201".replace(' ', ""), "00000000".to_owned());
    let claim = ["01000000", &text("Bob"), &text("AIDAAAAAAAAAAAAAAAAAA"), "0900000000000000"].concat();
    let claimed = NameClaim { entity: EntityRef { home: "Bob".to_owned(), id: id() }, ticket: 9 };
    let ticket = 0x0102_0304_0506_0708;
    let decode = |bytes| NameRegister::<UserRecord>::decode(bytes, "eve");
    for (register, golden) in [
        (
            NameRegister { resident: Some(renamed.clone()), taking: None, claim: None },
            [&blob.concat(), &none, &none],
        ),
        (NameRegister { resident: None, taking: Some(ticket), claim: None }, [&none, &taken, &none]),
        (NameRegister { resident: None, taking: None, claim: Some(claimed.clone()) }, [&none, &none, &claim]),
        (
            NameRegister { resident: Some(renamed.clone()), taking: Some(ticket), claim: Some(claimed) },
            [&blob.concat(), &taken, &claim],
        ),
    ] {
        let bytes = register.encode();
        assert_eq!(hex::encode(&bytes), "03".to_owned() + &golden.map(String::as_str).concat());
        assert_eq!(decode(bytes.clone()), Ok(register));
        for length in 0..bytes.len() {
            assert!(decode(bytes.slice(..length)).is_err(), "cut at {length}");
        }
        // A program that does not rename refuses it, and one that does refuses what it does not know.
        let refused = UserRecord::decode(bytes.clone());
        assert!(matches!(refused, Err(DecodeError::Version { version: 3, .. })), "{refused:?}");
        let later = Bytes::from([&[5], bytes.slice(1..).as_ref()].concat());
        assert!(matches!(decode(later), Err(DecodeError::Version { version: 5, .. })));
    }
    for bad in [none.repeat(3), none.clone() + "02000000" + &none, none.repeat(2) + "02000000"] {
        assert!(decode(hex::decode("03".to_owned() + &bad).expect("hex").into()).is_err(), "{bad}");
    }
}

#[test]
fn who_names_a_home_by_an_id_is_refused_by_programs_that_do_not_rename() {
    let named = EntityRef::by_id(EntityId::draw(EntityKind::Group, &Zeros));
    let register = named.register(EntityKind::Group).map(|register| register.key.to_string());
    assert_eq!(register, Ok("iam/group/~agpaaaaaaaaaaaaaaaaaa".to_owned()));
    let other = EntityRef { home: "~AGPAB".to_owned(), ..named.clone() };
    assert_eq!(other.register(EntityKind::Group), Err(InvalidEntity::Id));
    // A user in such a group: its group may deny.
    let member = UserRecord { groups: vec![named], ..user() };
    assert_eq!(NameRegister::of(member.clone()).encode().first(), Some(&3));
    assert_eq!(
        NameRegister::decode(NameRegister::of(member.clone()).encode(), "ada"),
        Ok(NameRegister::of(member))
    );
    // The user itself is read by its register, and its keys are of version 2.
    let home = EntityRef::by_id(EntityId::draw(EntityKind::User, &Zeros));
    let resident = NameRegister::of(UserRecord { home: home.home.to_ascii_lowercase(), ..user() });
    assert_eq!(resident.encode(), user().encode());
    assert_eq!(NameRegister::decode(resident.encode(), "~aidaaaaaaaaaaaaaaaaaa"), Ok(resident));
    let key = KeyRecord {
        id: AccessKeyId::draw(&Zeros),
        user: home,
        created_ms: 1,
        secret: WrappedSecret { fingerprint: [7; 8], nonce: [8; 12], sealed: Bytes::from_static(b"sealed") },
    };
    let bytes = key.encode();
    assert_eq!((bytes.first(), KeyRecord::decode(bytes.clone())), (Some(&2), Ok(key)));
    assert!(KeyRecord::decode(Bytes::from([&[1], bytes.slice(1..).as_ref()].concat())).is_err());
}

/// Programs that know no given ids refuse these versions by name, and with them the key and its user.
#[test]
fn keys_whose_ids_were_given_have_versions_of_their_own() {
    let given = AccessKeyId::parse("ada").expect("an id");
    let keys = vec![UserKey { id: given, status: KeyStatus::Active }];
    let user = UserRecord { keys, ..user() };
    let one = "01000000";
    let golden = [
        "04".to_owned(),
        named("AIDAAAAAAAAAAAAAAAAAA", "Ada"),
        [one, &text("k"), &text("v")].concat(),
        [one, &text("i"), &text("{}")].concat(),
        [one, &text("p"), &text("ANPAAAAAAAAAAAAAAAAAA")].concat(),
        "00000000".to_owned(),
        [one, &text("g"), &text("AGPAAAAAAAAAAAAAAAAAA")].concat(),
        [one, &text("ada"), "01"].concat(),
    ];
    holds(&user, UserRecord::encode, UserRecord::decode, &golden.concat());
    let register = NameRegister::of(user.clone());
    assert_eq!(NameRegister::decode(register.encode(), "ada"), Ok(register), "without a renames around it");
    let policies = PolicySet { aws: vec!["AWSDenyAll".to_owned()], ..user.policies.clone() };
    let both = UserRecord { policies, ..user.clone() };
    assert_eq!(UserRecord::decode(both.encode()), Ok(both));
    // A version says what is in a record, and no other does.
    for version in [1, 2, 3, 5] {
        let bytes = user.encode();
        let other = Bytes::from([&[version], bytes.slice(1..).as_ref()].concat());
        assert!(UserRecord::decode(other).is_err(), "{version}");
    }
    for user in
        [reference(EntityKind::User, "Ada"), EntityRef::by_id(EntityId::draw(EntityKind::User, &Zeros))]
    {
        let sealed = Bytes::from_static(b"sealed");
        let secret = WrappedSecret { fingerprint: [7; 8], nonce: [8; 12], sealed };
        let key = KeyRecord { id: given, user, created_ms: 0x0102, secret };
        let golden = [
            ["03", &text("ada"), &text(&key.user.home), &text("AIDAAAAAAAAAAAAAAAAAA")].concat(),
            "0201000000000000 0707070707070707 080808080808080808080808".replace(' ', ""),
            text("sealed"),
        ];
        holds(&key, KeyRecord::encode, KeyRecord::decode, &golden.concat());
    }
}

#[test]
fn names_keep_their_case_and_share_a_register() {
    let register = |kind: EntityKind, name: &str| kind.register(name).map(|key| key.key.to_string());
    assert_eq!(register(EntityKind::User, "Ada"), Ok("iam/user/ada".to_owned()));
    assert_eq!(register(EntityKind::Group, "ADA"), register(EntityKind::Group, "ada"));
    assert_eq!(register(EntityKind::Policy, "a_+=,.@-Z9"), Ok("iam/policy/a_+=,.@-z9".to_owned()));
    assert!(register(EntityKind::User, &"u".repeat(64)).is_ok());
    assert!(register(EntityKind::User, &"u".repeat(65)).is_err());
    assert!(register(EntityKind::Group, &"g".repeat(128)).is_ok());
    for bad in ["", "a/b", "a b", "\u{e4}", "a*"] {
        assert!(register(EntityKind::User, bad).is_err(), "{bad:?}");
    }
    for (path, is_good) in [("/", true), ("/a/b/", true), ("a/", false), ("/a", false), ("/ /", false)] {
        assert_eq!(check_path(path).is_ok(), is_good, "{path:?}");
    }
    assert!(check_path(&format!("/{}/", "p".repeat(510))).is_ok());
    assert!(check_path(&format!("/{}/", "p".repeat(511))).is_err());
}

#[test]
fn no_other_text_is_a_keys_id() {
    let id = AccessKeyId::draw(&Zeros);
    assert_eq!(AccessKeyId::parse("AKIAAAAAAAAAAAAAAAAA"), Some(id));
    assert_eq!(id.register().key.as_str(), "iam/key/akiaaaaaaaaaaaaaaaaa");
    assert_eq!(id.register_of_use().key.as_str(), "iam/use/akiaaaaaaaaaaaaaaaaa");
    assert!(!id.is_given());
    // Ids that other stores gave: each has a register of its own, however it is capitalised.
    let longest = "k".repeat(64);
    for (given, register) in [
        ("Ada", "iam/key/~Ada"),
        ("ada", "iam/key/~ada"),
        ("ada_+.@-9", "iam/key/~ada_+.@-9"),
        ("akiaaaaaaaaaaaaaaaaa", "iam/key/~akiaaaaaaaaaaaaaaaaa"),
        ("AKIAAAAAAAAAAAAAAAA1", "iam/key/~AKIAAAAAAAAAAAAAAAA1"),
        (&longest, &format!("iam/key/~{longest}")),
    ] {
        let id = AccessKeyId::parse(given).expect(given);
        assert_eq!((id.as_str(), id.is_given()), (given, true));
        assert_eq!(id.register().key.as_str(), register);
    }
    for other in ["", "ad", &"k".repeat(65), "a/da", "a da", "a=da", "a,da", "~ada", "\u{e4}da", "a:da"] {
        assert_eq!(AccessKeyId::parse(other), None, "{other}");
    }
    assert!(EntityId::parse("AKIAAAAAAAAAAAAAAAAAA".to_owned()).is_err(), "of no entity");
}
