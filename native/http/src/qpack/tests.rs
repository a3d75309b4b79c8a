use super::*;
use crate::hpack::huffman;
use proptest::prelude::*;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn fields_of(section: &[u8]) -> Result<Fields, Error> {
    fields_with(&Table::new(4096), section)
}

fn fields_with(table: &Table, section: &[u8]) -> Result<Fields, Error> {
    let mut fields = Vec::new();
    decode(section, table, &mut Vec::new(), |n, v| {
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

#[test]
fn the_dynamic_table_of_appendix_b() {
    let mut table = Table::new(4096);
    let b2_section = [0x03, 0x81, 0x10, 0x11];
    assert_eq!(fields_with(&table, &b2_section), Err(Error::Blocked(2)));
    table
        .receive(b"\x3f\xbd\x01\xc0\x0fwww.example.com\xc1\x0c/sample/path")
        .unwrap();
    let b2 = [
        field(":authority", "www.example.com"),
        field(":path", "/sample/path"),
    ];
    assert_eq!(fields_with(&table, &b2_section), Ok(b2.to_vec()));

    table.receive(b"\x4acustom-key\x0ccustom-value").unwrap();
    assert_eq!(table.inserted(), 3);

    table.receive(&[0x02]).unwrap();
    let b4 = [
        field(":authority", "www.example.com"),
        field(":path", "/"),
        field("custom-key", "custom-value"),
    ];
    let b4_section = [0x05, 0x00, 0x80, 0xc1, 0x81];
    assert_eq!(fields_with(&table, &b4_section), Ok(b4.to_vec()));

    table.receive(b"\x81\x0dcustom-value2").unwrap();
    assert_eq!(table.inserted(), 5);
    // The first entry was evicted.
    let first = fields_with(&table, &[0x06, 0x00, 0x84]);
    assert_eq!(first, Err(Error::DynamicReference));
}

#[test]
fn acknowledgements_have_the_bytes_of_appendix_b() {
    let mut out = Vec::new();
    push_acknowledgement(&mut out, 4);
    push_increment(&mut out, 1);
    push_cancellation(&mut out, 8);
    assert_eq!(out, [0x84, 0x01, 0x48]);
    let mut peer = DecoderStream::default();
    assert_eq!(peer.receive(&[0x48]), Ok(()));
    // Our encoder has no table, so there is nothing to acknowledge.
    assert_eq!(peer.receive(&[0x84]), Err(Error::Instruction));
    assert_eq!(peer.receive(&[0x01]), Err(Error::Instruction));
}

#[test]
fn the_table_takes_instructions_byte_by_byte() {
    let mut table = Table::new(4096);
    for byte in b"\x3f\xbd\x01\xc0\x0fwww.example.com" {
        table.receive(&[*byte]).unwrap();
    }
    let section = fields_with(&table, &[0x02, 0x00, 0x80]);
    assert_eq!(section, Ok(vec![field(":authority", "www.example.com")]));
}

#[test]
fn instructions_that_cannot_be_followed_are_errors() {
    let long = [&b"\x3f\xe1\x1f\x41a\x7f\x01"[..], &[b'x'; 128]].concat();
    for (instructions, why) in [
        (&b"\x3f\xe2\x1f"[..], "a capacity above what was announced"),
        (b"\x00", "a duplicate of nothing"),
        (b"\x80\x01a", "the name of nothing"),
        (b"\xff\x40\x01a", "a name beyond the static table"),
        (b"\x41a\x01b", "an entry into a table of capacity 0"),
        (&long, "a value longer than allowed"),
        (b"\x5f\xff\xff\xff\xff\x0f", "a string of four gigabytes"),
    ] {
        assert!(Table::new(100).receive(instructions).is_err(), "{why}");
    }
    let mut endless = Table::new(4096);
    endless.receive(b"\x3f\xe1\x1f").unwrap();
    let unfinished = [&b"\x5f\xe0\x7f"[..], &[0; 16_000]].concat();
    assert!(endless.receive(&unfinished).is_ok());
    assert!(endless.receive(&[0; 1000]).is_err(), "too long to be kept");
}

/// Section 2.2.3: a reference beyond the section's Required Insert Count.
#[test]
fn references_beyond_the_required_count_are_errors() {
    let mut table = Table::new(4096);
    table.receive(b"\x3f\xe1\x1f\x41a\x01b\x41c\x01d").unwrap();
    assert!(fields_with(&table, &[0x03, 0x00, 0x80]).is_ok());
    for section in [
        [0x02, 0x01, 0x80],
        [0x02, 0x00, 0x10],
        [0x02, 0x00, 0x81],
        [0x02, 0x81, 0x80],
    ] {
        let got = fields_with(&table, &section);
        assert_eq!(got, Err(Error::DynamicReference), "{section:?}");
    }
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
    let cases: [(&[u8], Error); 13] = [
        (&[], Error::Truncated),
        (&[0], Error::Truncated),
        (&[0, 0x80], Error::DynamicReference),
        (&[1, 0], Error::DynamicReference),
        (&[2, 0], Error::Blocked(1)),
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
        let mut table = Table::new(4096);
        let _ = table.receive(b"\x3f\xe1\x1f");
        let _ = table.receive(&section);
        let _ = fields_with(&table, &section);
    }
}
