//! The client's unidirectional streams: control and QPACK (RFC 9114, section 6.2).

use super::reader::{FrameReader, Piece};
use super::{kind, setting, varint, Error, ErrorCode};
use crate::qpack::{DecoderStream, Table};

/// The longest payload of a control frame that is read.
const MAX_PAYLOAD: u64 = 1024;

/// The state of a unidirectional stream.
#[derive(Debug)]
pub enum UniStream {
    /// The type is unknown yet: its bytes so far.
    Type(Vec<u8>),
    Control(Box<Control>),
    Encoder,
    Decoder(DecoderStream),
    /// A stream with an unknown type, whose bytes are discarded.
    Ignored,
}

/// The unique streams that were opened.
#[derive(Debug, Default)]
pub struct Opened {
    control: bool,
    encoder: bool,
    decoder: bool,
}

impl Opened {
    /// Open a stream with a type; each type may be opened once.
    fn open(&mut self, kind: u64) -> Result<UniStream, Error> {
        let (once, stream) = match kind {
            kind::CONTROL_STREAM => (&mut self.control, UniStream::Control(Box::default())),
            kind::ENCODER_STREAM => (&mut self.encoder, UniStream::Encoder),
            kind::DECODER_STREAM => (
                &mut self.decoder,
                UniStream::Decoder(DecoderStream::default()),
            ),
            kind::PUSH_STREAM => {
                let reason = "client opened a push stream";
                return Err(Error::new(ErrorCode::STREAM_CREATION_ERROR, reason));
            }
            _ => return Ok(UniStream::Ignored),
        };
        if std::mem::replace(once, true) {
            let reason = "client opened a second control or QPACK stream";
            return Err(Error::new(ErrorCode::STREAM_CREATION_ERROR, reason));
        }
        Ok(stream)
    }
}

/// The result of a piece of a unidirectional stream.
#[derive(Debug, Default)]
pub struct Outcome {
    /// Whether the client will open no more requests.
    pub goaway: bool,
    /// The number of useless frames, to be charged.
    pub idle_frames: u32,
    /// Whether the stream has an unknown type: send STOP_SENDING.
    pub stop: bool,
}

impl UniStream {
    /// Process bytes, and the end of the stream if it has come.
    pub fn receive(
        &mut self,
        mut input: &[u8],
        fin: bool,
        opened: &mut Opened,
        table: &mut Table,
    ) -> Result<Outcome, Error> {
        let mut outcome = Outcome::default();
        if let UniStream::Type(bytes) = self {
            let Some(kind) = stream_type(bytes, &mut input) else {
                return Ok(outcome);
            };
            *self = opened.open(kind)?;
            outcome.stop = matches!(self, UniStream::Ignored);
        }
        // nginx's message for every error of such a stream.
        let qpack = |code| move |_| Error::new(code, "stream error");
        match self {
            UniStream::Control(control) => control.receive(input, &mut outcome)?,
            UniStream::Encoder => table
                .receive(input)
                .map_err(qpack(ErrorCode::QPACK_ENCODER_STREAM_ERROR))?,
            UniStream::Decoder(stream) => stream
                .receive(input)
                .map_err(qpack(ErrorCode::QPACK_DECODER_STREAM_ERROR))?,
            UniStream::Ignored | UniStream::Type(_) => return Ok(outcome),
        }
        if fin {
            return Err(closed_critical_stream());
        }
        Ok(outcome)
    }

    /// Whether the connection requires the stream.
    pub fn is_critical(&self) -> bool {
        !matches!(self, UniStream::Type(_) | UniStream::Ignored)
    }
}

pub fn closed_critical_stream() -> Error {
    let reason = "client closed its control or QPACK stream";
    Error::new(ErrorCode::CLOSED_CRITICAL_STREAM, reason)
}

/// Collect a stream's type byte by byte; it has at most eight bytes.
fn stream_type(bytes: &mut Vec<u8>, input: &mut &[u8]) -> Option<u64> {
    while let Some((&byte, rest)) = input.split_first() {
        *input = rest;
        bytes.push(byte);
        if let Some(kind) = varint::decode(&mut &bytes[..]) {
            return Some(kind);
        }
    }
    None
}

