//! Binary `sherd-node`.

fn main() {}
