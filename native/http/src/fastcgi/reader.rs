//! Parsing of an application's records as they arrive.

use super::{Error, RecordType, HEADER_LEN, REQUEST_ID, VERSION};

/// An event in the response. Slices borrow from the input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event<'a> {
    /// A piece of the response; never empty.
    Stdout(&'a [u8]),
    /// The end of the response stream.
    StdoutEnd,
    /// A piece of an error message for the log; never empty.
    Stderr(&'a [u8]),
    /// The end of the error stream.
    StderrEnd,
    /// The end of the request; the connection can carry the next one.
    End {
        /// Exit status of the application, 0 for success.
        app_status: u32,
        /// The result at the level of the protocol.
        protocol_status: ProtocolStatus,
    },
}

/// FCGI_EndRequestBody.protocolStatus (section 5.5).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ProtocolStatus {
    /// A normal end.
    RequestComplete,
    /// The application handles one request at a time.
    CannotMultiplex,
    /// The application lacks some resource.
    Overloaded,
    /// The application does not offer the role.
    UnknownRole,
    /// An unknown status, or a record with a wrong length. The request has ended, so its response
    /// stands, but the connection must not be reused.
    Malformed,
}

impl ProtocolStatus {
    fn from_u8(value: u8) -> Self {
        match value {
            0 => Self::RequestComplete,
            1 => Self::CannotMultiplex,
            2 => Self::Overloaded,
            3 => Self::UnknownRole,
            _ => Self::Malformed,
        }
    }
}

const END_LEN: usize = 8;

#[derive(Clone, Copy, Debug)]
enum State {
    /// This number of header bytes is in `scratch`.
    Header(usize),
    /// `left` bytes of a stream's content are still expected.
    Content { kind: RecordType, left: usize },
    /// `have` of the `len` bytes of an end-of-request body were read, the first eight into
    /// `scratch`.
    End { have: usize, len: usize },
    /// Padding, followed by the next header.
    Padding,
}

/// Splits an application's bytes into events, for one request at a time. Bytes may arrive in pieces
/// of any size. Only a split header or a split end-of-request body is buffered.
#[derive(Debug)]
pub struct RecordReader {
    state: State,
    scratch: [u8; 8],
    padding: usize,
    ended: Option<(u32, ProtocolStatus)>,
    done: bool,
    malformed: bool,
}

impl Default for RecordReader {
    fn default() -> Self {
        Self {
            state: State::Header(0),
            scratch: [0; 8],
            padding: 0,
            ended: None,
            done: false,
            malformed: false,
        }
    }
}

/// Whether the bytes are complete records of which the last ends the request. Only lengths and
/// types are checked.
pub fn is_ended(mut records: &[u8]) -> bool {
    while let Some((header, rest)) = records.split_first_chunk::<HEADER_LEN>() {
        let [_, kind, _, _, len_hi, len_lo, padding, _] = *header;
        let len = usize::from(u16::from_be_bytes([len_hi, len_lo])) + usize::from(padding);
        if kind == RecordType::EndRequest as u8 {
            return rest.len() == len;
        }
        records = rest.get(len..).unwrap_or_default();
    }
    false
}

impl RecordReader {
    /// Whether the request has ended and the padding of its last record was read.
    pub fn is_done(&self) -> bool {
        self.done
    }

    /// Whether it also ended as the specification requires: the connection can carry another
    /// request, after [`RecordReader::default`].
    pub fn is_clean(&self) -> bool {
        self.done && !self.malformed
    }

