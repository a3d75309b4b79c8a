//! Converts an upstream's response head to the response for the client.

use super::cached::Fetch;
use super::cookies;
use super::memcached;
use super::response_body::UpstreamBody;
use super::spool::{Folder, Spooled};
use super::store;
use super::transfer::{Plan, Protocol};
use super::Fields;
use crate::body::Body;
use crate::cache::control::Verdict;
use crate::cache::disk::Entry;
use crate::exchange::{Exchange, Upgrade};
use crate::phases::flow::Flow;
use crate::time::parse_http_date;
use crate::uri::split_unsafe;
use gallop_conf::model::{items, AppProtocol, Level, UpConf};
use gallop_conf::values::parse_size;
use gallop_http::fastcgi;
use gallop_http::h1::{parse_length, ResponseHead};
use gallop_http::message::Version;
use gallop_runtime::unix_time;
use std::rc::Rc;

/// The head of an upstream response, independent of the protocol.
#[derive(Clone, Debug, Default)]
pub struct Head {
    pub status: u16,
    pub reason: Option<Vec<u8>>,
    pub fields: Fields,
    pub content_length: Option<u64>,
    pub chunked: bool,
    /// Whether the connection can be reused.
    pub keep: bool,
}

impl Head {
    pub fn from_http(head: &ResponseHead) -> Result<Head, &'static str> {
        let fields: Vec<_> = head.iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
        let reason = head.text(head.reason).to_vec();
        let mut out = Head {
            status: head.status,
            fields: fields.into(),
            keep: head.minor > 0,
            ..Head::default()
        };
        out.reason = Some(reason).filter(|r| !r.is_empty());
        out.check_framing()?;
        out.read_framing();
        Ok(out)
    }

    pub fn from_fastcgi(head: &fastcgi::ResponseHead, bytes: &[u8]) -> Result<Head, &'static str> {
        let text = |r: &std::ops::Range<usize>| bytes[r.clone()].to_vec();
        let fields = head
            .fields
            .iter()
            .map(|(n, v)| (text(n), text(v)))
            .collect::<Vec<_>>()
            .into();
        let reason = Some(text(&head.reason)).filter(|r| !r.is_empty());
        let mut out = Head {
            status: head.status,
            reason,
            fields,
            ..Head::default()
        };
        out.check_framing()?;
        out.read_framing();
        Ok(out)
    }

    /// The head of a uwsgi or SCGI response. Without a status line, the status is that of the field
    /// `Status`, or follows from `Location`.
    pub fn from_gateway(head: &ResponseHead) -> Result<Head, &'static str> {
        let mut out = Head::from_http(head)?;
        out.keep = false;
        // As in nginx, the first `Status` counts.
        let mut is_first = true;
        let is_kept =
            |f: &(Vec<u8>, Vec<u8>)| !is(&f.0, "status") || std::mem::replace(&mut is_first, false);
        Rc::make_mut(&mut out.fields).retain(is_kept);
        if head.status != 0 {
            return Ok(out);
        }
        let (status, reason) = match head.get("status") {
            Some(value) => {
                fastcgi::parse_status(value).ok_or("upstream sent invalid \"Status\" header")?
            }
            None if head.get("location").is_some() => (302, &b""[..]),
            None => (200, &b""[..]),
        };
        out.status = status;
        out.reason = Some(reason.to_vec()).filter(|r| !r.is_empty());
        Ok(out)
    }

    pub fn get(&self, name: &str) -> Option<&[u8]> {
        self.fields
            .iter()
            .find(|(n, _)| n.eq_ignore_ascii_case(name.as_bytes()))
            .map(|(_, v)| v.as_slice())
    }

    /// The field with this name, which must not appear twice.
    pub(super) fn only(&self, name: &str) -> Result<Option<&[u8]>, &'static str> {
        let named = |f: &&(Vec<u8>, Vec<u8>)| is(&f.0, name);
        let mut found = self.fields.iter().filter(named);
        match (found.next(), found.next()) {
            (_, Some(_)) => Err("upstream sent duplicate header line"),
            (first, None) => Ok(first.map(|f| f.1.as_slice())),
        }
    }

    /// Reject a response with ambiguous length.
    fn check_framing(&self) -> Result<(), &'static str> {
        let (length, coding) = (
            self.only("content-length")?,
            self.only("transfer-encoding")?,
        );
        if length.is_some_and(|v| parse_length(v).is_none()) {
            return Err("upstream sent invalid \"Content-Length\" header");
        }
        if coding.is_some_and(|v| !v.eq_ignore_ascii_case(b"chunked")) {
            return Err("upstream sent unknown \"Transfer-Encoding\"");
        }
        if length.is_some() && coding.is_some() {
            return Err(
                "upstream sent \"Content-Length\" and \"Transfer-Encoding\" at the same time",
            );
        }
        Ok(())
    }

    fn read_framing(&mut self) {
        let lower = |v: Option<&[u8]>| v.map(<[u8]>::to_ascii_lowercase);
        self.chunked =
            lower(self.get("transfer-encoding")).is_some_and(|v| v.ends_with(b"chunked"));
        let number = |v: &[u8]| std::str::from_utf8(v).ok()?.parse().ok();
        self.content_length = if self.chunked {
            None
        } else {
            self.get("content-length").and_then(number)
        };
        match lower(self.get("connection")) {
            Some(v) if v.windows(5).any(|w| w == b"close") => self.keep = false,
            Some(v) if v.windows(10).any(|w| w == b"keep-alive") => self.keep = true,
            _ => {}
        }
    }
}

