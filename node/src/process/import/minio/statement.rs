//! A statement of MinIO's as statements here.
//!
//! A statement that allows may be taken in part, as a part allows less; a denial is taken whole or refused.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::LazyLock;

use serde::{Deserialize, Serialize};
use serde_json::Value;
use sherd_policy::{ActionTarget, s3_actions};

use super::conditions::{Conditions, Effect, JudgedStatement};
use super::glob;
use super::iam_export::Unknown;
use super::limits::RESOURCES_MAX;
use super::resource::Resources;

const S3: &str = "s3:";
/// The vendors of MinIO's actions on itself.
const OWN_VENDORS: [&str; 3] = ["admin:", "kms:", "sts:"];

/// Actions on an object, and those on its versions. MinIO asks the first also for requests that name a
/// version.
const VERSIONS: [(&str, &str); 8] = [
    ("GetObject", "GetObjectVersion"),
    ("DeleteObject", "DeleteObjectVersion"),
    ("GetObjectTagging", "GetObjectVersionTagging"),
    ("PutObjectTagging", "PutObjectVersionTagging"),
    ("DeleteObjectTagging", "DeleteObjectVersionTagging"),
    ("GetObjectAcl", "GetObjectVersionAcl"),
    ("PutObjectAcl", "PutObjectVersionAcl"),
    ("GetObjectAttributes", "GetObjectVersionAttributes"),
];

/// The actions of S3, each also as policies name it, and that in lower case.
static S3_ACTIONS: LazyLock<Vec<(&'static str, ActionTarget, String, String)>> = LazyLock::new(|| {
    let named = |(name, target): (&'static str, ActionTarget)| {
        let action = format!("{S3}{name}");
        let lower = action.to_ascii_lowercase();
        (name, target, action, lower)
    };
    s3_actions().map(named).collect()
});

/// A text, or several.
#[derive(Debug, Clone, Deserialize)]
#[serde(untagged)]
enum Texts {
    One(String),
    Many(Vec<String>),
}

impl Texts {
    fn sorted(self) -> Vec<String> {
        let mut texts = match self {
            Self::One(text) => vec![text],
            Self::Many(texts) => texts,
        };
        texts.sort();
        texts.dedup();
        texts
    }
}

/// A statement as it is written here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub(super) struct Statement {
    #[serde(rename = "Effect")]
    pub(super) effect: Effect,
    #[serde(rename = "Action", skip_serializing_if = "Vec::is_empty")]
    pub(super) actions: Vec<String>,
    #[serde(rename = "NotAction", skip_serializing_if = "Vec::is_empty")]
    pub(super) not_actions: Vec<String>,
    #[serde(rename = "Resource", skip_serializing_if = "Vec::is_empty")]
    pub(super) resources: Vec<String>,
    #[serde(rename = "NotResource", skip_serializing_if = "Vec::is_empty")]
    pub(super) not_resources: Vec<String>,
    #[serde(rename = "Condition", skip_serializing_if = "BTreeMap::is_empty")]
    pub(super) conditions: Conditions,
}

/// A statement of MinIO's, without its `Principal`.
#[derive(Debug, Deserialize)]
pub(super) struct MinioStatement {
    #[serde(rename = "Sid", default)]
    _sid: Value,
    #[serde(rename = "Effect")]
    pub(super) effect: Effect,
    #[serde(rename = "Action")]
    actions: Option<Texts>,
    #[serde(rename = "NotAction")]
    not_actions: Option<Texts>,
    #[serde(rename = "Resource")]
    resources: Option<Texts>,
    #[serde(rename = "NotResource")]
    not_resources: Option<Texts>,
    #[serde(rename = "Condition", default)]
    conditions: Conditions,
    #[serde(flatten)]
    unknown: Unknown,
}

/// Actions of S3, and which of them are about objects.
#[derive(Debug, Default)]
struct Actions {
    texts: Vec<String>,
    of_buckets: BTreeSet<&'static str>,
    of_objects: BTreeSet<&'static str>,
}

