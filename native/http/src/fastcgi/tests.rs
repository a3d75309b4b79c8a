use super::*;
use proptest::prelude::*;

/// All of stdout and stderr, and the exit status after the end.
type Read = (Vec<u8>, Vec<u8>, Option<u32>);

fn events(bytes: &[u8], cut: usize) -> Result<Read, Error> {
    let mut reader = RecordReader::default();
    let (mut out, mut err, mut end) = (Vec::new(), Vec::new(), None);
    for mut piece in bytes.chunks(cut.max(1)) {
        while let Some(event) = reader.next(&mut piece)? {
            match event {
                Event::Stdout(data) => out.extend_from_slice(data),
                Event::Stderr(data) => err.extend_from_slice(data),
                Event::End { app_status, .. } => end = Some(app_status),
                Event::StdoutEnd | Event::StderrEnd => {}
            }
        }
    }
    assert_eq!(reader.is_done(), end.is_some());
    Ok((out, err, end))
}

fn record(kind: RecordType, content: &[u8]) -> Vec<u8> {
    let (header, padding) = record_header(kind, content.len());
    [&header[..], content, &[0; 7][..padding]].concat()
}

fn answer() -> Vec<u8> {
    [
        record(RecordType::Stderr, b"PHP message: oops"),
        record(RecordType::Stdout, b"Status: 404 Not Found\r\n\r\nno"),
        record(RecordType::Stdout, b""),
        record(RecordType::EndRequest, &[0, 0, 1, 2, 0, 0, 0, 0]),
    ]
    .concat()
}

/// The records of a request as an application reads them.
fn split(mut bytes: &[u8]) -> Vec<(u8, Vec<u8>)> {
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let len = usize::from(u16::from_be_bytes([bytes[4], bytes[5]]));
        let padding = usize::from(bytes[6]);
        assert_eq!((bytes[0], &bytes[2..4]), (1, &[0, 1][..]));
        assert_eq!((len + padding) % 8, 0);
        records.push((bytes[1], bytes[8..8 + len].to_vec()));
        bytes = &bytes[8 + len + padding..];
    }
    records
}

fn stream(records: &[(u8, Vec<u8>)], kind: RecordType) -> Vec<u8> {
    let of_kind = records.iter().filter(|(k, _)| *k == kind as u8);
    of_kind.flat_map(|(_, content)| content.clone()).collect()
}

#[test]
fn a_request_is_begin_params_stdin() {
    let mut writer = RequestWriter::default();
    writer.begin(Begin {
        role: Role::Responder,
        keep_connection: true,
    });
    writer.param(b"SCRIPT_FILENAME", b"/srv/index.php");
    writer.end_params();
    writer.stdin(b"a=1");
    writer.end_stdin();
    let records = split(writer.bytes());
    let kinds: Vec<u8> = records.iter().map(|(kind, _)| *kind).collect();
    assert_eq!(kinds, [1, 4, 4, 5, 5]);
    assert_eq!(records[0].1, [0, 1, 1, 0, 0, 0, 0, 0]);
    assert_eq!(records[1].1, b"\x0f\x0eSCRIPT_FILENAME/srv/index.php");
    assert_eq!(records[3].1, b"a=1");
    assert!(records[2].1.is_empty() && records[4].1.is_empty());
}

#[test]
fn params_and_bodies_longer_than_a_record_are_cut() {
    let long = vec![b'x'; 200_000];
    let mut writer = RequestWriter::default();
    writer.begin(Begin {
        role: Role::Responder,
        keep_connection: false,
    });
    writer.param(b"HTTP_COOKIE", &long);
    writer.end_params();
    writer.stdin(&long);
    writer.end_stdin();
    let records = split(writer.bytes());
    let params = stream(&records, RecordType::Params);
    let pairs: Result<Vec<_>, _> = decode_params(&params).collect();
    assert_eq!(pairs.unwrap(), [(&b"HTTP_COOKIE"[..], &long[..])]);
    assert_eq!(stream(&records, RecordType::Stdin), long);
}

#[test]
fn no_params_is_an_empty_stream() {
    let mut writer = RequestWriter::default();
    writer.begin(Begin {
        role: Role::Responder,
        keep_connection: false,
    });
    writer.end_params();
    assert_eq!(split(writer.bytes()).len(), 2);
}

