//! The phases of a request: server rewrite, location, rewrite, limits, access, try_files, and
//! content. Internal redirects start over.

use crate::body::Body;
use crate::exchange::{Exchange, Received, Response};
use crate::{access, errors, escape, filters, handlers, limits, mirror, realip, rewrite, uri};
use bytes::Bytes;
use gallop_conf::locations::Found;
use gallop_conf::model::{Handler, Level, Location, VerifyClient};
use gallop_http::message::Version;
use gallop_http::token::is_name;
use std::sync::Arc;

/// The next step of a request after a phase or handler.
#[derive(Debug)]
pub enum Flow {
    /// Continue with the next phase.
    Next,
    /// The response is complete in `response`.
    Done,
    /// Respond with the error page of this status, or follow `error_page`.
    Status(u16),
    /// Process this URI as if the client had requested it.
    Internal {
        uri: Vec<u8>,
        args: Option<Vec<u8>>,
    },
    Named(String),
    /// Close the connection without a response.
    Close,
}

/// The result of checking a request's head.
pub enum Begin {
    Process,
    /// Malformed: respond with this status and close.
    Refuse(u16),
}

/// The place where [`run`] starts a round.
enum Start {
    Server,
    Named(Arc<Location>),
    Status(u16),
}

/// Parse the target and choose the server block; call this once the head is complete. As in nginx,
/// the target is parsed before any field, with the settings of the connection's own server block.
pub fn begin(ex: &mut Exchange) -> Begin {
    if !read_target(ex) {
        ex.log(Level::Info, "client sent invalid request");
        return Begin::Refuse(400);
    }
    if let Err(reason) = choose_server(ex) {
        ex.log(Level::Info, reason);
        return Begin::Refuse(400);
    }
    if let Some(status) = tls_refusal(ex) {
        return Begin::Refuse(status);
    }
    if is_misdirected(ex) {
        let message = "client attempted to request the server name different from the one that was negotiated";
        ex.log(Level::Info, message);
        return Begin::Refuse(421);
    }
    if ex.version() == Version::Http2 && !speaks_http2(ex) {
        ex.log(
            Level::Info,
            "client sent HTTP/2 request to a server without it",
        );
        return Begin::Refuse(421);
    }
    if matches!(ex.head.method(), b"CONNECT" | b"TRACE") {
        ex.log(Level::Info, "client sent TRACE or CONNECT method");
        return Begin::Refuse(405);
    }
    Begin::Process
}

/// For a request with a malformed header line, choose the server block by the lines before it.
/// Returns `false` if those already contain an error: in the target, the host, or a duplicate
/// field.
pub fn begin_refused(ex: &mut Exchange) -> bool {
    if !read_target(ex) {
        return false;
    }
    if ex.head.get("host").is_none() && ex.head.authority.is_empty() {
        return !has_duplicate(ex);
    }
    match choose_server(ex) {
        Ok(()) => true,
        Err(reason) => {
            ex.log(Level::Info, reason);
            false
        }
    }
}

/// Parse the target; `false` if it is malformed.
fn read_target(ex: &mut Exchange) -> bool {
    if let Some(server) = ex.conn.sni_server().cloned() {
        ex.loc = server.root.clone();
        ex.server = server;
    }
    let merge = ex.server.conf.merge_slashes.unwrap_or(true);
    let mut parsed = std::mem::take(&mut ex.uri);
    let connect = ex.head.method() == b"CONNECT";
    // CONNECT has a name and port instead of a path; as in nginx, it requests the root.
    let target = if connect {
        b"/"
    } else {
        ex.head.text(ex.head.path)
    };
    let ok = uri::parse(target, merge, &mut parsed);
    ex.uri = parsed;
    ex.header_only = ex.head.method() == b"HEAD";
    if !ok {
        ex.uri.path.clear();
        (ex.head.path, ex.head.target) = Default::default();
        read_no_fields(ex);
    }
    ok
}

