//! The configuration of a bucket takes the memory that it is counted by, with the longest policies and
//! cross-origin rules: views of buckets are remembered by that. Every allocation of this process is counted,
//! so the stories stand in one test.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use bytes::Bytes;
use sherd_core::config::cors::{Cors, CorsMethod, CorsRule};
use sherd_core::config::policy::{BucketPolicy, UserIds};
use sherd_core::config::{BucketConfig, ConfigEntry, ConfigValue};
use sherd_core::record::Entries;
use sherd_policy::{Policy, PolicyForm};

/// The system's allocator, which counts the bytes in use.
struct Measured;

static IN_USE: AtomicUsize = AtomicUsize::new(0);

#[expect(unsafe_code, reason = "an allocator is unsafe to implement")]
// SAFETY: Every call goes to the system's allocator with the very arguments, and its answer comes back as it
// is. Counting neither allocates nor unwinds.
unsafe impl GlobalAlloc for Measured {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        IN_USE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: As the caller promised us.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        IN_USE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: As the caller promised us.
        unsafe { System.dealloc(pointer, layout) }
    }
}

#[global_allocator]
static ALLOCATOR: Measured = Measured;

/// Bytes of the longest policy of a bucket.
const POLICY_BYTES: usize = 20 << 10;

/// A list of texts that fills a policy, each other than those before it.
fn list(text: impl Fn(usize) -> String) -> String {
    let mut list = String::new();
    for number in 0.. {
        let next = format!("{:?},", text(number));
        if list.len() + next.len() > POLICY_BYTES - 400 {
            break;
        }
        list.push_str(&next);
    }
    format!("[{}]", list.trim_end_matches(','))
}

/// The policy of the bucket `b` that has this element in place of one that begins alike.
fn policy(element: &str) -> String {
    let elements = [
        r#""Effect":"Allow""#,
        r#""Principal":"*""#,
        r#""Action":"s3:*""#,
        r#""Resource":["arn:aws:s3:::b","arn:aws:s3:::b/*"]"#,
        r#""Condition":{"StringLike":{"aws:UserAgent":"*"}}"#,
    ];
    let name = |text: &str| text.split(':').next().map(str::to_owned);
    let all: Vec<_> =
        elements.iter().map(|text| if name(text) == name(element) { element } else { text }).collect();
    format!(r#"{{"Version":"2012-10-17","Statement":[{{{}}}]}}"#, all.join(","))
}

fn stored(text: &str) -> Bytes {
    let form = PolicyForm::Bucket { name: "b" };
    let sent = Policy::parse_new(text.as_bytes(), form).unwrap_or_else(|error| panic!("{error}: {text}"));
    let ids = sent.users().map(|arn| (arn.to_owned(), "AIDA0123456789ABCDEF".to_owned()));
    let users = ids.collect::<UserIds>();
    let policy = BucketPolicy::new("b", sent, users).expect("each user has an id");
    ConfigValue::from(policy).encode()
}

#[test]
fn a_configuration_takes_the_bytes_that_it_counts_for() {
    let statement = policy(r#""Sid":"""#);
    let (start, end) = (statement.find('[').expect("a list") + 1, statement.len() - 2);
    let statement = &statement[start..end];
    let actions = ["*", "s3:*", "s3:GetObject"]
        .map(|text| policy(&format!(r#""Action":{}"#, list(|_| text.to_owned()))));
    let of_cases = |number: usize| -> String {
        let letter = |(at, letter): (usize, char)| {
            if number >> at & 1 == 1 { letter.to_ascii_uppercase() } else { letter }
        };
        format!("s3:{}", "getobject".chars().enumerate().map(letter).collect::<String>())
    };
    let cases = policy(&format!(r#""Action":{}"#, list(|number| of_cases(number % 512))));
    let resources = ["b/{}", "b/{}*", "b/?{}", "b/${aws:Referer}{}"].map(|key| {
        let text = |number: usize| format!("arn:aws:s3:::{}", key.replace("{}", &number.to_string()));
        policy(&format!(r#""Resource":{}"#, list(text)))
    });
    let values = ["StringLike", "StringEqualsIgnoreCase", "ArnLike"].map(|operator| {
        let values = list(|number| format!("{number}:${{aws:Referer}}*"));
        policy(&format!(r#""Condition":{{"{operator}":{{"aws:UserAgent":{values}}}}}"#))
    });
    let numbers = list(|number| number.to_string());
    let numbers = policy(&format!(r#""Condition":{{"NumericEquals":{{"aws:EpochTime":{numbers}}}}}"#));
    let users = list(|number| format!("arn:aws:iam::000000000001:user/{number}"));
    let users = policy(&format!(r#""Principal":{{"AWS":{users}}}"#));
    let several = vec![statement; (POLICY_BYTES - 100) / (statement.len() + 1)].join(",");
    let statements = format!(r#"{{"Version":"2012-10-17","Statement":[{several}]}}"#);
    let rule = |headers: usize| CorsRule {
        allowed_origins: vec!["*".to_owned()],
        allowed_methods: CorsMethod::ALL.to_vec(),
        allowed_headers: (0..headers).map(|number| number.to_string()).collect(),
        ..CorsRule::default()
    };
    let rules =
        [vec![rule(3000)], vec![rule(1); 100]].map(|rules| ConfigValue::from(Cors { rules }).encode());
    let policies =
        actions.into_iter().chain(resources).chain(values).chain([cases, numbers, users, statements]);
    let policies = policies.map(|text| (2, stored(&text)));
    for (kind, bytes) in policies.chain(rules.into_iter().map(|bytes| (1, bytes))) {
        let entry = ConfigEntry::Inline(bytes).encode().to_vec();
        let before = IN_USE.load(Ordering::Relaxed);
        let mut entries = Entries::default();
        entries.set(kind, Bytes::from(entry.clone()));
        let config = BucketConfig::of(&entries, None, &[]);
        drop(entries);
        let taken = IN_USE.load(Ordering::Relaxed) - before;
        assert!(
            matches!((config.policy(), config.cors()), (Ok(Some(_)), _) | (_, Ok(Some(_)))),
            "it is parsed"
        );
        let counted = config.heap_bytes();
        let start = String::from_utf8_lossy(&entry[..200.min(entry.len())]);
        assert!(counted * 50 >= taken * 49, "{counted} of {taken} bytes are counted: {start}");
        assert!(counted * 3 <= taken * 5, "{counted} bytes are counted for {taken}: {start}");
    }
}
