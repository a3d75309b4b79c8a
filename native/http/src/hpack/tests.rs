use super::*;
use proptest::prelude::*;

type Fields = Vec<(Vec<u8>, Vec<u8>)>;

fn hex(text: &str) -> Vec<u8> {
    let digits: Vec<u8> = text.bytes().filter(u8::is_ascii_hexdigit).collect();
    let pair = |p: &[u8]| u8::from_str_radix(std::str::from_utf8(p).unwrap(), 16).unwrap();
    digits.chunks(2).map(pair).collect()
}

fn decode(decoder: &mut Decoder, block: &[u8]) -> Result<Fields, Error> {
    let mut fields = Vec::new();
    decoder.decode(block, |n, v| fields.push((n.to_vec(), v.to_vec())))?;
    Ok(fields)
}

fn expect(decoder: &mut Decoder, block: &str, fields: &[(&str, &str)]) {
    let got = decode(decoder, &hex(block)).unwrap();
    let want: Fields = fields
        .iter()
        .map(|(n, v)| (n.as_bytes().into(), v.as_bytes().into()))
        .collect();
    assert_eq!(got, want, "{block}");
}

#[test]
fn integers_of_appendix_c1() {
    for (bits, value, bytes) in [(5, 10, "0a"), (5, 1337, "1f9a0a"), (8, 42, "2a")] {
        let mut out = Vec::new();
        integer::encode(&mut out, 0, bits, value);
        assert_eq!(out, hex(bytes));
        assert_eq!(integer::decode(&mut &out[..], bits), Ok(value));
    }
}

#[test]
fn an_integer_has_an_end() {
    assert_eq!(integer::decode(&mut &[0x1f][..], 5), Err(Error::Truncated));
    assert_eq!(
        integer::decode(&mut &hex("1fffffffffffff")[..], 5),
        Err(Error::Integer)
    );
    assert_eq!(
        integer::decode(&mut &hex("1f808080808000")[..], 5),
        Err(Error::Integer)
    );
}

#[test]
fn literals_of_appendix_c2() {
    let cases = [
        (
            "400a637573746f6d2d6b65790d637573746f6d2d686561646572",
            "custom-key",
            "custom-header",
            55,
        ),
        ("040c2f73616d706c652f70617468", ":path", "/sample/path", 0),
        (
            "100870617373776f726406736563726574",
            "password",
            "secret",
            0,
        ),
        ("82", ":method", "GET", 0),
    ];
    for (block, name, value, size) in cases {
        let mut decoder = Decoder::new(4096);
        expect(&mut decoder, block, &[(name, value)]);
        assert_eq!(decoder.table().size(), size);
    }
}

fn requests(blocks: [&str; 3]) {
    let mut decoder = Decoder::new(4096);
    let common = [
        (":method", "GET"),
        (":scheme", "http"),
        (":path", "/"),
        (":authority", "www.example.com"),
    ];
    expect(&mut decoder, blocks[0], &common);
    assert_eq!(decoder.table().size(), 57);
    let second: Vec<_> = common
        .into_iter()
        .chain([("cache-control", "no-cache")])
        .collect();
    expect(&mut decoder, blocks[1], &second);
    assert_eq!(decoder.table().size(), 110);
    let third = [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ];
    expect(&mut decoder, blocks[2], &third);
    assert_eq!(decoder.table().size(), 164);
    assert_eq!(
        decoder.table().newest(0),
        Some((&b"custom-key"[..], &b"custom-value"[..]))
    );
    assert_eq!(
        decoder.table().newest(2),
        Some((&b":authority"[..], &b"www.example.com"[..]))
    );
    assert_eq!(decoder.table().newest(3), None);
}

#[test]
fn requests_of_appendix_c3_and_c4() {
    requests([
        "828684410f7777772e6578616d706c652e636f6d",
        "828684be58086e6f2d6361636865",
        "828785bf400a637573746f6d2d6b65790c637573746f6d2d76616c7565",
    ]);
    requests([
        "828684418cf1e3c2e5f23a6ba0ab90f4ff",
        "828684be5886a8eb10649cbf",
        "828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf",
    ]);
}

fn responses(blocks: [&str; 3]) {
    let mut decoder = Decoder::new(256);
    let date = "Mon, 21 Oct 2013 20:13:21 GMT";
    let place = ("location", "https://www.example.com");
    let private = ("cache-control", "private");
    expect(
        &mut decoder,
        blocks[0],
        &[(":status", "302"), private, ("date", date), place],
    );
    assert_eq!(decoder.table().size(), 222);
    expect(
        &mut decoder,
        blocks[1],
        &[(":status", "307"), private, ("date", date), place],
    );
    assert_eq!(decoder.table().size(), 222);
    let cookie = "foo=ASDJKHQKBZXOQWEOPIUAXQWEOIU; max-age=3600; version=1";
    let third = [
        (":status", "200"),
        private,
        ("date", "Mon, 21 Oct 2013 20:13:22 GMT"),
        place,
        ("content-encoding", "gzip"),
        ("set-cookie", cookie),
    ];
    expect(&mut decoder, blocks[2], &third);
    assert_eq!((decoder.table().size(), decoder.table().len()), (215, 3));
}