/// As in nginx, no field after a malformed request line has an effect.
fn read_no_fields(ex: &mut Exchange) {
    if ex.version() < Version::Http2 {
        ex.head.headers.clear();
        let rest = &ex.head.buf[ex.head.line.end as usize..];
        let end = memchr::memchr(b'\n', rest).map_or(rest.len(), |at| at + 1);
        ex.request_length = u64::from(ex.head.line.end - ex.head.line.start) + end as u64;
    }
}

/// Whether the TLS handshake was for another server block than this one, which requires client
/// certificates. The other block's certificate check does not count here.
fn is_misdirected(ex: &Exchange) -> bool {
    let Some(tls) = ex.conn.tls() else {
        return false;
    };
    let verify = ex.server.conf.ssl_verify_client;
    let verifies = !matches!(verify, None | Some(VerifyClient::Off));
    let other = !tls.server_name.is_empty() && tls.server_name != ex.host;
    verifies && other && ex.conn.endpoint.hosts.choose(&tls.server_name).named
}

/// Whether the chosen server block allows HTTP/2 (RFC 9113, section 9.1.2).
pub(crate) fn speaks_http2(ex: &Exchange) -> bool {
    ex.conn.endpoint.http2 || ex.server.conf.http2 == Some(true)
}

/// The status for a TLS problem of the chosen server block: a plain request on a TLS port, or a
/// missing or invalid client certificate.
fn tls_refusal(ex: &Exchange) -> Option<u16> {
    let Some(tls) = ex.conn.tls() else {
        if !ex.conn.endpoint.ssl {
            return None;
        }
        ex.log(Level::Info, "client sent plain HTTP request to HTTPS port");
        return Some(497);
    };
    let verify = ex
        .server
        .conf
        .ssl_verify_client
        .unwrap_or(VerifyClient::Off);
    let wanted = matches!(verify, VerifyClient::On | VerifyClient::Optional);
    if let Some(reason) = tls.client_verify.strip_prefix("FAILED:").filter(|_| wanted) {
        let message = format!("client SSL certificate verify error: ({reason})");
        ex.log(Level::Info, &message);
        return Some(495);
    }
    if verify == VerifyClient::On && tls.client_verify != "SUCCESS" {
        ex.log(Level::Info, "client sent no required SSL certificate");
        return Some(496);
    }
    None
}

pub(crate) fn choose_server(ex: &mut Exchange) -> Result<(), &'static str> {
    let authority = ex.head.text(ex.head.authority);
    let mut hosts = ex.head.get_all("host");
    let host = hosts.next();
    let several = hosts.next().is_some();
    drop(hosts);
    if host.is_none() && ex.version() == Version::Http11 {
        return Err("client sent HTTP/1.1 request without \"Host\" header");
    }
    let checked = host.map(validate_host);
    if checked == Some(None) {
        return Err("client sent invalid host header");
    }
    let wanted = if authority.is_empty() {
        host
    } else {
        Some(authority)
    };
    let wanted = wanted.filter(|t| !t.is_empty());
    if wanted.is_none() && matches!(ex.version(), Version::Http2 | Version::Http3) {
        return Err("client sent neither \":authority\" nor \"Host\" header");
    }
    if let Some(text) = wanted {
        let known = checked.flatten().filter(|_| authority.is_empty());
        let Some((name, port)) = known.or_else(|| validate_host(text)) else {
            read_no_fields(ex);
            return Err("client sent invalid host in request line");
        };
        // The host usually equals that of the connection's previous request.
        if ex.host.as_bytes() != name {
            let lower = name.iter().map(|&c| char::from(c.to_ascii_lowercase()));
            ex.host.clear();
            ex.host.extend(lower);
        }
        ex.host_port = port;
    }
    let endpoint = ex.conn.endpoint.clone();
    let chosen = endpoint.hosts.choose(&ex.host);
    let sni = ex.conn.sni_server().cloned();
    ex.server = match sni {
        Some(sni) if !chosen.named => sni,
        _ => chosen.server.clone(),
    };
    if let Some((pattern, groups)) = chosen.matched {
        let host = ex.host.clone();
        ex.set_captures(host.as_bytes(), groups, pattern);
    }
    ex.loc = ex.server.root.clone();
    let duplicate = has_duplicate(ex);
    if several {
        return Err("client sent duplicate host header");
    }
    if duplicate {
        return Err("client sent duplicate header line");
    }
    Ok(())
}

