//! Requests to an OCSP responder over HTTP (RFC 6960, appendix A).

use base64::engine::general_purpose::STANDARD;
use base64::Engine;
use gallop_conf::listen;
use gallop_conf::model::ResolverConf;
use gallop_engine::resolver::{once, Answered};
use gallop_http::h1::{parse_response, ResponseHead, Sender};
use gallop_runtime::{connect, timeout, ConnectTo, Sock};
use std::cell::Cell;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

/// Milliseconds that one address of a responder has to respond.
const PATIENCE: u64 = 60_000;
/// The most bytes of head and body. Responses of authorities have about two thousand.
const MAX_ANSWER: usize = 64 * 1024;

/// An OCSP responder.
#[derive(Clone, Debug)]
pub struct Responder {
    pub host: String,
    port: u16,
    /// The path, which ends with a slash.
    uri: String,
    /// The addresses that were known when the configuration was read.
    addresses: Vec<SocketAddr>,
    resolver: Option<Arc<ResolverConf>>,
    /// `resolver_timeout` in milliseconds.
    patience: u64,
}

/// The problem, and the responder's address that had it.
pub struct Failure {
    pub reason: String,
    pub peer: Option<SocketAddr>,
}

impl Responder {
    /// Parse a responder URL. Its host is resolved at once unless a `resolver` is configured for
    /// later.
    ///
    /// # Errors
    /// In nginx's words, to be followed by the URL.
    pub fn new(
        address: &str,
        resolver: Option<Arc<ResolverConf>>,
        patience: u64,
    ) -> Result<Self, String> {
        let (authority, _) = parts(address)?;
        let (host, _) = listen::split_port(authority)?;
        let addresses = match (&resolver, literal(host)) {
            (Some(_), None) => Vec::new(),
            _ => listen::resolve(authority, 80)?,
        };
        Self::at(address, addresses, resolver, patience)
    }

    /// Parse the URL in a client's certificate. The system resolver is not used, since no client
    /// should wait for it.
    ///
    /// # Errors
    /// In nginx's words, to be followed by the URL.
    pub fn of_client(
        address: &str,
        resolver: Option<Arc<ResolverConf>>,
        patience: u64,
    ) -> Result<Self, String> {
        let (authority, _) = parts(address)?;
        let (host, port) = listen::split_port(authority)?;
        let addresses = match (literal(host), &resolver) {
            (Some(ip), _) => vec![SocketAddr::new(ip, port.unwrap_or(80))],
            (None, Some(_)) => Vec::new(),
            (None, None) => return Err(format!("no resolver defined to resolve {host}")),
        };
        Self::at(address, addresses, resolver, patience)
    }

    fn at(
        address: &str,
        addresses: Vec<SocketAddr>,
        resolver: Option<Arc<ResolverConf>>,
        patience: u64,
    ) -> Result<Self, String> {
        let (authority, path) = parts(address)?;
        let (host, port) = listen::split_port(authority)?;
        let slash = if path.ends_with('/') { "" } else { "/" };
        Ok(Self {
            host: host.to_string(),
            port: port.unwrap_or(80),
            uri: format!("{path}{slash}"),
            addresses,
            resolver,
            patience,
        })
    }

    /// Ask the responder's addresses in turn. Returns the body and the address that sent it;
    /// `failed` receives the problem of each other address.
    pub async fn ask(
        &self,
        request: &[u8],
        failed: impl Fn(Failure),
    ) -> Option<(Vec<u8>, SocketAddr)> {
        let addresses = match self.addresses().await {
            Ok(addresses) => addresses,
            Err(reason) => {
                failed(Failure { reason, peer: None });
                return None;
            }
        };
        let text = self.request(request);
        for address in addresses {
            let asked = timeout(PATIENCE, exchange(address, text.as_bytes())).await;
            let timed_out = "OCSP responder timed out (110: Connection timed out)";
            match asked.unwrap_or_else(|_| Err(timed_out.into())) {
                Ok(body) => return Some((body, address)),
                Err(reason) => failed(Failure {
                    reason,
                    peer: Some(address),
                }),
            }
        }
        None
    }

    async fn addresses(&self) -> Result<Vec<SocketAddr>, String> {
        let Some(resolver) = self.resolver.as_ref().filter(|_| self.addresses.is_empty()) else {
            return Ok(self.addresses.clone());
        };
        match once(resolver, &Cell::new(0), &self.host, self.patience).await {
            Answered::Addresses(found, _) => {
                let found = found.iter().map(|at| SocketAddr::new(at.ip, self.port));
                Ok(found.collect())
            }
            Answered::NoName(reason) | Answered::Failed(reason) => Err(reason),
        }
    }