/// The control stream.
#[derive(Debug, Default)]
pub struct Control {
    reader: FrameReader,
    /// The type of the current frame.
    kind: u64,
    payload: Vec<u8>,
    settings: bool,
    max_push_id: u64,
    goaway: Option<u64>,
}

impl Control {
    fn receive(&mut self, mut input: &[u8], outcome: &mut Outcome) -> Result<(), Error> {
        while let Some(piece) = self.reader.next(&mut input) {
            match piece {
                Piece::Start { kind, len } => self.start(kind, len)?,
                Piece::Payload { data, last } => {
                    if is_known(self.kind) {
                        self.payload.extend_from_slice(data);
                    }
                    if last {
                        self.frame(outcome)?;
                        self.payload.clear();
                    }
                }
            }
        }
        Ok(())
    }

    fn start(&mut self, kind: u64, len: u64) -> Result<(), Error> {
        self.kind = kind;
        if !self.settings && kind != kind::SETTINGS {
            let reason = "client sent no SETTINGS frame first";
            return Err(Error::new(ErrorCode::MISSING_SETTINGS, reason));
        }
        if matches!(kind, kind::DATA | kind::HEADERS | kind::PUSH_PROMISE) || kind::is_http2(kind) {
            return Err(Error::unexpected(
                "client sent unexpected frame on its control stream",
            ));
        }
        if is_known(kind) && len > MAX_PAYLOAD {
            let reason = "client sent too large frame on its control stream";
            return Err(Error::new(ErrorCode::EXCESSIVE_LOAD, reason));
        }
        Ok(())
    }

    fn frame(&mut self, outcome: &mut Outcome) -> Result<(), Error> {
        match self.kind {
            kind::SETTINGS => {
                if std::mem::replace(&mut self.settings, true) {
                    return Err(Error::unexpected("client sent a second SETTINGS frame"));
                }
                return check_settings(&self.payload);
            }
            kind::CANCEL_PUSH => {
                self.number()?;
                // The server never pushes, so no push id is valid (section 7.2.3).
                return Err(Error::new(
                    ErrorCode::ID_ERROR,
                    "client cancelled an unknown push",
                ));
            }
            kind::MAX_PUSH_ID => {
                let id = self.number()?;
                if id < self.max_push_id {
                    return Err(Error::new(
                        ErrorCode::ID_ERROR,
                        "client lowered MAX_PUSH_ID",
                    ));
                }
                self.max_push_id = id;
            }
            kind::GOAWAY => {
                let id = self.number()?;
                if self.goaway.replace(id).is_some_and(|before| id > before) {
                    return Err(Error::new(
                        ErrorCode::ID_ERROR,
                        "client raised its GOAWAY id",
                    ));
                }
                outcome.goaway = true;
            }
            _ => {}
        }
        outcome.idle_frames += 1;
        Ok(())
    }

    /// Parse a payload that is one number.
    fn number(&self) -> Result<u64, Error> {
        let mut payload = &self.payload[..];
        varint::decode(&mut payload)
            .filter(|_| payload.is_empty())
            .ok_or(Error::frame(
                "client sent control frame with incorrect length",
            ))
    }
}

fn is_known(kind: u64) -> bool {
    matches!(
        kind,
        kind::SETTINGS | kind::CANCEL_PUSH | kind::MAX_PUSH_ID | kind::GOAWAY
    )
}

/// Validate the settings. They concern features that the server does not use, such as pushes and
/// table references, so only their form matters (section 7.2.4).
fn check_settings(mut payload: &[u8]) -> Result<(), Error> {
    let mut seen = Vec::new();
    while !payload.is_empty() {
        let id = varint::decode(&mut payload);
        let (Some(id), Some(_)) = (id, varint::decode(&mut payload)) else {
            return Err(Error::frame("client sent truncated SETTINGS frame"));
        };
        if setting::is_http2(id) || seen.contains(&id) {
            let reason = "client sent reserved or duplicate setting";
            return Err(Error::new(ErrorCode::SETTINGS_ERROR, reason));
        }
        seen.push(id);
    }
    Ok(())
}