/// The index of a field that must not appear twice.
pub(crate) fn once(name: &[u8]) -> Option<usize> {
    match name.len() {
        6 if is_name(name, b"expect") => Some(0),
        8 if is_name(name, b"if-match") => Some(1),
        8 if is_name(name, b"if-range") => Some(2),
        13 if is_name(name, b"if-none-match") => Some(3),
        13 if is_name(name, b"content-range") => Some(4),
        13 if is_name(name, b"authorization") => Some(5),
        17 if is_name(name, b"if-modified-since") => Some(6),
        19 if is_name(name, b"if-unmodified-since") => Some(7),
        19 if is_name(name, b"proxy-authorization") => Some(8),
        _ => None,
    }
}

/// Whether a field appears twice that must not. As in nginx, the lines after it are not read, and a
/// second host is not used.
fn has_duplicate(ex: &mut Exchange) -> bool {
    const HOST: usize = 9;
    let http1 = ex.version() < Version::Http2;
    let number = |name: &[u8]| match name.len() {
        4 if http1 && is_name(name, b"host") => Some(HOST),
        14 if http1 && is_name(name, b"content-length") => Some(10),
        17 if http1 && is_name(name, b"transfer-encoding") => Some(11),
        _ => once(name),
    };
    let mut seen = 0u32;
    let mut fields = ex.head.iter().enumerate();
    let second = fields.find_map(|(at, (name, _))| {
        let i = number(name)?;
        let twice = seen & (1 << i) != 0;
        seen |= 1 << i;
        twice.then_some((at, i == HOST))
    });
    drop(fields);
    let Some((at, is_host)) = second else {
        return false;
    };
    if http1 {
        let end = ex.head.headers[at].value.end as usize;
        let rest = memchr::memchr(b'\n', &ex.head.buf[end..]).map_or(0, |i| i + 1);
        ex.request_length = (end + rest) as u64 - u64::from(ex.head.line.start);
    }
    ex.head.headers.truncate(at + usize::from(!is_host));
    true
}

/// The bytes allowed in a host name.
const HOST: [bool; 256] = gallop_http::token::alphanumeric_and(b"-._~!$&'()*+,;=%");

/// Split a host into its name, without a final dot, and its port; `None` if it is malformed.
pub fn validate_host(text: &[u8]) -> Option<(&[u8], Option<u16>)> {
    let is_literal = text.first() == Some(&b'[');
    let end = match is_literal {
        true => memchr::memchr(b']', text)? + 1,
        false => {
            let other = text.iter().position(|&c| !HOST[c as usize]);
            other.unwrap_or(text.len())
        }
    };
    let (name, rest) = text.split_at(end);
    let port = if rest.is_empty() { None } else { port(rest)? };
    if is_literal {
        let mut inner = name[1..end - 1].iter();
        if !inner.all(|&c| c == b':' || c != b'%' && HOST[c as usize]) {
            return None;
        }
    }
    if name.windows(2).any(|w| w == b"..") {
        return None;
    }
    let name = name.strip_suffix(b".").unwrap_or(name);
    (!name.is_empty()).then_some((name, port))
}

/// The port after a host, including the colon; digits are optional.
fn port(text: &[u8]) -> Option<Option<u16>> {
    let digits = text.strip_prefix(b":")?;
    let mut number = 0u32;
    for digit in digits {
        let digit = digit.wrapping_sub(b'0');
        number = number.saturating_mul(10).saturating_add(digit.into());
        if digit > 9 {
            return None;
        }
    }
    let number = u16::try_from(number).ok()?;
    Some((!digits.is_empty()).then_some(number))
}

