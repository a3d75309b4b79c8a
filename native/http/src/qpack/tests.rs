use super::*;
use crate::hpack::huffman;
use proptest::prelude::*;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn fields_of(section: &[u8]) -> Result<Fields, Error> {
    let mut fields = Vec::new();
    decode(section, &mut Vec::new(), |n, v| {
        fields.push((n.to_vec(), v.to_vec()))
    })?;
    Ok(fields)
}

fn field(name: &str, value: &str) -> (Vec<u8>, Vec<u8>) {
    (name.into(), value.into())
}

#[test]
fn the_literal_of_appendix_b1() {
    let section = b"\x00\x00\x51\x0b/index.html";
    assert_eq!(fields_of(section), Ok(vec![field(":path", "/index.html")]));
}

/// Appendix B.2 to B.5 use a dynamic table, which we do not offer: its instructions and references
/// are errors.
#[test]
fn the_dynamic_table_of_appendix_b_is_refused() {
    let mut encoder = EncoderStream;
    let b2 = b"\x3f\xbd\x01\xc0\x0fwww.example.com\xc1\x0c/sample/path";
    assert_eq!(encoder.receive(b2), Err(Error::Instruction));
    assert_eq!(
        fields_of(&[0x03, 0x81, 0x10, 0x11]),
        Err(Error::DynamicReference)
    );
    assert_eq!(
        fields_of(&[0x05, 0x00, 0x80, 0xc1, 0x81]),
        Err(Error::DynamicReference)
    );
    assert_eq!(
        DecoderStream::default().receive(&[0x84]),
        Err(Error::Instruction)
    );
    assert_eq!(
        DecoderStream::default().receive(&[0x01]),
        Err(Error::Instruction)
    );
    assert_eq!(DecoderStream::default().receive(&[0x48]), Ok(()));
}

#[test]
fn all_kinds_of_fields() {
    let mut name = Vec::new();
    huffman::encode(b"x-name", &mut name);
    let mut section = vec![0, 0, 0xc0 | 17, 0x5f, 80, 2, b'h', b'i'];
    section.extend_from_slice(&[0x28 | name.len() as u8]);
    section.extend_from_slice(&name);
    section.extend_from_slice(&[1, b'v', 0x23, b'a', b'b', b'c', 0]);
    let want = [
        field(":method", "GET"),
        field("user-agent", "hi"),
        field("x-name", "v"),
        field("abc", ""),
    ];
    assert_eq!(fields_of(&section), Ok(want.to_vec()));
}

#[test]
fn malformed_sections_are_refused() {
    let cases: [(&[u8], Error); 12] = [
        (&[], Error::Truncated),
        (&[0], Error::Truncated),
        (&[0, 0x80], Error::DynamicReference),
        (&[1, 0], Error::DynamicReference),
        (&[0, 0, 0x80], Error::DynamicReference),
        (&[0, 0, 0x10], Error::DynamicReference),
        (&[0, 0, 0x40], Error::DynamicReference),
        (&[0, 0, 0x00], Error::DynamicReference),
        (&[0, 0, 0xff, 36], Error::StaticIndex),
        (&[0, 0, 0x51], Error::Truncated),
        (&[0, 0, 0x51, 0x81, 0x00], Error::Huffman),
        (
            &[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff],
            Error::Integer,
        ),
    ];
    for (section, error) in cases {
        assert_eq!(fields_of(section), Err(error), "{section:?}");
    }
}

#[test]
fn every_static_field_is_one_index() {
    for index in 0..STATIC_LEN {
        let (name, value) = static_field(index).unwrap();
        let mut section = Vec::new();
        encode_prefix(&mut section);
        encode_field(&mut section, name, value);
        assert!(section.len() <= 4, "{index}");
        assert_eq!(
            fields_of(&section),
            Ok(vec![(name.to_vec(), value.to_vec())])
        );
    }
    assert_eq!(static_field(STATIC_LEN), None);
}

#[test]
fn a_plain_value_can_be_replaced() {
    for name in ["date", "x-now"] {
        let mut section = vec![0, 0];
        let at = encode_plain_field(&mut section, name.as_bytes(), b"monday");
        section[at..at + 6].copy_from_slice(b"friday");
        assert_eq!(fields_of(&section), Ok(vec![field(name, "friday")]));
    }
}

#[test]
fn statuses() {
    for status in [100, 200, 206, 301, 404, 599] {
        let mut section = vec![0, 0];
        encode_status(&mut section, status);
        assert_eq!(
            fields_of(&section),
            Ok(vec![field(":status", &status.to_string())])
        );
    }
}

#[test]
fn cookies_are_never_indexed() {
    let mut section = Vec::new();
    encode_field(&mut section, b"Set-Cookie", b"a=b");
    assert_eq!(section[0] & 0xf0, 0x70);
}

#[test]
fn instructions_may_come_byte_by_byte() {
    let mut decoder = DecoderStream::default();
    for byte in [0x7f, 0x80, 0x80, 0x01, 0x40, 0x41] {
        assert_eq!(decoder.receive(&[byte]), Ok(()));
    }
    let endless = [&[0x7f][..], &[0x80; 20]].concat();
    assert_eq!(
        DecoderStream::default().receive(&endless),
        Err(Error::Integer)
    );
    assert_eq!(EncoderStream.receive(&[0x20, 0x20]), Ok(()));
    assert_eq!(EncoderStream.receive(&[0x21]), Err(Error::Instruction));
}

proptest! {
    #[test]
    fn responses_survive(fields in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..80),
                                                          prop::collection::vec(any::<u8>(), 0..90)), 0..12)) {
        let mut section = Vec::new();
        encode_prefix(&mut section);
        for (name, value) in &fields {
            encode_field(&mut section, name, value);
        }
        let lower: Fields = fields.into_iter().map(|(n, v)| (n.to_ascii_lowercase(), v)).collect();
        prop_assert_eq!(fields_of(&section), Ok(lower));
    }

    #[test]
    fn garbage_is_decoded_or_refused(section in prop::collection::vec(any::<u8>(), 0..300)) {
        let _ = fields_of(&section);
        let _ = DecoderStream::default().receive(&section);
    }
}
