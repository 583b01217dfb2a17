//! The cost of a decision, printed and not judged: `cargo test --release -p sherd-policy --lib speed --
//! --ignored --nocapture`.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Instant;

use crate::{
    BucketRules, Facts, Identity, KeyName, Policy, PolicyForm, Resource, Rights, UserIdentity, Values,
};

struct Address(&'static str);

impl Facts for Address {
    fn values(&self, name: KeyName, _: &str) -> Values<'_> {
        if name == KeyName::SourceIp { Values::from(self.0) } else { Values::Absent }
    }
}

/// A user with ten policies of five statements: one policy grants the bucket, with a condition, the others
/// other prefixes and buckets.
fn user(condition: &str) -> Arc<Identity> {
    let policy = |number: usize| {
        let statements: Vec<_> = (0..5)
            .map(|statement| {
                let effect = if statement == 4 { "Deny" } else { "Allow" };
                format!(
                    r#"{{"Effect": "{effect}", "Action": ["s3:Get*", "s3:PutObject", "s3:ListBucket"],
                        "Resource": ["arn:aws:s3:::data/team-{number}-{statement}/*", "arn:aws:s3:::other/*"]}}"#
                )
            })
            .collect();
        statements.join(", ")
    };
    let grant = format!(
        r#"{{"Effect": "Allow", "Action": "s3:*", "Resource": ["arn:aws:s3:::data", "arn:aws:s3:::data/*"]{condition}}}"#
    );
    let parse = |statements: String| {
        let document = format!(r#"{{"Version": "2012-10-17", "Statement": [{statements}]}}"#);
        Arc::new(Policy::parse(document.as_bytes(), PolicyForm::Identity).expect("a policy"))
    };
    let policies = (0..9).map(|number| parse(policy(number))).chain([parse(grant)]).collect();
    Arc::new(Identity::User(UserIdentity {
        arn: "arn:aws:iam::000000000001:user/bob".to_owned(),
        name: "bob".to_owned(),
        id: "AIDA0123456789ABCDEF".to_owned(),
        tags: vec![],
        policies,
    }))
}

#[test]
#[ignore = "prints times"]
fn speed_of_a_decision() {
    let rules = BucketRules { name: "data".to_owned(), ..BucketRules::default() };
    let facts = Address("10.1.2.3");
    let by_address = r#", "Condition": {"IpAddress": {"aws:SourceIp": "10.0.0.0/8"}}"#;
    for (what, condition) in [("no condition", ""), ("an address", by_address)] {
        let identity = user(condition);
        let begin = Instant::now();
        for _ in 0..100 {
            black_box(Rights::new(&identity, Some(&rules)));
        }
        println!("{what}: compile {} ns", begin.elapsed().as_nanos() / 100);
        let rights = Rights::new(&identity, Some(&rules));
        for (action, resource) in [
            ("s3:GetObject", Resource::Object("data", "some/key/of/an/object-00001")),
            ("s3:DeleteObject", Resource::Object("data", "some/key/of/an/object-00001")),
            ("s3:GetObject", Resource::Object("data", "team-9-9/object-00001")),
            ("s3:ListBucket", Resource::Bucket("data")),
        ] {
            let begin = Instant::now();
            for _ in 0..1_000_000 {
                black_box(rights.decide(black_box(action), black_box(resource), &facts));
            }
            let verdict = rights.decide(action, resource, &facts);
            println!("{what}: {action} {verdict:?} {} ns", begin.elapsed().as_nanos() / 1_000_000);
        }
    }
}
