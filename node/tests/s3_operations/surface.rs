//! Each operation of S3 by a request of AWS's own model: those that are served reach their operation, and all
//! others are answered 501 by their names, as docs/s3.md says.

use std::collections::BTreeMap;

use super::harness::admin::Metrics;
use super::harness::wait::{SOON, bounded};
use super::*;

/// A request for each operation: name, method, target, and headers.
const MODEL: &str = include_str!("../../s3/src/surface/model.txt");
/// The page.
const PAGE: &str = include_str!("../../../docs/s3.md");

/// The answer that the page has for an operation.
fn answer_of(name: &str) -> &'static str {
    let row = PAGE.lines().find_map(|line| line.strip_prefix(&format!("| {name} | ")));
    let row = row.unwrap_or_else(|| panic!("the page has a row of {name}"));
    row.split(" | ").next().expect("a first cell")
}

/// Sends a request of the model, signed by the SDK; returns the answer's status, and its document where it is
/// a refusal.
async fn send(client: &Client, line: &str) -> (u16, String) {
    let words: Vec<String> = line.split(' ').map(str::to_owned).collect();
    // The SDK reads no answer of this operation but its errors.
    let request = client.delete_bucket_cors().bucket(BUCKET).customize().mutate_request(move |request| {
        request.set_method(&words[1]).expect("a method");
        let origin = request.uri().split("/bucket").next().expect("an origin").to_owned();
        request.set_uri(format!("{origin}{}", words[2])).expect("a target");
        for (name, value) in words[3..].iter().filter_map(|header| header.split_once('=')) {
            request.headers_mut().insert(name.to_owned(), value.to_owned());
        }
        request.headers_mut().insert("content-length", "0");
    });
    match bounded(line, SOON, request.send()).await {
        Ok(_) => (200, String::new()),
        Err(error) => {
            let answer = error.into_raw();
            let document = answer.body().bytes().unwrap_or_default();
            (answer.status().as_u16(), String::from_utf8_lossy(document).into_owned())
        }
    }
}

/// The operation whose request a row of the page is about.
fn operation_of(name: &'static str, answer: &'static str) -> &'static str {
    let other = answer.split_once("the request of ").and_then(|(_, rest)| rest.split(';').next());
    other.unwrap_or(name)
}

#[tokio::test]
async fn each_operation_of_s3_is_answered_as_the_page_says() {
    let (node, client) = a_bucket().await;
    let before = node.metrics().await;
    let mut served: BTreeMap<&str, f64> = BTreeMap::new();
    for line in MODEL.lines() {
        let name = line.split(' ').next().expect("a name");
        let said = answer_of(name);
        let operation = operation_of(name, said);
        let (status, document) = send(&client, line).await;
        if said.starts_with("served") {
            assert_ne!(status, 501, "{line}: {document}");
            *served.entry(operation).or_default() += 1.0;
        } else {
            assert!(said.starts_with("501 NotImplemented"), "{name}: {said}");
            assert_eq!(status, 501, "{line}: {document}");
            let element = format!("<Operation>{operation}</Operation>");
            let is_named = document.contains("<Code>NotImplemented</Code>") && document.contains(&element);
            assert!(is_named, "{line}: {document}");
            served.entry(operation).or_default();
        }
    }
    let after = node.metrics().await;
    for (operation, count) in served {
        let label = format!("api=\"{operation}\"");
        let counted = |metrics: &Metrics| metrics.sum_with("sherd_s3_requests_total", &label);
        let reached = counted(&after) - counted(&before);
        assert!((reached - count).abs() < 0.5, "{reached} requests reached {operation}, {count} were sent");
    }
}
