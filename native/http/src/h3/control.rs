//! The client's unidirectional streams: control and QPACK (RFC 9114, section 6.2).

use super::reader::{FrameReader, Piece};
use super::{kind, setting, varint, Error, ErrorCode};
use crate::qpack::{DecoderStream, Table};

/// Longest payload of a control frame that is looked at.
const MAX_PAYLOAD: u64 = 1024;

/// What the bytes of a unidirectional stream mean.
#[derive(Debug)]
pub enum UniStream {
    /// Its type is not known yet: the bytes of it so far.
    Type(Vec<u8>),
    Control(Box<Control>),
    Encoder,
    Decoder(DecoderStream),
    /// Of an unknown type: read and thrown away.
    Ignored,
}

/// Which of the streams that may exist once do.
#[derive(Debug, Default)]
pub struct Opened {
    control: bool,
    encoder: bool,
    decoder: bool,
}

impl Opened {
    /// Makes a stream of a type, the first of its kind.
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

/// What a piece of a unidirectional stream amounted to.
#[derive(Debug, Default)]
pub struct Outcome {
    /// The client will not open more requests.
    pub goaway: bool,
    /// Frames without use, to be charged for.
    pub idle_frames: u32,
    /// The stream is of an unknown type: tell the client to stop.
    pub stop: bool,
}

impl UniStream {
    /// Takes bytes, and the end of the stream if it came.
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
        // nginx's words for any error of such a stream, which its clients may look for.
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

    /// Whether the connection cannot do without it.
    pub fn is_critical(&self) -> bool {
        !matches!(self, UniStream::Type(_) | UniStream::Ignored)
    }
}

pub fn closed_critical_stream() -> Error {
    let reason = "client closed its control or QPACK stream";
    Error::new(ErrorCode::CLOSED_CRITICAL_STREAM, reason)
}

/// Collects a stream's type, byte by byte: it has at most eight.
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
    /// Type of the frame at hand.
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
                // Nothing is ever pushed, so no push id exists (section 7.2.3).
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

    /// The number that is a whole payload.
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

/// Settings concern what we may send: no pushes, no references to a table, heads of moderate size. Only
/// their form matters (section 7.2.4).
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
