//! Idle connections to upstream servers, for each thread.

#[derive(Default)]
pub struct Pool {}
