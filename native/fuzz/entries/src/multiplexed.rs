//! HTTP/2, HTTP/3 and their field sections.

use arbitrary::{Arbitrary, Unstructured};
use gallop_http::{h2, h3, hpack, qpack};
use std::time::Instant;

/// Field sections of one HTTP/2 connection, one after the other; what decodes must decode again
/// after it was encoded.
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

/// A client's bytes on an HTTP/2 connection whose requests are answered.
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
            Event::Malformed { stream, .. } => _ = connection.send_head(stream, &[0x8c], true),
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

/// Field sections and instructions of HTTP/3.
pub fn qpack(bytes: &[u8]) {
    use qpack::{decode, encode_field, encode_prefix, DecoderStream, EncoderStream};
    let _ = DecoderStream::default().receive(bytes);
    let _ = EncoderStream.receive(bytes);
    let mut encoded = Vec::new();
    encode_prefix(&mut encoded);
    let mut count = 0;
    let _ = decode(bytes, &mut Vec::new(), |name, value| {
        encode_field(&mut encoded, name, value);
        count += 1;
    });
    let mut again = 0;
    decode(&encoded, &mut Vec::new(), |_, _| again += 1).expect("our own encoding");
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
    let mut over = [false; 16];
    for (stream, fin, bytes) in pieces {
        let stream = usize::from(stream & 14);
        if std::mem::replace(&mut over[stream], fin) {
            continue;
        }
        match h3_piece(&mut connection, &mut shared, stream as u64, &bytes, fin) {
            Some(ended) => over[stream] |= ended,
            None => return,
        }
        assert!(connection.open_requests() <= 4);
    }
}

/// Whether the stream is over; `None`: so is the connection.
fn h3_piece(
    connection: &mut h3::Connection,
    shared: &mut h3::Shared,
    stream: u64,
    mut input: &[u8],
    fin: bool,
) -> Option<bool> {
    use h3::Event::{Data, Malformed, Request, StreamError};
    let now = Instant::now();
    loop {
        let event = connection.receive(shared, stream, &mut input, fin, now);
        match event.ok()? {
            None => return Some(false),
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
                | StreamError { .. },
            ) => return Some(true),
            Some(_) => {}
        }
    }
}
