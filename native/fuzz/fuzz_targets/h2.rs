//! A client's bytes on an HTTP/2 connection whose requests are answered.
#![no_main]

use gallop_http::h2::{Config, Connection, Event, PREFACE};
use libfuzzer_sys::fuzz_target;
use std::time::Instant;

fuzz_target!(|bytes: &[u8]| {
    let mut connection = Connection::<u32>::new(Config { max_streams: 4, ..Config::default() });
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
});