impl MinioStatement {
    /// The statements that say the same here: none where it is about nothing that is here, two where its
    /// resources match buckets and objects otherwise. Actions of one that allows that are not here are added
    /// to `left_out`.
    ///
    /// # Errors
    /// Why it cannot be said.
    pub(super) fn taken(
        self,
        is_of_bucket: bool,
        left_out: &mut Vec<String>,
    ) -> Result<Vec<Statement>, String> {
        let Self { _sid: _, effect, actions, not_actions, resources, not_resources, conditions, unknown } =
            self;
        if let Some(name) = unknown.keys().next() {
            return Err(format!("the element {name} is not known"));
        }
        let sorted = |texts: Option<Texts>| texts.map(Texts::sorted).unwrap_or_default();
        // MinIO writes the resource * as its kind and its pattern.
        let resources_of = |texts| {
            let all = |text: String| if text == "**" { "*".to_owned() } else { text };
            sorted(texts).into_iter().map(all).collect::<Vec<_>>()
        };
        let (actions, not_actions) = (sorted(actions), sorted(not_actions));
        let is_negated = !not_actions.is_empty();
        if is_negated && effect == Effect::Allow {
            let reason = "it allows all but some actions (NotAction), and others of MinIO are others here";
            return Err(reason.to_owned());
        }
        if is_negated && !actions.is_empty() {
            return Err("it has Action and NotAction".to_owned());
        }
        let denies_everywhere = effect == Effect::Deny && !is_of_bucket && ignore_resources(&actions);
        let of_actions = if is_negated { not_actions } else { actions };
        let named = Actions::of(of_actions, (effect, is_negated), left_out)?;
        let is_all_but = is_negated && !named.texts.is_empty();
        let about = if is_negated { named.others() } else { named };
        if about.texts.is_empty() {
            return Ok(Vec::new());
        }
        let (resources, not_resources) = if denies_everywhere {
            (vec!["*".to_owned()], Vec::new())
        } else {
            (resources_of(resources), resources_of(not_resources))
        };
        if resources.is_empty() == not_resources.is_empty() {
            return Err("a statement on S3 has no Resource".to_owned());
        }
        if resources.len().max(not_resources.len()) > RESOURCES_MAX {
            return Err(format!("a statement has more than {RESOURCES_MAX} resources"));
        }
        let all = about.of_buckets.union(&about.of_objects).copied().collect();
        let judged = JudgedStatement { effect, is_of_bucket, actions: &all };
        let variables = resources.iter().chain(&not_resources).find_map(|text| judged.variable(text));
        if let Some(reason) = judged.fault(&conditions).or(variables) {
            return Err(reason);
        }
        let is_excluding = resources.is_empty();
        let texts = if is_excluding { not_resources } else { resources };
        let is_restricting = (effect == Effect::Deny) != is_excluding;
        let of = if is_of_bucket { Resources::of_bucket } else { Resources::of_identity };
        let form = StatementForm { effect, is_all_but, is_excluding, conditions };
        form.statements(about, of(&texts, is_restricting)?)
    }
}

/// The parts that all statements have that stand for one of MinIO's.
struct StatementForm {
    effect: Effect,
    /// Whether its actions are all but those that it names.
    is_all_but: bool,
    /// Whether its resources are all but those that it names.
    is_excluding: bool,
    conditions: Conditions,
}

impl StatementForm {
    fn statements(&self, actions: Actions, resources: Resources) -> Result<Vec<Statement>, String> {
        let joined = if actions.of_buckets.is_empty() {
            Some(resources.of_objects.clone())
        } else if actions.of_objects.is_empty() {
            Some(resources.of_buckets.clone())
        } else {
            resources.joined()
        };
        if let Some(resources) = joined {
            return Ok(self.statement(actions.texts, resources).into_iter().collect());
        }
        if self.is_all_but || self.is_excluding {
            return Err(
                "its NotAction or NotResource leaves out buckets by a pattern that is another one here"
                    .to_owned(),
            );
        }
        let (of_buckets, of_objects) = actions.split();
        let statements = [
            self.statement(of_buckets, resources.of_buckets),
            self.statement(of_objects, resources.of_objects),
        ];
        Ok(statements.into_iter().flatten().collect())
    }

    /// A statement; `None` where it would match nothing.
    fn statement(&self, actions: Vec<String>, resources: Vec<String>) -> Option<Statement> {
        let (resources, not_resources) = match (self.is_excluding, resources.is_empty()) {
            (false, true) => return None,
            (false, false) => (resources, Vec::new()),
            (true, true) => (vec!["*".to_owned()], Vec::new()),
            (true, false) => (Vec::new(), resources),
        };
        let (actions, not_actions) =
            if self.is_all_but { (Vec::new(), actions) } else { (actions, Vec::new()) };
        let Self { effect, conditions, .. } = self;
        let (effect, conditions) = (*effect, conditions.clone());
        Some(Statement { effect, actions, not_actions, resources, not_resources, conditions })
    }
}

