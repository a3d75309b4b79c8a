//! The command line, with h2load's options.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

pub const HELP: &str = "Usage: gallop-load [OPTION]... URL...
Asks for the URLs in turn, again and again. All are on one server. Certificates are not verified.
A URL is asked for by GET, or by the method before it: 'HEAD https://...'; requests have no body.

  -n, --requests N      requests in all (default 1)
  -D, --duration TIME   go on for so long instead: seconds, or a number with s, m or h
  -c, --clients N       connections (default 1)
  -m, --max-concurrent-streams N    requests under way on a connection at once (default 1); over
                        HTTP/1.1 they are pipelined
  -t, --threads N       threads the connections are spread over (default 1)
  -H, --header 'Name: value'        another request field
  -i, --input-file FILE URLs, one a line, each with its method before it where that is not GET
  --h1, --h2, --h3      the protocol (default: HTTP/3 for https://, HTTP/2 for http://)
  --alpn-list NAME, --npn-list NAME the same as h2load says it: http/1.1, h2, h3
  --rate N              open loop: N requests per second in all; latency counts from when a request was due
  --rps N               the same for each connection
  -N, --connection-inactivity-timeout TIME   a connection of HTTP/3 that heard nothing for so long is given
                        up, its requests are lost (default 30s); half as long again without any answer ends
                        the run
  --mtu BYTES           largest UDP payload taken and sent (HTTP/3; default 1452)
  --connect-to ADDRESS:PORT         instead of the URL's host
  --json                the result as JSON
";

/// The time that an idle HTTP/3 connection of common browsers lasts.
const PATIENCE: Duration = Duration::from_secs(30);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    H1,
    H2,
    H3,
}

impl Protocol {
    /// The protocol's ALPN name (RFC 7301).
    pub fn alpn(self) -> &'static str {
        match self {
            Self::H1 => "http/1.1",
            Self::H2 => "h2",
            Self::H3 => "h3",
        }
    }

    fn named(name: &str) -> Result<Self, String> {
        [Self::H1, Self::H2, Self::H3]
            .into_iter()
            .find(|protocol| protocol.alpn() == name)
            .ok_or_else(|| format!("a protocol is one of http/1.1, h2, h3, not \"{name}\""))
    }
}

/// The methods allowed before a URL. CONNECT and TRACE make no sense as load.
const METHODS: [&str; 7] = ["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"];

/// One of the requests that are sent in turn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Request {
    pub method: &'static str,
    pub path: String,
}

impl Request {
    /// Whether the response has no body regardless of its fields (RFC 9110, section 9.3.2).
    pub fn is_head(&self) -> bool {
        self.method == "HEAD"
    }

    /// Whether the method requires `Content-Length: 0` without content (RFC 9110, section 8.6).
    pub fn says_empty(&self) -> bool {
        matches!(self.method, "POST" | "PUT" | "PATCH")
    }
}

/// The options of a run.
#[derive(Clone, Debug)]
pub struct Options {
    pub requests: u64,
    pub duration: Option<Duration>,
    pub connections: usize,
    pub streams: usize,
    pub threads: usize,
    pub fields: Vec<(String, String)>,
    /// Requests per second over all connections, as an open loop.
    pub rate: Option<f64>,
    /// The longest time without any byte on a connection.
    pub patience: Duration,
    pub mtu: u16,
    pub protocol: Protocol,
    pub tls: bool,
    /// The host, with the port if the URL has one.
    pub host: String,
    pub requested: Vec<Request>,
    pub address: SocketAddr,
    pub json: bool,
}

/// The raw options before they are interpreted together.
#[derive(Default)]
struct Raw {
    requests: Option<u64>,
    duration: Option<Duration>,
    connections: Option<u64>,
    streams: Option<u64>,
    threads: Option<u64>,
    fields: Vec<(String, String)>,
    rate: Option<u64>,
    rate_each: Option<u64>,
    patience: Option<Duration>,
    mtu: Option<u64>,
    protocol: Option<Protocol>,
    urls: Vec<String>,
    connect_to: Option<String>,
    json: bool,
}