/// Fields that are not passed on because they concern one connection or this server.
const HIDDEN: [&str; 9] = [
    "connection",
    "keep-alive",
    "transfer-encoding",
    "upgrade",
    "x-accel-expires",
    "x-accel-redirect",
    "x-accel-limit-rate",
    "x-accel-buffering",
    "x-accel-charset",
];

/// Fields about a server itself; from an application, they are passed on.
const OF_SERVERS: [&str; 3] = ["date", "server", "x-pad"];

const ONCE: [&str; 9] = [
    "content-type",
    "last-modified",
    "etag",
    "expires",
    "location",
    "refresh",
    "server",
    "date",
    "content-encoding",
];

/// Whether a field may follow a body: it must not change how the message is read (RFC 9110,
/// section 6.5.1).
pub(super) fn may_be_trailer(name: &[u8]) -> bool {
    const NOT: [&str; 6] = [
        "content-length",
        "transfer-encoding",
        "trailer",
        "connection",
        "host",
        "te",
    ];
    name.is_ascii() && !NOT.iter().any(|n| is(name, n))
}

fn is(name: &[u8], other: &str) -> bool {
    name.eq_ignore_ascii_case(other.as_bytes())
}

/// The source of a response.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Giver {
    Server,
    Application(AppProtocol),
}

pub(super) fn is_passed(conf: &UpConf, name: &[u8], http1: bool, giver: Giver) -> bool {
    let listed = |list: &[String]| list.iter().any(|n| is(name, n));
    let passed = listed(items(&conf.pass_headers));
    // Other programs reject such a name, and HTTP/2 clients reject the whole response.
    if !name.is_ascii() {
        return false;
    }
    // An offer to upgrade has no meaning for clients of HTTP/2 and HTTP/3.
    if http1 && is(name, "upgrade") {
        return true;
    }
    let of_connection = HIDDEN[..4].iter().any(|n| is(name, n));
    let of_server = giver == Giver::Server && OF_SERVERS.iter().any(|n| is(name, n));
    // The other protocols' heads have no such field: FastCGI's is read away, and uwsgi's passed on.
    let of_gateway = giver == Giver::Application(AppProtocol::Scgi) && is(name, "status");
    let hidden =
        of_server || of_gateway || HIDDEN.iter().any(|n| is(name, n)) || listed(conf.hidden());
    !of_connection && (passed || !hidden)
}

fn is_ignored(conf: &UpConf, name: &str) -> bool {
    items(&conf.ignore_headers).iter().any(|n| n == name)
}

