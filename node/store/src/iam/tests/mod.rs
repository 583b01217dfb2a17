//! IAM through one node and through several.
