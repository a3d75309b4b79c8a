//! Counting the events of a UDP socket.

use gallop_engine::metrics::{Meter, Quic};
use gallop_quic::{Counts, Endpoint};

/// Add the events of an endpoint to the thread's counters.
pub fn count(endpoint: &mut Endpoint, meter: Option<&Meter>) {
    let Some(meter) = meter else { return };
    let counts = endpoint.take_counts();
    if counts == Counts::default() {
        return;
    }
    for (field, n) in [
        (Quic::Connections, counts.connections),
        (Quic::Handshakes, counts.handshakes),
        (Quic::Retries, counts.retries),
        (Quic::EarlyData, counts.early_data),
        (Quic::Migrations, counts.migrations),
        (Quic::StatelessResets, counts.stateless_resets),
        (Quic::PacketsSent, counts.packets_sent),
        (Quic::PacketsLost, counts.packets_lost),
    ] {
        if n > 0 {
            meter.quic(field as usize, n);
        }
    }
}