    /// Take the next event from the front of `input`; `None` if more bytes are needed (`input` is
    /// then empty).
    ///
    /// # Errors
    /// The application violated the protocol: close the connection.
    pub fn next<'a>(&mut self, input: &mut &'a [u8]) -> Result<Option<Event<'a>>, Error> {
        loop {
            if let Some(event) = self.take_end() {
                return Ok(Some(event));
            }
            if input.is_empty() {
                return Ok(None);
            }
            if self.done {
                return Err(Error::AfterEnd);
            }
            match self.state {
                State::Header(have) => {
                    if let Some(event) = self.header(have, input)? {
                        return Ok(Some(event));
                    }
                }
                State::Content { kind, left } => return Ok(Some(self.content(kind, left, input))),
                State::End { have, len } => self.end(have, len, input),
                State::Padding => {
                    let n = self.padding.min(input.len());
                    *input = &input[n..];
                    self.padding -= n;
                    self.after_padding();
                }
            }
        }
    }

    /// Report the end only after its padding was consumed, so that "ended" always means "clean".
    fn take_end(&mut self) -> Option<Event<'static>> {
        if !matches!(self.state, State::Header(0)) {
            return None;
        }
        let (app_status, protocol_status) = self.ended.take()?;
        self.done = true;
        self.malformed = protocol_status == ProtocolStatus::Malformed;
        Some(Event::End {
            app_status,
            protocol_status,
        })
    }

    fn fill(&mut self, have: usize, want: usize, input: &mut &[u8]) -> usize {
        let n = (want - have).min(input.len());
        self.scratch[have..have + n].copy_from_slice(&input[..n]);
        *input = &input[n..];
        have + n
    }

    fn header(&mut self, have: usize, input: &mut &[u8]) -> Result<Option<Event<'static>>, Error> {
        let have = self.fill(have, HEADER_LEN, input);
        if have < HEADER_LEN {
            self.state = State::Header(have);
            return Ok(None);
        }
        let [version, kind, id_hi, id_lo, len_hi, len_lo, padding, _] = self.scratch;
        if version != VERSION {
            return Err(Error::Version(version));
        }
        let id = u16::from_be_bytes([id_hi, id_lo]);
        if id != REQUEST_ID {
            return Err(Error::RequestId(id));
        }
        let len = u16::from_be_bytes([len_hi, len_lo]);
        self.padding = usize::from(padding);
        let left = usize::from(len);
        match RecordType::from_u8(kind) {
            Some(kind @ (RecordType::Stdout | RecordType::Stderr)) => {
                if left == 0 {
                    self.after_content();
                    return Ok(Some(end_of_stream(kind)));
                }
                self.state = State::Content { kind, left };
            }
            Some(RecordType::EndRequest) => {
                self.state = State::End { have: 0, len: left };
                self.end_read(0, left);
            }
            _ => return Err(Error::Type(kind)),
        }
        Ok(None)
    }

    fn content<'a>(&mut self, kind: RecordType, left: usize, input: &mut &'a [u8]) -> Event<'a> {
        let (data, rest) = input.split_at(left.min(input.len()));
        *input = rest;
        match left - data.len() {
            0 => self.after_content(),
            left => self.state = State::Content { kind, left },
        }
        if kind == RecordType::Stdout {
            Event::Stdout(data)
        } else {
            Event::Stderr(data)
        }
    }

    fn end(&mut self, have: usize, len: usize, input: &mut &[u8]) {
        let kept = have.min(END_LEN);
        let filled = self.fill(kept, len.min(END_LEN), input);
        let mut have = have + filled - kept;
        if filled == END_LEN {
            let passed = (len - have).min(input.len());
            *input = &input[passed..];
            have += passed;
        }
        self.state = State::End { have, len };
        self.end_read(have, len);
    }

    /// `have` of the `len` bytes of the last record's content were read.
    fn end_read(&mut self, have: usize, len: usize) {
        if have < len {
            return;
        }
        let [a, b, c, d, status, ..] = self.scratch;
        self.ended = Some(match len {
            END_LEN => (
                u32::from_be_bytes([a, b, c, d]),
                ProtocolStatus::from_u8(status),
            ),
            _ => (0, ProtocolStatus::Malformed),
        });
        self.after_content();
    }

    fn after_content(&mut self) {
        self.state = State::Padding;
        self.after_padding();
    }

    fn after_padding(&mut self) {
        if self.padding == 0 {
            self.state = State::Header(0);
        }
    }
}

fn end_of_stream(kind: RecordType) -> Event<'static> {
    if kind == RecordType::Stdout {
        Event::StdoutEnd
    } else {
        Event::StderrEnd
    }
}