/// Process the request until its response is complete in `ex.response`. `false` means: close
/// without a response.
pub async fn run(ex: &mut Exchange, refused: Option<u16>) -> bool {
    #[cfg(debug_assertions)]
    crate::panics::fault::inject(&ex.uri.path);
    let mut start = match refused {
        Some(status) => Start::Status(status),
        None => {
            let root = ex.server.root.clone();
            realip::apply(ex, &root);
            Start::Server
        }
    };
    loop {
        let flow = match start {
            Start::Status(status) => Flow::Status(status),
            Start::Server => from_server(ex).await,
            Start::Named(location) => {
                ex.varies = true;
                ex.loc = location;
                from_location(ex).await
            }
        };
        start = match flow {
            Flow::Close => return false,
            Flow::Next => Start::Status(404),
            Flow::Done => match ex.source.discard_ready() {
                Err(status) => {
                    ex.response = Response::default();
                    Start::Status(status)
                }
                Ok(()) => match filters::apply(ex) {
                    Flow::Done => return true,
                    Flow::Status(status) => Start::Status(status),
                    _ => return false,
                },
            },
            Flow::Status(status) => match errors::page(ex, status) {
                errors::Page::Answered => {
                    // The request is already refused, so an error in its body does not matter.
                    ex.keepalive &= ex.source.discard_ready().is_ok();
                    match filters::apply(ex) {
                        Flow::Done => return true,
                        // A page with a refresh is a 200 response to which conditions apply.
                        Flow::Status(status) => Start::Status(status),
                        _ => return false,
                    }
                }
                errors::Page::Close => return false,
                errors::Page::Internal { uri, args } => internal(ex, uri, args),
                errors::Page::Named(name) => named(ex, &name),
            },
            Flow::Internal { uri, args } => internal(ex, uri, args),
            Flow::Named(name) => named(ex, &name),
        };
    }
}

fn internal(ex: &mut Exchange, uri: Vec<u8>, args: Option<Vec<u8>>) -> Start {
    ex.redirects_left -= 1;
    if ex.redirects_left == 0 {
        let shown = escape::Shown(&uri);
        ex.log(
            Level::Error,
            &format!(
                "rewrite or internal redirection cycle while internally redirecting to \"{shown}\""
            ),
        );
        ex.redirects_left = 1;
        ex.error_page = true;
        return Start::Status(500);
    }
    ex.uri.path = uri;
    ex.uri.set_args(args);
    ex.uri_changed = true;
    ex.internal = true;
    ex.location_valid = true;
    ex.add_uri_to_alias = false;
    keep_fields(ex);
    ex.loc = ex.server.root.clone();
    // As in nginx, the location also decides about the connection.
    update_location(ex);
    Start::Server
}

/// Keep the header fields that an error page takes over from the response it replaces.
fn keep_fields(ex: &mut Exchange) {
    let old = std::mem::take(&mut ex.response);
    ex.response = Response {
        location: old.location,
        headers: old.headers,
        ..Response::default()
    };
}

fn named(ex: &mut Exchange, name: &str) -> Start {
    ex.redirects_left -= 1;
    if ex.redirects_left == 0 {
        let message = format!(
            "rewrite or internal redirection cycle while redirect to named location \"{name}\""
        );
        ex.log(Level::Error, &message);
        ex.redirects_left = 1;
        ex.error_page = true;
        return Start::Status(500);
    }
    ex.internal = true;
    keep_fields(ex);
    if ex.uri.path.is_empty() {
        // For a malformed target.
        let message = format!(
            "empty URI in redirect to named location \"{}\"",
            escape::Shown(name.as_bytes())
        );
        ex.log(Level::Error, &message);
        return Start::Status(500);
    }
    match ex.server.root.children.named(name) {
        Some(location) => Start::Named(location.clone()),
        None => {
            ex.log(
                Level::Error,
                &format!(
                    "could not find named location \"{}\"",
                    escape::Shown(name.as_bytes())
                ),
            );
            Start::Status(500)
        }
    }
}

