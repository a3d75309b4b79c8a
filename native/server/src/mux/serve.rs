//! The task of a single request.

use super::passing::version;
use super::{fast, Mux, Queue, QueuedBody};
use bytes::Bytes;
use gallop_conf::model::Level;
use gallop_conf::values::parse_size;
use gallop_engine::body::read_range;
use gallop_engine::exchange::{Fields, Interim};
use gallop_engine::{trailers, Begin, Body, Chunk, Conn, Exchange, Worker};
use gallop_http::head::{HeadError, RequestHead};
use gallop_runtime::{race, sleep, timeout, unix_time, Either, Notify};
use std::future::{poll_fn, Future};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::atomic::Ordering;
use std::task::Poll;

/// Bytes of a file that are read at a time.
const FILE_PIECE: u64 = 64 * 1024;
/// Bytes of a file that are read for a stream whose window is closed.
const STALLED_PIECE: u64 = 1024;

/// The connection's handle on a request with a task.
pub struct Started {
    /// The queue of the request body, if there is one.
    pub body: Option<Rc<Queue>>,
    /// Set when the stream is lost.
    pub gone: Rc<Notify>,
}

/// Sends interim responses on a stream.
struct Hints {
    mux: Rc<dyn Mux>,
    stream: u64,
}

impl Interim for Hints {
    fn early_hints<'a>(
        &'a self,
        fields: &'a Fields,
    ) -> Pin<Box<dyn Future<Output = io::Result<()>> + 'a>> {
        let section = self.mux.coding().interim(103, fields);
        self.mux.send_interim(self.stream, &section);
        Box::pin(std::future::ready(Ok(())))
    }
}

/// Start the task of a request. `head` is an error if malformed; `end`: there is no body.
pub fn start(
    worker: &Rc<Worker>,
    conn: &Rc<Conn>,
    mux: Rc<dyn Mux>,
    stream: u64,
    head: Result<&RequestHead, HeadError>,
    end: bool,
) -> Started {
    let version = version(mux.coding());
    let mut ex = Exchange::new(worker.clone(), conn.clone());
    count(worker, conn);
    let mut queue = None;
    let refused = match head {
        Err(error) => {
            ex.head.version = version;
            ex.log(Level::Info, &error.to_string());
            Some(match error {
                HeadError::TooLarge | HeadError::TooMany => 494,
                _ => 400,
            })
        }
        Ok(head) => {
            head.copy_to(&mut ex.head, version);
            ex.request_length = head.size() as u64;
            if !end {
                queue = Some(receive_body(&mut ex, head, &mux, stream));
            }
            refusal(&mut ex)
        }
    };
    let gone = run(mux, stream, ex, refused);
    Started { body: queue, gone }
}

/// Count a request.
pub fn count(worker: &Worker, conn: &Conn) {
    conn.requests.set(conn.requests.get() + 1);
    let counters = &worker.shared.counters;
    counters.requests.fetch_add(1, Ordering::Relaxed);
}

/// Start the task of a request that was already counted. Returns the flag to set when the stream is
/// lost.
pub fn resume(mux: Rc<dyn Mux>, stream: u64, mut ex: Box<Exchange>) -> Rc<Notify> {
    let refused = refusal(&mut ex);
    run(mux, stream, ex, refused)
}

fn refusal(ex: &mut Exchange) -> Option<u16> {
    match gallop_engine::begin(ex) {
        Begin::Refuse(status) => Some(status),
        Begin::Process => None,
    }
}

fn run(mux: Rc<dyn Mux>, stream: u64, mut ex: Box<Exchange>, refused: Option<u16>) -> Rc<Notify> {
    ex.interim = Some(Rc::new(Hints {
        mux: mux.clone(),
        stream,
    }));
    let gone = Rc::new(Notify::default());
    gallop_runtime::spawn(serve(mux, stream, ex, refused, gone.clone()));
    gone
}

fn receive_body(
    ex: &mut Exchange,
    head: &RequestHead,
    mux: &Rc<dyn Mux>,
    stream: u64,
) -> Rc<Queue> {
    let queue = Rc::new(Queue::default());
    ex.content_length = head.content_length();
    ex.chunked = ex.content_length.is_none();
    let expects = ex
        .head
        .get("expect")
        .is_some_and(|v| v.eq_ignore_ascii_case(b"100-continue"));
    ex.expect_continue = expects;
    let interim = expects.then(|| mux.coding().status(100));
    ex.source = Box::new(QueuedBody::new(queue.clone(), mux.clone(), stream, interim));
    queue
}

