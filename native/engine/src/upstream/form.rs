//! The output format of proxied responses: HTTP/1.1 lines or field sections.

use super::recipe::Added;
use crate::exchange::Exchange;
use crate::section::{is_connection_specific, Coding};
use crate::worker::Worker;
use gallop_conf::model::LocConf;
use gallop_http::message::{status_digits, Version};

/// The format of a response head.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// Lines of HTTP/1.1.
    Lines,
    /// An HTTP/2 or HTTP/3 field section.
    Section(Coding),
}

/// All formats.
pub const FORMS: [Form; 3] = [
    Form::Lines,
    Form::Section(Coding::Hpack),
    Form::Section(Coding::Qpack),
];

impl Form {
    /// The format for responses to requests of this version.
    pub fn of(version: Version) -> Form {
        match version {
            Version::Http2 => Form::Section(Coding::Hpack),
            Version::Http3 => Form::Section(Coding::Qpack),
            _ => Form::Lines,
        }
    }

    /// The index in [`FORMS`].
    pub fn index(self) -> usize {
        match self {
            Form::Lines => 0,
            Form::Section(Coding::Hpack) => 1,
            Form::Section(Coding::Qpack) => 2,
        }
    }

    /// Begin a head.
    pub fn begin(self, out: &mut Vec<u8>, status: u16, reason: &[u8]) {
        match self {
            Form::Lines => {
                out.extend_from_slice(b"HTTP/1.1 ");
                out.extend_from_slice(&status_digits(status));
                out.push(b' ');
                out.extend_from_slice(reason);
                out.extend_from_slice(b"\r\n");
            }
            Form::Section(coding) => coding.begin(out, status),
        }
    }

    /// Write a field whose value has no line breaks.
    #[inline]
    pub fn field(self, out: &mut Vec<u8>, name: &[u8], value: &[u8]) {
        match self {
            Form::Lines => {
                out.reserve(name.len() + value.len() + 4);
                out.extend_from_slice(name);
                out.extend_from_slice(b": ");
                out.extend_from_slice(value);
                out.extend_from_slice(b"\r\n");
            }
            Form::Section(coding) => coding.field(out, name, value),
        }
    }

    /// Write the server's own date.
    pub fn date(self, out: &mut Vec<u8>, worker: &Worker) {
        worker.with_date(|date| match self {
            Form::Lines => self.field(out, b"Date", date),
            Form::Section(coding) => _ = coding.date(out, date),
        });
    }

    pub fn length(self, out: &mut Vec<u8>, length: u64) {
        // The longest number has twenty digits.
        let mut digits = [0; 20];
        let (mut at, mut left) = (digits.len() - 1, length);
        digits[at] = b'0' + (left % 10) as u8;
        while left > 9 {
            left /= 10;
            at -= 1;
            digits[at] = b'0' + (left % 10) as u8;
        }
        self.field(out, b"Content-Length", &digits[at..]);
    }

    /// Whether this format allows a field.
    pub fn allows(self, name: &[u8]) -> bool {
        self == Form::Lines || !is_connection_specific(name)
    }
}

/// The constant part of response heads in one format.
pub struct Fixed {
    pub server: Vec<u8>,
    /// The fields about the connection.
    pub connection: Vec<u8>,
    /// The fields of `add_header`, and those of them for every status.
    pub added: Vec<u8>,
    pub always: Vec<u8>,
}

impl Fixed {
    pub fn of(ex: &Exchange, added: &[Added<'_>], form: Form) -> Fixed {
        let write = |only_always: bool| {
            let mut out = Vec::new();
            let wanted = |a: &&Added<'_>| (a.always || !only_always) && form.allows(a.name);
            for field in added.iter().filter(wanted) {
                form.field(&mut out, field.name, field.value);
            }
            out
        };
        let mut server = Vec::new();
        form.field(&mut server, b"Server", &crate::errors::product(ex));
        let connection = match form {
            Form::Lines => connection(&ex.loc.conf),
            Form::Section(_) => Vec::new(),
        };
        Fixed {
            server,
            connection,
            added: write(false),
            always: write(true),
        }
    }
}

fn connection(conf: &LocConf) -> Vec<u8> {
    let mut lines = b"Connection: keep-alive\r\n".to_vec();
    if let Some(seconds) = conf.told_keepalive() {
        lines.extend_from_slice(format!("Keep-Alive: timeout={seconds}\r\n").as_bytes());
    }
    lines
}
