//! The zones of shared memory: check that each one that is used has a size.

use crate::builder::HttpNode;
use crate::error::{ConfError, Result};

impl ConfError {
    /// Remove the place, since nginx reports some errors after the file is read.
    fn without_place(mut self) -> Self {
        self.place = None;
        self
    }
}

/// Check that each zone of a limit is declared.
pub(super) fn check_limit_zones(node: &HttpNode) -> Result<()> {
    for (index, kind, place) in &node.zone_uses {
        let zones = if *kind == "limit_req" {
            &node.limit_req_zones
        } else {
            &node.limit_conn_zones
        };
        if zones[*index].size == 0 {
            let message = format!("zero size shared memory zone \"{}\"", zones[*index].name);
            return Err(ConfError::at(message, place).without_place());
        }
    }
    Ok(())
}

/// Check that each upstream zone has its size from one of its groups.
pub(super) fn check_upstream_zones(node: &HttpNode) -> Result<()> {
    let zones = node
        .upstreams
        .iter()
        .filter_map(|group| group.zone.as_ref());
    for name in zones {
        if !node.sized_zones.contains(name) {
            let message = format!("zero size shared memory zone \"{name}\"");
            return Err(ConfError::new(message));
        }
    }
    Ok(())
}
