//! fastcgi_pass.

use super::attempts;
use super::proxy::{group_of, hint};
use super::transfer::{Plan, Protocol};
use crate::exchange::Exchange;
use crate::phases::Flow;
use crate::template;
use gallop_conf::model::{self, items, FastcgiPass, Level, UpConf};
use gallop_http::fastcgi::{Begin, RequestWriter, Role};
use std::rc::Rc;
use std::sync::Arc;

pub async fn serve(ex: &mut Exchange, pass: &FastcgiPass) -> Flow {
    let found = match (&pass.target, &pass.address) {
        (model::Target::Upstream(i), _) => Ok((Some(*i), ex.worker.shared.balancers.group(*i))),
        (model::Target::Variable, address) => {
            let text = address
                .as_ref()
                .map_or(Vec::new(), |t| template::eval(ex, t));
            group_of(ex, &String::from_utf8_lossy(&text), 0).await
        }
    };
    let (index, group) = match found {
        Ok(found) => found,
        Err(message) => {
            ex.log(Level::Error, &message);
            return Flow::Status(502);
        }
    };
    let conf: Arc<UpConf> = ex.loc.conf.fastcgi.clone().unwrap_or_default();
    split_path(ex, &conf);
    let plan = Plan {
        hint: hint(ex, &group),
        group,
        index,
        conf,
        tls: false,
        scheme: "fastcgi",
        cache_key: Vec::new(),
        uri: Rc::default(),
        default_name: String::new(),
        protocol: Protocol::Fastcgi,
        pass: None,
    };
    attempts::run(ex, plan).await
}

/// Script name and path info of the URI, for variables.
fn split_path(ex: &mut Exchange, conf: &UpConf) {
    (ex.fastcgi_script_name, ex.fastcgi_path_info) = split(&ex.uri.path, conf);
}

/// The URI's script name and path info under a location's settings, each `None` where they leave the URI alone.
/// Variables ask for them before the location's handler runs too: `try_files $fastcgi_script_name` does.
pub fn split(uri: &[u8], conf: &UpConf) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    if let Some(groups) = conf.split_path_info.as_ref().and_then(|p| p.captures(uri)) {
        let group = |i: usize| {
            groups
                .get(i)
                .copied()
                .flatten()
                .map(|(a, z)| uri[a..z].to_vec())
        };
        return (group(1), group(2));
    }
    match &conf.index {
        Some(index) if uri.ends_with(b"/") => (Some([uri, index.as_bytes()].concat()), None),
        _ => (None, None),
    }
}

/// The records before the body.
pub fn encode(ex: &Exchange, conf: &UpConf) -> Vec<u8> {
    let mut writer = RequestWriter::default();
    let keep_connection = conf.keep_conn.unwrap_or(false);
    writer.begin(Begin {
        role: Role::Responder,
        keep_connection,
    });
    let params = items(&ex.loc.conf.fastcgi_params);
    for param in params {
        let value = template::eval(ex, &param.value);
        if !(param.if_not_empty && value.is_empty()) {
            writer.param(param.name.as_bytes(), &value);
        }
    }
    if conf.pass_request_headers != Some(false) {
        for (name, value) in client_params(ex) {
            if !params.iter().any(|p| p.name.as_bytes() == name) {
                writer.param(&name, &value);
            }
        }
    }
    writer.end_params();
    writer.bytes().to_vec()
}

/// `HTTP_*` for the client's fields; fields of one name are joined.
fn client_params(ex: &Exchange) -> Vec<(Vec<u8>, Vec<u8>)> {
    let mut out: Vec<(Vec<u8>, Vec<u8>)> = Vec::new();
    let own = super::request::own_conditions(ex);
    let own = own.iter().map(|(n, v)| (n.as_bytes(), v.as_slice()));
    let passed = ex
        .head
        .iter()
        .filter(|(n, _)| !super::request::is_withheld(ex, n));
    for (name, value) in passed.chain(own) {
        let mut key = b"HTTP_".to_vec();
        key.extend(name.iter().map(|c| {
            if *c == b'-' {
                b'_'
            } else {
                c.to_ascii_uppercase()
            }
        }));
        match out.iter_mut().find(|(n, _)| *n == key) {
            Some((_, joined)) => {
                joined.extend_from_slice(if key == b"HTTP_COOKIE" { b"; " } else { b", " });
                joined.extend_from_slice(value);
            }
            None => out.push((key, value.to_vec())),
        }
    }
    out
}
