//! The node: modules stand in the order in which a PUT meets them.
