//! The rights of the story's clients, written plainly from its few policies: the policies as documents, the
//! rules that are in force, and the answer that these give to a request.

use std::collections::{BTreeMap, BTreeSet};

use crate::harness::s3::BUCKET;

/// Clients: 14 users, root, and one without a signature.
pub(super) const CLIENTS: usize = 16;
/// Users.
pub(super) const USERS: usize = 14;
pub(super) const ROOT: usize = 14;
pub(super) const ANONYMOUS: usize = 15;
/// The users that a bucket's policy names.
pub(super) const NAMED: [usize; 3] = [9, 10, 11];

/// A policy of users and groups.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Document {
    /// Reads and lists below the user's own prefix.
    ReadOwn,
    /// Writes and deletes below the user's own prefix.
    WriteOwn,
    /// Reads and lists everything.
    ReadAll,
    /// Does everything.
    All,
    /// Does everything and deletes nothing.
    KeepAll,
    /// Reads nothing of the team, with any other policy.
    NotTheTeam,
}

/// A policy of the bucket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum BucketDocument {
    /// All read what is public.
    Public,
    /// The named users do everything below all own prefixes, and list them.
    Named,
    /// All read what is public and what is the team's, and none writes below an own prefix.
    Guarded,
}

/// A right that a request needs.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Right {
    Read(String),
    Write(String),
    Erase(String),
    /// With the prefix that is asked for, where there is one.
    List(Option<String>),
}

/// A word of a policy on a right.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Word {
    Allow,
    Deny,
}

/// A request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Ask {
    ReadPublic,
    ReadTeam,
    ReadOwn,
    /// Of a key that does not exist.
    ReadAbsent,
    Write,
    Copy,
    Erase,
    /// A batch of a key of the client's own and one of the team.
    EraseBoth,
    ListOwn,
    ListTeam,
}

/// An answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Answer {
    /// Done.
    Done,
    /// NoSuchKey.
    Absent,
    /// AccessDenied.
    Denied,
    /// InvalidAccessKeyId.
    UnknownKey,
    /// Keys of a batch that were deleted; the others are AccessDenied.
    Erased([bool; 2]),
}

/// The rules that are in force at a moment.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Rules {
    /// The policies that users have of their own.
    pub(super) inline: BTreeMap<usize, Document>,
    /// The policy of the group, and the users in it.
    pub(super) group: Option<Document>,
    pub(super) members: BTreeSet<usize>,
    /// The managed policy, and the users that it is attached to.
    pub(super) managed: Document,
    pub(super) attached: BTreeSet<usize>,
    /// The users whose key is not active.
    pub(super) inactive: BTreeSet<usize>,
    pub(super) bucket: Option<BucketDocument>,
    /// RestrictPublicBuckets.
    pub(super) is_restricted: bool,
}

pub(super) fn name(client: usize) -> String {
    match client {
        ROOT => "root".to_owned(),
        ANONYMOUS => "anonymous".to_owned(),
        user => format!("user-{user}"),
    }
}

fn own(client: usize, key: &str) -> String {
    format!("own/{}/{key}", name(client))
}

impl Document {
    /// As IAM takes it: one text for all users.
    pub(super) fn json(self) -> String {
        let own = format!("arn:aws:s3:::{BUCKET}/own/${{aws:username}}/*");
        let (bucket, all) = (format!("arn:aws:s3:::{BUCKET}"), format!("arn:aws:s3:::{BUCKET}/*"));
        let statements = match self {
            Self::ReadOwn => format!(
                r#"{{"Effect":"Allow","Action":"s3:GetObject*","Resource":"{own}"}},
                {{"Effect":"Allow","Action":"s3:ListBucket","Resource":"{bucket}",
                 "Condition":{{"StringLike":{{"s3:prefix":"own/${{aws:username}}/*"}}}}}}"#
            ),
            Self::WriteOwn => format!(
                r#"{{"Effect":"Allow","Action":["s3:PutObject*","s3:DeleteObject"],"Resource":["{own}"]}}"#
            ),
            Self::ReadAll => format!(
                r#"{{"Effect":"Allow","Action":["s3:GetObject*","s3:ListBucket"],
                 "Resource":["{bucket}","{all}"]}}"#
            ),
            Self::All => r#"{"Effect":"Allow","Action":"*","Resource":"*"}"#.to_owned(),
            Self::KeepAll => format!(
                r#"{{"Effect":"Allow","Action":"s3:*","Resource":["{bucket}","{all}"]}},
                {{"Effect":"Deny","Action":"s3:DeleteObject*","Resource":"{all}"}}"#
            ),
            Self::NotTheTeam => format!(
                r#"{{"Effect":"Deny","Action":"s3:GetObject*","Resource":"arn:aws:s3:::{BUCKET}/team/*"}}"#
            ),
        };
        format!(r#"{{"Version":"2012-10-17","Statement":[{statements}]}}"#)
    }

    /// The document's word on a right of a user.
    fn word(self, user: usize, right: &Right) -> Option<Word> {
        let is_own = |key: &str| key.starts_with(&own(user, ""));
        let allowed = match (self, right) {
            (Self::KeepAll, Right::Erase(_)) => return Some(Word::Deny),
            (Self::NotTheTeam, Right::Read(key)) if key.starts_with("team/") => return Some(Word::Deny),
            (Self::ReadOwn, Right::List(prefix)) => prefix.as_deref().is_some_and(is_own),
            (Self::ReadOwn, Right::Read(key)) | (Self::WriteOwn, Right::Write(key) | Right::Erase(key)) => {
                is_own(key)
            }
            (Self::ReadAll, Right::Read(_) | Right::List(_)) | (Self::All | Self::KeepAll, _) => true,
            (Self::NotTheTeam, _)
            | (Self::ReadOwn | Self::ReadAll, Right::Write(_) | Right::Erase(_))
            | (Self::WriteOwn, Right::Read(_) | Right::List(_)) => false,
        };
        allowed.then_some(Word::Allow)
    }
}

