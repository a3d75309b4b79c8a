//! A client's bytes on the streams of an HTTP/3 connection.
#![no_main]

use gallop_http::h3::{Config, Connection, Event, Shared};
use libfuzzer_sys::fuzz_target;
use std::time::Instant;

fuzz_target!(|pieces: Vec<(u8, bool, Vec<u8>)>| {
    let mut connection = Connection::new(Config { max_streams: 4, ..Config::default() });
    let mut shared = Shared::default();
    let mut over = [false; 16];
    let now = Instant::now();
    for (stream, fin, bytes) in pieces {
        let stream = usize::from(stream & 14);
        if std::mem::replace(&mut over[stream], fin) {
            continue;
        }
        let mut input = &bytes[..];
        loop {
            match connection.receive(&mut shared, stream as u64, &mut input, fin, now) {
                Err(_) => return,
                Ok(None) => break,
                Ok(Some(
                    Event::Request { end_stream: true, .. }
                    | Event::Data { end_stream: true, .. }
                    | Event::Malformed { end_stream: true, .. }
                    | Event::StreamError { .. },
                )) => {
                    over[stream] = true;
                    break;
                }
                Ok(Some(_)) => {}
            }
        }
        assert!(connection.open_requests() <= 4);
    }
});
