//! Finds connections that may be closed to make room for new ones.

use super::Connection;
use crate::reuse::moment;

/// Milliseconds without acknowledgments after which responses count as lost.
const SILENT: u32 = 1000;

impl Connection {
    /// The start of the wait for a request; `None` if the connection is busy or in its handshake.
    pub fn waits_since(&self) -> Option<u32> {
        let last_use = self.last_use.get();
        // A client that acknowledges nothing does not keep its place.
        let is_silent = moment().wrapping_sub(last_use) > SILENT;
        let waits = self.control.get().is_some() && self.is_answered();
        (waits && (is_silent || self.is_idle())).then_some(last_use)
    }
}