/// Process a request and send its response, unless the stream is lost meanwhile.
pub async fn serve(
    mux: Rc<dyn Mux>,
    stream: u64,
    mut ex: Box<Exchange>,
    refused: Option<u16>,
    gone: Rc<Notify>,
) {
    let outcome = race(gone.wait(), answer(&mux, stream, &mut ex, refused)).await;
    match outcome {
        Either::Second(Ok(())) => ex.complete = true,
        Either::Second(Err(error)) => {
            ex.log(
                Level::Info,
                &format!("{error} while sending response to client"),
            );
            mux.abort(stream, error.kind() == io::ErrorKind::TimedOut);
        }
        Either::First(()) => {
            if ex.bytes_sent == 0 {
                ex.response.status = 499;
            }
            ex.log(Level::Info, "client prematurely closed stream");
        }
    }
    gallop_engine::settled(&ex).await;
    gallop_engine::finish(&mut ex);
}

async fn answer(
    mux: &Rc<dyn Mux>,
    stream: u64,
    ex: &mut Exchange,
    refused: Option<u16>,
) -> io::Result<()> {
    if !gallop_engine::run(ex, refused).await {
        mux.abort(stream, ex.response.status == 408);
        return Ok(());
    }
    if let Err(status) = ex.source.discard_ready() {
        ex.response = Default::default();
        ex.error_page = true;
        if !gallop_engine::run(ex, Some(status)).await {
            mux.abort(stream, false);
            return Ok(());
        }
    }
    let mut body = std::mem::take(&mut ex.response.body);
    let status = ex.response.status;
    let bodiless = ex.header_only || status == 204 || status == 304;
    if !bodiless && matches!(body, Body::Empty) && ex.response.content_length.is_none() {
        ex.response.content_length = Some(0);
    }
    let end = bodiless || ex.response.content_length == Some(0);
    if let Some(size) = ex.loc.conf.http2_chunk_size {
        mux.set_chunk(stream, size);
    }
    let mut section = Vec::with_capacity(256);
    let date_at = mux.coding().response(ex, &mut section);
    ex.bytes_sent = section.len() as u64;
    if !end {
        if let Some(whole) = small(&mut body)? {
            fast::remember(mux.coding(), ex, &section, date_at, &whole);
            return send_whole(mux, stream, ex, &section, whole).await;
        }
    }
    if end {
        send_bodiless(mux, stream, ex, &section, bodiless, &mut body);
        return Ok(());
    }
    mux.send_head(stream, &section, false);
    send_body(mux, stream, ex, &mut body).await
}

/// Send a response without body bytes. A response that could have a body may still have trailers.
fn send_bodiless(
    mux: &Rc<dyn Mux>,
    stream: u64,
    ex: &mut Exchange,
    section: &[u8],
    never: bool,
    body: &mut Body,
) {
    let fields = if never {
        Vec::new()
    } else {
        trailers(ex, body)
    };
    mux.send_head(stream, section, fields.is_empty());
    if !fields.is_empty() {
        mux.send_trailers(stream, &mux.coding().trailers(&fields));
    }
}

/// A small body that is in memory, in one piece.
fn small(body: &mut Body) -> io::Result<Option<Bytes>> {
    let Body::Pieces(pieces) = body else {
        return Ok(None);
    };
    if pieces.iter().map(Chunk::len).sum::<u64>() > FILE_PIECE {
        return Ok(None);
    }
    if let [Chunk::Data(data)] = pieces.make_contiguous() {
        return Ok(Some(data.clone()));
    }
    let mut whole = Vec::new();
    for piece in pieces {
        match piece {
            Chunk::Data(data) => whole.extend_from_slice(data),
            Chunk::File { file, offset, len } => read_range(file, *offset, *len, &mut whole)?,
            Chunk::Flush => {}
        }
    }
    Ok(Some(whole.into()))
}

async fn send_whole(
    mux: &Rc<dyn Mux>,
    stream: u64,
    ex: &mut Exchange,
    section: &[u8],
    body: Bytes,
) -> io::Result<()> {
    if ex
        .response
        .content_length
        .is_some_and(|length| length != body.len() as u64)
    {
        return Err(io::Error::other("body has not the length it should have"));
    }
    mux.send_head(stream, section, false);
    let fields = trailers(ex, &mut Body::Empty);
    let mut sender = Sender::new(mux, stream, ex);
    sender.send(body, fields.is_empty()).await?;
    if !fields.is_empty() {
        mux.send_trailers(stream, &mux.coding().trailers(&fields));
    }
    Ok(())
}