impl BucketDocument {
    /// As S3 takes it.
    pub(super) fn json(self) -> String {
        let all_read = |places: &str| {
            format!(r#"{{"Effect":"Allow","Principal":"*","Action":"s3:GetObject","Resource":[{places}]}}"#)
        };
        let at = |place: &str| format!(r#""arn:aws:s3:::{BUCKET}{place}""#);
        let statements = match self {
            Self::Public => all_read(&at("/public/*")),
            Self::Named => {
                let arn = |user: &usize| format!(r#""arn:aws:iam::000000000001:user/{}""#, name(*user));
                let users = NAMED.iter().map(arn).collect::<Vec<_>>().join(",");
                format!(
                    r#"{{"Effect":"Allow","Principal":{{"AWS":[{users}]}},"Resource":{},
                     "Action":["s3:GetObject*","s3:PutObject*","s3:DeleteObject"]}},
                    {{"Effect":"Allow","Principal":{{"AWS":[{users}]}},"Action":"s3:ListBucket","Resource":{},
                     "Condition":{{"StringLike":{{"s3:prefix":"own/*"}}}}}}"#,
                    at("/own/*"),
                    at("")
                )
            }
            Self::Guarded => format!(
                r#"{},{{"Effect":"Deny","Principal":"*","Action":"s3:PutObject","Resource":{}}}"#,
                all_read(&[at("/public/*"), at("/team/*")].join(",")),
                at("/own/*")
            ),
        };
        format!(r#"{{"Version":"2012-10-17","Statement":[{statements}]}}"#)
    }

    /// The document's word on a right of a client.
    fn word(self, client: usize, right: &Right) -> Option<Word> {
        let is_own = |key: &str| key.starts_with("own/");
        let allowed = match (self, right) {
            (Self::Guarded, Right::Write(key)) if is_own(key) => return Some(Word::Deny),
            (Self::Public, Right::Read(key)) => key.starts_with("public/"),
            (Self::Guarded, Right::Read(key)) => key.starts_with("public/") || key.starts_with("team/"),
            (Self::Named, Right::Read(key) | Right::Write(key) | Right::Erase(key)) => {
                NAMED.contains(&client) && is_own(key)
            }
            (Self::Named, Right::List(prefix)) => {
                NAMED.contains(&client) && prefix.as_deref().is_some_and(is_own)
            }
            (Self::Public | Self::Guarded, _) => false,
        };
        allowed.then_some(Word::Allow)
    }

    /// Whether it gives rights to all.
    const fn is_public(self) -> bool {
        matches!(self, Self::Public | Self::Guarded)
    }
}

impl Ask {
    pub(super) const ALL: [Self; 10] = [
        Self::ReadPublic,
        Self::ReadTeam,
        Self::ReadOwn,
        Self::ReadAbsent,
        Self::Write,
        Self::Copy,
        Self::Erase,
        Self::EraseBoth,
        Self::ListOwn,
        Self::ListTeam,
    ];

    /// The keys that it works on, or the prefix that it lists.
    pub(super) fn keys(self, client: usize) -> Vec<String> {
        match self {
            Self::ReadPublic => vec!["public/object".to_owned()],
            Self::ReadTeam => vec!["team/object".to_owned()],
            Self::ReadOwn => vec![own(client, "object")],
            Self::ReadAbsent => vec![own(client, "absent")],
            Self::Write => vec![own(client, "written")],
            Self::Copy => vec!["team/object".to_owned(), own(client, "copied")],
            Self::Erase => vec![own(client, "erased")],
            Self::EraseBoth => vec![own(client, "erased"), "team/erased".to_owned()],
            Self::ListOwn => vec![own(client, "")],
            Self::ListTeam => vec!["team/".to_owned()],
        }
    }
}

impl Rules {
    /// None: only root may anything.
    pub(super) const fn new() -> Self {
        Self {
            inline: BTreeMap::new(),
            group: None,
            members: BTreeSet::new(),
            managed: Document::ReadAll,
            attached: BTreeSet::new(),
            inactive: BTreeSet::new(),
            bucket: None,
            is_restricted: false,
        }
    }

    /// Documents in force when the story begins: users with each kind of policy, and some with two.
    pub(super) fn first() -> Self {
        let own = [Document::ReadOwn, Document::WriteOwn, Document::KeepAll, Document::NotTheTeam];
        Self {
            inline: [0, 1, 2, 12].into_iter().zip(own).collect(),
            group: Some(Document::All),
            members: [6, 7, 8, 12].into(),
            attached: [3, 4, 5, 13].into(),
            bucket: Some(BucketDocument::Named),
            ..Self::new()
        }
    }

    /// The answer to a request of a client.
    pub(super) fn answer(&self, client: usize, ask: Ask) -> Answer {
        if self.inactive.contains(&client) {
            return Answer::UnknownKey;
        }
        let may = |right: &Right| self.allow(client, right);
        let keys = ask.keys(client);
        let is_allowed = match (ask, keys.as_slice()) {
            (Ask::EraseBoth, keys) => {
                let erased = keys.iter().map(|key| may(&Right::Erase(key.clone())));
                let erased = <[bool; 2]>::try_from(erased.collect::<Vec<_>>()).expect("two keys");
                return Answer::Erased(erased);
            }
            (Ask::ReadPublic | Ask::ReadTeam | Ask::ReadOwn | Ask::ReadAbsent, [key, ..]) => {
                may(&Right::Read(key.clone()))
            }
            (Ask::Write, [key, ..]) => may(&Right::Write(key.clone())),
            (Ask::Erase, [key, ..]) => may(&Right::Erase(key.clone())),
            (Ask::ListOwn | Ask::ListTeam, [prefix, ..]) => may(&Right::List(Some(prefix.clone()))),
            (Ask::Copy, [from, to, ..]) => may(&Right::Read(from.clone())) && may(&Right::Write(to.clone())),
            (_, _) => unreachable!("a request has its keys"),
        };
        match (is_allowed, ask) {
            // A caller that may not list is not shown that it is absent.
            (true, Ask::ReadAbsent) if may(&Right::List(None)) => Answer::Absent,
            (true, Ask::ReadAbsent) | (false, _) => Answer::Denied,
            (true, _) => Answer::Done,
        }
    }

    /// Whether a client has a right: one of the policies allows it, and none denies it.
    fn allow(&self, client: usize, right: &Right) -> bool {
        let of_group = self.group.filter(|_| self.members.contains(&client));
        let of_managed = self.attached.contains(&client).then_some(self.managed);
        let of_user = [self.inline.get(&client).copied(), of_group, of_managed];
        let mut words: Vec<_> =
            of_user.into_iter().flatten().filter_map(|document| document.word(client, right)).collect();
        let of_bucket = self.bucket.and_then(|document| Some((document, document.word(client, right)?)));
        if let Some((document, word)) = of_bucket {
            let is_cut_off = client == ANONYMOUS && self.is_restricted && document.is_public();
            if word == Word::Deny || !is_cut_off {
                words.push(word);
            }
        }
        !words.contains(&Word::Deny) && (client == ROOT || words.contains(&Word::Allow))
    }
}

#[test]
fn the_rules_give_what_the_policies_say() {
    let mut rules = Rules::new();
    assert_eq!(rules.answer(0, Ask::ReadOwn), Answer::Denied);
    assert_eq!(rules.answer(ROOT, Ask::EraseBoth), Answer::Erased([true, true]));
    rules.inline.insert(0, Document::ReadOwn);
    assert_eq!(rules.answer(0, Ask::ReadOwn), Answer::Done);
    assert_eq!(rules.answer(0, Ask::ReadAbsent), Answer::Denied, "without a prefix it may not list");
    assert_eq!([Ask::ListOwn, Ask::ListTeam].map(|ask| rules.answer(0, ask)), [Answer::Done, Answer::Denied]);
    rules.inline.insert(0, Document::WriteOwn);
    assert_eq!(rules.answer(0, Ask::EraseBoth), Answer::Erased([true, false]));
    rules.attached.insert(0);
    assert_eq!(rules.answer(0, Ask::ReadAbsent), Answer::Absent);
    assert_eq!(rules.answer(0, Ask::Copy), Answer::Done);
    rules.bucket = Some(BucketDocument::Guarded);
    assert_eq!([0, ROOT].map(|client| rules.answer(client, Ask::Copy)), [Answer::Denied; 2]);
    assert_eq!(rules.answer(ANONYMOUS, Ask::ReadTeam), Answer::Done);
    rules.is_restricted = true;
    assert_eq!(
        [1, ANONYMOUS].map(|client| rules.answer(client, Ask::ReadTeam)),
        [Answer::Done, Answer::Denied]
    );
    rules.inactive.insert(0);
    assert_eq!(rules.answer(0, Ask::ReadPublic), Answer::UnknownKey);
}