/// Continue from the server block's rewrite rules.
async fn from_server(ex: &mut Exchange) -> Flow {
    let root = ex.server.root.clone();
    if !root.ops.is_empty() {
        match rewrite::run(ex, &root).await {
            rewrite::Outcome::Continue { .. } => {}
            rewrite::Outcome::Flow(flow) => return flow,
        }
    }
    located(ex).await
}

/// Continue from the choice of a location; its rewrite rules may repeat the choice.
async fn located(ex: &mut Exchange) -> Flow {
    let root = ex.server.root.clone();
    loop {
        if let Some(flow) = choose_location(ex) {
            return flow;
        }
        let location = ex.loc.clone();
        if location.ops.is_empty() || std::ptr::eq(&*location, &*root) {
            break;
        }
        match rewrite::run(ex, &location).await {
            rewrite::Outcome::Flow(flow) => return flow,
            rewrite::Outcome::Continue { uri_changed: false } => break,
            rewrite::Outcome::Continue { uri_changed: true } => {
                if let Some(flow) = rewritten(ex) {
                    return flow;
                }
            }
        }
    }
    after_rewrite(ex).await
}

/// Handle a URI change by a location's rules: has this request had too many?
fn rewritten(ex: &mut Exchange) -> Option<Flow> {
    ex.redirects_left -= 1;
    if ex.redirects_left == 0 {
        let uri = escape::Shown(&ex.uri.path).to_string();
        let message = "rewrite or internal redirection cycle while processing";
        ex.log(Level::Error, &format!("{message} \"{uri}\""));
        ex.redirects_left = 1;
        ex.error_page = true;
        return Some(Flow::Status(500));
    }
    ex.loc = ex.server.root.clone();
    None
}

/// Continue from the rewrite rules of a given location.
async fn from_location(ex: &mut Exchange) -> Flow {
    update_location(ex);
    let location = ex.loc.clone();
    if !location.ops.is_empty() {
        match rewrite::run(ex, &location).await {
            rewrite::Outcome::Flow(flow) => return flow,
            rewrite::Outcome::Continue { uri_changed: false } => {}
            rewrite::Outcome::Continue { uri_changed: true } => {
                return match rewritten(ex) {
                    Some(flow) => flow,
                    None => located(ex).await,
                };
            }
        }
    }
    after_rewrite(ex).await
}

fn choose_location(ex: &mut Exchange) -> Option<Flow> {
    let server = ex.server.clone();
    ex.stranded = false;
    let mut lacks_slash = false;
    match server.root.children.choose(&ex.uri.path) {
        Found::Location { location, matched } => {
            ex.loc = location.clone();
            for (pattern, groups) in matched.with_groups {
                ex.set_captures(&ex.uri.path, groups, pattern);
            }
            if matched.ends_plain {
                ex.forget_captures();
            }
        }
        Found::AutoRedirect(location) => {
            // The redirect gets the location's header fields and times.
            ex.loc = location.clone();
            lacks_slash = true;
        }
        Found::None => ex.loc = server.root.clone(),
    }
    ex.debug(|| format!("using configuration \"{}\"", ex.loc.name));
    ex.varies |= !crate::fast::is_plain(&ex.server, &ex.loc);
    if ex.loc.internal && !ex.internal {
        return Some(Flow::Status(404));
    }
    update_location(ex);
    if is_too_large(ex) {
        return Some(Flow::Status(413));
    }
    lacks_slash.then(|| to_slash(ex))
}