#[test]
fn responses_with_eviction_of_appendix_c5_and_c6() {
    responses([
        "4803333032580770726976617465611d4d6f6e2c203231204f637420323031332032303a31333a323120474d54
         6e1768747470733a2f2f7777772e6578616d706c652e636f6d",
        "4803333037c1c0bf",
        "88c1611d4d6f6e2c203231204f637420323031332032303a31333a323220474d54c05a04677a69707738666f6f
         3d4153444a4b48514b425a584f5157454f50495541585157454f49553b206d61782d6167653d333630303b2076
         657273696f6e3d31",
    ]);
    responses([
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f
         0b97c8e9ae82ae43d3",
        "4883640effc1c0bf",
        "88c16196d07abe941054d444a8200595040b8166e084a62d1bffc05a839bd9ab77ad94e7821dd7f2e6c7b335df
         dfcd5b3960d5af27087f3672c1ab270fb5291f9587316065c003ed4ee5b1063d5007",
    ]);
}

#[test]
fn malformed_sections_are_refused() {
    let cases = [
        ("80", Error::Index),
        ("be", Error::Index),
        ("ffffffffffffff", Error::Integer),
        ("4003", Error::Truncated),
        ("40", Error::Truncated),
        ("828620", Error::TableSize),
        ("3fe21f", Error::TableSize),
        ("0085f2b24a84ff874951fffffffa7f", Error::Huffman),
        ("0085f2b24a84ff84495192ff0003", Error::Truncated),
    ];
    for (block, error) in cases {
        assert_eq!(
            decode(&mut Decoder::new(4096), &hex(block)),
            Err(error),
            "{block}"
        );
    }
}

#[test]
fn huffman_padding_is_checked() {
    let mut out = Vec::new();
    assert_eq!(
        huffman::decode(&hex("1f"), &mut out),
        Ok(()),
        "'a' and 3 ones"
    );
    assert_eq!(
        huffman::decode(&hex("18"), &mut out),
        Err(Error::Huffman),
        "zeros"
    );
    assert_eq!(
        huffman::decode(&hex("1fff"), &mut out),
        Err(Error::Huffman),
        "11 ones"
    );
    assert_eq!(
        huffman::decode(&hex("fffffffc"), &mut out),
        Err(Error::Huffman),
        "end of string"
    );
    assert_eq!(huffman::decode(&hex("ff"), &mut out), Ok(()), "8 ones");
    assert_eq!(
        huffman::decode(&hex("ffff"), &mut out),
        Err(Error::Huffman),
        "16 ones"
    );
}

#[test]
fn the_table_never_exceeds_its_capacity() {
    let mut table = FieldRing::new(100);
    assert!(table.insert(b"a", b"1") && table.insert(b"b", b"2") && table.insert(b"c", b"3"));
    assert_eq!((table.len(), table.size()), (2, 68));
    assert!(!table.insert(b"huge", &[0; 100]));
    assert!(table.is_empty());
    assert!(table.insert(b"x", &[1; 67]));
    assert_eq!(table.size(), 100);
    table.set_capacity(99);
    assert!(table.is_empty());
}

#[test]
fn an_entry_may_be_made_from_one_it_evicts() {
    let mut table = FieldRing::new(64);
    assert!(table.insert(b"name", &[b'v'; 20]));
    assert_eq!(table.insert_from(0, None), Some(true));
    assert_eq!(table.newest(0), Some((&b"name"[..], &[b'v'; 20][..])));
    assert_eq!(table.insert_from(1, None), None);
}

/// A section of one-byte references to one long entry (the "HPACK bomb"). The caller counts what it
/// receives; the decoder keeps nothing beyond the table.
#[test]
fn a_bomb_costs_the_decoder_nothing() {
    let mut decoder = Decoder::new(4096);
    let mut block = vec![0x40, 1, b'a'];
    integer::encode(&mut block, 0, 7, 4000);
    block.extend_from_slice(&[b'x'; 4000]);
    block.extend_from_slice(&[0xbe; 16_000]);
    let mut seen = 0;
    decoder
        .decode(&block, |_, value| seen += value.len())
        .unwrap();
    assert_eq!(seen, 4000 * 16_001);
    assert!(decoder.table().size() <= 4096);
}

