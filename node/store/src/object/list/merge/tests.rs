//! Scans whose volumes are replaced meanwhile, on whole nodes.

use std::time::Duration;

use super::*;
use crate::object::limits::SCAN_PATIENCE;
use crate::object::list::shows_object;
use crate::object::{ObjectName, WriteConditions};
use crate::upkeep::tests::{DEADLINE, Directories, body, key_of};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_in_a_life_that_is_over_is_replaced_where_the_listing_is() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    for key in ["a", "b", "b/c", "d"] {
        node.put(key, &body(1, 100)).await;
        // Else the witness of a prefix may be unsure, and the prefix stays until its register is asked.
        node.commit_everywhere(&node.register(key).await).await;
    }
    let inner = &node.objects().inner.under;
    let bucket = node.objects().bucket(&key_of("bucket")).await.expect("it was created").id;
    let query = Query {
        bucket,
        prefix: Bytes::new(),
        delimiter: Some(Bytes::from_static(b"/")),
        from: Bytes::new(),
        start: 0,
        shows: shows_object,
        wanted: 1,
        hidden_max: 10,
        passed_max: 10,
        timeout: SCAN_PATIENCE,
    };
    let mut merge = Merge::new(&inner.cluster, &inner.registers, &query);
    let mut names = Vec::new();
    let volumes: Vec<_> = merge.sets[0].set.routes.iter().map(|route| route.volume).collect();
    while let Some(name) = merge.next().await.expect("enough volumes vote") {
        names.push(match name {
            Name::Key { key, .. } => key.as_str().to_owned(),
            Name::Prefix(prefix) => String::from_utf8(prefix.to_vec()).expect("UTF-8"),
            Name::Unsure(_) | Name::UnsurePrefix { .. } => panic!("all is committed everywhere"),
            Name::Enough(_) => panic!("none is hidden"),
        });
        if names.len() == 2 {
            node.outlive(volumes[0]).await;
        }
    }
    assert_eq!(names, ["a", "b", "b/", "d"]);
    assert!(merge.sets[0].volumes.iter().all(|scan| scan.place != 0), "the first was left");

    // With a former life and one more volume there are too few.
    node.take_away(volumes[2]).await;
    node.take_away(volumes[3]).await;
    let mut merge = Merge::new(&inner.cluster, &inner.registers, &query);
    assert_eq!(merge.next().await.expect_err("one volume votes"), Failure::Unavailable);
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_that_is_replaced_behind_a_common_prefix_is_not_scanned_inside_it() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    for n in 0..10 {
        let key = format!("p/k{n}");
        node.put(&key, &body(n, 10)).await;
        let name = ObjectName { bucket: key_of("bucket").into(), key: key_of(&key) };
        node.objects().delete(name, WriteConditions::default()).await.expect("it is deleted");
        node.registers().finish(&node.register(&key).await).await.expect("all volumes have it");
    }
    node.put("p/z", &body(1, 10)).await;
    node.commit_everywhere(&node.register("p/z").await).await;
    let bucket = node.objects().bucket(&key_of("bucket")).await.expect("it was created").id;
    let query = crate::object::list::query("", Some("/"), Some("p/k8".to_owned()), shows_object, 10);
    let query = Query { bucket, passed_max: 4, ..query };
    let inner = &node.objects().inner.under;
    let mut merge = Merge::new(&inner.cluster, &inner.registers, &query);
    let shown = merge.next().await.expect("enough volumes vote");
    assert!(matches!(shown, Some(Name::Prefix(prefix)) if prefix == "p/"));
    node.outlive(merge.sets[0].set.routes[merge.sets[0].volumes[0].place].volume).await;
    let behind = merge.next().await.expect("enough volumes vote");
    assert!(behind.is_none(), "it would be shown again behind {behind:?}");
    node.close().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_volume_whose_reads_hang_is_replaced() {
    let directories = Directories::new(4);
    let node = directories.start().await;
    node.create_bucket().await;
    node.put_everywhere("a", &body(1, 100)).await;
    let inner = &node.objects().inner.under;
    let bucket = node.objects().bucket(&key_of("bucket")).await.expect("it was created").id;
    let query = Query {
        timeout: Duration::from_millis(50),
        ..crate::object::list::query("", None, None, shows_object, 1)
    };
    let query = Query { bucket, ..query };
    let hung = node.hang_reads(inner.cluster.sets()[0].routes[0].volume);
    let mut merge = Merge::new(&inner.cluster, &inner.registers, &query);
    let name = merge.next().await.expect("the others answer");
    assert!(matches!(name, Some(Name::Key { key, .. } | Name::Unsure(key)) if key.as_str() == "a"));
    // The next one does not wait for it.
    let query = Query { timeout: Duration::from_hours(1), ..query };
    let mut merge = Merge::new(&inner.cluster, &inner.registers, &query);
    let name = tokio::time::timeout(DEADLINE, merge.next()).await.expect("in time");
    assert!(name.is_ok_and(|name| name.is_some()));
    drop(hung);
    node.close().await;
}
