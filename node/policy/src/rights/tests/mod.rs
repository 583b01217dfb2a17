//! Decisions over documents: AWS's examples, reasons, all pairs of action and condition key, laws over random
//! policies, another engine, and what one costs.

mod cases;
mod examples;
mod explained;
mod keys;
mod laws;
mod other_engine;
mod speed;
