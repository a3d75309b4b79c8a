//! A FastCGI application's bytes: whole or cut in two, they read alike.
#![no_main]

use gallop_http::fastcgi::{decode_params, Error, Event, RecordReader, ResponseHeadParser};
use libfuzzer_sys::fuzz_target;

fn read(pieces: &[&[u8]]) -> Result<(Vec<u8>, bool), Error> {
    let mut reader = RecordReader::default();
    let mut out = Vec::new();
    for mut piece in pieces.iter().copied() {
        while let Some(event) = reader.next(&mut piece)? {
            if let Event::Stdout(data) = event {
                out.extend_from_slice(data);
            }
        }
    }
    Ok((out, reader.is_done()))
}

fuzz_target!(|input: (u8, &[u8])| {
    let (cut, bytes) = input;
    let (first, second) = bytes.split_at(usize::from(cut).min(bytes.len()));
    let whole = read(&[bytes]);
    assert_eq!(whole, read(&[first, second]));
    let taken: usize = decode_params(bytes).map_while(Result::ok).map(|(n, v)| n.len() + v.len()).sum();
    assert!(taken <= bytes.len());
    let mut head = ResponseHeadParser::new(1024);
    let _ = head.push(&mut &bytes[..]);
    assert!(head.bytes().len() <= 1024);
});
