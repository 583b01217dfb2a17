//! The node: modules stand in the order in which a PUT meets them.

pub mod s3;

pub mod object;