impl Actions {
    /// Actions of S3 among MinIO's, with the actions on versions that go with them. A star is all of S3
    /// here, as a star of IAM's would make users.
    fn of(
        texts: Vec<String>,
        (effect, is_negated): (Effect, bool),
        left_out: &mut Vec<String>,
    ) -> Result<Self, String> {
        // To MinIO the right to read a version is one to read the object.
        let implied =
            texts.iter().any(|text| text == "s3:GetObjectVersion").then(|| "s3:GetObject".to_owned());
        let mut named = Vec::new();
        for text in texts.into_iter().chain(implied) {
            let text = if text == "*" { "s3:*".to_owned() } else { text };
            let is_own = OWN_VENDORS.iter().any(|vendor| text.starts_with(vendor));
            let matched = if is_own { Vec::new() } else { matched(&text)? };
            if !matched.is_empty() {
                named.push((text, matched));
            } else if effect == Effect::Allow {
                left_out.push(format!("{text} is no action here"));
            }
        }
        let has =
            |action: &str| named.iter().flat_map(|(_, matched)| matched).any(|(name, _)| *name == action);
        if effect == Effect::Deny && !is_negated {
            let missing = VERSIONS.iter().filter(|(plain, version)| has(plain) && !has(version));
            let missing = missing.map(|(_, version)| format!("{S3}{version}")).collect::<Vec<_>>();
            for text in missing {
                named.push((text.clone(), matched(&text)?));
            }
        } else {
            let lone = VERSIONS.iter().filter(|(plain, version)| has(version) && !has(plain));
            let lone = lone.map(|(_, version)| *version).collect::<Vec<_>>();
            named.retain(|(text, matched)| {
                let is_lone = matched.iter().any(|(name, _)| lone.contains(name));
                if is_lone && effect == Effect::Allow {
                    left_out
                        .push(format!("{text} is about versions, for which MinIO asks another action, too"));
                }
                !is_lone
            });
        }
        let mut actions = Self::default();
        for (text, matched) in named {
            actions.add(&matched);
            actions.texts.push(text);
        }
        actions.texts.sort();
        actions.texts.dedup();
        Ok(actions)
    }

    fn add(&mut self, matched: &[(&'static str, ActionTarget)]) {
        for (name, target) in matched {
            let set =
                if *target == ActionTarget::Object { &mut self.of_objects } else { &mut self.of_buckets };
            set.insert(*name);
        }
    }

    /// All of S3 but these. The texts are those of these, if there are any.
    fn others(self) -> Self {
        let is_other = |(name, _): &(&'static str, ActionTarget)| {
            !self.of_buckets.contains(name) && !self.of_objects.contains(name)
        };
        let mut others = Self::default();
        others.add(&s3_actions().filter(is_other).collect::<Vec<_>>());
        others.texts = if self.texts.is_empty() { vec!["s3:*".to_owned()] } else { self.texts };
        others
    }

    /// The texts of those about buckets and of those about objects. One that is about both becomes names.
    fn split(self) -> (Vec<String>, Vec<String>) {
        let Self { texts, of_buckets, of_objects } = self;
        let (mut buckets, mut objects) = (Vec::new(), Vec::new());
        for text in texts {
            let of = |names: &BTreeSet<&'static str>| {
                let named = names.iter().filter(|name| glob::matches(&text, &format!("{S3}{name}")));
                named.map(|name| format!("{S3}{name}")).collect::<Vec<_>>()
            };
            match (of(&of_buckets), of(&of_objects)) {
                (_, none) if none.is_empty() => buckets.push(text),
                (none, _) if none.is_empty() => objects.push(text),
                (of_buckets, of_objects) => {
                    buckets.extend(of_buckets);
                    objects.extend(of_objects);
                }
            }
        }
        (buckets, objects)
    }
}

/// Whether MinIO looks at no resource of a statement with these actions (`policy/statement.go`).
fn ignore_resources(actions: &[String]) -> bool {
    actions.iter().any(|text| text == "*" || text.starts_with("admin:") || text.starts_with("sts:"))
}

/// The actions of S3 that a text of MinIO's matches, which compares with regard to case.
fn matched(text: &str) -> Result<Vec<(&'static str, ActionTarget)>, String> {
    let lower = text.to_ascii_lowercase();
    let (mut matched, mut is_same) = (Vec::new(), true);
    for (name, target, action, action_in_lower) in S3_ACTIONS.iter() {
        let is_matched = glob::matches(text, action);
        is_same &= is_matched == glob::matches(&lower, action_in_lower);
        if is_matched {
            matched.push((*name, *target));
        }
    }
    if is_same {
        Ok(matched)
    } else {
        Err(format!("{text} matches other actions here, where case does not count"))
    }
}