/// Whether the announced body exceeds the location's limit. The error page may be anywhere, and the
/// body is no longer accepted.
fn is_too_large(ex: &mut Exchange) -> bool {
    let limit = ex.loc.conf.client_max_body_size.unwrap_or(1 << 20);
    let Some(length) = ex.content_length.filter(|&n| limit != 0 && n > limit) else {
        return false;
    };
    if ex.is_subrequest() || ex.refused_body {
        return false;
    }
    let message = format!("client intended to send too large body: {length} bytes");
    ex.log(Level::Error, &message);
    ex.refused_body = true;
    ex.received = Some(Received::Memory(Bytes::new()));
    ex.keepalive = false;
    ex.expect_continue = false;
    true
}

/// Redirect with 301 to the location's name, whose final slash the path lacks.
fn to_slash(ex: &mut Exchange) -> Flow {
    let mut target = escape::escaped(ex.loc.name.as_bytes(), escape::Use::Uri);
    if !ex.uri.args.is_empty() {
        target.push(b'?');
        target.extend_from_slice(&ex.uri.args);
    }
    ex.response.location = Some(target);
    Flow::Status(301)
}

async fn after_rewrite(ex: &mut Exchange) -> Flow {
    update_location(ex);
    let location = ex.loc.clone();
    realip::apply(ex, &location);
    match limits::apply(ex).await {
        Flow::Next => {}
        flow => return flow,
    }
    if !ex.is_subrequest() {
        match access::check(ex).await {
            Flow::Next => {}
            flow => return flow,
        }
    }
    if let Some(rule) = ex.loc.try_files.clone() {
        match handlers::try_files(ex, &rule) {
            Flow::Next => {}
            flow => return flow,
        }
    }
    match mirror::start(ex).await {
        Flow::Next => {}
        flow => return flow,
    }
    content(ex).await
}

/// Apply the chosen location: `limit_except` for the method, and the settings for the connection.
fn update_location(ex: &mut Exchange) {
    // This precedes the rewrite rules, which do not apply to methods that `limit_except` restricts.
    if let Some((methods, limited)) = &ex.loc.limit_except {
        if !methods.iter().any(|m| m.as_bytes() == ex.head.method()) {
            ex.loc = limited.clone();
        }
    }
    let conf = &ex.loc.conf;
    let timeout = conf.keepalive_timeout.unwrap_or(75_000);
    let requests = conf.keepalive_requests.unwrap_or(1000);
    let time = conf.keepalive_time.unwrap_or(3_600_000);
    if timeout == 0
        || ex.conn.requests.get() >= requests
        || ex.started.saturating_sub(ex.conn.started) > time
    {
        ex.keepalive = false;
    }
    // Old browsers lose responses on kept connections; the default is msie6.
    let disable = conf.keepalive_disable.unwrap_or(1);
    let mut agents = ex.head.get_all("user-agent").peekable();
    if agents.peek().is_none() {
        return;
    }
    let agent = agents.collect::<Vec<_>>().concat();
    let has = |needle: &str| memchr::memmem::find(&agent, needle.as_bytes()).is_some();
    let msie6 = disable & 1 != 0
        && ex.head.method() == b"POST"
        && ["MSIE 4.", "MSIE 5.", "MSIE 6."].iter().any(|n| has(n))
        && !has("SV1");
    let safari = disable & 2 != 0 && has("Mac OS X") && has("Safari/") && !has("Chrome/");
    if msie6 || safari {
        ex.keepalive = false;
    }
}

/// Run the handler of the request's location.
pub async fn content(ex: &mut Exchange) -> Flow {
    let loc = ex.loc.clone();
    match &loc.handler {
        Some(Handler::Flv) => match handlers::flv(ex) {
            Flow::Next => handlers::files(ex).await,
            flow => flow,
        },
        Some(Handler::Mp4) => match handlers::mp4(ex) {
            Flow::Next => handlers::files(ex).await,
            flow => flow,
        },
        Some(Handler::Proxy(pass)) => crate::upstream::proxy(ex, pass).await,
        Some(Handler::Application(pass)) => crate::upstream::application(ex, pass).await,
        Some(Handler::StubStatus) => handlers::stub_status(ex),
        Some(Handler::Status(format)) => handlers::status(ex, *format),
        Some(Handler::EmptyGif) => handlers::empty_gif(ex),
        None if ex.stranded => Flow::Status(500),
        None if handlers::dav::is_wanted(ex) => handlers::dav::serve(ex).await,
        None => handlers::files(ex).await,
    }
}

