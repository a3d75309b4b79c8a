//! Whether a connection may be closed to make room for another.

use super::Connection;
use crate::reuse::moment;

/// How long a client says nothing before its unacknowledged answers count as lost, in units of [`moment`]: a second.
const SILENT: u32 = 62;

impl Connection {
    /// Since when the connection has waited for a request; `None`: it is busy, or its handshake is not over.
    pub fn waits_since(&self) -> Option<u32> {
        let last_use = self.last_use.get();
        // A client that acknowledges nothing does not stay for that.
        let is_silent = moment().wrapping_sub(last_use) > SILENT;
        let waits = self.control.get().is_some() && self.is_answered();
        (waits && (is_silent || self.is_idle())).then_some(last_use)
    }
}
