//! The encoded requests of each protocol, made once before the run.

use crate::options::{Options, Request};
use gallop_http::h3::send;
use gallop_http::hpack::{self, huffman, integer};
use gallop_http::qpack;

/// The default SETTINGS_HEADER_TABLE_SIZE (RFC 9113, section 6.5.2).
pub const TABLE_SIZE: usize = 4096;
/// The first index of the dynamic table (RFC 7541, section 2.3.3).
const DYNAMIC: usize = 62;

/// An HTTP/1.1 request.
pub struct Head {
    pub bytes: Vec<u8>,
    /// Whether its response has no body.
    pub is_head: bool,
}

/// A complete HTTP/1.1 request for each configured one.
pub fn h1(options: &Options) -> Vec<Head> {
    let one = |request: &Request| {
        let Request { method, path } = request;
        let mut text = format!(
            "{method} {path} HTTP/1.1\r\nHost: {}\r\n",
            options.authority()
        );
        for (name, value) in options.more() {
            text += &format!("{name}: {value}\r\n");
        }
        if request.says_empty() {
            text += "content-length: 0\r\n";
        }
        text += "\r\n";
        Head {
            bytes: text.into_bytes(),
            is_head: request.is_head(),
        }
    };
    options.requested.iter().map(one).collect()
}

/// An HTTP/3 HEADERS frame for each configured request.
pub fn h3(options: &Options) -> Vec<Vec<u8>> {
    let one = |request: &Request| {
        let mut section = Vec::new();
        qpack::encode_prefix(&mut section);
        let pseudo = [
            (":method", request.method),
            (":scheme", options.scheme()),
            (":authority", options.authority()),
            (":path", &request.path),
        ];
        let empty = request.says_empty().then_some(("content-length", "0"));
        for (name, value) in pseudo.into_iter().chain(options.more()).chain(empty) {
            qpack::encode_field(&mut section, name.as_bytes(), value.as_bytes());
        }
        let mut frame = Vec::new();
        send::push_head(&mut frame, &section);
        frame
    };
    options.requested.iter().map(one).collect()
}

/// HTTP/2 field blocks, one for each configured request.
pub struct Blocks {
    /// The blocks for a connection's first request: they add the common fields to the dynamic
    /// table.
    pub first: Vec<Vec<u8>>,
    /// The blocks for later requests.
    pub again: Vec<Vec<u8>>,
    /// The blocks for a peer without the default table.
    pub plain: Vec<Vec<u8>>,
}

/// A field: the index of its name in the static table or 0, the name, and the value.
type Field<'a> = (usize, &'a str, &'a str);

pub fn h2(options: &Options) -> Blocks {
    let mut common: Vec<Field<'_>> = vec![(1, ":authority", options.authority())];
    let sole = options.requested.len() == 1 && options.requested[0].path != "/";
    if sole {
        common.push((4, ":path", &options.requested[0].path));
    }
    common.extend(
        options
            .more()
            .map(|(name, value)| (static_name(name), name, value)),
    );
    let size: usize = common
        .iter()
        .map(|(_, name, value)| name.len() + value.len() + hpack::ENTRY_OVERHEAD)
        .sum();
    let fits = size <= TABLE_SIZE;
    let build = |kind: Kind| {
        let one = |request: &Request| {
            let mut block = Vec::new();
            push_method(&mut block, request.method);
            // :scheme http or https.
            block.push(if options.tls { 0x87 } else { 0x86 });
            if !sole {
                push_path(&mut block, &request.path);
            }
            for (place, field) in common.iter().enumerate() {
                match kind {
                    // Pseudo-header fields come first, since they are at the list's front.
                    Kind::Again if fits => {
                        let age = common.len() - 1 - place;
                        integer::encode(&mut block, 0x80, 7, DYNAMIC + age);
                    }
                    Kind::First if fits => push_literal(&mut block, 0x40, 6, field),
                    _ => push_literal(&mut block, 0, 4, field),
                }
            }
            if request.says_empty() {
                push_literal(&mut block, 0, 4, &(28, "content-length", "0"));
            }
            block
        };
        options.requested.iter().map(one).collect()
    };
    Blocks {
        first: build(Kind::First),
        again: build(Kind::Again),
        plain: build(Kind::Plain),
    }
}

#[derive(Clone, Copy)]
enum Kind {
    First,
    Again,
    Plain,
}

fn push_method(block: &mut Vec<u8>, method: &str) {
    match method {
        "GET" => block.push(0x82),
        "POST" => block.push(0x83),
        _ => push_literal(block, 0, 4, &(2, ":method", method)),
    }
}

fn push_path(block: &mut Vec<u8>, path: &str) {
    if path == "/" {
        block.push(0x84);
    } else {
        push_literal(block, 0, 4, &(4, ":path", path));
    }
}

/// Append a literal (RFC 7541, section 6.2) whose first byte has `flags` above a prefix of `bits`
/// bits.
fn push_literal(block: &mut Vec<u8>, flags: u8, bits: u32, field: &Field<'_>) {
    let (index, name, value) = *field;
    integer::encode(block, flags, bits, index);
    if index == 0 {
        push_string(block, name);
    }
    push_string(block, value);
}

fn push_string(block: &mut Vec<u8>, text: &str) {
    let coded = huffman::encoded_len(text.as_bytes());
    if coded < text.len() {
        integer::encode(block, 0x80, 7, coded);
        huffman::encode(text.as_bytes(), block);
    } else {
        integer::encode(block, 0, 7, text.len());
        block.extend_from_slice(text.as_bytes());
    }
}

/// A name's index in the static table; 0 if it has none.
fn static_name(name: &str) -> usize {
    (1..DYNAMIC)
        .find(|&index| hpack::static_field(index).is_some_and(|(n, _)| n == name.as_bytes()))
        .unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn blocks(text: &str) -> Blocks {
        let words = text.split(' ').map(|word| word.replacen('_', " ", 1));
        h2(&crate::options::parse(words).unwrap())
    }

    fn fields(decoder: &mut hpack::Decoder, block: &[u8]) -> Vec<String> {
        let mut found = Vec::new();
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        decoder
            .decode(block, |name, value| {
                found.push(text(name) + "=" + &text(value))
            })
            .unwrap();
        found
    }

    #[test]
    fn the_three_kinds_of_blocks_say_the_same() {
        for urls in [
            "http://127.0.0.1/x?y",
            "http://127.0.0.1/ http://127.0.0.1/b",
            "POST_http://127.0.0.1/ http://127.0.0.1/b HEAD_http://127.0.0.1/c",
            "POST_http://127.0.0.1/b",
        ] {
            let blocks = blocks(&format!("-H X-One:1 -H Accept-Encoding:gzip {urls}"));
            for path in 0..blocks.first.len() {
                let mut decoder = hpack::Decoder::new(TABLE_SIZE);
                let first = fields(&mut decoder, &blocks.first[path]);
                assert_eq!(first, fields(&mut decoder, &blocks.again[path]));
                let mut plain = fields(&mut hpack::Decoder::new(0), &blocks.plain[path]);
                assert_eq!(first, plain);
                let method = plain[0].strip_prefix(":method=").unwrap();
                let posts = urls.split(' ').nth(path).unwrap().starts_with("POST_");
                assert_eq!(method == "POST", posts);
                assert_eq!(plain.last().unwrap() == "content-length=0", posts);
                plain.retain(|field| !field.starts_with(':') && field != "content-length=0");
                assert_eq!(
                    plain,
                    ["user-agent=gallop-load", "x-one=1", "accept-encoding=gzip"]
                );
            }
            assert!(blocks.again[0].len() < 16);
        }
    }
}
