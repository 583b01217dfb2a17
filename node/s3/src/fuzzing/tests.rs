//! The seeds of `fuzz/`, and random bytes.

use std::path::Path;

use proptest::prelude::*;

use super::*;

fn seeds(target: &str) -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/seeds").join(target);
    let entries = std::fs::read_dir(folder).expect("every target has seeds");
    let seeds = entries.map(|entry| {
        let entry = entry.expect("readable");
        (entry.file_name().to_string_lossy().into_owned(), std::fs::read(entry.path()).expect("readable"))
    });
    seeds.collect()
}

#[test]
fn every_seed_of_a_request_is_answered() {
    // Operations that the fuzzed store only looks at succeed, the others are not implemented.
    let expected = |name: &str| match name {
        "put"
        | "put_checksum"
        | "put_sha256"
        | "put_unsigned_frames"
        | "decoded_length_without_frames"
        | "complete"
        | "complete_checksums"
        | "delete_many"
        | "delete_sections"
        | "put_cors"
        | "put_public_access_block"
        | "post_form"
        | "preflight_allowed" => 200,
        "put_signed_frames" | "presigned" | "bad_header" | "preflight" => 403,
        _ => 501,
    };
    let answered: Vec<(String, Option<u16>)> = seeds("s3_request")
        .into_iter()
        .map(|(name, seed)| (name, request(&seed).map(|status| status.as_u16())))
        .collect();
    let wanted: Vec<_> = answered.iter().map(|(name, _)| (name.clone(), Some(expected(name)))).collect();
    assert!(answered.len() > 20);
    assert_eq!(answered, wanted);
}

#[test]
fn every_seed_of_a_text_keeps_its_promise() {
    for (name, seed) in seeds("node_text") {
        println!("{name}");
        if let Some((_, rest)) = seed.split_first() {
            header_text(rest);
            framed_body(rest);
            cross_origin(rest);
            form(rest);
            public_access_block(rest);
        }
    }
}

proptest! {
    #[test]
    fn any_body_in_any_form_keeps_its_promise(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        framed_body(&bytes);
    }

    #[test]
    fn any_payload_comes_back_from_its_frames(form in 4..8_u8, cut: u8, byte: u8, length in 0..20_000_usize) {
        framed_body(&[&[form, cut][..], &vec![byte; length]].concat());
    }

    #[test]
    fn any_text_keeps_its_promise(bytes in proptest::collection::vec(any::<u8>(), 0..80), text in "\\PC{0,60}") {
        header_text(&bytes);
        header_text(text.as_bytes());
    }

    #[test]
    fn any_form_is_read_the_same_in_any_pieces(
        cut: u8,
        parts in proptest::collection::vec(
            ("key|Key|tagging|acl|x-amz-meta-a|Content-Type|file|x-ignore-a", "[ -~\r\n\u{e9}]{0,12}"),
            0..5,
        ),
        conditions in proptest::collection::vec("\\[\"(starts-with|eq)\", \"\\$(key|tagging|acl|file|bucket)\", \"[a-z]?\"\\]", 0..5),
    ) {
        let part = |(name, value): &(String, String)| {
            format!("--b\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
        };
        let body: String = parts.iter().map(part).collect();
        let policy = format!(
            "{{\"expiration\": \"2033-01-01T00:00:00Z\", \"conditions\": [{{\"bucket\": \"bucket\"}}, {}]}}",
            conditions.join(", ")
        );
        let policy = policy.replace(", ]", "]");
        let input = format!("{body}--b--\r\n\0{policy}");
        form(&[&[cut][..], input.as_bytes()].concat());
    }

    #[test]
    fn any_rules_match_as_their_slow_reading_does(
        origins in proptest::collection::vec("[ab]{0,3}[*]?[ab]{0,2}", 1..3),
        headers in proptest::collection::vec("[aB]{0,2}[*]?[Ab]{0,2}", 0..3),
        asked in "[ab]{0,4}(\0[aAbB]{1,3}){0,2}",
        id in "[ -~\r\n\u{e9}]{0,8}",
    ) {
        let element = |name: &str, text: &str| {
            let text = text.replace('&', "&amp;").replace('<', "&lt;").replace('\r', "&#13;");
            format!("<{name}>{text}</{name}>")
        };
        let origins: String = origins.iter().map(|text| element("AllowedOrigin", text)).collect();
        let headers: String = headers.iter().map(|text| element("AllowedHeader", text)).collect();
        let rule = format!("{}{origins}{headers}<AllowedMethod>GET</AllowedMethod>", element("ID", &id));
        let rule = format!("<CORSConfiguration><CORSRule>{rule}</CORSRule></CORSConfiguration>");
        let (origin, headers) = asked.split_once('\0').unwrap_or((&asked, ""));
        cross_origin(format!("{rule}\0{origin}\0GET\0{headers}").as_bytes());
    }

    #[test]
    fn any_request_is_answered(
        method in "GET|PUT|POST|DELETE|HEAD|OPTIONS",
        path in "/[a-z%/.]{0,20}(\\?[a-zA-Z=&%-]{0,30})?",
        headers in "([a-z-]{1,12}: [ -~]{0,20}\n){0,4}",
        body in "[ -~]{0,60}",
    ) {
        let text = format!("{method} {path}\n{headers}\n\n{body}");
        request(text.as_bytes());
    }
}