#[test]
fn the_generation_follows_the_table() {
    let mut decoder = Decoder::new(4096);
    decode(&mut decoder, &hex("82868400036162630178")).unwrap();
    assert_eq!(decoder.generation(), 0);
    decode(&mut decoder, &hex("4003616263017882")).unwrap();
    assert_eq!(decoder.generation(), 1);
    decode(&mut decoder, &hex("2082")).unwrap();
    assert_eq!(decoder.generation(), 2);
}

#[test]
fn statuses_are_indexed_where_they_can_be() {
    for status in [100, 200, 204, 206, 302, 304, 400, 404, 500, 503, 999] {
        let mut block = Vec::new();
        encode_status(&mut block, status);
        let fields = decode(&mut Decoder::new(0), &block).unwrap();
        assert_eq!(
            fields,
            [(b":status".to_vec(), status.to_string().into_bytes())]
        );
    }
}

#[test]
fn a_plain_value_can_be_replaced() {
    for name in ["date", "x-now"] {
        let mut block = Vec::new();
        let at = encode_plain_field(&mut block, name.as_bytes(), b"monday");
        block[at..at + 6].copy_from_slice(b"friday");
        let fields = decode(&mut Decoder::new(0), &block).unwrap();
        assert_eq!(fields, [(name.as_bytes().to_vec(), b"friday".to_vec())]);
    }
}

#[test]
fn every_static_entry_is_found_by_name() {
    for index in 15..=61 {
        let (name, _) = static_field(index).unwrap();
        assert_eq!(table::response_name(name), Some(index));
    }
    assert_eq!(static_field(62), None);
    assert_eq!(table::response_name(b"x-powered-by"), None);
}

/// A simple encoder with a dynamic table, to test the decoder.
fn with_indexing(fields: &Fields, table: &mut FieldRing) -> Vec<u8> {
    let mut block = Vec::new();
    for (name, value) in fields {
        let known = (0..table.len()).find(|&age| table.newest(age) == Some((name, value)));
        if let Some(age) = known {
            integer::encode(&mut block, 0x80, 7, 62 + age);
            continue;
        }
        block.push(0x40);
        for text in [name, value] {
            integer::encode(&mut block, 0x80, 7, huffman::encoded_len(text));
            huffman::encode(text, &mut block);
        }
        table.insert(name, value);
    }
    block
}

fn any_fields() -> impl Strategy<Value = Fields> {
    let text = |len| prop::collection::vec(any::<u8>(), 0..len);
    prop::collection::vec((text(12), text(90)), 0..12)
}

proptest! {
    #[test]
    fn huffman_survives(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut coded = Vec::new();
        huffman::encode(&text, &mut coded);
        prop_assert_eq!(coded.len(), huffman::encoded_len(&text));
        let mut back = Vec::new();
        prop_assert_eq!(huffman::decode(&coded, &mut back), Ok(()));
        prop_assert_eq!(back, text);
    }

    #[test]
    fn huffman_garbage_is_bounded(text in prop::collection::vec(any::<u8>(), 0..200)) {
        let mut back = Vec::new();
        let result = huffman::decode(&text, &mut back);
        prop_assert!(back.len() <= text.len() * 8 / 5);
        if result.is_ok() {
            let mut again = Vec::new();
            huffman::encode(&back, &mut again);
            // The decoder accepts a whole byte of padding, but the encoder never writes it.
            prop_assert_eq!(&again[..], text.strip_suffix(&[0xff]).filter(|t| t.len() == again.len()).unwrap_or(&text));
        }
    }

    #[test]
    fn sections_survive_a_small_table(sections in prop::collection::vec(any_fields(), 1..6)) {
        let mut table = FieldRing::new(300);
        let mut decoder = Decoder::new(300);
        for fields in sections {
            let block = with_indexing(&fields, &mut table);
            prop_assert_eq!(decode(&mut decoder, &block), Ok(fields));
            prop_assert_eq!(decoder.table().size(), table.size());
        }
    }

    #[test]
    fn responses_survive(fields in any_fields()) {
        let mut block = Vec::new();
        for (name, value) in &fields {
            encode_field(&mut block, name, value);
        }
        let lower: Fields = fields.into_iter().map(|(n, v)| (n.to_ascii_lowercase(), v)).collect();
        prop_assert_eq!(decode(&mut Decoder::new(0), &block), Ok(lower));
    }

    #[test]
    fn garbage_is_decoded_or_refused(block in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut decoder = Decoder::new(200);
        let _ = decode(&mut decoder, &block);
        prop_assert!(decoder.table().size() <= 200);
    }
}
