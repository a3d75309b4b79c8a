//! Field sections and instructions of HTTP/3.
#![no_main]

use gallop_http::qpack::{decode, encode_field, encode_prefix, DecoderStream, EncoderStream};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
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
});
