//! Any bytes are a topology in JSON or are refused; what is read keeps a topology's promises.
#![no_main]

use libfuzzer_sys::fuzz_target;
use sherd_core::id::Slot;
use sherd_core::limits;
use sherd_core::topology::Topology;

fuzz_target!(|data: &[u8]| {
    if let Ok(topology) = serde_json::from_slice::<Topology>(data) {
        let stored = serde_json::to_string(&topology).expect("a topology is JSON");
        assert_eq!(serde_json::from_str::<Topology>(&stored).expect("as stored"), topology);
        for slot in [0, limits::SLOTS / 2, limits::SLOTS - 1] {
            let set = topology.set_of(Slot(slot));
            assert_eq!(set.volumes().len(), set.geometry().volumes());
            assert!(set.volumes_per_node() >= 1);
            assert!(set.durable_enough(true) <= set.volumes().len());
        }
    }
});
