//! Decisions over documents: AWS's examples, laws over random policies, another engine, and what one costs.

mod cases;
mod examples;
mod laws;
mod other_engine;
mod speed;
