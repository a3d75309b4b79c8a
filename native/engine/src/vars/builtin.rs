//! Built-in variables.

use super::connection::{self, address, show, some, text};
use crate::absolute::absolute_location;
use crate::exchange::Exchange;
use crate::filters::userid;
use crate::{template, time};
use gallop_conf::values::parse_size;
use gallop_conf::vars::Builtin as B;
use std::sync::atomic::Ordering;

/// Append the value; `false` if there is none.
pub fn eval(ex: &Exchange, b: B, out: &mut Vec<u8>) -> bool {
    request(ex, b, out)
        .or_else(|| connection(ex, b, out))
        .or_else(|| response(ex, b, out))
        .or_else(|| upstream(ex, b, out))
        .or_else(|| connection::attempts(&ex.attempts, b, out))
        .or_else(|| connection::tls(&ex.conn, b, out))
        .unwrap_or(false)
}

/// The protocol in the request line. Unknown minor versions get an HTTP/1.1 response. Empty for an
/// unreadable request line.
fn protocol(ex: &Exchange) -> &[u8] {
    // A rejected request line has no values, even after an error page turned it into a GET.
    if ex.version() < gallop_http::message::Version::Http2 && ex.head.line.end == 0 {
        return b"";
    }
    let name = ex.version().name().as_bytes();
    let line = ex.head.text(ex.head.line).trim_ascii_end();
    match memchr::memrchr(b' ', line).map(|at| &line[at + 1..]) {
        Some(said)
            if ex.version() == gallop_http::message::Version::Http11
                && said.starts_with(b"HTTP/") =>
        {
            said
        }
        _ => name,
    }
}

fn request(ex: &Exchange, b: B, out: &mut Vec<u8>) -> Option<bool> {
    match b {
        B::Uri | B::DocumentUri => text(out, &ex.uri.path),
        B::RequestUri => text(out, ex.unparsed_uri()),
        B::Args | B::QueryString => {
            text(out, &ex.uri.args);
            Some(ex.uri.has_args)
        }
        B::IsArgs => text(out, if ex.uri.args.is_empty() { b"" } else { b"?" }),
        B::RequestMethod => text(out, ex.method()),
        B::Request => {
            let line = ex.head.text(ex.head.line);
            if line.is_empty() && ex.version() < gallop_http::message::Version::Http2 {
                return Some(false);
            }
            text(out, line)
        }
        B::ServerProtocol => text(out, protocol(ex)),
        B::Host => {
            if ex.host.is_empty() {
                text(out, ex.server.name.as_bytes())
            } else {
                text(out, ex.host.as_bytes())
            }
        }
        B::RequestPort => match ex.host_port {
            Some(p) => show(out, p),
            None => text(out, b""),
        },
        B::IsRequestPort => text(out, if ex.host_port.is_some() { b":" } else { b"" }),
        B::Scheme => text(out, if ex.tls { b"https" } else { b"http" }),
        B::Https => text(out, if ex.tls { b"on" } else { b"" }),
        B::ContentLength => match ex.head.get("content-length") {
            Some(v) => text(out, v),
            // For a chunked body, the bytes read; a discarded body has none.
            None => match &ex.received {
                _ if !ex.chunked => Some(false),
                Some(body) => show(out, body.len()),
                None if ex.source.is_ended() => show(out, 0),
                None => Some(false),
            },
        },
        B::ContentType => Some(joined(ex, "content-type", out)),
        B::HttpXForwardedFor => Some(joined(ex, "x-forwarded-for", out)),
        B::DocumentRoot => {
            root(ex, out);
            Some(true)
        }
        B::RealpathRoot => {
            let mut path = Vec::new();
            root(ex, &mut path);
            let real = std::fs::canonicalize(String::from_utf8_lossy(&path).as_ref());
            some(
                out,
                real.ok().as_ref().map(|p| p.as_os_str().as_encoded_bytes()),
            )
        }
        B::RequestFilename => {
            crate::files::push_request_path(ex, out);
            Some(true)
        }
        B::FastcgiScriptName => {
            let name = ex
                .fastcgi_script_name
                .clone()
                .or_else(|| fastcgi_split(ex).0);
            text(out, name.as_deref().unwrap_or(&ex.uri.path))
        }
        B::FastcgiPathInfo => {
            let info = ex.fastcgi_path_info.clone().or_else(|| fastcgi_split(ex).1);
            some(out, Some(info.as_deref().unwrap_or(b"")))
        }
        B::RemoteUser => match &ex.remote_user {
            Some(user) => text(out, user),
            None => some(out, crate::access::credentials(ex).map(|c| c.0).as_deref()),
        },
        B::RequestId => {
            let mut id = ex.request_id.borrow_mut();
            text(out, id.get_or_insert_with(random_id).as_bytes())
        }
        B::UidGot => some(out, userid::got(ex).as_deref().map(str::as_bytes)),
        B::UidSet => some(out, userid::set(ex).as_deref().map(str::as_bytes)),
        B::RequestLength => show(out, ex.request_length),
        B::RequestTime => {
            let ms = gallop_runtime::now_ms().saturating_sub(ex.started);
            show(out, format_args!("{}.{:03}", ms / 1000, ms % 1000))
        }
        B::RequestBody => match &ex.received {
            Some(crate::exchange::Received::Memory(body)) if !body.is_empty() => text(out, body),
            _ => Some(false),
        },
        B::RequestBodyFile => match &ex.received {
            Some(crate::exchange::Received::File {
                path: Some(path), ..
            }) => text(out, path.as_os_str().as_encoded_bytes()),
            _ => Some(false),
        },
        B::LimitRate => {
            // After the response was sent, the location's setting applies.
            let conf = ex
                .loc
                .conf
                .limit_rate
                .as_ref()
                .filter(|_| ex.bytes_sent > 0);
            let own = || parse_size(&String::from_utf8_lossy(&template::eval(ex, conf?)));
            show(out, ex.limit_rate.get().or_else(own).unwrap_or(0))
        }
        B::ProxyAddXForwardedFor => {
            if joined(ex, "x-forwarded-for", out) {
                out.extend_from_slice(b", ");
            }
            address(out, ex.client)
        }
        B::InvalidReferer => text(
            out,
            if crate::referer::is_invalid(ex) {
                b"1"
            } else {
                b""
            },
        ),
        B::SecureLink => some(out, crate::secure_link::value(ex).as_deref()),
        B::SecureLinkExpires => some(out, crate::secure_link::expires(ex).as_deref()),
        _ => None,
    }
}

