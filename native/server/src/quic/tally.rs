//! What happened on a UDP socket since it was last counted.

use super::endpoint::Endpoint;
use gallop_engine::metrics::{Meter, Quic, QUIC};

#[derive(Debug, Default)]
pub struct Tally([u64; QUIC.len()]);

impl Tally {
    pub fn add(&mut self, what: Quic, n: u64) {
        self.0[what as usize] += n;
    }

    /// Hands everything to the thread's counts.
    fn settle(&mut self, meter: &Meter) {
        for (field, n) in std::mem::take(&mut self.0).into_iter().enumerate() {
            if n > 0 {
                meter.quic(field, n);
            }
        }
    }
}

/// Counts what happened on an endpoint.
pub fn count(endpoint: &mut Endpoint, meter: Option<&Meter>) {
    if let Some(meter) = meter {
        endpoint.tally().settle(meter);
    }
}
