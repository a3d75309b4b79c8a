//! stub_status and empty_gif.

use crate::body::Body;
use crate::exchange::Exchange;
use crate::phases::flow::Flow;
use bytes::Bytes;
use std::sync::atomic::{AtomicU64, Ordering};

pub fn stub_status(ex: &mut Exchange) -> Flow {
    if !matches!(ex.method(), b"GET" | b"HEAD") {
        return Flow::Status(405);
    }
    let c = &ex.worker.shared.counters;
    let get = |n: &AtomicU64| n.load(Ordering::Relaxed);
    let text = format!(
        "Active connections: {} \nserver accepts handled requests\n {} {} {} \n\
         Reading: {} Writing: {} Waiting: {} \n",
        get(c.active),
        get(c.accepted),
        get(c.handled),
        get(c.requests),
        get(c.reading),
        get(c.writing),
        get(c.waiting)
    );
    ex.response.status = 200;
    ex.response.content_type = Some(b"text/plain".to_vec());
    ex.response.content_length = Some(text.len() as u64);
    ex.response.body = Body::bytes(text);
    ex.response.filterable = true;
    Flow::Done
}

/// A transparent image of one pixel.
const GIF: [u8; 43] = [
    b'G', b'I', b'F', b'8', b'9', b'a', 1, 0, 1, 0, 0x80, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0x21,
    0xf9, 4, 1, 0, 0, 1, 0, 0x2c, 0, 0, 0, 0, 1, 0, 1, 0, 0, 2, 2, 0x4c, 1, 0, 0x3b,
];

pub fn empty_gif(ex: &mut Exchange) -> Flow {
    if !matches!(ex.method(), b"GET" | b"HEAD") {
        return Flow::Status(405);
    }
    ex.response.status = 200;
    ex.response.content_type = Some(b"image/gif".to_vec());
    ex.response.content_length = Some(GIF.len() as u64);
    ex.response.last_modified = Some(23_349_600);
    ex.response.body = Body::bytes(Bytes::from_static(&GIF));
    ex.response.filterable = true;
    Flow::Done
}
