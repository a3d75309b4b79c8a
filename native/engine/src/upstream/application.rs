//! Passing of requests to applications and memcached: fastcgi_pass, uwsgi_pass, scgi_pass,
//! memcached_pass, and grpc_pass.

use super::attempts;
use super::fastcgi;
use super::gateway;
use super::memcached;
use super::proxy::{group_of, hint, host_only, request_uri};
use super::request::{HttpRequest, Wire};
use super::transfer::{Plan, Protocol};
use crate::exchange::Exchange;
use crate::files::{FilePath, Refused};
use crate::phases::flow::Flow;
use crate::template;
use gallop_conf::directives::applications::split_scheme;
use gallop_conf::model::{self, items, AppPass, AppProtocol, Level, Param, UpConf};
use gallop_conf::template::Part;
use gallop_conf::vars::{Builtin, VarKind};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;

/// The settings for applications of this protocol in the request's location.
pub(super) fn settings(ex: &Exchange, protocol: AppProtocol) -> Arc<UpConf> {
    let conf = ex.loc.conf.application(protocol);
    conf.clone().unwrap_or_default()
}

pub async fn serve(ex: &mut Exchange, pass: &AppPass) -> Flow {
    let text = match &pass.address {
        Some(address) => template::eval(ex, address),
        None => Vec::new(),
    };
    let text = String::from_utf8_lossy(&text);
    let (tls, authority) = match &pass.address {
        Some(_) => split_scheme(pass.protocol, &text),
        None => (pass.tls, pass.host.as_str()),
    };
    let found = match pass.target {
        model::Target::Upstream(i) => Ok((Some(i), ex.worker.shared.balancers.group(i))),
        model::Target::Variable => group_of(ex, &ex.worker.shared.balancers, authority, 0).await,
    };
    let (index, group) = match found {
        Ok(found) => found,
        Err(message) => {
            ex.log(Level::Error, &message);
            return Flow::Status(502);
        }
    };
    let conf = settings(ex, pass.protocol);
    let key = match &pass.key {
        None => Vec::new(),
        Some(key) => match memcached::prepare(ex, key) {
            Ok(key) => key,
            Err(flow) => return flow,
        },
    };
    if pass.protocol == AppProtocol::Fastcgi {
        fastcgi::split_path(ex, &conf);
    }
    if let Err(refused) = check_scripts(ex, &conf) {
        return refused.into();
    }
    let (protocol, uri) = match pass.protocol {
        AppProtocol::Grpc => {
            ex.is_passed = true;
            let uri: Rc<[u8]> = request_uri(ex, None, None).into();
            let request = HttpRequest {
                wire: Wire::Grpc,
                uri: uri.clone(),
                host: grpc_host(authority),
                as_get: false,
            };
            (Protocol::Http(request), uri)
        }
        protocol => (Protocol::Application(protocol), Rc::default()),
    };
    let plan = Plan {
        hint: hint(ex, &group),
        group,
        index,
        conf,
        tls,
        scheme: scheme(pass.protocol, tls),
        cache_key: Vec::new(),
        uri,
        default_name: match tls {
            true => host_only(authority),
            false => String::new(),
        },
        protocol,
        memcached_key: key,
        pass: None,
    };
    attempts::run(ex, plan).await
}

pub(super) fn scheme(protocol: AppProtocol, tls: bool) -> &'static str {
    match (protocol, tls) {
        (AppProtocol::Grpc, true) => "grpcs",
        (_, true) => "suwsgi",
        (_, false) => protocol.name(),
    }
}

/// The `:authority` of gRPC requests unless the configuration sets one.
pub(super) fn grpc_host(authority: &str) -> String {
    match authority.starts_with("unix:") {
        true => "localhost".into(),
        false => authority.to_owned(),
    }
}

/// The bytes of a request before its body.
///
/// # Errors
/// The request is too big for the protocol.
pub(super) fn encode(
    ex: &Exchange,
    plan: &Plan<'_>,
    protocol: AppProtocol,
) -> Result<Vec<u8>, String> {
    let conf = &plan.conf;
    match protocol {
        AppProtocol::Fastcgi => Ok(fastcgi::encode(ex, conf)),
        AppProtocol::Uwsgi => gateway::uwsgi(ex, conf),
        AppProtocol::Scgi => Ok(gateway::scgi(ex, conf)),
        // gRPC requests are those of HTTP.
        AppProtocol::Grpc => Ok(Vec::new()),
        AppProtocol::Memcached => Ok([b"get ", &plan.memcached_key[..], b"\r\n"].concat()),
    }
}

/// Whether a parameter names a file that the application runs or opens.
fn names_file(param: &Param) -> bool {
    matches!(
        param.name.as_bytes(),
        b"SCRIPT_FILENAME" | b"PATH_TRANSLATED"
    )
}

/// Reject a script whose path ascends by a `..` from the request, as for static files.
fn check_scripts(ex: &Exchange, conf: &UpConf) -> Result<(), Refused> {
    let params = items(&conf.params).iter();
    for param in params.filter(|param| names_file(param)) {
        FilePath::of_template(ex, None, &param.value)?;
    }
    Ok(())
}