/// Use the upstream's response for the request, or follow its instructions.
pub async fn apply(
    ex: &mut Exchange,
    plan: &Plan<'_>,
    head: Head,
    mut body: UpstreamBody,
    fetch: Option<Box<Fetch>>,
) -> Flow {
    let conf = plan.conf.clone();
    limit_rate(ex, &conf, &head);
    if plan.protocol.is_memcached() {
        if let Some(flow) = memcached::apply(ex, plan, &head) {
            body.discard();
            return flow;
        }
    }
    if let Some(flow) = intercept(ex, &conf, &head) {
        if let Some(fetch) = fetch {
            fetch.intercepted(&conf, &head);
        }
        return flow;
    }
    if let Some(flow) = accel_redirect(ex, &conf, &head, fetch.is_some()) {
        return flow;
    }
    if head.status == 101 {
        return upgrade(ex, plan, head, body);
    }
    if !plan.is_grpc() && !is_ignored(&conf, "x-accel-buffering") {
        match head.get("x-accel-buffering") {
            Some(v) if v.eq_ignore_ascii_case(b"no") => body.set_unbuffered(true),
            Some(v) if v.eq_ignore_ascii_case(b"yes") => body.set_unbuffered(false),
            _ => {}
        }
    }
    let fetch = fetch.filter(|f| f.allows(&conf, &head));
    // As in nginx, ranges of an unbuffered response that would otherwise be cached are made here.
    let ranges = fetch.is_some() || conf.force_ranges == Some(true);
    // The same holds for its conditions, which the upstream did not see.
    ex.response.judged = fetch.is_none();
    let fetch = fetch.filter(|_| !body.is_unbuffered());
    ex.response.single_range = ranges;
    copy_head(ex, plan, &head, ranges);
    ex.response.content_length = head.content_length;
    ex.response.filterable = true;
    ex.response.may_have_trailers = plan.is_http2() && body.passes_trailers();
    let whole = match fetch {
        Some(fetch) => fetch.keep(ex, &conf, &head, body),
        None => store::save(ex, &conf, &head, body),
    };
    let bodiless = ex.header_only || matches!(head.status, 204 | 304);
    ex.response.body = match whole {
        Ok(_) if bodiless => Body::Empty,
        Ok(body) => body,
        Err(body) if bodiless || body.is_ended() => {
            drain(ex, *body, &head, bodiless).await;
            Body::Empty
        }
        Err(body) => match temp_folder(&plan.protocol).filter(|_| !body.is_unbuffered()) {
            None => Body::Stream(body),
            Some(name) => {
                let config = ex.worker.shared.config.clone();
                let folder = Folder { config, name };
                Body::Stream(Box::new(Spooled::new(body, conf, folder)))
            }
        },
    };
    Flow::Done
}

/// The default folder for temporary files.
fn temp_folder(protocol: &Protocol) -> Option<&'static str> {
    match protocol {
        Protocol::Http(_) => Some("proxy_temp"),
        Protocol::Application(protocol) => protocol.temp_folder(),
    }
}

/// Read a body to its end so that the connection can be reused.
async fn drain(ex: &mut Exchange, body: UpstreamBody, head: &Head, bodiless: bool) {
    let mut body = Body::Stream(Box::new(body));
    if !ex.header_only || head.content_length.is_none() {
        let _ = body.collect(0).await;
    } else {
        let _ = futures_none(&mut body).await;
    }
    if !bodiless && head.content_length.is_none() {
        ex.response.content_length = Some(0);
    }
}

const CONDITIONS: [&str; 4] = [
    "if-modified-since",
    "if-unmodified-since",
    "if-match",
    "if-none-match",
];

/// Respond with a cached response.
pub fn kept(ex: &mut Exchange, plan: &Plan<'_>, entry: Entry) -> Flow {
    let conf = plan.conf.clone();
    let head = entry.meta.head;
    limit_rate(ex, &conf, &head);
    // The response was cached by a location that does not follow the field.
    if let Some(flow) = accel_redirect(ex, &conf, &head, true) {
        return flow;
    }
    // As in nginx, conditions are ignored if the location would not have cached the response
    // itself.
    ex.response.judged = CONDITIONS.iter().any(|name| ex.head.get(name).is_some())
        && Verdict::of(&conf, &head, (unix_time() / 1000) as i64).refused;
    copy_head(ex, plan, &head, true);
    if let Some(note) = &mut ex.cached {
        note.fields = Some(head.fields.clone());
    }
    let r = &mut ex.response;
    r.content_length = head.content_length;
    r.filterable = true;
    let length = entry.size - entry.body_start;
    if !ex.header_only && !matches!(r.status, 204 | 304) {
        r.body = Body::file(entry.file, entry.body_start, length);
    }
    Flow::Done
}

fn limit_rate(ex: &Exchange, conf: &UpConf, head: &Head) {
    if is_ignored(conf, "x-accel-limit-rate") {
        return;
    }
    let rate = head
        .get("x-accel-limit-rate")
        .and_then(|v| parse_size(std::str::from_utf8(v).ok()?));
    if rate.is_some() {
        ex.limit_rate.set(rate);
    }
}

