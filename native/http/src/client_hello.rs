//! The ClientHello of TLS (RFC 8446, section 4.1.2), read without answering it. It tells which name
//! and which application protocols a client asks for.

/// What a client offers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ClientHello {
    /// The newest version that the client offers, such as `TLSv1.3`; empty if it is unknown.
    pub version: &'static str,
    /// The name as sent; empty without one.
    pub server_name: Vec<u8>,
    /// The protocols of ALPN, in order.
    pub protocols: Vec<Vec<u8>>,
}

/// The result of looking at the first bytes of a connection.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Peeked {
    /// More bytes are needed.
    Incomplete,
    /// The connection begins with something else, or with a malformed message.
    NotTls,
    Hello(ClientHello),
}

const RECORD_HEADER: usize = 5;
const HANDSHAKE: u8 = 0x16;
const CLIENT_HELLO: u8 = 1;
const SERVER_NAME: u16 = 0;
const ALPN: u16 = 16;
const SUPPORTED_VERSIONS: u16 = 43;

/// Look at the first bytes of a connection. Only whole records are read.
pub fn peek(input: &[u8]) -> Peeked {
    let mut message = Vec::new();
    let mut rest = input;
    while rest.len() >= RECORD_HEADER {
        if rest[0] & 0x80 != 0 && rest[2] == CLIENT_HELLO && matches!(rest[3], 0 | 3) {
            // The form of SSL 2.0, without extensions.
            return Peeked::Hello(ClientHello {
                version: version(rest[3], rest[4]),
                ..ClientHello::default()
            });
        }
        if rest[0] != HANDSHAKE || rest[1] != 3 {
            return Peeked::NotTls;
        }
        let len = usize::from(u16::from_be_bytes([rest[3], rest[4]]));
        let Some(record) = rest.get(RECORD_HEADER..RECORD_HEADER + len) else {
            return Peeked::Incomplete;
        };
        message.extend_from_slice(record);
        rest = &rest[RECORD_HEADER + len..];
        match whole(&message) {
            Peeked::Incomplete => {}
            done => return done,
        }
    }
    Peeked::Incomplete
}

/// Read a handshake message that may be incomplete.
fn whole(message: &[u8]) -> Peeked {
    let Some((header, body)) = message.split_at_checked(4) else {
        return Peeked::Incomplete;
    };
    if header[0] != CLIENT_HELLO {
        return Peeked::NotTls;
    }
    let len = u32::from_be_bytes([0, header[1], header[2], header[3]]) as usize;
    match body.get(..len) {
        None => Peeked::Incomplete,
        Some(body) => parse(body).map_or(Peeked::NotTls, Peeked::Hello),
    }
}

fn parse(mut body: &[u8]) -> Option<ClientHello> {
    let legacy = take(&mut body, 2)?;
    let mut hello = ClientHello {
        version: version(legacy[0], legacy[1]),
        ..ClientHello::default()
    };
    // The random value, the session id, the cipher suites, and the compression methods.
    take(&mut body, 32)?;
    take_short(&mut body)?;
    take_long(&mut body)?;
    take_short(&mut body)?;
    if body.is_empty() {
        return Some(hello);
    }
    let mut extensions = take_long(&mut body)?;
    while !extensions.is_empty() {
        let kind = take(&mut extensions, 2)?;
        let len = take(&mut extensions, 2)?;
        let len = usize::from(u16::from_be_bytes([len[0], len[1]]));
        // As nginx, read a last extension that is longer than the message says.
        let len = len.min(extensions.len());
        let mut value = take(&mut extensions, len)?;
        match u16::from_be_bytes([kind[0], kind[1]]) {
            SERVER_NAME => hello.server_name = name(&mut value)?.to_vec(),
            ALPN => hello.protocols = protocols(&mut value)?,
            // Only clients of TLS 1.3 send it.
            SUPPORTED_VERSIONS => {
                take_short(&mut value)?;
                hello.version = version(3, 4);
            }
            _ => {}
        }
    }
    Some(hello)
}

