//! The settings of a location: merge them with the settings of the outer level.

use crate::builder::LocNode;
use crate::model::*;
use std::sync::Arc;

/// A location's settings: its own, completed by the outer ones.
pub(super) fn settings(node: &mut LocNode, outer: &Arc<LocConf>) -> Arc<LocConf> {
    if node.conf.is_none() && is_taken_over(node.handler.as_ref(), outer) {
        return outer.clone();
    }
    let mut conf = *node.conf.take().unwrap_or_default();
    merge_headers(&mut conf, outer);
    merge_coding(&mut conf.brotli, &outer.brotli);
    merge_coding(&mut conf.zstd, &outer.zstd);
    if let (Some(inner), Some(outer)) = (&mut conf.userid, &outer.userid) {
        Arc::make_mut(inner).inherit(outer);
    }
    merge_upstream(&mut conf.proxy, &outer.proxy);
    for protocol in AppProtocol::ALL {
        let inner = conf.application_mut(protocol);
        merge_upstream(inner, outer.application(protocol));
    }
    merge_secure_link(&mut conf, outer);
    conf.inherit(outer);
    give_settings(node.handler.as_ref(), &mut conf);
    Arc::new(conf)
}

/// Whether a location without settings of its own can share the outer settings.
fn is_taken_over(handler: Option<&Handler>, outer: &LocConf) -> bool {
    let complete = match handler {
        Some(Handler::Proxy(_)) => outer.proxy.as_ref().is_some_and(|p| p.redirect.is_some()),
        Some(Handler::Application(pass)) => {
            let own = outer.application(pass.protocol);
            own.is_some() && !pass.protocol.has_fixed_settings()
        }
        _ => true,
    };
    complete
        && outer.add_header_inherit.is_none()
        && outer.add_trailer_inherit.is_none()
        && outer.secure_link.is_none()
        && outer.secure_link_md5.is_none()
        && outer.secure_link_secret.is_none()
}

/// Merge secure_link. The old and the new form exclude each other: a level with one form does not
/// inherit the other.
fn merge_secure_link(inner: &mut LocConf, outer: &LocConf) {
    let new_form = inner.secure_link.is_some() || inner.secure_link_md5.is_some();
    // An empty secret stands for the new form, which is inherited with its own directives.
    let secret = |conf: &LocConf| conf.secure_link_secret.clone().filter(|s| !s.is_empty());
    if inner.secure_link_secret.is_none() && !new_form {
        inner.secure_link_secret = secret(outer);
    }
    if secret(inner).is_some() {
        // An empty template: set, but to nothing.
        inner.secure_link.get_or_insert_default();
        inner.secure_link_md5.get_or_insert_default();
    } else if new_form {
        inner.secure_link_secret = Some(String::new());
    }
}

/// Give upstream settings to each level that passes requests on. As in nginx, nested locations
/// inherit the default of proxy_redirect, even if they pass requests elsewhere.
fn give_settings(handler: Option<&Handler>, conf: &mut LocConf) {
    match handler {
        Some(Handler::Proxy(pass)) => {
            let proxy = conf.proxy.get_or_insert_with(Arc::default);
            if let Some(rule) = pass.default_redirect().filter(|_| proxy.redirect.is_none()) {
                Arc::make_mut(proxy).redirect = Some(Arc::new(vec![rule]));
            }
        }
        Some(Handler::Application(pass)) => {
            let own = conf.application_mut(pass.protocol);
            let own = own.get_or_insert_with(Arc::default);
            if pass.protocol.has_fixed_settings() {
                let is_grpc = pass.protocol == AppProtocol::Grpc;
                let own = Arc::make_mut(own);
                (own.buffering, own.force_ranges) = (Some(false), Some(!is_grpc));
                if is_grpc {
                    (own.request_buffering, own.pass_trailers) = (Some(false), Some(true));
                }
            }
        }
        _ => {}
    }
}

fn merge_coding(inner: &mut Option<Arc<CodingConf>>, outer: &Option<Arc<CodingConf>>) {
    if let (Some(inner), Some(outer)) = (inner, outer) {
        Arc::make_mut(inner).inherit(outer);
    }
}

fn merge_upstream(inner: &mut Option<Arc<UpConf>>, outer: &Option<Arc<UpConf>>) {
    if let (Some(inner), Some(outer)) = (inner, outer) {
        Arc::make_mut(inner).inherit(outer);
    }
}

/// `add_header_inherit merge` puts the outer fields before a level's own; `off` drops them.
fn merge_headers(inner: &mut LocConf, outer: &LocConf) {
    let mode = inner
        .add_header_inherit
        .or(outer.add_header_inherit)
        .unwrap_or(0);
    merge_list(&mut inner.add_header, &outer.add_header, mode);
    let mode = inner
        .add_trailer_inherit
        .or(outer.add_trailer_inherit)
        .unwrap_or(0);
    merge_list(&mut inner.add_trailer, &outer.add_trailer, mode);
}

fn merge_list(inner: &mut List<AddHeader>, outer: &List<AddHeader>, mode: u32) {
    match (mode, &inner, outer) {
        (1, None, _) => *inner = Some(Arc::default()),
        (2, Some(own), Some(outer)) => {
            *inner = Some(Arc::new(outer.iter().chain(own.iter()).cloned().collect()));
        }
        _ => {}
    }
}