/// `intercept_errors`: use an error page instead of the upstream's response.
fn intercept(ex: &mut Exchange, conf: &UpConf, head: &Head) -> Option<Flow> {
    if conf.intercept_errors != Some(true) || head.status < 300 || ex.error_page {
        return None;
    }
    let pages = items(&ex.loc.conf.error_pages);
    if !pages.iter().any(|p| p.statuses.contains(&head.status)) {
        return None;
    }
    let asks = head
        .fields
        .iter()
        .filter(|(n, _)| is(n, "www-authenticate"));
    ex.response.headers = asks.cloned().collect();
    Some(Flow::Status(head.status))
}

/// Poll a body without content for the effects of its end.
async fn futures_none(body: &mut Body) -> bool {
    body.next().await.is_none()
}

/// `X-Accel-Redirect`: redirect internally to another URI. `caches`: the response was for a cache.
fn accel_redirect(ex: &mut Exchange, conf: &UpConf, head: &Head, caches: bool) -> Option<Flow> {
    if is_ignored(conf, "x-accel-redirect") {
        return None;
    }
    let target = head.get("x-accel-redirect")?.to_vec();
    // Fields about the content apply to the final response.
    let keep = [
        "set-cookie",
        "content-disposition",
        "cache-control",
        "expires",
        "accept-ranges",
    ];
    // If this server makes the ranges, the first response's fields about them are dropped.
    let ranges = caches || conf.force_ranges == Some(true);
    let fields = head.fields.iter();
    let mut expires = false;
    let kept = fields
        .filter(|(n, _)| keep.iter().any(|k| is(n, k)) && !(ranges && is(n, "accept-ranges")))
        .filter(|(n, _)| !is(n, "expires") || !std::mem::replace(&mut expires, true));
    let carried = kept.map(|(name, value)| {
        let value = match is(name, "set-cookie") {
            true => cookies::set_cookie(ex, conf, value.clone()),
            false => value.clone(),
        };
        (name.clone(), value)
    });
    ex.carried = carried.collect();
    // The response that it leads to has its own type where this one's is empty.
    let kind = head.get("content-type").filter(|kind| !kind.is_empty());
    ex.carried_type = kind.map(<[u8]>::to_vec);
    if target.first() == Some(&b'@') {
        return Some(Flow::Named(String::from_utf8_lossy(&target).into_owned()));
    }
    let Some((path, args)) = split_unsafe(&target) else {
        ex.log(
            Level::Error,
            &format!(
                "unsafe URI \"{}\" was detected",
                crate::escape::Shown(&target)
            ),
        );
        return Some(Flow::Status(404));
    };
    if ex.method() != b"HEAD" {
        let method = ex.head.store(b"GET");
        ex.head.method = method;
    }
    Some(Flow::Internal { uri: path, args })
}

/// Copy the head. `ranges`: ranges can be sent if the upstream's fields allow it.
fn copy_head(ex: &mut Exchange, plan: &Plan<'_>, head: &Head, ranges: bool) {
    if head.get("content-type").is_some() {
        ex.carried_type = None;
    }
    let conf = plan.conf.clone();
    ex.response.status = head.status;
    ex.response.reason.clone_from(&head.reason);
    let http1 = ex.version() < Version::Http2 && head.status != 101;
    for (i, (name, value)) in head.fields.iter().enumerate() {
        // Of a repeated single-value field only the first counts.
        let again = ONCE.iter().any(|n| is(name, n))
            && head.fields[..i]
                .iter()
                .any(|(n, _)| n.eq_ignore_ascii_case(name));
        if again || !is_passed(&conf, name, http1, plan.giver()) {
            continue;
        }
        if is(name, "accept-ranges") && ranges {
            ex.response.allow_ranges = true;
            continue;
        }
        copy_field(ex, plan, name, value.clone());
    }
    ex.response.allow_ranges |= conf.force_ranges == Some(true);
    // If the upstream's value is passed on and missing, none is added.
    let passes = |name: &str| {
        plan.giver() == Giver::Server
            && items(&conf.pass_headers)
                .iter()
                .any(|n| is(n.as_bytes(), name))
    };
    if passes("server") {
        ex.response.server.get_or_insert_default();
    }
    if passes("date") {
        ex.response.date.get_or_insert_default();
    }
    if let Some(charset) = head
        .get("x-accel-charset")
        .filter(|_| !is_ignored(&conf, "x-accel-charset"))
    {
        ex.response.override_charset = Some(charset.to_vec());
    }
}

