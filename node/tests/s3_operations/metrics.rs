//! Metrics of the work that requests made.

use super::harness::volumes::shard_files;
use super::{a_bucket, get, put, some_bytes};

#[tokio::test]
async fn a_put_shows_in_the_histograms_of_every_volume() {
    let (node, client) = a_bucket().await;
    let before = node.metrics().await;
    let syncs = "sherd_volume_sync_duration_seconds_count";
    put(&client, "key", some_bytes(100_000)).await;
    let after = node.metrics().await;
    assert!(after.sum(syncs) >= before.sum(syncs) + 3.0, "a quorum of the volumes synced");
    assert!(after.sum("sherd_volume_sync_duration_seconds_sum") > 0.0);
    let frames = "sherd_volume_batch_records";
    assert!(after.sum(&format!("{frames}_count")) >= after.sum(syncs));
    assert!(after.sum(&format!("{frames}_sum")) >= after.sum(&format!("{frames}_count")));
    for volume in node.volumes() {
        let name = volume.canonicalize().expect("the volume is there");
        let series = format!("{frames}_bucket{{volume=\"{}\",le=\"+Inf\"}}", name.display());
        assert!(after.get(&series) > 0.0, "{series}");
    }
}

#[tokio::test]
async fn rot_that_a_read_finds_is_counted() {
    let (node, client) = a_bucket().await;
    let body = some_bytes(2 << 20);
    put(&client, "key", body.clone()).await;
    let shards = node.volumes().into_iter().flat_map(|volume| shard_files(&volume));
    // The first two shards carry the data itself, and every read asks for them.
    let data = shards.filter(|shard| shard.index < 2).min_by_key(|shard| shard.index);
    data.expect("a large object has shard files").rot();
    assert_eq!(get(&client, "key").await, body);
    let errors = node.metrics().await.sum_with("sherd_volume_errors_total", "kind=\"corrupt\"");
    assert!(errors > 0.0);
}
