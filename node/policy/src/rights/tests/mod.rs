//! Decisions over documents: AWS's examples, reasons, laws over random policies, another engine, and what one costs.

mod cases;
mod examples;
mod explained;
mod laws;
mod other_engine;
mod speed;