/// Record a response that is passed on unchanged, for the log.
pub(super) fn note(ex: &mut Exchange, conf: &UpConf, head: &Head, giver: Giver) {
    ex.response.status = head.status;
    ex.response.reason.clone_from(&head.reason);
    ex.response.content_length = head.content_length;
    for (name, value) in head.fields.iter() {
        if !is_passed(conf, name, ex.version() < Version::Http2, giver) {
            continue;
        }
        match name.to_ascii_lowercase().as_slice() {
            b"content-length" => {}
            b"content-type" => set_content_type(ex, value.clone()),
            b"last-modified" => ex.response.last_modified = parse_http_date(value),
            b"etag" => ex.response.etag = Some(value.clone()),
            _ => add(ex, name, value.clone()),
        }
    }
}

fn copy_field(ex: &mut Exchange, plan: &Plan<'_>, name: &[u8], value: Vec<u8>) {
    match name.to_ascii_lowercase().as_slice() {
        b"content-length" => {}
        b"content-type" => set_content_type(ex, value),
        b"server" => ex.response.server = Some(value),
        b"date" => ex.response.date = Some(value),
        b"last-modified" => match parse_http_date(&value) {
            Some(t) => {
                ex.response.last_modified = Some(t);
                ex.response.is_dated = true;
            }
            None => add(ex, name, value),
        },
        b"etag" => ex.response.etag = Some(value),
        b"location" => {
            let location = cookies::redirect(ex, plan, value.clone());
            // A path that `proxy_redirect` made becomes an absolute URL; otherwise the upstream's
            // value stays.
            let is_rewritten = location.first() == Some(&b'/') && location != value;
            if is_rewritten || location.starts_with(b"http") {
                ex.response.location = Some(location);
            } else {
                add(ex, name, location);
            }
        }
        b"refresh" => {
            let value = cookies::refresh(ex, plan, value);
            add(ex, name, value);
        }
        b"set-cookie" => {
            let value = cookies::set_cookie(ex, &plan.conf, value);
            add(ex, name, value);
        }
        _ => add(ex, name, value),
    }
}

fn add(ex: &mut Exchange, name: &[u8], value: Vec<u8>) {
    ex.response.headers.push((name.to_vec(), value));
}

/// Store the charset separately for the charset filter.
fn set_content_type(ex: &mut Exchange, value: Vec<u8>) {
    let (kind, charset) = split_charset(&value);
    let charset = charset.map(<[u8]>::to_vec);
    let kind = kind.to_vec();
    ex.response.typed = charset.is_some().then_some(value);
    ex.response.content_type = Some(kind);
    ex.response.charset = charset;
}

/// Split a content type into its media type and its charset, if the charset comes last.
pub(crate) fn split_charset(value: &[u8]) -> (&[u8], Option<&[u8]>) {
    let begins = |at: usize| value[at - 7..at].eq_ignore_ascii_case(b"charset");
    let mut signs = memchr::memchr_iter(b'=', value).filter(|&at| at >= 7);
    let split = signs.find(|&at| begins(at)).map(|at| at - 7);
    let split = split.filter(|&i| value[..i].trim_ascii_end().ends_with(b";"));
    let Some(at) = split.filter(|&i| !value[i + 8..].contains(&b';')) else {
        return (value, None);
    };
    let kind = value[..at].trim_ascii_end();
    let kind = kind.strip_suffix(b";").unwrap_or(kind).trim_ascii_end();
    let charset = value[at + 8..].trim_ascii();
    let bare = charset
        .strip_prefix(b"\"")
        .and_then(|c| c.strip_suffix(b"\""));
    (kind, Some(bare.unwrap_or(charset)))
}

fn upgrade(ex: &mut Exchange, plan: &Plan<'_>, head: Head, body: UpstreamBody) -> Flow {
    if ex.head.get("upgrade").is_none() || ex.version() != Version::Http11 {
        // As in nginx, no page is sent: the client does not expect HTML.
        ex.log(Level::Error, "upstream sent unexpected 101 answer");
        ex.response.status = 502;
        ex.response.content_length = Some(0);
        return Flow::Done;
    }
    let Some((conn, early)) = body.into_upgrade() else {
        return Flow::Status(502);
    };
    copy_head(ex, plan, &head, false);
    if let Some(protocol) = head.get("upgrade") {
        ex.response.add_header("Upgrade", protocol.to_vec());
    }
    ex.keepalive = false;
    ex.response.upgrade = Some(Upgrade {
        stream: conn.stream,
        early,
        timeout: plan.conf.read_ms(),
    });
    Flow::Done
}
