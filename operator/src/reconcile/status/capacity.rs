//! Judges the room of a cluster's volumes: which have none, before people look for pods that are dead, and
//! which will soon have none.

use sherd_proto::v1::{StatusReply, VolumeReport, VolumeState};

use crate::limits;
use crate::reconcile::words::{listed, volume_name};

/// The message where sets take no writes for want of room and not of volumes.
pub(super) fn full(view: &StatusReply) -> Option<String> {
    let lacks_votes = |set: &sherd_proto::v1::SetStatus| set.voting < set.accept.max(set.prepare);
    let full: Vec<String> = view.volumes.iter().filter(|volume| is_full(volume)).map(volume_name).collect();
    let is_for_room = !full.is_empty() && !view.sets.is_empty() && !view.sets.iter().any(lacks_votes);
    is_for_room.then(|| {
        let full: Vec<&str> = full.iter().map(String::as_str).collect();
        format!(
            "volumes without room: {}; S3 takes no writes; objects can be read and deleted, and deleting makes room after some minutes",
            listed(&full)
        )
    })
}

/// The message where volumes take writes and have little room left.
pub(super) fn nearly_full(view: &StatusReply) -> Option<String> {
    let is_near = |volume: &&VolumeReport| {
        let least = volume.total_bytes / 100 * limits::NEARLY_FULL_PERCENT;
        volume.total_bytes > 0 && volume.free_bytes < least
    };
    let near: Vec<String> = view.volumes.iter().filter(is_near).map(percent).collect();
    (!near.is_empty()).then(|| {
        let near: Vec<&str> = near.iter().map(String::as_str).collect();
        format!("S3 takes reads and writes; volumes with little room left: {}", listed(&near))
    })
}

fn is_full(volume: &VolumeReport) -> bool {
    volume.state() == VolumeState::Full
}

fn percent(volume: &VolumeReport) -> String {
    let free = volume.free_bytes.saturating_mul(100) / volume.total_bytes.max(1);
    format!("{} {} ({free} % free)", volume.node, volume.path)
}
