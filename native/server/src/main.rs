//! The gallop binary.

fn main() {}
