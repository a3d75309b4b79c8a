//! Field sections of responses: heads and trailers.

use super::{protocol, Client, ClientError, Event, Result, Section};
use crate::flood;
use crate::h2::frame::{self, Header};
use crate::hpack::ENTRY_OVERHEAD;
use std::time::Instant;

/// The names and values of a section's fields, in order.
pub type Fields = Vec<(Vec<u8>, Vec<u8>)>;

/// The least limit of a decoded section, with [`ENTRY_OVERHEAD`] bytes more for each field. One
/// byte can stand for a whole field.
const LEAST_DECODED: usize = 64 * 1024;

impl Client {
    pub(super) fn on_section(
        &mut self,
        header: &Header,
        payload: &[u8],
        now: Instant,
    ) -> Result<Option<Event<'static>>> {
        let section = match self.section.take() {
            Some(mut section) => {
                self.charge(flood::CONTINUATION, now)?;
                section.block.extend_from_slice(payload);
                section
            }
            None => {
                let Ok((_, block)) = frame::field_block(header, payload) else {
                    return protocol("headers frame with invalid length or padding");
                };
                Section {
                    block: block.to_vec(),
                    ends: header.has(frame::END_STREAM),
                }
            }
        };
        if section.block.len() > self.limit {
            return Err(ClientError::TooBig);
        }
        if !header.has(frame::END_HEADERS) {
            self.section = Some(section);
            return Ok(None);
        }
        self.end_section(&section, now).map(Some)
    }

    fn end_section(&mut self, section: &Section, now: Instant) -> Result<Event<'static>> {
        let (status, fields) = self.decode(&section.block)?;
        if self.head_seen {
            if status.is_some() {
                return protocol("invalid trailer");
            }
            if !section.ends {
                return protocol("trailer without end stream flag");
            }
            self.response_ended = true;
            return Ok(Event::Trailers(fields));
        }
        let Some(status) = status else {
            return protocol("no :status header");
        };
        match status {
            101 | ..100 => return protocol("unexpected :status"),
            102..200 | 100 => {
                if section.ends {
                    return protocol("interim response that ends the stream");
                }
                self.charge(flood::CONTINUATION, now)?;
            }
            _ => {
                self.head_seen = true;
                self.response_ended = section.ends;
            }
        }
        Ok(Event::Head { status, fields })
    }

    /// The status and the fields of a section.
    fn decode(&mut self, block: &[u8]) -> Result<(Option<u16>, Fields)> {
        let most = LEAST_DECODED.max(2 * self.limit);
        let mut fields = Fields::new();
        let mut status = None;
        let (mut size, mut problem) = (0, None);
        let decoded = self.decoder.decode(block, |name, value| {
            size += name.len() + value.len() + ENTRY_OVERHEAD;
            if problem.is_some() {
                return;
            }
            if size > most {
                problem = Some(ClientError::TooBig);
                return;
            }
            if name != b":status" {
                match check(name, value) {
                    Ok(()) => fields.push((name.to_vec(), value.to_vec())),
                    Err(e) => problem = Some(e),
                }
                return;
            }
            let is_first = status.is_none() && fields.is_empty();
            status = parse_status(value);
            if !is_first || status.is_none() {
                problem = Some(ClientError::Protocol("invalid :status"));
            }
        });
        self.decoder.trim();
        match (decoded, problem) {
            (Err(_), _) => protocol("invalid encoded header"),
            (_, Some(problem)) => Err(problem),
            _ => Ok((status, fields)),
        }
    }
}

fn parse_status(value: &[u8]) -> Option<u16> {
    let digits: &[u8; 3] = value.try_into().ok()?;
    let is_number = digits.iter().all(u8::is_ascii_digit);
    let number = digits.iter().fold(0, |n, d| n * 10 + u16::from(d & 15));
    is_number.then_some(number)
}

/// Check a field (section 8.2.1).
fn check(name: &[u8], value: &[u8]) -> Result<()> {
    let is_bad = |c: &u8| matches!(*c, 0..=0x20 | 0x7f | b':' | b'A'..=b'Z');
    let ends_line = |c: &u8| matches!(*c, 0 | b'\r' | b'\n');
    if name.is_empty() || name.iter().any(is_bad) || value.iter().any(ends_line) {
        return protocol("invalid header");
    }
    Ok(())
}