/// The first host name of the extension (RFC 6066, section 3).
fn name<'a>(value: &mut &'a [u8]) -> Option<&'a [u8]> {
    let mut list = take_long(value)?;
    while !list.is_empty() {
        let kind = take(&mut list, 1)?[0];
        let name = take_long(&mut list)?;
        if kind == 0 {
            return Some(name);
        }
    }
    Some(b"")
}

fn protocols(value: &mut &[u8]) -> Option<Vec<Vec<u8>>> {
    let mut list = take_long(value)?;
    let mut all = Vec::new();
    while !list.is_empty() {
        all.push(take_short(&mut list)?.to_vec());
    }
    Some(all)
}

fn take<'a>(input: &mut &'a [u8], len: usize) -> Option<&'a [u8]> {
    let (first, rest) = input.split_at_checked(len)?;
    *input = rest;
    Some(first)
}

/// Bytes behind a length of one byte.
fn take_short<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take(input, 1)?[0];
    take(input, usize::from(len))
}

/// Bytes behind a length of two bytes.
fn take_long<'a>(input: &mut &'a [u8]) -> Option<&'a [u8]> {
    let len = take(input, 2)?;
    take(input, usize::from(u16::from_be_bytes([len[0], len[1]])))
}

fn version(major: u8, minor: u8) -> &'static str {
    match (major, minor) {
        (0, 2) => "SSLv2",
        (3, 0) => "SSLv3",
        (3, 1) => "TLSv1",
        (3, 2) => "TLSv1.1",
        (3, 3) => "TLSv1.2",
        (3, 4) => "TLSv1.3",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn long(parts: &[&[u8]]) -> Vec<u8> {
        let all = parts.concat();
        [&(all.len() as u16).to_be_bytes()[..], &all].concat()
    }

    fn hello() -> Vec<u8> {
        let name = [
            &[0, 0][..],
            &long(&[&long(&[&[0], &long(&[b"a.example"])])]),
        ]
        .concat();
        let alpn = [&[0, 16][..], &long(&[&long(&[b"\x02h2\x03foo"])])].concat();
        let versions = [&[0, 43][..], &long(&[&[4, 3, 4, 3, 3]])].concat();
        let extensions = long(&[&name, &alpn, &versions]);
        let fixed = [&[3, 3][..], &[7; 32], &[0, 0, 2, 0x13, 1, 1, 0]].concat();
        let body = [fixed, extensions].concat();
        [&[1, 0][..], &(body.len() as u16).to_be_bytes(), &body].concat()
    }

    fn records(message: &[u8], size: usize) -> Vec<u8> {
        let record = |part: &[u8]| [&[0x16, 3, 1][..], &long(&[part])].concat();
        message.chunks(size).flat_map(record).collect()
    }

    fn expected() -> Peeked {
        Peeked::Hello(ClientHello {
            version: "TLSv1.3",
            server_name: b"a.example".to_vec(),
            protocols: vec![b"h2".to_vec(), b"foo".to_vec()],
        })
    }

    #[test]
    fn hello_is_read_from_one_and_from_several_records() {
        for size in [1000, 10, 1] {
            let bytes = records(&hello(), size);
            assert_eq!(peek(&bytes), expected(), "{size}");
            for end in 0..bytes.len() {
                assert_eq!(peek(&bytes[..end]), Peeked::Incomplete, "{size} {end}");
            }
        }
    }

    #[test]
    fn other_protocols_are_not_tls() {
        assert_eq!(peek(b"GET / HTTP/1.1\r\n"), Peeked::NotTls);
        assert_eq!(
            peek(b"\x16\x03\x01\x00\x04\x02\x00\x00\x00"),
            Peeked::NotTls
        );
    }

    proptest! {
        #[test]
        fn changed_bytes_cause_no_panic(at in 0usize..120, value: u8, cut in 0usize..140) {
            let mut bytes = records(&hello(), 30);
            let len = bytes.len();
            bytes[at % len] = value;
            peek(&bytes[..cut.min(len)]);
        }
    }
}