#[test]
fn an_answer_may_come_in_any_pieces() {
    let bytes = answer();
    for cut in 1..=bytes.len() {
        let (out, err, end) = events(&bytes, cut).unwrap();
        assert_eq!(out, b"Status: 404 Not Found\r\n\r\nno", "pieces of {cut}");
        assert_eq!(err, b"PHP message: oops");
        assert_eq!(end, Some(0x102));
    }
}

#[test]
fn the_end_waits_for_its_padding() {
    let mut bytes = record(RecordType::EndRequest, &[0; 8]);
    bytes[6] = 3;
    let mut reader = RecordReader::default();
    assert_eq!(reader.next(&mut &bytes[..]), Ok(None));
    assert!(!reader.is_done());
    let event = reader.next(&mut &[0, 0, 0][..]).unwrap();
    assert!(matches!(event, Some(Event::End { .. })));
    assert!(reader.is_done());
}

#[test]
fn an_answer_is_over_with_the_record_that_ends_the_request() {
    let bytes = answer();
    for cut in 0..bytes.len() {
        assert!(!is_ended(&bytes[..cut]), "{cut}");
    }
    assert!(is_ended(&bytes));
    assert!(!is_ended(&[&bytes[..], &[1]].concat()));
    // The same bytes inside of a page have no meaning.
    let page = [bytes, record(RecordType::Stdout, &answer())].concat();
    let page = record(RecordType::Stdout, &page);
    for cut in 0..=page.len() {
        assert!(!is_ended(&page[..cut]), "{cut}");
    }
}

#[test]
fn a_broken_answer_is_refused() {
    let cases: [(usize, u8, Error); 5] = [
        (0, 2, Error::Version(2)),
        (1, 1, Error::Type(1)),
        (1, 77, Error::Type(77)),
        (3, 9, Error::RequestId(9)),
        (2, 1, Error::RequestId(257)),
    ];
    for (at, value, error) in cases {
        let mut bytes = record(RecordType::Stdout, b"x");
        bytes[at] = value;
        assert_eq!(events(&bytes, 64), Err(error));
    }
    let twice = [answer(), answer()].concat();
    assert_eq!(events(&twice, 4096), Err(Error::AfterEnd));
}

#[test]
fn a_malformed_last_record_ends_the_request_but_not_cleanly() {
    let ends: [(&[u8], bool); 6] = [
        (&[0, 0, 0, 0, 0, 0, 0, 0], true),
        (&[0, 0, 0, 0, 3, 0, 0, 0], true),
        (&[0, 0, 0, 0, 4, 0, 0, 0], false),
        (&[], false),
        (&[0; 7], false),
        (&[0; 20], false),
    ];
    for (content, is_clean) in ends {
        let said = record(RecordType::Stdout, b"x");
        let bytes = [said, record(RecordType::EndRequest, content)].concat();
        for cut in [1, 3, 64] {
            let mut reader = RecordReader::default();
            let mut ended = false;
            for mut piece in bytes.chunks(cut) {
                while let Some(event) = reader.next(&mut piece).expect("records") {
                    assert!(!ended, "{content:?}: {event:?}");
                    ended = matches!(event, Event::End { .. });
                }
            }
            assert!(ended && reader.is_done(), "{content:?} in {cut}s");
            assert_eq!(reader.is_clean(), is_clean, "{content:?} in {cut}s");
        }
    }
}

fn head(text: &[u8]) -> Result<(ResponseHead, Vec<u8>, Vec<u8>), HeadError> {
    let mut parser = ResponseHeadParser::new(256);
    let mut data = text;
    let head = parser.push(&mut data)?.expect("whole head");
    Ok((head, parser.bytes().to_vec(), data.to_vec()))
}

#[test]
fn a_head_is_parsed_with_either_line_ending() {
    for text in [
        &b"Status: 404 Not Found\r\nX-A:  b \r\n\r\nbody"[..],
        b"Status: 404 Not Found\nX-A:b\n\nbody",
    ] {
        let (head, bytes, body) = head(text).unwrap();
        assert_eq!(head.status, 404);
        assert_eq!(&bytes[head.reason.clone()], b"Not Found");
        assert_eq!(head.fields.len(), 1);
        let (name, value) = head.fields[0].clone();
        assert_eq!((&bytes[name], &bytes[value]), (&b"X-A"[..], &b"b"[..]));
        assert_eq!(body, b"body");
    }
}

