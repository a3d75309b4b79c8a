//! Access control: addresses, passwords, and subrequests (`auth_request`), combined by `satisfy`.

use crate::crypt;
use crate::escape::Shown;
use crate::exchange::Exchange;
use crate::files::{self, FilePath};
use crate::phases::flow::Flow;
use crate::{subrequest, template};
use base64::Engine;
use gallop_conf::model::{items, AccessRule, Level, Satisfy};
use std::net::IpAddr;

/// The result of one check.
enum Verdict {
    /// The check is not configured here.
    Skip,
    Allow,
    Refuse(u16),
}

pub async fn check(ex: &mut Exchange) -> Flow {
    let any = ex.loc.conf.satisfy == Some(Satisfy::Any);
    let mut refused = ex.refused_before.take();
    for step in 0..3 {
        let verdict = match step {
            0 => addresses(ex),
            1 => password(ex).await,
            _ => subrequest(ex).await,
        };
        match verdict {
            Verdict::Skip => {}
            Verdict::Allow if any => {
                ex.response.remove_header("WWW-Authenticate");
                return Flow::Next;
            }
            Verdict::Allow => {}
            // Prefer the password challenge, since the client can act on it.
            Verdict::Refuse(status @ (401 | 403)) if any => {
                refused = Some(if refused == Some(401) { 401 } else { status });
            }
            Verdict::Refuse(status) => {
                // As in nginx, a request that one check refused stays refused on the error page of
                // another check.
                ex.refused_before = refused.filter(|_| status != 401);
                return refuse(ex, status);
            }
        }
    }
    match refused {
        Some(status) => refuse(ex, status),
        None => Flow::Next,
    }
}

fn refuse(ex: &mut Exchange, status: u16) -> Flow {
    if status == 403 && ex.loc.conf.satisfy != Some(Satisfy::Any) {
        ex.response.remove_header("WWW-Authenticate");
    }
    if status == 403 {
        ex.log(Level::Error, "access forbidden by rule");
    }
    Flow::Status(status)
}

fn addresses(ex: &Exchange) -> Verdict {
    match permits(items(&ex.loc.conf.access), ex.client) {
        Some(true) => Verdict::Allow,
        Some(false) => Verdict::Refuse(403),
        None => Verdict::Skip,
    }
}

/// Whether `allow` and `deny` permit the address; `None` if no rule names it.
pub(crate) fn permits(rules: &[AccessRule], client: Option<IpAddr>) -> Option<bool> {
    let names = |rule: &&AccessRule| rule.net.as_ref().is_none_or(|net| net.contains(client));
    rules.iter().find(names).map(|rule| rule.allow)
}

async fn password(ex: &mut Exchange) -> Verdict {
    let loc = ex.loc.clone();
    let (Some(realm), Some(file)) = (&loc.conf.auth_basic, &loc.conf.auth_basic_user_file) else {
        return Verdict::Skip;
    };
    let realm = template::eval(ex, realm);
    if realm == b"off" {
        return Verdict::Skip;
    }
    let Some((user, given)) = credentials(ex) else {
        ex.log(
            Level::Info,
            "no user/password was provided for basic authentication",
        );
        return challenge(ex, &realm);
    };
    let base = &ex.worker.shared.config.conf_prefix;
    let Ok(path) = FilePath::of_template(ex, Some(base), file) else {
        return Verdict::Refuse(403);
    };
    let is_constant = file.as_literal().is_some();
    let text = match files::read_named(&loc.conf, &path, is_constant) {
        Ok(text) => text,
        Err(e) => {
            let missing = e.kind() == std::io::ErrorKind::NotFound || files::leads_outside(&e);
            ex.log(
                if missing { Level::Error } else { Level::Crit },
                &crate::log::open_failed(&path, &e),
            );
            return Verdict::Refuse(if missing { 403 } else { 500 });
        }
    };
    let name = Shown(&user).to_string();
    ex.remote_user = Some(user.clone());
    match crypt::find(&text, &user) {
        None => {
            let message = format!("user \"{name}\" was not found in \"{}\"", path.display());
            ex.log(Level::Error, &message);
            delay(ex).await;
            challenge(ex, &realm)
        }
        Some(stored) if crypt::verify(stored, &given) => Verdict::Allow,
        Some(_) => {
            ex.log(Level::Error, &format!("user \"{name}\": password mismatch"));
            delay(ex).await;
            challenge(ex, &realm)
        }
    }
}

async fn delay(ex: &Exchange) {
    match ex.loc.conf.auth_delay {
        Some(ms) if ms > 0 => gallop_runtime::sleep(ms).await,
        _ => {}
    }
}

/// User name and password from the `Authorization` field. With CONNECT they belong to a proxy.
pub fn credentials(ex: &Exchange) -> Option<(Vec<u8>, Vec<u8>)> {
    let name = match ex.head.method() {
        b"CONNECT" => "proxy-authorization",
        _ => "authorization",
    };
    let field = ex.head.get(name)?;
    let (scheme, rest) = field.split_at_checked(6)?;
    if !scheme.eq_ignore_ascii_case(b"basic ") {
        return None;
    }
    let decoded = base64::engine::general_purpose::STANDARD
        .decode(rest.trim_ascii())
        .ok()?;
    let colon = memchr::memchr(b':', &decoded)?;
    (colon > 0).then(|| (decoded[..colon].to_vec(), decoded[colon + 1..].to_vec()))
}

fn challenge(ex: &mut Exchange, realm: &[u8]) -> Verdict {
    let mut value = b"Basic realm=\"".to_vec();
    value.extend_from_slice(realm);
    value.push(b'"');
    ex.response.remove_header("WWW-Authenticate");
    ex.response.add_header("WWW-Authenticate", value);
    Verdict::Refuse(401)
}

/// `auth_request`: a 2xx response lets the request pass, 401 and 403 are passed to the client.
async fn subrequest(ex: &mut Exchange) -> Verdict {
    let loc = ex.loc.clone();
    let Some(Some(uri)) = &loc.conf.auth_request else {
        return Verdict::Skip;
    };
    let (path, args) = match uri.split_once('?') {
        Some((path, args)) => (path, Some(args.as_bytes().to_vec())),
        None => (uri.as_str(), None),
    };
    let mut sub = subrequest::run(ex, path.as_bytes().to_vec(), args).await;
    // The response body has no meaning here, but reading it allows reuse of the upstream
    // connection.
    let drained = sub.response.body.collect(1 << 20).await;
    let status = sub.response.status;
    if drained.is_err() && status < 300 {
        return Verdict::Refuse(500);
    }
    for (var, value) in items(&loc.conf.auth_request_set) {
        let text = template::eval(&*sub, value);
        crate::rewrite::set(ex, *var, &text);
    }
    match status {
        200..=299 => Verdict::Allow,
        401 => {
            let fields = sub.response.headers.iter();
            let asks = fields.filter(|(n, _)| n.eq_ignore_ascii_case(b"www-authenticate"));
            ex.response.headers.extend(asks.cloned());
            Verdict::Refuse(401)
        }
        403 => Verdict::Refuse(403),
        other => {
            ex.log(
                Level::Error,
                &format!("auth request unexpected status: {other}"),
            );
            Verdict::Refuse(500)
        }
    }
}