/// Parse the command line.
///
/// # Errors
/// The problem with it.
pub fn parse(args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut args = args;
    let mut raw = Raw::default();
    while let Some(arg) = args.next() {
        let (name, glued) = split(&arg);
        let mut value = || {
            let value = glued.map(str::to_string).or_else(|| args.next());
            value.ok_or(format!("{name} needs a value"))
        };
        match name {
            "-n" | "--requests" => raw.requests = Some(number(name, &value()?)?),
            "-D" | "--duration" => raw.duration = Some(duration(name, &value()?)?),
            "-c" | "--clients" => raw.connections = Some(number(name, &value()?)?),
            "-m" | "--max-concurrent-streams" => raw.streams = Some(number(name, &value()?)?),
            "-t" | "--threads" => raw.threads = Some(number(name, &value()?)?),
            "-H" | "--header" => raw.fields.push(field(&value()?)?),
            "-i" | "--input-file" => raw.urls.extend(listed(&value()?)?),
            "--alpn-list" | "--npn-list" => raw.protocol = Some(Protocol::named(&value()?)?),
            "--h1" => raw.protocol = Some(Protocol::H1),
            "--h2" => raw.protocol = Some(Protocol::H2),
            "--h3" => raw.protocol = Some(Protocol::H3),
            "--rate" => raw.rate = Some(number(name, &value()?)?),
            "--rps" => raw.rate_each = Some(number(name, &value()?)?),
            "-N" | "--connection-inactivity-timeout" => {
                raw.patience = Some(duration(name, &value()?)?);
            }
            "--mtu" => raw.mtu = Some(number(name, &value()?)?),
            "--connect-to" => raw.connect_to = Some(value()?),
            "--json" => raw.json = true,
            _ if name.starts_with('-') => return Err(format!("unknown option {name}")),
            _ => raw.urls.push(arg),
        }
    }
    raw.resolve()
}

/// Split `--name=value` and `-n5` into name and value.
fn split(arg: &str) -> (&str, Option<&str>) {
    if arg.starts_with("--") {
        return match arg.split_once('=') {
            Some((name, value)) => (name, Some(value)),
            None => (arg, None),
        };
    }
    match arg.char_indices().nth(2) {
        Some((at, _)) if arg.starts_with('-') => (&arg[..at], Some(&arg[at..])),
        _ => (arg, None),
    }
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|&n| n > 0);
    number.ok_or_else(|| format!("{name} wants a number above 0, not \"{text}\""))
}

fn duration(name: &str, text: &str) -> Result<Duration, String> {
    let (digits, unit) = match text.strip_suffix(['s', 'm', 'h']) {
        Some(digits) => (digits, &text[digits.len()..]),
        None => (text, "s"),
    };
    let seconds = match unit {
        "m" => 60,
        "h" => 3600,
        _ => 1,
    };
    let wrong = || format!("{name} wants a time such as 10, 10s, 5m or 1h, not \"{text}\"");
    let count = number(name, digits).map_err(|_| wrong())?;
    Ok(Duration::from_secs(
        count.checked_mul(seconds).ok_or_else(wrong)?,
    ))
}

/// A field's name, in lower case for HTTP/2 and HTTP/3, and its value.
fn field(text: &str) -> Result<(String, String), String> {
    let parts = text.split_once(':').filter(|(name, value)| {
        let token = |c: u8| c.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&c);
        !name.is_empty() && name.bytes().all(token) && !value.contains(['\r', '\n', '\0'])
    });
    let (name, value) =
        parts.ok_or_else(|| format!("-H wants 'Name: value', not \"{}\"", text.escape_debug()))?;
    Ok((name.to_ascii_lowercase(), value.trim().to_string()))
}

fn listed(file: &str) -> Result<Vec<String>, String> {
    let text = std::fs::read_to_string(file).map_err(|e| format!("{file}: {e}"))?;
    let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
    Ok(lines.map(str::to_string).collect())
}