#[test]
fn a_location_without_status_redirects() {
    assert_eq!(head(b"Location: /x\r\n\r\n").unwrap().0.status, 302);
    assert_eq!(head(b"X: y\r\n\r\n").unwrap().0.status, 200);
    assert_eq!(
        head(b"Location: /x\r\nStatus: 201\r\n\r\n")
            .unwrap()
            .0
            .status,
        201
    );
}

#[test]
fn a_malformed_head_is_refused() {
    assert_eq!(head(b"no colon\r\n\r\n"), Err(HeadError::Line(0)));
    assert_eq!(head(b"A: b\r\n folded\r\n\r\n"), Err(HeadError::Line(6)));
    assert_eq!(head(b"A b: c\r\n\r\n"), Err(HeadError::Line(0)));
    assert_eq!(head(b"A: b\rc\r\n\r\n"), Err(HeadError::Line(0)));
    for status in [
        "Status: 99\n",
        "Status: 099\n",
        "Status: 2000\n",
        "Status: x\n",
    ] {
        assert_eq!(head(status.as_bytes()), Err(HeadError::Status), "{status}");
    }
    let long = [b"A: ".as_slice(), &[b'x'; 300]].concat();
    assert_eq!(head(&long), Err(HeadError::TooBig));
}

#[test]
fn a_parser_is_reused() {
    let mut parser = ResponseHeadParser::new(64);
    for limit in [64, 30, 64] {
        let mut cut = &b"Location: /x\nStatus: 500\nA: "[..];
        assert_eq!(parser.push(&mut cut), Ok(None));
        parser.restart(limit);
        let mut first = &b"Status: 20"[..];
        assert_eq!(parser.push(&mut first), Ok(None));
        let mut second = &b"4\r\n\r\nrest"[..];
        let head = parser.push(&mut second).unwrap().unwrap();
        assert_eq!((head.status, second), (204, &b"rest"[..]));
        assert!(head.fields.is_empty());
        parser.recycle(head);
        parser.restart(limit);
        let mut plain = &b"A: b\n\n"[..];
        let head = parser.push(&mut plain).unwrap().unwrap();
        assert_eq!((head.status, &head.fields[..]), (200, &[(0..1, 3..4)][..]));
        parser.recycle(head);
        parser.restart(limit);
        let mut long = &[b'x'; 65][..];
        assert_eq!(parser.push(&mut long), Err(HeadError::TooBig));
        parser.restart(64);
    }
}

proptest! {
    #[test]
    fn pairs_survive(pairs in prop::collection::vec((prop::collection::vec(any::<u8>(), 0..300),
                                                     prop::collection::vec(any::<u8>(), 0..300)), 0..20)) {
        let mut stream = Vec::new();
        for (name, value) in &pairs {
            encode_param(&mut stream, name, value);
        }
        let back: Result<Vec<_>, _> = decode_params(&stream).collect();
        let back: Vec<_> = back.unwrap().into_iter().map(|(n, v)| (n.to_vec(), v.to_vec())).collect();
        prop_assert_eq!(back, pairs);
    }

    #[test]
    fn garbage_params_end(bytes in prop::collection::vec(any::<u8>(), 0..200)) {
        let taken: usize = decode_params(&bytes).map_while(Result::ok).map(|(n, v)| n.len() + v.len()).sum();
        prop_assert!(taken <= bytes.len());
    }

    #[test]
    fn garbage_records_read_alike_whole_and_in_pieces(
        bytes in prop::collection::vec(any::<u8>(), 0..400), start in any::<bool>(), cut in 1usize..40) {
        let bytes = if start { [answer(), bytes].concat() } else { bytes };
        prop_assert_eq!(events(&bytes, bytes.len()), events(&bytes, cut));
    }

    #[test]
    fn what_reads_as_a_whole_answer_is_over(
        bytes in prop::collection::vec(any::<u8>(), 0..40), at in 0usize..90, cut in 0usize..90) {
        let mut all = answer();
        all.splice(at.min(all.len())..(at + bytes.len()).min(all.len()), bytes);
        all.truncate(all.len().saturating_sub(cut / 2));
        let is_whole = matches!(events(&all, all.len()), Ok((.., Some(_))));
        prop_assert!(!is_whole || is_ended(&all));
    }

    #[test]
    fn garbage_heads_do_not_panic(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        let mut parser = ResponseHeadParser::new(128);
        let mut data = &bytes[..];
        if let Ok(None) = parser.push(&mut data) {
            prop_assert!(parser.bytes().len() <= 128);
        }
    }
}
