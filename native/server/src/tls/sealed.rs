//! TLS as a byte stream, towards upstream servers and towards clients of `stream`.

use super::TlsStream;
use gallop_engine::upstream::keepalive::Stream;
use rustls::{ClientConnection, ConnectionCommon, ServerConnection, SideData};
use std::cell::RefCell;
use std::io;
use std::ops::DerefMut;
use std::task::{Context, Poll};

/// A side of a TLS connection.
pub trait Side: DerefMut<Target = ConnectionCommon<Self::Data>> {
    type Data: SideData;
}

impl Side for ClientConnection {
    type Data = rustls::client::ClientConnectionData;
}

impl Side for ServerConnection {
    type Data = rustls::server::ServerConnectionData;
}

/// A TLS stream after its handshake. It ends with a close_notify alert.
pub struct Sealed<C: Side>(RefCell<TlsStream<C>>);

impl<C: Side> Sealed<C> {
    pub fn new(stream: TlsStream<C>) -> Self {
        Self(RefCell::new(stream))
    }
}

impl<C: Side> Stream for Sealed<C> {
    fn poll_read(&self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_read(cx, buf)
    }

    fn poll_write(&self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        self.0.borrow_mut().poll_write(cx, buf)
    }

    fn poll_flush(&self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        self.0.borrow_mut().poll_flush(cx)
    }

    fn close_write(&self) {
        let mut stream = self.0.borrow_mut();
        stream.close();
        stream.sock().close_write();
    }
}

impl<C: Side> Drop for Sealed<C> {
    fn drop(&mut self) {
        self.0.borrow_mut().close();
    }
}