/// Run a subrequest and return it with its unsent response.
pub async fn subrequest(parent: &Exchange, uri: Vec<u8>, args: Option<Vec<u8>>) -> Box<Exchange> {
    let mut sub = crate::subrequest::child(parent, uri, args);
    Box::pin(run(&mut sub, None)).await;
    sub
}

pub use crate::errors::product;
pub use crate::template::eval;

/// The value of `Location` to send: a path becomes an absolute URL, unless `absolute_redirect` is
/// off.
pub fn absolute_location(ex: &Exchange, location: &[u8]) -> Vec<u8> {
    let conf = &ex.loc.conf;
    if location.first() != Some(&b'/') || conf.absolute_redirect == Some(false) {
        return location.to_vec();
    }
    let scheme = if ex.tls { "https" } else { "http" };
    let own_name = conf.server_name_in_redirect == Some(true) && !ex.server.name.is_empty();
    let host = if own_name {
        ex.server.name.clone()
    } else if ex.host.is_empty() {
        let name = ex.conn.local_name().to_string();
        ex.conn.local().map_or(name, |a| match a.ip() {
            std::net::IpAddr::V6(v6) => format!("[{v6}]"),
            v4 => v4.to_string(),
        })
    } else {
        ex.host.clone()
    };
    let default = if ex.tls { 443 } else { 80 };
    let port = ex.conn.local().map_or(0, |a| a.port());
    let port = if conf.port_in_redirect != Some(false) && port != default && port != 0 {
        format!(":{port}")
    } else {
        String::new()
    };
    [format!("{scheme}://{host}{port}").as_bytes(), location].concat()
}

/// Wait for background work of the request, as nginx does before it closes a connection.
pub async fn settle(ex: &mut Exchange) {
    const LONGEST: u64 = 60_000;
    for done in std::mem::take(&mut ex.background) {
        if gallop_runtime::timeout(LONGEST, done.wait()).await.is_err() {
            return;
        }
    }
}

/// Count and log a completed request, and release its resources.
pub fn finish(ex: &mut Exchange) {
    ex.request_length += ex.source.uncounted();
    if let Some(last) = ex
        .attempts
        .last()
        .filter(|a| a.times.response_ms.get().is_none())
    {
        let lasted = gallop_runtime::now_ms().saturating_sub(last.began);
        last.times.response_ms.set(Some(lasted));
    }
    ex.debug(|| format!("http request finished: {}", ex.response.status));
    if let Some(meter) = &ex.worker.meter {
        meter.exchange(ex);
    }
    crate::log::access(ex);
    crate::log::flush_turn();
    ex.guards.clear();
    ex.response.body = Body::Empty;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_are_checked_and_taken_apart() {
        let host = |t: &'static str| validate_host(t.as_bytes());
        assert_eq!(
            host("Example.COM.:80"),
            Some((&b"Example.COM"[..], Some(80)))
        );
        assert_eq!(host("[::1]:8080"), Some((&b"[::1]"[..], Some(8080))));
        assert_eq!(host("a"), Some((&b"a"[..], None)));
        assert_eq!(host("a:"), Some((&b"a"[..], None)));
        assert_eq!(host("a%b:00080"), Some((&b"a%b"[..], Some(80))));
        for bad in [
            "a..b",
            "a/b",
            "a b",
            "a:x",
            "a:99999",
            "",
            "[::1",
            "a@b",
            ":80",
            "a\0",
            "a:+80",
            "a:4294967376",
            "[a%b]",
            "[::1]x",
            ".",
        ] {
            assert_eq!(host(bad), None, "{bad:?}");
        }
    }
}
