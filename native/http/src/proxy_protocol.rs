//! The PROXY protocol, versions 1 and 2, with which a load balancer reports the client's address.

use std::net::{IpAddr, SocketAddr};

/// The content of the header.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ProxyHeader {
    pub source: Option<SocketAddr>,
    pub destination: Option<SocketAddr>,
    /// Type and value (version 2 only).
    pub tlvs: Vec<(u8, Vec<u8>)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BrokenHeader;

const SIGNATURE: &[u8; 12] = b"\r\n\r\n\0\r\nQUIT\n";
/// The longest header of version 1.
const MAX_V1: usize = 107;
/// The longest accepted header of version 2. Those of real load balancers are shorter.
const MAX_V2: usize = 4096;

/// Parse the header at the start of `input`. Returns it with its length; `None` if more bytes are
/// needed.
pub fn parse(input: &[u8]) -> Result<Option<(ProxyHeader, usize)>, BrokenHeader> {
    let n = input.len().min(SIGNATURE.len());
    if input[..n] == SIGNATURE[..n] {
        return parse_v2(input);
    }
    let n = input.len().min(6);
    if input[..n] != b"PROXY "[..n] {
        return Err(BrokenHeader);
    }
    let family = input.get(6..).unwrap_or_default();
    let begins = |word: &[u8]| family.starts_with(word) || word.starts_with(family);
    if ![&b"TCP4 "[..], b"TCP6 ", b"UNKNOWN"]
        .into_iter()
        .any(begins)
    {
        return Err(BrokenHeader);
    }
    let Some(end) = input.windows(2).take(MAX_V1).position(|w| w == b"\r\n") else {
        return if input.len() >= MAX_V1 {
            Err(BrokenHeader)
        } else {
            Ok(None)
        };
    };
    let text = std::str::from_utf8(&input[6..end]).map_err(|_| BrokenHeader)?;
    Ok(Some((parse_v1(text)?, end + 2)))
}

/// Write a header of version 1. Without addresses of one family it says `UNKNOWN`.
pub fn write_v1(source: Option<SocketAddr>, destination: Option<SocketAddr>) -> Vec<u8> {
    let Some((source, destination)) = pair(source, destination) else {
        return b"PROXY UNKNOWN\r\n".to_vec();
    };
    let family = if source.is_ipv4() { "TCP4" } else { "TCP6" };
    let (from, to) = (source.ip(), destination.ip());
    let (from_port, to_port) = (source.port(), destination.port());
    format!("PROXY {family} {from} {to} {from_port} {to_port}\r\n").into_bytes()
}

/// The transport that a header of version 2 tells.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Transport {
    Stream = 1,
    Datagram = 2,
}

/// Write a header of version 2 without TLVs. Without addresses of one family it has none.
pub fn write_v2(
    source: Option<SocketAddr>,
    destination: Option<SocketAddr>,
    transport: Transport,
) -> Vec<u8> {
    let mut out = SIGNATURE.to_vec();
    let Some((source, destination)) = pair(source, destination) else {
        out.extend_from_slice(&[0x21, 0, 0, 0]);
        return out;
    };
    let octets = |ip: IpAddr| match ip {
        IpAddr::V4(v4) => v4.octets().to_vec(),
        IpAddr::V6(v6) => v6.octets().to_vec(),
    };
    let (from, to) = (octets(source.ip()), octets(destination.ip()));
    let family = if source.is_ipv4() { 0x10 } else { 0x20 } | transport as u8;
    let len = (from.len() + to.len() + 4) as u16;
    out.extend_from_slice(&[0x21, family]);
    out.extend_from_slice(&len.to_be_bytes());
    out.extend_from_slice(&from);
    out.extend_from_slice(&to);
    out.extend_from_slice(&source.port().to_be_bytes());
    out.extend_from_slice(&destination.port().to_be_bytes());
    out
}

fn pair(
    source: Option<SocketAddr>,
    destination: Option<SocketAddr>,
) -> Option<(SocketAddr, SocketAddr)> {
    let pair = source.zip(destination);
    pair.filter(|(source, destination)| source.is_ipv4() == destination.is_ipv4())
}

fn parse_v1(text: &str) -> Result<ProxyHeader, BrokenHeader> {
    if text.starts_with("UNKNOWN") {
        return Ok(ProxyHeader::default());
    }
    let words: Vec<&str> = text.split(' ').collect();
    let ["TCP4" | "TCP6", source, destination, source_port, destination_port] = words[..] else {
        return Err(BrokenHeader);
    };
    let addr = |ip: &str, port: &str| -> Result<SocketAddr, BrokenHeader> {
        let ip: IpAddr = ip.parse().map_err(|_| BrokenHeader)?;
        Ok(SocketAddr::new(ip, port.parse().map_err(|_| BrokenHeader)?))
    };
    Ok(ProxyHeader {
        source: Some(addr(source, source_port)?),
        destination: Some(addr(destination, destination_port)?),
        tlvs: Vec::new(),
    })
}

