//! Names in messages.

use sherd_proto::v1::VolumeReport;

use crate::limits;

/// A volume by its node and path, with its state.
pub(super) fn volume_name(volume: &VolumeReport) -> String {
    let state = volume.state().as_str_name().trim_start_matches("VOLUME_STATE_").to_ascii_lowercase();
    format!("{} {} ({state})", volume.node, volume.path)
}

/// Some names, and how many there are beside them.
pub(super) fn listed(names: &[&str]) -> String {
    let more = names.len().saturating_sub(limits::NAMES_IN_MESSAGE_MAX);
    let shown = names.iter().take(limits::NAMES_IN_MESSAGE_MAX).copied().collect::<Vec<_>>().join(", ");
    match (shown.is_empty(), more) {
        (true, _) => "none".to_owned(),
        (false, 0) => shown,
        (false, more) => format!("{shown} and {more} more"),
    }
}
