use super::*;
use crate::asked;

struct Case {
    client: Client,
    plan: Plan,
    blocks: Blocks,
    out: Vec<u8>,
}

impl Case {
    /// A connection with `asked` requests under way.
    fn new(asked: usize) -> Self {
        let words = ["-n", "9", "--h2", "http://127.0.0.1/a"].map(str::to_string);
        let options = crate::options::parse(words.into_iter()).unwrap();
        let mut out = Vec::new();
        let mut case = Self {
            client: Client::new(&mut out),
            plan: Plan::new(&options, 0, Instant::now()),
            blocks: asked::h2(&options),
            out: Vec::new(),
        };
        (0..asked).for_each(|_| case.ask());
        case
    }

    fn ask(&mut self) {
        let due = self.plan.start(Instant::now()).unwrap();
        self.client.ask(&self.blocks, due, &mut self.out);
    }

    fn take(&mut self, input: &[u8]) -> Result<(), String> {
        let Self {
            client, plan, out, ..
        } = self;
        client.take(input, plan, Instant::now(), out)
    }
}

fn framed(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    frame::push_header(&mut out, payload.len(), kind, flags, stream);
    [out, payload.to_vec()].concat()
}

const OK: u8 = 0x88;
const NOT_FOUND: u8 = 0x8d;

#[test]
fn answers_are_told_apart_wherever_they_are_cut() {
    let fields = frame::END_HEADERS;
    let all = [
        framed(frame::SETTINGS, 0, 0, &[]),
        framed(frame::HEADERS, 0, 3, &[]),
        framed(frame::CONTINUATION, fields, 3, &[NOT_FOUND]),
        framed(frame::HEADERS, fields, 1, &[OK]),
        framed(frame::DATA, 0, 1, b"some"),
        framed(frame::DATA, frame::END_STREAM, 3, b""),
        framed(frame::DATA, frame::END_STREAM, 1, b"thing"),
        framed(frame::RST_STREAM, 0, 5, &[0; 4]),
    ]
    .concat();
    for size in 1..all.len() {
        let mut case = Case::new(3);
        for piece in all.chunks(size) {
            case.take(piece).unwrap();
        }
        let plan = &case.plan;
        assert_eq!(plan.statuses, [0, 0, 1, 0, 1, 0], "pieces of {size}");
        assert_eq!((plan.succeeded, plan.failed, plan.lost), (1, 2, 1));
        let acknowledged = framed(frame::SETTINGS, frame::ACK, 0, &[]);
        assert!(case.out.ends_with(&acknowledged));
    }
}

#[test]
fn the_servers_settings_are_kept_to() {
    let mut case = Case::new(1);
    let few = [
        0, 3, 0, 0, 0, 2, // at most two streams
        0, 1, 0, 0, 0, 0, // no dynamic table
    ];
    case.take(&framed(frame::SETTINGS, 0, 0, &few)).unwrap();
    assert!(case.client.has_room(9));
    case.out.clear();
    case.ask();
    assert!(!case.client.has_room(9));
    assert_eq!(case.out[frame::HEADER_LEN], hpack::DYNAMIC_TABLE_OFF);
    let mut server = Decoder::new(0);
    let mut fields = 0;
    server
        .decode(&case.out[frame::HEADER_LEN..], |_, _| fields += 1)
        .unwrap();
    assert_eq!(fields, 5);
}

#[test]
fn a_server_that_leaves_answers_what_it_took() {
    let mut case = Case::new(2);
    let goaway = [0, 0, 0, 1, 0, 0, 0, 0];
    case.take(&framed(frame::GOAWAY, 0, 0, &goaway)).unwrap();
    assert_eq!((case.plan.started, case.plan.lost), (1, 0));
    assert!(!case.client.has_room(9) && !case.client.is_over());
    let flags = frame::END_HEADERS | frame::END_STREAM;
    case.take(&framed(frame::HEADERS, flags, 1, &[OK])).unwrap();
    assert!(case.client.is_over());
    assert_eq!(case.plan.succeeded, 1);
}

#[test]
fn windows_open_again_when_half_is_used() {
    let mut case = Case::new(1);
    case.out.clear();
    let full = framed(frame::DATA, 0, 1, &[0; MAX_FRAME]);
    for _ in 0..=WINDOW as usize / 2 / MAX_FRAME {
        case.take(&full).unwrap();
    }
    let update = 2 * (frame::HEADER_LEN + 4);
    assert_eq!(case.out.len(), update, "the connection's and the stream's");
}

#[test]
fn a_broken_connection_is_an_error_in_words() {
    let errors = [
        framed(frame::GOAWAY, 0, 0, &[0, 0, 0, 1, 0, 0, 0, 11]),
        framed(frame::HEADERS, frame::END_HEADERS, 1, &[0xff]),
        framed(frame::SETTINGS, 0, 0, &[0]),
        framed(frame::CONTINUATION, 0, 1, &[]),
        framed(frame::PUSH_PROMISE, 0, 1, &[]),
        b"HTTP/1.1 400 Bad Request\r\n".to_vec(),
    ];
    for wrong in errors {
        let said = Case::new(1).take(&wrong).unwrap_err();
        assert!(!said.is_empty());
    }
}
