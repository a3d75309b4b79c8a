//! Connections to upstream servers, and the idle connections of each thread.

use super::http2::SharedClient;
use gallop_conf::model::Upstream;
use gallop_runtime::{coarse_ms, read_behind, Sock};
use std::cell::RefCell;
use std::collections::VecDeque;
use std::future::{poll_fn, Future};
use std::io;
use std::pin::Pin;
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// A byte stream to an upstream server: a socket, or TLS over one.
pub trait Stream {
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>>;
    /// Read up to `room` bytes and append them to `buf`.
    fn poll_read_more(
        &self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        read_behind(buf, room, |free| self.poll_read(cx, free))
    }
    fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>>;
    /// Ready when all written bytes have reached the socket.
    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>>;
    /// Shut down the sending side after all written bytes.
    fn close_write(&self);
    /// The socket, if the stream has no other layer.
    fn sock(&self) -> Option<&Sock> {
        None
    }
}

impl Stream for Sock {
    fn close_write(&self) {
        Sock::close_write(self);
    }

    fn sock(&self) -> Option<&Sock> {
        Some(self)
    }

    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        Sock::poll_read(self, cx, buf)
    }

    fn poll_read_more(
        &self,
        cx: &mut Context<'_>,
        buf: &mut Vec<u8>,
        room: usize,
    ) -> Poll<io::Result<usize>> {
        Sock::poll_read_more(self, cx, buf, room)
    }

    fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Sock::poll_write(self, cx, buf, false)
    }

    fn poll_flush(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// Write all bytes, until they have reached the socket.
pub async fn write_all(stream: &dyn Stream, mut bytes: &[u8]) -> io::Result<()> {
    while !bytes.is_empty() {
        let n = poll_fn(|cx| stream.poll_write(cx, bytes)).await?;
        if n == 0 {
            return Err(io::Error::from(io::ErrorKind::WriteZero));
        }
        bytes = &bytes[n..];
    }
    poll_fn(|cx| stream.poll_flush(cx)).await
}

/// The rest of a connection that was closed after a complete response: only its end.
pub struct Ended;

impl Stream for Ended {
    fn close_write(&self) {}

    fn poll_read(&self, _: &mut Context<'_>, _: &mut [u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Ok(0))
    }

    fn poll_write(&self, _: &mut Context<'_>, _: &[u8]) -> Poll<io::Result<usize>> {
        Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()))
    }

    fn poll_flush(&self, _: &mut Context<'_>) -> Poll<io::Result<()>> {
        Poll::Ready(Ok(()))
    }
}

/// The parameters of a TLS handshake with an upstream.
pub struct TlsRequest<'a> {
    pub conf: &'a gallop_conf::model::UpConf,
    /// The name to send and verify (`proxy_ssl_name`).
    pub name: &'a str,
    /// The evaluated paths of the client certificate and its key.
    pub certificate: Option<(String, String)>,
    /// The protocols of `proxy_ssl_alpn`.
    pub protocols: Option<Vec<Vec<u8>>>,
}

/// A handshake under way.
pub type Handshake = Pin<Box<dyn Future<Output = io::Result<Box<dyn Stream>>>>>;

/// Creates TLS connections to upstreams; the server installs one in [`crate::Worker`].
pub trait Connector {
    fn connect(&self, sock: Sock, request: &TlsRequest<'_>) -> Handshake;
}

/// The key for reuse of an idle connection: connections with different keys must not replace each
/// other. Locations and settings are identified by their address.
#[derive(Debug, PartialEq, Eq)]
pub struct PoolKey {
    pub group: Option<usize>,
    pub scheme: &'static str,
    /// The server's address.
    pub peer: Arc<str>,
    /// `proxy_bind`.
    pub bind: Vec<u8>,
    /// The location, if the group's connections serve only one.
    pub location: Option<usize>,
    pub tls: Option<Box<TlsKey>>,
}

/// The parameters of a TLS connection.
#[derive(Debug, PartialEq, Eq)]
pub struct TlsKey {
    pub conf: usize,
    pub name: String,
    pub certificate: Option<(String, String)>,
}

/// A connection that can carry requests.
pub struct UpstreamConn {
    pub stream: Box<dyn Stream>,
    pub key: PoolKey,
    pub requests: u64,
    /// Opening time in milliseconds (monotonic clock).
    pub opened: u64,
    /// Whether it was idle before, so that the server may have closed it.
    pub reused: bool,
    /// The state of an HTTP/2 connection.
    pub http2: Option<SharedClient>,
}

impl UpstreamConn {
    pub async fn write_all(&self, bytes: &[u8]) -> io::Result<()> {
        write_all(&*self.stream, bytes).await
    }