fn joined(ex: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let mut first = true;
    for value in ex.head.get_all(name) {
        if !first {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(value);
        first = false;
    }
    !first
}

fn root(ex: &Exchange, out: &mut Vec<u8>) {
    match &ex.loc.conf.root {
        Some(root) => template::eval_into(ex, &root.path, out),
        None => {
            let html = ex.worker.shared.config.prefix.join("html");
            out.extend_from_slice(html.as_os_str().as_encoded_bytes());
        }
    }
}

/// `$date_gmt` or, with an offset, `$date_local`, in the format of SSI's `timefmt`.
fn date(ex: &Exchange, now: i64, offset: Option<i64>) -> String {
    let format = ex.time_format.as_deref();
    let format = format.unwrap_or("%A, %d-%b-%Y %H:%M:%S %Z");
    time::strftime(format, now, offset)
}

/// Set `$request_id` so that subrequests have the same value.
pub fn fix_request_id(ex: &Exchange) {
    ex.request_id.borrow_mut().get_or_insert_with(random_id);
}

fn random_id() -> String {
    let mut bytes = [0u8; 16];
    // SAFETY: the kernel writes at most 16 bytes to `bytes`; so few bytes are never returned
    // partially.
    unsafe {
        libc::getrandom(bytes.as_mut_ptr().cast(), bytes.len(), 0);
    }
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}

fn connection(ex: &Exchange, b: B, out: &mut Vec<u8>) -> Option<bool> {
    let counters = &ex.worker.shared.counters;
    let wall = gallop_runtime::unix_time();
    match b {
        B::ConnectionsActive => show(out, counters.active.load(Ordering::Relaxed)),
        B::ConnectionsReading => show(out, counters.reading.load(Ordering::Relaxed)),
        B::ConnectionsWriting => show(out, counters.writing.load(Ordering::Relaxed)),
        B::ConnectionsWaiting => show(out, counters.waiting.load(Ordering::Relaxed)),
        B::Pipe => text(out, if ex.pipelined { b"p" } else { b"." }),
        B::DateGmt => text(out, date(ex, wall as i64 / 1000, None).as_bytes()),
        B::DateLocal => {
            let now = wall as i64 / 1000;
            text(out, date(ex, now, Some(time::zone_offset(now))).as_bytes())
        }
        B::LimitReqStatus => some(out, ex.limited.get().requests.map(str::as_bytes)),
        B::LimitConnStatus => some(out, ex.limited.get().connections.map(str::as_bytes)),
        B::Http2 => match ex.version() {
            gallop_http::message::Version::Http2 => text(out, if ex.tls { b"h2" } else { b"h2c" }),
            _ => text(out, b""),
        },
        B::Http3 => match ex.version() {
            gallop_http::message::Version::Http3 => text(out, b"h3"),
            _ => text(out, b""),
        },
        _ => {
            let client = connection::Client {
                conn: &ex.conn,
                ip: ex.client,
                port: ex.client_port,
                server_name: &ex.server.name,
            };
            connection::eval(&client, b, out)
        }
    }
}

fn response(ex: &Exchange, b: B, out: &mut Vec<u8>) -> Option<bool> {
    let r = &ex.response;
    match b {
        B::Status => match (ex.error_status, r.status) {
            (0, s) | (s, _) => show(out, format_args!("{s:03}")),
        },
        B::BytesSent => show(out, ex.bytes_sent),
        B::BodyBytesSent => show(out, ex.body_sent),
        B::RequestCompletion => text(out, if ex.complete { b"OK" } else { b"" }),
        // Without content there are no fields about it.
        B::SentHttpContentLength | B::SentHttpLastModified
            if r.status == 204 && ex.bytes_sent > 0 =>
        {
            Some(false)
        }
        B::SentHttpContentType => match r.media_type() {
            Some(media_type) => text(out, &media_type),
            None => Some(false),
        },
        B::SentHttpContentLength => match r.content_length {
            Some(n) => show(out, n),
            None => Some(false),
        },
        B::SentHttpLastModified => match r.last_modified {
            Some(t) => text(out, time::http_date(t).as_bytes()),
            None => Some(false),
        },
        B::SentHttpLocation => match r.location.as_deref() {
            // The log shows the value as sent; earlier uses see the value as set.
            Some(set) if ex.bytes_sent > 0 => text(out, &absolute_location(ex, set)),
            Some(set) => text(out, set),
            None => Some(sent(ex, "location", out)),
        },
        B::SentHttpConnection => match (r.status, ex.keepalive) {
            (101, _) => text(out, b"upgrade"),
            (_, true) => text(out, b"keep-alive"),
            (_, false) => text(out, b"close"),
        },
        B::SentHttpKeepAlive => match (ex.keepalive, ex.loc.conf.told_keepalive()) {
            (true, Some(seconds)) => show(out, format_args!("timeout={seconds}")),
            _ => Some(false),
        },
        B::SentHttpTransferEncoding => {
            // Only after the head was sent.
            let chunked = ex.bytes_sent > 0
                && !ex.header_only
                && r.content_length.is_none()
                && !matches!(r.status, 100..=199 | 204 | 304)
                && ex.version() == gallop_http::message::Version::Http11;
            some(out, chunked.then_some(&b"chunked"[..]))
        }
        B::SentHttpCacheControl => Some(sent(ex, "cache-control", out)),
        B::SentHttpLink => Some(sent(ex, "link", out)),
        B::GzipRatio => match ex.gzip_ratio.as_ref().map(|counts| counts.get()) {
            Some((from, to)) if to > 0 => {
                let hundredths = (from * 1000 / to + 5) / 10;
                show(
                    out,
                    format_args!("{}.{:02}", hundredths / 100, hundredths % 100),
                )
            }
            _ => Some(false),
        },
        _ => None,
    }
}

fn sent(ex: &Exchange, name: &str, out: &mut Vec<u8>) -> bool {
    let mut found = false;
    for (_, v) in ex
        .response
        .headers
        .iter()
        .filter(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes()))
    {
        if found {
            out.extend_from_slice(b", ");
        }
        out.extend_from_slice(v);
        found = true;
    }
    found
}