async fn send_body(
    mux: &Rc<dyn Mux>,
    stream: u64,
    ex: &mut Exchange,
    body: &mut Body,
) -> io::Result<()> {
    let mut left = ex.response.content_length;
    let has_trailers = ex.response.may_have_trailers || !ex.response.trailers.is_empty();
    while let Some(chunk) = body.next().await {
        let chunk = chunk?;
        if let Some(left) = &mut left {
            let over = io::Error::other("body is longer than its length");
            *left = left.checked_sub(chunk.len()).ok_or(over)?;
        }
        let last = left == Some(0) && !has_trailers;
        let mut sender = Sender::new(mux, stream, ex);
        match chunk {
            Chunk::Flush => continue,
            Chunk::Data(data) => sender.send(data, last).await?,
            Chunk::File {
                file,
                mut offset,
                mut len,
            } => {
                while len > 0 {
                    // A stream whose window is closed, perhaps forever, holds little memory.
                    let piece = if mux.has_window(stream) {
                        FILE_PIECE
                    } else {
                        STALLED_PIECE
                    };
                    // Send a small rest together with the last piece rather than in a frame of its
                    // own.
                    let n = if len < 2 * piece { len } else { piece };
                    let mut piece = Vec::with_capacity(n as usize);
                    read_range(&file, offset, n, &mut piece)?;
                    (offset, len) = (offset + n, len - n);
                    sender.send(piece.into(), last && len == 0).await?;
                }
            }
        }
        if last {
            return Ok(());
        }
    }
    if left.is_some_and(|left| left > 0) {
        return Err(io::Error::other("body is shorter than its length"));
    }
    let fields = trailers(ex, body);
    if fields.is_empty() {
        return Sender::new(mux, stream, ex).send(Bytes::new(), true).await;
    }
    mux.send_trailers(stream, &mux.coding().trailers(&fields));
    Ok(())
}

/// Sends pieces at the rate of `limit_rate`.
struct Sender<'a> {
    mux: &'a Rc<dyn Mux>,
    stream: u64,
    ex: &'a mut Exchange,
    /// Bytes per second, and the bytes sent before the limit applies (`limit_rate_after`).
    rate: Option<(u64, u64)>,
}

impl<'a> Sender<'a> {
    fn new(mux: &'a Rc<dyn Mux>, stream: u64, ex: &'a mut Exchange) -> Self {
        let conf = &ex.loc.conf;
        let size = |template: &Option<gallop_conf::template::Template>| {
            let text = gallop_engine::template::eval(ex, template.as_ref()?);
            parse_size(&String::from_utf8_lossy(&text))
        };
        let rate = ex
            .limit_rate
            .get()
            .or_else(|| size(&conf.limit_rate))
            .filter(|&rate| rate > 0);
        let after = size(&conf.limit_rate_after).unwrap_or(0);
        let rate = rate.map(|rate| (rate, after));
        Self {
            mux,
            stream,
            ex,
            rate,
        }
    }

    async fn send(&mut self, mut data: Bytes, end: bool) -> io::Result<()> {
        while self.rate.is_some() && !data.is_empty() {
            let allowed = self.allowance().await.min(data.len() as u64) as usize;
            let piece = data.split_to(allowed);
            self.send_now(piece, end && data.is_empty()).await?;
            if data.is_empty() {
                return Ok(());
            }
        }
        self.send_now(data, end).await
    }

    /// The number of bytes that may be sent now. Waits while the limit is reached.
    async fn allowance(&self) -> u64 {
        let Some((rate, after)) = self.rate else {
            return u64::MAX;
        };
        loop {
            let seconds = (unix_time() / 1000).saturating_sub(self.ex.started_wall / 1000) + 1;
            let (limit, sent) = (rate * seconds + after, self.ex.body_sent);
            if limit > sent {
                return limit - sent;
            }
            sleep((sent - limit) * 1000 / rate + 1).await;
        }
    }

    async fn send_now(&mut self, mut data: Bytes, end: bool) -> io::Result<()> {
        let len = data.len() as u64;
        let limit = self.ex.loc.conf.send_timeout.unwrap_or(60_000);
        loop {
            let before = data.len();
            let mut first = true;
            let sending = poll_fn(|cx| {
                // Any progress restarts the time limit.
                if !std::mem::take(&mut first) && data.len() < before {
                    return Poll::Ready(Ok(false));
                }
                self.mux
                    .poll_send(cx, self.stream, &mut data, end)
                    .map_ok(|()| true)
            });
            match timeout(limit, sending).await {
                Ok(Ok(true)) => break,
                Ok(Ok(false)) => {}
                Ok(Err(e)) => return Err(e),
                Err(_) => return Err(io::Error::new(io::ErrorKind::TimedOut, "client timed out")),
            }
        }
        self.ex.bytes_sent += len;
        self.ex.body_sent += len;
        Ok(())
    }
}
