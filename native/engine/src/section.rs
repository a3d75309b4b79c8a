//! Response heads as field sections of HTTP/2 and HTTP/3.

use crate::absolute::absolute_location;
use crate::errors::product;
use crate::exchange::{Exchange, Fields};
use crate::time;
use gallop_http::{hpack, qpack};

/// The header compression in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Coding {
    /// HTTP/2.
    Hpack,
    /// HTTP/3.
    Qpack,
}

impl Coding {
    /// A section with only a status.
    pub fn status(self, status: u16) -> Vec<u8> {
        let mut out = Vec::with_capacity(8);
        self.begin(&mut out, status);
        out
    }

    /// A section for an interim response.
    pub fn interim(self, status: u16, fields: &Fields) -> Vec<u8> {
        let mut out = self.status(status);
        for (name, value) in fields
            .iter()
            .filter(|(name, _)| !is_connection_specific(name))
        {
            self.field(&mut out, name, value);
        }
        out
    }

    /// Begin a section with its status.
    pub fn begin(self, out: &mut Vec<u8>, status: u16) {
        match self {
            Coding::Hpack => hpack::encode_status(out, status),
            Coding::Qpack => {
                qpack::encode_prefix(out);
                qpack::encode_status(out, status);
            }
        }
    }

    /// Write a field, whose name may be in any case.
    pub fn field(self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        // A line break in a value would end the field if another server converts it to HTTP/1.
        let clean: Vec<u8>;
        let value = if value.iter().any(|c| matches!(c, b'\r' | b'\n' | 0)) {
            clean = value
                .iter()
                .map(|&c| {
                    if matches!(c, b'\r' | b'\n' | 0) {
                        b' '
                    } else {
                        c
                    }
                })
                .collect();
            &clean
        } else {
            value
        };
        match self {
            Coding::Hpack => hpack::encode_field(out, name, value),
            Coding::Qpack => qpack::encode_field(out, name, value),
        }
    }

    /// Write the date. Returns the position of its value.
    pub fn date(self, out: &mut Vec<u8>, date: &[u8]) -> usize {
        match self {
            Coding::Hpack => hpack::encode_plain_field(out, b"date", date),
            Coding::Qpack => qpack::encode_plain_field(out, b"date", date),
        }
    }

    /// Write the head of a response. Returns the position of the Date value if the server added it.
    pub fn response(self, ex: &Exchange, out: &mut Vec<u8>) -> Option<usize> {
        let r = &ex.response;
        self.begin(out, r.status);
        match &r.server {
            Some(server) if server.is_empty() => {}
            Some(server) => self.field(out, b"server", server),
            None => self.field(out, b"server", &product(ex)),
        }
        let date_at = match &r.date {
            Some(date) if date.is_empty() => None,
            Some(date) => {
                self.field(out, b"date", date);
                None
            }
            None => Some(ex.worker.with_date(|date| self.date(out, date))),
        };
        self.entity(ex, out);
        for (name, value) in r
            .headers
            .iter()
            .filter(|(name, _)| !is_connection_specific(name))
        {
            self.field(out, name, value);
        }
        if let Some(etag) = &r.etag {
            self.field(out, b"etag", etag);
        }
        date_at
    }

    fn entity(self, ex: &Exchange, out: &mut Vec<u8>) {
        let r = &ex.response;
        if let Some(media_type) = r.media_type() {
            self.field(out, b"content-type", &media_type);
        }
        if let Some(length) = r.content_length.filter(|_| r.status != 204) {
            self.field(out, b"content-length", length.to_string().as_bytes());
        }
        if let Some(modified) = r.last_modified.filter(|&t| t >= 0) {
            self.field(out, b"last-modified", time::http_date(modified).as_bytes());
        }
        if let Some(location) = &r.location {
            self.field(out, b"location", &absolute_location(ex, location));
        }
    }

    /// Write trailers.
    pub fn trailers(self, fields: &[(Vec<u8>, Vec<u8>)]) -> Vec<u8> {
        let mut out = Vec::new();
        if self == Coding::Qpack {
            qpack::encode_prefix(&mut out);
        }
        for (name, value) in fields
            .iter()
            .filter(|(name, _)| !is_connection_specific(name))
        {
            self.field(&mut out, name, value);
        }
        out
    }
}

/// Whether a field concerns a single HTTP/1.1 connection (RFC 9113, section 8.2.2).
pub fn is_connection_specific(name: &[u8]) -> bool {
    let names: [&[u8]; 5] = [
        b"connection",
        b"keep-alive",
        b"proxy-connection",
        b"transfer-encoding",
        b"upgrade",
    ];
    names.iter().any(|n| name.eq_ignore_ascii_case(n))
}