/// Split a method from the URL after it.
fn method(text: &str) -> Result<(&'static str, &str), String> {
    let Some((name, url)) = text.split_once(' ') else {
        return Ok(("GET", text));
    };
    let known = METHODS.into_iter().find(|method| *method == name);
    let wrong = || {
        format!(
            "before a URL stands one of {}, not \"{name}\"",
            METHODS.join(", ")
        )
    };
    Ok((known.ok_or_else(wrong)?, url))
}

/// Split a URL into scheme, authority, and path.
fn url(text: &str) -> Result<(bool, &str, &str), String> {
    let wrong = || format!("a URL begins with https:// or http://, not \"{text}\"");
    let (scheme, rest) = text.split_once("://").ok_or_else(wrong)?;
    let tls = match scheme {
        "https" => true,
        "http" => false,
        _ => return Err(wrong()),
    };
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    if authority.is_empty() || text.bytes().any(|c| c <= b' ' || c == 0x7f) {
        return Err(format!("not a URL: \"{}\"", text.escape_debug()));
    }
    Ok((tls, authority, path))
}

impl Raw {
    fn resolve(self) -> Result<Options, String> {
        let (_, first) = method(self.urls.first().ok_or("no URL given")?)?;
        let (tls, host, _) = url(first)?;
        let mut requested = Vec::new();
        for other in &self.urls {
            let (method, other) = method(other)?;
            let (scheme, authority, path) = url(other)?;
            if (scheme, authority) != (tls, host) {
                return Err(format!("{other} is on another server than {first}"));
            }
            let path = path.to_string();
            requested.push(Request { method, path });
        }
        let usual = if tls { Protocol::H3 } else { Protocol::H2 };
        let protocol = self.protocol.unwrap_or(usual);
        if protocol == Protocol::H3 && !tls {
            return Err("HTTP/3 exists over TLS only: the URL must begin with https://".into());
        }
        let connections = self.connections.unwrap_or(1) as usize;
        let threads = self.threads.unwrap_or(1) as usize;
        if threads > connections {
            return Err(format!(
                "-t {threads}: at most a thread for each of the {connections} connections"
            ));
        }
        let rate = match (self.rate, self.rate_each) {
            (Some(_), Some(_)) => return Err("give --rate or --rps, not both".into()),
            (rate, each) => rate.or(each.map(|n| n * connections as u64)),
        };
        Ok(Options {
            requests: self.requests.unwrap_or(1),
            duration: self.duration,
            connections,
            streams: self.streams.unwrap_or(1) as usize,
            threads,
            rate: rate.map(|n| n as f64),
            patience: self.patience.unwrap_or(PATIENCE),
            mtu: self.mtu.unwrap_or(1452).clamp(1200, 65_527) as u16,
            protocol,
            tls,
            address: address(host, tls, self.connect_to)?,
            host: host.to_string(),
            requested,
            fields: self.fields,
            json: self.json,
        })
    }
}

fn address(authority: &str, tls: bool, connect_to: Option<String>) -> Result<SocketAddr, String> {
    let port = if tls { 443 } else { 80 };
    let place = match connect_to {
        Some(place) => place,
        None if authority.ends_with(']') || !authority.contains(':') => {
            format!("{authority}:{port}")
        }
        None => authority.to_string(),
    };
    let mut found = place
        .to_socket_addrs()
        .map_err(|e| format!("{place}: {e}"))?;
    found.next().ok_or(format!("{place} has no address"))
}

