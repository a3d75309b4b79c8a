//! The command line, with h2load's letters.

use std::net::{SocketAddr, ToSocketAddrs};
use std::time::Duration;

pub const HELP: &str = "Usage: gallop-load [OPTION]... https://HOST[:PORT]/PATH
Asks for one URL over HTTP/3, again and again. Certificates are not verified.

  -n N              requests in all (default 1)
  -D SECONDS        go on for so long instead
  -c N              connections (default 1)
  -m N              requests under way on a connection at once (default 1)
  -t N              UDP sockets the connections are spread over (default: as connections, 8 at most)
  -H 'Name: value'  another request field
  --rate N          open loop: N requests per second in all; latency counts from when a request was due
  --mtu BYTES       largest UDP payload taken and sent (default 1452)
  --connect-to ADDRESS:PORT    instead of the URL's host
  --json            the result as JSON
";

/// What to do.
#[derive(Clone, Debug)]
pub struct Options {
    pub requests: u64,
    pub duration: Option<Duration>,
    pub connections: usize,
    pub streams: usize,
    pub sockets: usize,
    pub fields: Vec<(String, String)>,
    /// Requests per second, open loop.
    pub rate: Option<f64>,
    pub mtu: u16,
    pub host: String,
    pub path: String,
    pub address: SocketAddr,
    pub json: bool,
}

/// Reads the command line.
///
/// # Errors
/// What is wrong with it.
pub fn parse(args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut args = args;
    let mut options = Options {
        requests: 1,
        duration: None,
        connections: 1,
        streams: 1,
        sockets: 0,
        fields: Vec::new(),
        rate: None,
        mtu: 1452,
        host: String::new(),
        path: String::new(),
        address: ([127, 0, 0, 1], 443).into(),
        json: false,
    };
    let (mut url, mut connect_to) = (None, None);
    while let Some(arg) = args.next() {
        let mut value = || args.next().ok_or(format!("{arg} needs a value"));
        match arg.as_str() {
            "-n" => options.requests = number(&arg, &value()?)?,
            "-D" => options.duration = Some(Duration::from_secs(number(&arg, &value()?)?)),
            "-c" => options.connections = number(&arg, &value()?)? as usize,
            "-m" => options.streams = number(&arg, &value()?)? as usize,
            "-t" => options.sockets = number(&arg, &value()?)? as usize,
            "--rate" => options.rate = Some(number(&arg, &value()?)? as f64),
            "--mtu" => options.mtu = number(&arg, &value()?)?.clamp(1200, 65_527) as u16,
            "--connect-to" => connect_to = Some(value()?),
            "--json" => options.json = true,
            "-H" => options.fields.push(field(&value()?)?),
            _ if arg.starts_with('-') => return Err(format!("unknown option {arg}")),
            _ => url = Some(arg),
        }
    }
    target(&mut options, &url.ok_or("no URL given")?, connect_to)?;
    if options.sockets == 0 {
        options.sockets = options.connections.min(8);
    }
    options.sockets = options.sockets.min(options.connections);
    Ok(options)
}

fn number(name: &str, text: &str) -> Result<u64, String> {
    let number = text.parse().ok().filter(|&n| n > 0);
    number.ok_or_else(|| format!("{name} wants a number above 0, not \"{text}\""))
}

/// A field's name, in lower case as HTTP/3 wants it, and its value.
fn field(text: &str) -> Result<(String, String), String> {
    let (name, value) = text
        .split_once(':')
        .ok_or_else(|| format!("-H wants 'Name: value', not \"{text}\""))?;
    Ok((name.trim().to_ascii_lowercase(), value.trim().to_string()))
}

fn target(options: &mut Options, url: &str, connect_to: Option<String>) -> Result<(), String> {
    let rest = url
        .strip_prefix("https://")
        .ok_or_else(|| format!("the URL must begin with https://, not \"{url}\""))?;
    let (authority, path) = match rest.find('/') {
        Some(at) => rest.split_at(at),
        None => (rest, "/"),
    };
    options.host = authority.to_string();
    options.path = path.to_string();
    let place = match connect_to {
        Some(place) => place,
        None if authority.ends_with(']') || !authority.contains(':') => format!("{authority}:443"),
        None => authority.to_string(),
    };
    let mut found = place
        .to_socket_addrs()
        .map_err(|e| format!("{place}: {e}"))?;
    options.address = found.next().ok_or(format!("{place} has no address"))?;
    Ok(())
}

impl Options {
    /// The name without the port, for TLS.
    pub fn server_name(&self) -> &str {
        match self.host.rsplit_once(':') {
            Some((name, port)) if port.bytes().all(|c| c.is_ascii_digit()) => name,
            _ => &self.host,
        }
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
        let o = options("-n 10 -c 20 -m 3 --rate 50 --json https://127.0.0.1:8443/x?y").unwrap();
        assert_eq!(
            (o.requests, o.connections, o.streams, o.sockets),
            (10, 20, 3, 8)
        );
        assert_eq!(
            (o.path.as_str(), o.rate, o.json),
            ("/x?y", Some(50.0), true)
        );
        assert_eq!(o.address, ([127, 0, 0, 1], 8443).into());
        assert_eq!(o.server_name(), "127.0.0.1");
    }

    #[test]
    fn what_cannot_be_meant_is_refused() {
        for wrong in [
            "-n",
            "-n x https://a/",
            "-n 0 https://a/",
            "--what https://a/",
            "http://a/",
        ] {
            assert!(options(wrong).is_err(), "{wrong}");
        }
    }
}
