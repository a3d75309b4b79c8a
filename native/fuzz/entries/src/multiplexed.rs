//! HTTP/2, HTTP/3, and their field sections.

use arbitrary::{Arbitrary, Unstructured};
use gallop_http::{h2, h3, hpack, qpack};
use std::time::Instant;

/// Successive field sections of an HTTP/2 connection; decoded fields must survive encoding and
/// decoding.
pub fn hpack(bytes: &[u8]) {
    let Ok(sections) = Vec::<Vec<u8>>::arbitrary_take_rest(Unstructured::new(bytes)) else {
        return;
    };
    let mut decoder = hpack::Decoder::new(512);
    for section in sections {
        let mut encoded = Vec::new();
        let mut count = 0;
        let decoded = decoder.decode(&section, |name, value| {
            hpack::encode_field(&mut encoded, name, value);
            count += 1;
        });
        let mut again = 0;
        hpack::Decoder::new(0)
            .decode(&encoded, |_, _| again += 1)
            .expect("our own encoding");
        assert_eq!(count, again);
        if decoded.is_err() {
            return;
        }
    }
}

/// A client's bytes on an HTTP/2 connection whose requests get responses.
pub fn h2(bytes: &[u8]) {
    use h2::{Config, Connection, Event, PREFACE};
    let config = Config {
        max_streams: 4,
        ..Config::default()
    };
    let mut connection = Connection::<u32>::new(config);
    let bytes = [&PREFACE[..], &[0, 0, 0, 4, 0, 0, 0, 0, 0], bytes].concat();
    let mut input = &bytes[..];
    let now = Instant::now();
    while let Ok(Some(event)) = connection.receive(&mut input, now) {
        match event {
            Event::Request { stream, .. } => {
                connection.send_head(stream, &[0x88], false);
                connection.send_data(stream, &[0; 20_000], true);
            }
            Event::Malformed { stream, .. } | Event::BadBody { stream } => {
                connection.send_head(stream, &[0x8c], true);
            }
            Event::Data { stream, data, .. } => connection.release(stream, data.len()),
            Event::Reset { .. } | Event::GoAway => {}
        }
        while let Some(stream) = connection.next_ready() {
            connection.send_data(stream, &[0; 20_000], true);
        }
        connection.output().clear();
        assert!(connection.open_streams() <= 4);
    }
}

/// A server's bytes on an HTTP/2 connection: the pieces in which they arrive change nothing.
pub fn h2_client(bytes: &[u8]) {
    let whole = response(bytes, bytes.len().max(1));
    assert_eq!(whole, response(bytes, 1));
    assert_eq!(whole, response(bytes, 7));
}

/// A response as text, with its body joined, and the error that ends it.
fn response(bytes: &[u8], piece: usize) -> (Vec<String>, Vec<u8>, Option<h2::client::ClientError>) {
    use h2::client::{Client, Event};
    let mut client = Client::new();
    client.start(&[0x83], false, 4096);
    let mut sent = Vec::new();
    client.take_output(&mut sent);
    let (mut heads, mut body) = (Vec::new(), Vec::new());
    let mut input = Vec::new();
    let now = Instant::now();
    for bytes in bytes.chunks(piece) {
        input.extend_from_slice(bytes);
        let mut rest = &input[..];
        loop {
            match client.receive(&mut rest, now) {
                Ok(None) => break,
                Ok(Some(Event::Data(data))) => body.extend_from_slice(data),
                Ok(Some(event)) => heads.push(format!("{event:?}")),
                Err(e) => return (heads, body, Some(e)),
            }
        }
        input = rest.to_vec();
    }
    let data = [0; 100_000];
    assert!(client.send_data(&data, false, &mut sent) <= data.len());
    (heads, body, None)
}

/// HTTP/3 field sections and instructions of a client with or without table entries.
pub fn qpack(bytes: &[u8]) {
    use qpack::{decode, encode_field, encode_prefix, DecoderStream, Table};
    let _ = DecoderStream::default().receive(bytes);
    let mut table = Table::new(4096);
    let _ = table.receive(bytes);
    let mut encoded = Vec::new();
    encode_prefix(&mut encoded);
    let mut count = 0;
    let _ = decode(bytes, &table, &mut Vec::new(), |name, value| {
        encode_field(&mut encoded, name, value);
        count += 1;
    });
    let mut again = 0;
    decode(&encoded, &table, &mut Vec::new(), |_, _| again += 1).expect("our own encoding");
    assert_eq!(count, again);
}

/// A client's bytes on the streams of an HTTP/3 connection.
pub fn h3(bytes: &[u8]) {
    type Pieces = Vec<(u8, bool, Vec<u8>)>;
    let Ok(pieces) = Pieces::arbitrary_take_rest(Unstructured::new(bytes)) else {
        return;
    };
    let config = h3::Config {
        max_streams: 4,
        ..h3::Config::default()
    };
    let mut connection = h3::Connection::new(config);
    let mut shared = h3::Shared::default();
    let mut streams: [Stream; 16] = Default::default();
    for (number, fin, bytes) in pieces {
        let number = u64::from(number & 14);
        let stream = &mut streams[number as usize];
        if stream.over {
            continue;
        }
        stream.over = fin;
        stream.fin = fin;
        stream.held.extend_from_slice(&bytes);
        if !stream.waits && h3_piece(&mut connection, &mut shared, number, stream).is_none() {
            return;
        }
        while let Some(number) = connection.unblocked() {
            let stream = &mut streams[number as usize];
            stream.waits = false;
            if h3_piece(&mut connection, &mut shared, number, stream).is_none() {
                return;
            }
        }
        assert!(connection.open_requests() <= 4);
    }
}

/// The state that a stream's owner keeps.
#[derive(Default)]
struct Stream {
    held: Vec<u8>,
    fin: bool,
    /// No more bytes are expected.
    over: bool,
    /// Whether it waits for the dynamic table.
    waits: bool,
}

/// Pass held bytes on; `None` if the connection is over.
fn h3_piece(
    connection: &mut h3::Connection,
    shared: &mut h3::Shared,
    number: u64,
    stream: &mut Stream,
) -> Option<()> {
    use h3::Event::{BadBody, Blocked, Data, Malformed, Request, StreamError};
    let now = Instant::now();
    let held = std::mem::take(&mut stream.held);
    let mut input = &held[..];
    loop {
        let event = connection.receive(shared, number, &mut input, stream.fin, now);
        match event.ok()? {
            None => return Some(()),
            Some(
                Request {
                    end_stream: true, ..
                }
                | Data {
                    end_stream: true, ..
                }
                | Malformed {
                    end_stream: true, ..
                }
                | BadBody {
                    end_stream: true, ..
                }
                | StreamError { .. },
            ) => {
                stream.over = true;
                return Some(());
            }
            Some(Blocked { .. }) => {
                stream.waits = true;
                stream.held = input.to_vec();
                return Some(());
            }
            Some(_) => {}
        }
    }
}
