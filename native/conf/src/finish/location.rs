//! A location: assemble it with the blocks inside it.

use super::settings::settings;
use crate::builder::LocNode;
use crate::error::Result;
use crate::locations::LocTree;
use crate::model::*;
use crate::relations;
use std::sync::Arc;

pub(super) fn finish_location(mut node: LocNode, outer: &Arc<LocConf>) -> Result<Location> {
    let conf = settings(&mut node, outer);
    if !Arc::ptr_eq(&conf, outer) {
        relations::check_location(&conf, &node.place)?;
    }
    let handler = node.handler.clone();
    let nameless = |mut inner: LocNode| {
        // An `if` block inherits the location's handler unless it has its own.
        if inner.handler.is_none() {
            inner.handler = handler.clone();
        }
        finish_location(inner, &conf).map(Arc::new)
    };
    let ifs = node.ifs.into_iter().map(nameless).collect::<Result<_>>()?;
    let limit_except = match node.limit_except {
        Some((methods, inner)) => Some((methods, nameless(*inner)?)),
        None => None,
    };
    let children = node.children.into_iter().map(|mut inner| {
        // A location inside an internal location is internal too.
        inner.internal = inner.internal.or(node.internal);
        finish_location(inner, &conf).map(Arc::new)
    });
    let children = LocTree::build(children.collect::<Result<_>>()?);
    let passes = node.handler.as_ref().is_some_and(Handler::passes);
    let plain = matches!(node.kind, LocKind::Prefix { .. } | LocKind::Exact);
    Ok(Location {
        auto_redirect: passes && plain && node.name.ends_with('/'),
        name: node.name,
        kind: node.kind,
        conf,
        handler: node.handler,
        ops: node.ops,
        ifs,
        try_files: node.try_files,
        checks: node.checks,
        internal: node.internal.unwrap_or(false),
        limit_except,
        children,
    })
}
