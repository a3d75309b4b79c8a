//! Field sections of one HTTP/2 connection, one after the other; what decodes must decode again
//! after it was encoded.
#![no_main]

use gallop_http::hpack::{encode_field, Decoder};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|sections: Vec<Vec<u8>>| {
    let mut decoder = Decoder::new(512);
    for section in sections {
        let mut encoded = Vec::new();
        let mut count = 0;
        let decoded = decoder.decode(&section, |name, value| {
            encode_field(&mut encoded, name, value);
            count += 1;
        });
        let mut again = 0;
        Decoder::new(0).decode(&encoded, |_, _| again += 1).expect("our own encoding");
        assert_eq!(count, again);
        if decoded.is_err() {
            return;
        }
    }
});
