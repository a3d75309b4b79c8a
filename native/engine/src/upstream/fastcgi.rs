//! fastcgi_pass.

use super::attempts;
use super::proxy::{group_of, hint};
use super::transfer::{Plan, Protocol};
use crate::exchange::Exchange;
use crate::files::{FilePath, Refused};
use crate::phases::Flow;
use crate::template;
use gallop_conf::model::{self, items, FastcgiPass, Level, Param, UpConf};
use gallop_conf::template::Part;
use gallop_conf::vars::{Builtin, VarKind};
use gallop_http::fastcgi::{Begin, RequestWriter, Role};
use std::cell::Cell;
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
    if let Err(refused) = check_scripts(ex) {
        return refused.into();
    }
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

/// Whether a parameter names a file that the application runs or opens.
fn names_file(param: &Param) -> bool {
    matches!(
        param.name.as_bytes(),
        b"SCRIPT_FILENAME" | b"PATH_TRANSLATED"
    )
}

/// Reject a script whose path ascends by a `..` from the request, as for static files.
fn check_scripts(ex: &Exchange) -> Result<(), Refused> {
    let params = items(&ex.loc.conf.fastcgi_params).iter();
    for param in params.filter(|param| names_file(param)) {
        FilePath::of_template(ex, None, &param.value)?;
    }
    Ok(())
}

/// Like [`check_scripts`], without logging.
pub(super) fn scripts_are_allowed(ex: &Exchange) -> bool {
    let mut params = items(&ex.loc.conf.fastcgi_params).iter();
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
    let mut params = items(&ex.loc.conf.fastcgi_params).iter();
    params.any(|param| names_file(param) && !param.value.parts.iter().all(is_plain))
}

/// Set the variables for script name and path info.
pub(super) fn split_path(ex: &mut Exchange, conf: &UpConf) {
    (ex.fastcgi_script_name, ex.fastcgi_path_info) = split(&ex.uri.path, conf);
}

/// The URI's script name and path info under a location's settings; each is `None` if the settings
/// leave the URI unchanged. Variables such as `$fastcgi_script_name` in `try_files` need them
/// before the handler runs.
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
    write(ex, conf, &mut writer);
    writer.into_bytes()
}

/// Like [`encode`], with a writer that keeps its memory.
pub fn write(ex: &Exchange, conf: &UpConf, writer: &mut RequestWriter) {
    let keep_connection = conf.keep_conn.unwrap_or(false);
    writer.begin(Begin {
        role: Role::Responder,
        keep_connection,
    });
    let params = items(&ex.loc.conf.fastcgi_params);
    let mut scratch = SCRATCH.take();
    for param in params {
        let literal = param.value.as_literal();
        if literal.is_none() {
            scratch.value.clear();
            template::eval_into(ex, &param.value, &mut scratch.value);
        }
        let value = literal.unwrap_or(&scratch.value);
        if !(param.if_not_empty && value.is_empty()) {
            writer.param(param.name.as_bytes(), value);
        }
    }
    if conf.pass_request_headers != Some(false) {
        client_params(ex, writer, &mut scratch);
    }
    writer.end_params();
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
fn client_params(ex: &Exchange, writer: &mut RequestWriter, scratch: &mut Scratch) {
    let set = items(&ex.loc.conf.fastcgi_params);
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
            writer.param(key, value);
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
        writer.param(key, joined);
    }
}