    pub async fn read(&self, buf: &mut [u8]) -> io::Result<usize> {
        poll_fn(|cx| self.stream.poll_read(cx, buf)).await
    }

    /// Whether nothing has arrived since the last response and the server has not closed.
    pub(super) fn is_quiet(&self) -> bool {
        let mut byte = [0];
        let mut cx = Context::from_waker(Waker::noop());
        self.stream.poll_read(&mut cx, &mut byte).is_pending()
    }
}

struct Idle {
    conn: UpstreamConn,
    since: u64,
    timeout: u64,
}

impl Idle {
    fn is_alive(&self, now: u64) -> bool {
        now.saturating_sub(self.since) <= self.timeout && self.conn.is_quiet()
    }
}

/// Idle connections by group number, most recently used last.
#[derive(Default)]
pub struct Pool {
    idle: RefCell<Vec<VecDeque<Idle>>>,
    /// Groups with more connections than allowed, and their limits. A returned connection is often
    /// needed again in the same event loop round, so groups are trimmed at its end.
    crowded: RefCell<Vec<(usize, usize)>>,
}

impl Pool {
    /// Take an idle connection that is still open.
    pub fn take(&self, key: &PoolKey) -> Option<UpstreamConn> {
        loop {
            let mut idle = self.idle.borrow_mut();
            let idle = idle.get_mut(key.group?)?;
            let i = idle.iter().rposition(|c| c.conn.key == *key)?;
            let entry = idle.remove(i).expect("found above");
            if entry.is_alive(coarse_ms()) {
                return Some(UpstreamConn {
                    reused: true,
                    ..entry.conn
                });
            }
        }
    }

    /// Keep a connection if its group has room for it.
    pub fn give(&self, group: usize, conf: &Upstream, conn: UpstreamConn) {
        let now = coarse_ms();
        let old = now.saturating_sub(conn.opened) > conf.keepalive_time;
        if conf.keepalive == 0
            || conn.requests >= conf.keepalive_requests
            || old
            || !conn.is_quiet()
        {
            return;
        }
        let mut idle = self.idle.borrow_mut();
        if idle.len() <= group {
            idle.resize_with(group + 1, VecDeque::new);
        }
        let idle = &mut idle[group];
        idle.push_back(Idle {
            conn,
            since: now,
            timeout: conf.keepalive_timeout,
        });
        if idle.len() as u64 == conf.keepalive + 1 {
            let entry = (group, conf.keepalive as usize);
            self.crowded.borrow_mut().push(entry);
        }
    }

    /// Close the connections above the limits, least recently used first.
    pub fn trim(&self) {
        for (group, most) in self.crowded.borrow_mut().drain(..) {
            let idle = &mut self.idle.borrow_mut()[group];
            let more = idle.len().saturating_sub(most);
            idle.drain(..more);
        }
    }

    /// Close connections that were idle for too long or that the server closed.
    pub fn purge(&self) {
        let now = coarse_ms();
        let mut idle = self.idle.borrow_mut();
        idle.iter_mut()
            .for_each(|group| group.retain(|c| c.is_alive(now)));
    }

    pub fn clear(&self) {
        self.crowded.borrow_mut().clear();
        self.idle.borrow_mut().clear();
    }
}

/// The worker's connector, if TLS to upstreams is available.
pub type SharedConnector = RefCell<Option<Rc<dyn Connector>>>;