/// Like [`check_scripts`], without logging.
pub(super) fn scripts_are_allowed(ex: &Exchange, conf: &UpConf) -> bool {
    let mut params = items(&conf.params).iter();
    params.all(|param| !names_file(param) || FilePath::is_allowed(ex, &param.value))
}

/// Whether script paths must be checked per request because they contain more than the URI. The URI
/// of a request that goes directly to its location has no `..`.
pub(super) fn must_check_scripts(ex: &Exchange, conf: &UpConf) -> bool {
    use Builtin::{DocumentRoot, DocumentUri, FastcgiScriptName, RequestFilename, Uri};
    let root = ex.loc.conf.root.as_ref();
    let plain_root = root.is_none_or(|r| r.alias.is_none() && r.path.as_literal().is_some());
    let is_plain = |part: &Part| match part {
        Part::Lit(_) => true,
        Part::Capture(_) => false,
        Part::Var(id) => match ex.worker.shared.config.vars.get(*id).kind {
            VarKind::Builtin(DocumentRoot | RequestFilename) => plain_root,
            VarKind::Builtin(FastcgiScriptName) => conf.split_path_info.is_none(),
            VarKind::Builtin(Uri | DocumentUri) => true,
            _ => false,
        },
    };
    let mut params = items(&conf.params).iter();
    params.any(|param| names_file(param) && !param.value.parts.iter().all(is_plain))
}

/// Takes the parameters of a request.
pub(super) trait ParamWriter {
    fn param(&mut self, name: &[u8], value: &[u8]);
}

/// Write the configured parameters and those for the client's fields.
pub(super) fn write_params(ex: &Exchange, conf: &UpConf, out: &mut impl ParamWriter) {
    let mut scratch = SCRATCH.take();
    for param in items(&conf.params) {
        let literal = param.value.as_literal();
        if literal.is_none() {
            scratch.value.clear();
            template::eval_into(ex, &param.value, &mut scratch.value);
        }
        let value = literal.unwrap_or(&scratch.value);
        if !(param.if_not_empty && value.is_empty()) {
            out.param(param.name.as_bytes(), value);
        }
    }
    if conf.pass_request_headers != Some(false) {
        client_params(ex, conf, out, &mut scratch);
    }
    if scratch.value.capacity() <= MAX_SCRATCH {
        SCRATCH.set(scratch);
    }
}

/// Reusable buffers for names and values.
#[derive(Default)]
struct Scratch {
    name: Vec<u8>,
    value: Vec<u8>,
}

/// Larger buffers are not kept.
const MAX_SCRATCH: usize = 16 * 1024;

thread_local! {
    static SCRATCH: Cell<Scratch> = Cell::default();
}

/// The parameter name for a header field.
fn param_name(field: &[u8], out: &mut Vec<u8>) {
    out.clear();
    out.extend_from_slice(b"HTTP_");
    out.extend(field.iter().map(|c| match c {
        b'-' => b'_',
        c => c.to_ascii_uppercase(),
    }));
}

/// Whether two header fields have the same parameter name.
fn is_same(a: &[u8], b: &[u8]) -> bool {
    let letter = |c: &u8| match c {
        b'-' => b'_',
        c => c.to_ascii_uppercase(),
    };
    a.len() == b.len() && a.iter().zip(b).all(|(a, b)| letter(a) == letter(b))
}

/// Write the `HTTP_*` parameters for the client's fields; repeated fields are joined.
fn client_params(ex: &Exchange, conf: &UpConf, out: &mut impl ParamWriter, scratch: &mut Scratch) {
    let set = items(&conf.params);
    let own = super::request::own_conditions(ex);
    let passed = ex
        .head
        .iter()
        .filter(|(n, _)| !super::request::is_withheld(ex, n));
    let own = own.iter().map(|(n, v)| (n.as_bytes(), v.as_slice()));
    let fields = passed.chain(own);
    let Scratch {
        name: key,
        value: joined,
    } = scratch;
    for (i, (name, value)) in fields.clone().enumerate() {
        let mut before = fields.clone().take(i);
        if before.any(|(n, _)| is_same(n, name)) {
            continue;
        }
        param_name(name, key);
        if set.iter().any(|p| p.name.as_bytes() == *key) {
            continue;
        }
        let mut more = fields.clone().skip(i + 1);
        if !more.any(|(n, _)| is_same(n, name)) {
            out.param(key, value);
            continue;
        }
        let between: &[u8] = match &key[..] {
            b"HTTP_COOKIE" => b"; ",
            _ => b", ",
        };
        joined.clear();
        joined.extend_from_slice(value);
        let again = fields.clone().skip(i + 1);
        for (_, value) in again.filter(|(n, _)| is_same(n, name)) {
            joined.extend_from_slice(between);
            joined.extend_from_slice(value);
        }
        out.param(key, joined);
    }
}