fn upstream(ex: &Exchange, b: B, out: &mut Vec<u8>) -> Option<bool> {
    match b {
        B::UpstreamCacheStatus => {
            let status = ex.cached.as_ref().map(|n| n.status.as_bytes());
            some(out, status.filter(|s| !s.is_empty()))
        }
        B::UpstreamCacheKey => some(out, ex.cached.as_ref().map(|n| n.key.as_slice())),
        B::UpstreamCacheLastModified => match ex.cached.as_ref().and_then(|n| n.last_modified) {
            Some(t) => text(out, time::http_date(t).as_bytes()),
            None => Some(false),
        },
        B::UpstreamCacheEtag => {
            let etag = ex.cached.as_ref().map(|n| n.etag.as_slice());
            some(out, etag.filter(|e| !e.is_empty()))
        }
        B::SliceRange => some(
            out,
            crate::filters::slice::range(ex)
                .as_ref()
                .map(|r| r.as_bytes()),
        ),
        B::ProxyHost => match crate::upstream::proxy_host(ex) {
            Some((host, _)) => text(out, host.as_bytes()),
            None => Some(false),
        },
        B::ProxyPort => match crate::upstream::proxy_host(ex) {
            Some((_, port)) if !port.is_empty() => text(out, port.as_bytes()),
            _ => Some(false),
        },
        _ => None,
    }
}

fn fastcgi_split(ex: &Exchange) -> (Option<Vec<u8>>, Option<Vec<u8>>) {
    match &ex.loc.conf.fastcgi {
        Some(conf) => crate::upstream::fastcgi::split(&ex.uri.path, conf),
        None => (None, None),
    }
}
