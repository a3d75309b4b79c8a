//! Writing of requests: begin, params, and stdin.

use super::{params::encode_param, RecordType, HEADER_LEN, REQUEST_ID, VERSION};

/// The longest content of a record: the largest multiple of 8 that fits, so that full records need
/// no padding.
pub const MAX_CONTENT: usize = 65528;

/// The role of the application (section 6).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
pub enum Role {
    /// Responds to the request, as PHP-FPM does.
    Responder = 1,
    /// Decides whether the request is allowed.
    Authorizer = 2,
    /// Transforms a second input stream.
    Filter = 3,
}

/// The start of a request.
#[derive(Clone, Copy, Debug)]
pub struct Begin {
    /// The application's role.
    pub role: Role,
    /// Ask the application to keep the connection open (FCGI_KEEP_CONN).
    pub keep_connection: bool,
}

/// The record header for `len` bytes of content, and the number of padding bytes after the content.
/// For senders that pass header, content, and padding to one `writev` without copying.
///
/// # Panics
/// If `len` exceeds [`MAX_CONTENT`].
pub fn record_header(kind: RecordType, len: usize) -> ([u8; HEADER_LEN], usize) {
    assert!(len <= MAX_CONTENT, "FastCGI record of {len} bytes");
    let padding = len.wrapping_neg() & 7;
    let [id_hi, id_lo] = REQUEST_ID.to_be_bytes();
    let [len_hi, len_lo] = (len as u16).to_be_bytes();
    let header = [
        VERSION,
        kind as u8,
        id_hi,
        id_lo,
        len_hi,
        len_lo,
        padding as u8,
        0,
    ];
    (header, padding)
}

/// Writes a request to a buffer that can be reused for the next.
///
/// The calls follow the protocol's order: [`RequestWriter::begin`], any number of params,
/// `end_params`, any number of `stdin`, `end_stdin`.
#[derive(Debug, Default)]
pub struct RequestWriter {
    out: Vec<u8>,
    /// The position of the open params record's header.
    params_at: usize,
}

impl RequestWriter {
    /// Start a request and discard the buffer's contents.
    pub fn begin(&mut self, begin: Begin) {
        self.out.clear();
        let (header, _) = record_header(RecordType::BeginRequest, 8);
        self.out.extend_from_slice(&header);
        let [role_hi, role_lo] = (begin.role as u16).to_be_bytes();
        let flags = u8::from(begin.keep_connection);
        self.out
            .extend_from_slice(&[role_hi, role_lo, flags, 0, 0, 0, 0, 0]);
        self.open_params();
    }

    fn open_params(&mut self) {
        self.params_at = self.out.len();
        self.out.extend_from_slice(&[0; HEADER_LEN]);
    }

    /// Add a parameter.
    pub fn param(&mut self, name: &[u8], value: &[u8]) {
        encode_param(&mut self.out, name, value);
    }

    /// End the params stream.
    pub fn end_params(&mut self) {
        let start = self.params_at + HEADER_LEN;
        if self.out.len() - start > MAX_CONTENT {
            // A pair may cross records (section 3.3), so a long stream is cut anywhere.
            let stream = self.out.split_off(start);
            self.out.truncate(self.params_at);
            push_stream(&mut self.out, RecordType::Params, &stream);
        } else if self.out.len() > start {
            let (header, padding) = record_header(RecordType::Params, self.out.len() - start);
            self.out[self.params_at..start].copy_from_slice(&header);
            self.out.resize(self.out.len() + padding, 0);
        } else {
            self.out.truncate(self.params_at);
        }
        self.end_stream(RecordType::Params);
    }

    /// Add a piece of the request body. An empty piece adds nothing.
    pub fn stdin(&mut self, data: &[u8]) {
        push_stream(&mut self.out, RecordType::Stdin, data);
    }

    /// End the request body.
    pub fn end_stdin(&mut self) {
        self.end_stream(RecordType::Stdin);
    }

    fn end_stream(&mut self, kind: RecordType) {
        self.out.extend_from_slice(&record_header(kind, 0).0);
    }

    /// The bytes written so far.
    pub fn bytes(&self) -> &[u8] {
        &self.out
    }

    /// The bytes written so far, with their memory.
    pub fn into_bytes(self) -> Vec<u8> {
        self.out
    }

    /// Discard the bytes after sending, and keep the memory.
    pub fn clear(&mut self) {
        self.out.clear();
    }
}

fn push_stream(out: &mut Vec<u8>, kind: RecordType, data: &[u8]) {
    for piece in data.chunks(MAX_CONTENT) {
        let (header, padding) = record_header(kind, piece.len());
        out.extend_from_slice(&header);
        out.extend_from_slice(piece);
        out.resize(out.len() + padding, 0);
    }
}