impl Options {
    /// The name without the port, for TLS.
    pub fn server_name(&self) -> &str {
        let name = match self.host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|c| c.is_ascii_digit()) => name,
            _ => &self.host,
        };
        name.trim_start_matches('[').trim_end_matches(']')
    }

    pub fn scheme(&self) -> &'static str {
        if self.tls {
            "https"
        } else {
            "http"
        }
    }

    /// The value for :authority or Host; a field of `-H` overrides it.
    pub fn authority(&self) -> &str {
        let named = |wanted: &str| self.fields.iter().find(|(name, _)| name == wanted);
        named("host").map_or(&self.host, |(_, value)| value)
    }

    /// The additional fields of every request.
    pub fn more(&self) -> impl Iterator<Item = (&str, &str)> {
        let own = self.fields.iter().map(|(n, v)| (n.as_str(), v.as_str()));
        let agent = !self.fields.iter().any(|(name, _)| name == "user-agent");
        let default = agent.then_some(("user-agent", "gallop-load"));
        default
            .into_iter()
            .chain(own.filter(|(name, _)| *name != "host"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(text: &str) -> Result<Options, String> {
        parse(text.split(' ').map(str::to_string))
    }

    #[test]
    fn what_is_given_is_taken() {
        let o = options("-n 10 -c20 -m 3 --rate=50 --json https://127.0.0.1:8443/x?y").unwrap();
        assert_eq!(
            (o.requests, o.connections, o.streams, o.threads),
            (10, 20, 3, 1)
        );
        assert_eq!(
            (o.requested[0].path.as_str(), o.rate, o.json),
            ("/x?y", Some(50.0), true)
        );
        assert_eq!(o.address, ([127, 0, 0, 1], 8443).into());
        assert_eq!((o.protocol, o.tls), (Protocol::H3, true));
    }

    #[test]
    fn h2loads_own_words_are_understood() {
        let o = options(
            "-D 5m -t2 -c 4 -N 7s --rps 10 --npn-list=h2 --connect-to=127.0.0.1:1 https://a/ https://a/b",
        );
        let o = o.unwrap();
        assert_eq!(
            (o.duration, o.rate),
            (Some(Duration::from_secs(300)), Some(40.0))
        );
        assert_eq!((o.protocol, o.requested.len()), (Protocol::H2, 2));
        assert_eq!(o.patience, Duration::from_secs(7));
        let plain = options("--header=Host:b.example --h1 http://127.0.0.1").unwrap();
        assert_eq!((plain.authority(), plain.address.port()), ("b.example", 80));
        assert_eq!(
            plain.more().collect::<Vec<_>>(),
            [("user-agent", "gallop-load")]
        );
        assert_eq!(
            options("http://[::1]:8080/").unwrap().protocol,
            Protocol::H2
        );
        assert_eq!(options("https://[::1]:8080/").unwrap().server_name(), "::1");
    }

    #[test]
    fn a_url_may_have_its_method_before_it() {
        let urls = ["http://a/", "HEAD http://a/b", "POST http://a/c"].map(str::to_string);
        let connect = ["--connect-to", "127.0.0.1:1"].map(str::to_string);
        let found = parse(connect.into_iter().chain(urls)).unwrap().requested;
        let pairs: Vec<_> = found.iter().map(|r| (r.method, r.path.as_str())).collect();
        assert_eq!(pairs, [("GET", "/"), ("HEAD", "/b"), ("POST", "/c")]);
        for (wrong, words) in [
            ("CONNECT http://a/", "one of GET, HEAD"),
            ("head http://a/", "not \"head\""),
            ("HEAD  http://a/", "begins with"),
        ] {
            let said = parse([wrong.to_string()].into_iter()).unwrap_err();
            assert!(said.contains(words), "{wrong}: {said}");
        }
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for (wrong, words) in [
            ("-n", "-n needs a value"),
            ("-n x https://127.0.0.1/", "-n wants a number above 0"),
            ("-n 0 https://127.0.0.1/", "-n wants a number above 0"),
            ("-N 0 https://127.0.0.1/", "-N wants a time"),
            ("-D 5x https://127.0.0.1/", "-D wants a time"),
            ("--what https://127.0.0.1/", "unknown option --what"),
            ("--h3 http://127.0.0.1/", "over TLS only"),
            ("ftp://127.0.0.1/", "begins with https://"),
            ("https:///", "not a URL"),
            ("https://127.0.0.1/ https://127.0.0.2/", "on another server"),
            ("-t 2 https://127.0.0.1/", "at most a thread"),
            ("--rate 5 --rps 5 https://127.0.0.1/", "not both"),
            ("--alpn-list h4 https://127.0.0.1/", "http/1.1, h2, h3"),
            ("-H what https://127.0.0.1/", "-H wants 'Name: value'"),
            ("-i /nowhere", "/nowhere: "),
        ] {
            let said = options(wrong).unwrap_err();
            assert!(said.contains(words), "{wrong}: {said}");
        }
    }
}