    fn request(&self, request: &[u8]) -> String {
        let encoded = STANDARD.encode(request);
        let encoded = encoded.replace('+', "%2B").replace('/', "%2F");
        let encoded = encoded.replace('=', "%3D");
        let (uri, host) = (&self.uri, &self.host);
        format!("GET {uri}{encoded} HTTP/1.0\r\nHost: {host}\r\n\r\n")
    }
}

/// The host with port, and the path, of a URL.
fn parts(address: &str) -> Result<(&str, &str), String> {
    let rest = match address.split_at_checked(7) {
        Some((scheme, rest)) if scheme.eq_ignore_ascii_case("http://") => rest,
        _ => return Err("invalid URL prefix".into()),
    };
    let end = rest.find('/').unwrap_or(rest.len());
    let (authority, path) = rest.split_at(end);
    if listen::split_port(authority)?.0.is_empty() {
        return Err("no host".into());
    }
    Ok((authority, path))
}

fn literal(host: &str) -> Option<IpAddr> {
    host.trim_start_matches('[')
        .trim_end_matches(']')
        .parse()
        .ok()
}

fn os(what: &str, e: &std::io::Error) -> String {
    format!("{what} failed ({})", gallop_conf::parser::os_error(e))
}

/// Ask one address.
async fn exchange(address: SocketAddr, request: &[u8]) -> Result<Vec<u8>, String> {
    let sock = connect(&ConnectTo::Inet(address), None).await;
    let sock = sock.map_err(|e| os("connect()", &e))?;
    let sent = sock.write_all(request).await;
    sent.map_err(|e| os("send()", &e))?;
    answer(&sock).await
}

/// Read until Content-Length is reached or the connection ends.
async fn answer(sock: &Sock) -> Result<Vec<u8>, String> {
    let mut input = Vec::new();
    let mut buffer = [0; 4096];
    let mut head = ResponseHead::default();
    let mut body = None;
    loop {
        let n = sock.read(&mut buffer).await;
        let n = n.map_err(|e| os("recv()", &e))?;
        input.extend_from_slice(&buffer[..n]);
        if body.is_none() {
            let parsed = parse_response(&input, &mut head, Sender::Server);
            body = parsed.map_err(|_| "OCSP responder sent invalid response")?;
            if body.is_some() {
                check(&head)?;
            }
        }
        let Some(begin) = body else {
            if n == 0 {
                return Err("OCSP responder prematurely closed connection".into());
            }
            if input.len() > MAX_ANSWER {
                return Err("OCSP responder sent too big header".into());
            }
            continue;
        };
        let expected = length(&head).map(|len| begin.saturating_add(len));
        if expected.is_some_and(|len| input.len() >= len) || n == 0 {
            if expected.is_some_and(|len| input.len() < len) {
                return Err("OCSP responder prematurely closed connection".into());
            }
            input.truncate(expected.unwrap_or(input.len()));
            return Ok(input.split_off(begin));
        }
        if input.len() > MAX_ANSWER {
            return Err("OCSP responder sent too big answer".into());
        }
    }
}

fn length(head: &ResponseHead) -> Option<usize> {
    let text = std::str::from_utf8(head.get("content-length")?).ok()?;
    text.trim().parse().ok()
}

fn check(head: &ResponseHead) -> Result<(), String> {
    if head.status != 200 {
        return Err(format!(
            "OCSP responder answered with status {}",
            head.status
        ));
    }
    match head.get("content-type") {
        Some(kind) if !kind.eq_ignore_ascii_case(b"application/ocsp-response") => {
            let kind = String::from_utf8_lossy(kind);
            Err(format!(
                "OCSP responder sent invalid \"Content-Type\" header: \"{kind}\""
            ))
        }
        _ => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_responders_are_read_as_nginx_does() {
        let read = |text: &str| Responder::new(text, None, 1000);
        let r = read("HTTP://127.0.0.1:8081/test").expect("an address");
        assert_eq!((r.host.as_str(), r.port), ("127.0.0.1", 8081));
        let text = r.request(b"\xff\xff\xfe\xfb");
        let head = "GET /test/%2F%2F%2F%2B%2Bw%3D%3D HTTP/1.0\r\nHost: 127.0.0.1\r\n\r\n";
        assert_eq!(text, head);
        let r = read("http://[::1]").expect("an address");
        assert_eq!((r.port, r.uri.as_str()), (80, "/"));
        for (text, reason) in [
            ("https://127.0.0.1/", "invalid URL prefix"),
            ("127.0.0.1", "invalid URL prefix"),
            ("http:///", "no host"),
            ("http://127.0.0.1:0/", "invalid port"),
        ] {
            assert_eq!(read(text).err().as_deref(), Some(reason), "{text}");
        }
    }
}
