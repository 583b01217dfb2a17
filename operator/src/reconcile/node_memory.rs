//! The memory that a node's settings let it take: what its pod requests where the pool says nothing, and what
//! a limit should leave it. A plain function over the specification.

use std::collections::BTreeMap;

use bytesize::ByteSize;
use k8s_openapi::api::core::v1::ResourceRequirements;
use k8s_openapi::apimachinery::pkg::api::resource::Quantity;

use crate::api::{NodeSettings, Pool};
use crate::limits;

const MIB: u64 = 1 << 20;

/// The memory of a node, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct NodeMemory {
    /// The most that object data under way takes.
    buffer_cap: u64,
    /// The most that the indexes of all volumes take.
    index_cache: u64,
    /// The memory that a node takes without a request, beside the two.
    at_rest: u64,
}

impl NodeMemory {
    /// Reads the settings as a node does: a variable of its environment wins over its file.
    pub(super) fn of(settings: &NodeSettings, pool: &Pool) -> Self {
        let size = |variable: &str, setting: &Option<String>, default: u64| {
            let variable = pool.extra_env.iter().rev().find(|found| found.name == variable);
            let text = variable.map(|variable| &variable.value).or(setting.as_ref());
            text.and_then(|text| text.parse::<ByteSize>().ok()).map_or(default, |size| size.as_u64())
        };
        let NodeSettings { buffer_cap, index_cache, .. } = settings;
        let volumes = u64::try_from(pool.volumes_per_node).unwrap_or(0);
        Self {
            buffer_cap: size("SHERD_BUFFER_CAP", buffer_cap, limits::NODE_BUFFER_CAP),
            index_cache: size("SHERD_INDEX_CACHE", index_cache, limits::NODE_INDEX_CACHE),
            at_rest: limits::NODE_MEMORY + volumes * limits::NODE_MEMORY_OF_VOLUME,
        }
    }

    /// The most that object data under way and indexes take together.
    pub(super) fn caps(self) -> u64 {
        self.buffer_cap.saturating_add(self.index_cache)
    }

    /// The requests of a pod whose pool says nothing. Without any, a host that is short of memory ends the
    /// pod before all others, and a busy one gives it the processor last.
    pub(super) fn requests(self) -> ResourceRequirements {
        let memory = self.caps().saturating_add(self.at_rest).div_ceil(MIB);
        let requests: BTreeMap<String, Quantity> = [
            ("cpu".to_owned(), Quantity(limits::NODE_PROCESSOR.to_owned())),
            ("memory".to_owned(), Quantity(format!("{memory}Mi"))),
        ]
        .into();
        ResourceRequirements { requests: Some(requests), ..ResourceRequirements::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The operator does not link the node: both must name the same defaults.
    #[test]
    fn the_defaults_are_those_of_the_node() {
        let documentation = include_str!("../../../docs/configuration.md");
        for (key, bytes) in
            [("buffer_cap", limits::NODE_BUFFER_CAP), ("index_cache", limits::NODE_INDEX_CACHE)]
        {
            let row = documentation.lines().find(|line| line.starts_with(&format!("| `{key}` |")));
            let columns: Vec<&str> = row.expect("a row").split('|').map(str::trim).collect();
            assert_eq!(columns[4], format!("`{}MiB`", bytes / MIB), "{key}");
        }
    }
}
