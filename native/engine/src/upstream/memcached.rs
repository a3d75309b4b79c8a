//! memcached_pass: the value of a key as a response.

use super::answer::Head;
use super::transfer::Plan;
use crate::escape::{self, Shown, Use};
use crate::exchange::Exchange;
use crate::handlers;
use crate::phases::flow::Flow;
use crate::template::{self, Template};
use gallop_conf::model::Level;
use gallop_http::memcached::{parse_line, Line, LineError, Value};

/// The escaped key for a request; a flow that ends the request if it cannot have a value.
pub(super) fn prepare(ex: &Exchange, key: &Template) -> Result<Vec<u8>, Flow> {
    if !matches!(ex.method(), b"GET" | b"HEAD") {
        return Err(Flow::Status(405));
    }
    let key = escape::escaped(&template::eval(ex, key), Use::Memcached);
    if key.is_empty() {
        ex.log(Level::Error, "the \"$memcached_key\" variable is not set");
        return Err(Flow::Status(500));
    }
    Ok(key)
}

/// Complete the response to the client; a flow if there is no value.
pub(super) fn apply(ex: &mut Exchange, plan: &Plan<'_>, head: &Head) -> Option<Flow> {
    if head.status == 404 {
        let key = Shown(&plan.memcached_key);
        let message = format!("key: \"{key}\" was not found by memcached");
        ex.log(Level::Info, &message);
        return Some(Flow::Status(404));
    }
    ex.response.content_type = Some(handlers::content_type(ex));
    None
}

/// Reads a response.
pub struct Reader {
    key: Vec<u8>,
    /// The flag of values that are compressed by gzip; 0 for none.
    gzip_flag: u64,
    pub(super) value: Value,
}

impl Reader {
    pub(super) fn new(plan: &Plan<'_>) -> Reader {
        Reader {
            key: plan.memcached_key.clone(),
            gzip_flag: plan.conf.gzip_flag.unwrap_or(0),
            value: Value::missing(),
        }
    }

    /// Parse the first line if it is complete, and remove it from `input`.
    pub(super) fn head(&mut self, input: &mut Vec<u8>) -> Result<Option<Head>, String> {
        let failed = |what: &str| {
            let line = input.split(|&c| c == b'\n').next().unwrap_or_default();
            let (line, key) = (Shown(line.trim_ascii_end()), Shown(&self.key));
            format!("memcached sent invalid {what} in response \"{line}\" for key \"{key}\"")
        };
        let parsed = parse_line(input, &self.key).map_err(|e| match e {
            LineError::Key => failed("key"),
            LineError::Length => failed("length"),
            LineError::Other => failed("line"),
        })?;
        let Some((line, used)) = parsed else {
            return Ok(None);
        };
        let mut head = Head {
            keep: true,
            ..Head::default()
        };
        match line {
            Line::Missing => (head.status, head.content_length) = (404, Some(0)),
            Line::Value { flags, length } => {
                (head.status, head.content_length) = (200, Some(length));
                self.value = Value::new(length);
                if self.gzip_flag != 0 {
                    let flags = flags.ok_or_else(|| failed("flags"))?;
                    let is_coded = flags & self.gzip_flag != 0;
                    let field = is_coded.then(|| (b"Content-Encoding".to_vec(), b"gzip".to_vec()));
                    head.fields = Vec::from_iter(field).into();
                }
            }
        }
        input.drain(..used);
        Ok(Some(head))
    }
}
