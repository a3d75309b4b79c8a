//! Flash videos from the middle (`flv`): `?start=` is the first byte to send.

use super::static_files::{requested_file, send, send_instead};
use crate::body::Chunk;
use crate::exchange::Exchange;
use crate::phases::flow::Flow;
use crate::vars::argument;
use bytes::Bytes;
use std::sync::Arc;

/// The header of a file with video and audio, which comes before the part that is sent.
const HEADER: &[u8] = b"FLV\x01\x05\0\0\0\x09\0\0\0\0";

/// Serve the file from `start` on. [`Flow::Next`] if the path is that of a folder.
pub fn flv(ex: &mut Exchange) -> Flow {
    let (_, file, meta) = match requested_file(ex) {
        Ok(opened) => opened,
        Err(flow) => return flow,
    };
    let length = meta.len();
    let start = start(ex).filter(|&start| start < length).unwrap_or(0);
    let file = Arc::new(file);
    send(ex, file.clone(), &meta);
    ex.response.allow_ranges = true;
    if start > 0 {
        let header = Chunk::Data(Bytes::from_static(HEADER));
        let part = Chunk::File {
            file,
            offset: start,
            len: length - start,
        };
        send_instead(ex, [header, part], &meta);
    }
    Flow::Done
}

fn start(ex: &Exchange) -> Option<u64> {
    let value = argument(&ex.uri.args, "start")?;
    let is_number = !value.is_empty() && value.iter().all(u8::is_ascii_digit);
    let text = std::str::from_utf8(value).ok().filter(|_| is_number)?;
    text.parse().ok()
}