fn parse_v2(input: &[u8]) -> Result<Option<(ProxyHeader, usize)>, BrokenHeader> {
    let Some(fixed) = input.get(12..16) else {
        return Ok(None);
    };
    let len = usize::from(u16::from_be_bytes([fixed[2], fixed[3]]));
    if fixed[0] >> 4 != 2 || len > MAX_V2 {
        return Err(BrokenHeader);
    }
    let Some(body) = input.get(16..16 + len) else {
        return Ok(None);
    };
    let total = 16 + len;
    // LOCAL: the load balancer's own connection.
    if fixed[0] & 15 != 1 {
        return Ok(Some((ProxyHeader::default(), total)));
    }
    let (source, destination, used) = match fixed[1] >> 4 {
        1 => (v4(body, 0, 8)?, v4(body, 4, 10)?, 12),
        2 => (v6(body, 0, 32)?, v6(body, 16, 34)?, 36),
        _ => return Ok(Some((ProxyHeader::default(), total))),
    };
    let tlvs = tlvs(&body[used..])?;
    let header = ProxyHeader {
        source: Some(source),
        destination: Some(destination),
        tlvs,
    };
    Ok(Some((header, total)))
}

fn port(body: &[u8], at: usize) -> Result<u16, BrokenHeader> {
    let bytes = body.get(at..at + 2).ok_or(BrokenHeader)?;
    Ok(u16::from_be_bytes([bytes[0], bytes[1]]))
}

fn v4(body: &[u8], at: usize, port_at: usize) -> Result<SocketAddr, BrokenHeader> {
    let ip: [u8; 4] = body
        .get(at..at + 4)
        .and_then(|b| b.try_into().ok())
        .ok_or(BrokenHeader)?;
    Ok(SocketAddr::new(ip.into(), port(body, port_at)?))
}

fn v6(body: &[u8], at: usize, port_at: usize) -> Result<SocketAddr, BrokenHeader> {
    let ip: [u8; 16] = body
        .get(at..at + 16)
        .and_then(|b| b.try_into().ok())
        .ok_or(BrokenHeader)?;
    Ok(SocketAddr::new(ip.into(), port(body, port_at)?))
}

fn tlvs(mut rest: &[u8]) -> Result<Vec<(u8, Vec<u8>)>, BrokenHeader> {
    let mut out = Vec::new();
    while let [kind, high, low, after @ ..] = rest {
        let len = usize::from(u16::from_be_bytes([*high, *low]));
        let value = after.get(..len).ok_or(BrokenHeader)?;
        out.push((*kind, value.to_vec()));
        rest = &after[len..];
    }
    if rest.is_empty() {
        Ok(out)
    } else {
        Err(BrokenHeader)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn version_1() {
        let text = b"PROXY TCP4 192.0.2.1 192.0.2.2 123 5678\r\nGET";
        let (header, len) = parse(text).expect("valid").expect("complete");
        assert_eq!(len, text.len() - 3);
        assert_eq!(header.source, "192.0.2.1:123".parse().ok());
        assert_eq!(
            parse(b"PROXY UNKNOWN x\r\n"),
            Ok(Some((ProxyHeader::default(), 17)))
        );
        assert_eq!(parse(b"PROXY TCP4 1"), Ok(None));
        assert_eq!(parse(b"GET / HTTP/1.1\r\n"), Err(BrokenHeader));
        assert_eq!(parse(b"PROXY TCP4 x y 1 2\r\n"), Err(BrokenHeader));
    }

    #[test]
    fn version_2_with_a_tlv() {
        let mut text = SIGNATURE.to_vec();
        text.extend_from_slice(&[
            0x21,
            0x11,
            0,
            12 + 5,
            192,
            0,
            2,
            1,
            192,
            0,
            2,
            2,
            0,
            123,
            22,
            46,
        ]);
        text.extend_from_slice(&[0x02, 0, 2, b'o', b'k']);
        let (header, len) = parse(&text).expect("valid").expect("complete");
        assert_eq!(len, text.len());
        assert_eq!(header.source, "192.0.2.1:123".parse().ok());
        assert_eq!(header.tlvs, [(2, b"ok".to_vec())]);
        for cut in 0..text.len() {
            assert_eq!(parse(&text[..cut]), Ok(None), "{cut}");
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_parsed_or_refused(tail in proptest::collection::vec(any::<u8>(), 0..80), v2: bool) {
            let mut input = if v2 { SIGNATURE.to_vec() } else { b"PROXY ".to_vec() };
            input.extend_from_slice(&tail);
            if let Ok(Some((_, len))) = parse(&input) {
                prop_assert!(len <= input.len());
            }
        }
    }

    #[test]
    fn written_headers_are_read_back() {
        let addr = |text: &str| Some(text.parse().expect("an address"));
        for (source, destination) in [
            (addr("127.0.0.1:1"), addr("10.0.0.2:65535")),
            (addr("[::1]:1"), addr("[fe80::2]:443")),
            (addr("[::1]:1"), addr("10.0.0.2:443")),
            (None, None),
        ] {
            let known = source
                .zip(destination)
                .is_some_and(|(s, d): (SocketAddr, SocketAddr)| s.is_ipv4() == d.is_ipv4());
            for bytes in [
                write_v1(source, destination),
                write_v2(source, destination, Transport::Stream),
                write_v2(source, destination, Transport::Datagram),
            ] {
                let (header, len) = parse(&bytes).expect("valid").expect("whole");
                assert_eq!(len, bytes.len());
                assert_eq!(header.source, source.filter(|_| known));
                assert_eq!(header.destination, destination.filter(|_| known));
            }
        }
    }
}
