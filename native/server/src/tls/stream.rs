//! A TLS connection over a non-blocking socket.

use super::sigalg::Noted;
use super::{challenge, Offered};
use gallop_runtime::Sock;
use rustls::server::{Accepted, Acceptor};
use rustls::{ConnectionCommon, ServerConfig, ServerConnection, SideData};
use std::future::poll_fn;
use std::io::{self, IoSlice, Read, Write};
use std::ops::DerefMut;
use std::sync::Arc;
use std::task::{ready, Context, Poll, Waker};

/// The most sealed bytes waiting for the socket before no more plain bytes are taken.
const MAX_UNSENT: usize = 128 * 1024;

/// The fatal alert `unrecognized_name` (RFC 6066, section 3) as a record.
const UNRECOGNIZED_NAME: [u8; 7] = [0x15, 3, 3, 0, 2, 2, 112];

/// Converts between plain bytes and TLS records. `C` is the side of the connection.
pub struct TlsStream<C = ServerConnection> {
    sock: Sock,
    tls: C,
    /// The early data of a client that is now authenticated; read before all other bytes.
    early: Vec<u8>,
    signed: Noted,
}

/// The reason for a failed handshake.
#[derive(Debug)]
pub enum HandshakeError {
    /// The connection failed.
    Io(io::Error),
    /// The client made an error, or both sides share no version or cipher.
    Tls(rustls::Error),
    /// The server block rejects handshakes (`ssl_reject_handshake`).
    Rejected,
    /// A certificate authority has seen the challenge of a name, which ends the connection.
    Challenged(String),
}

impl std::fmt::Display for HandshakeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            HandshakeError::Io(e) => write!(f, "{e}"),
            HandshakeError::Tls(e) => write!(f, "SSL_do_handshake() failed ({e})"),
            HandshakeError::Rejected => f.write_str("handshake rejected"),
            HandshakeError::Challenged(name) => write!(f, "ACME challenge of \"{name}\" shown"),
        }
    }
}

/// The socket with blocking semantics for rustls: a wait becomes a `WouldBlock` error.
struct Blocking<'a, 'b> {
    sock: &'a Sock,
    cx: &'a mut Context<'b>,
}

fn or_would_block<T>(poll: Poll<io::Result<T>>) -> io::Result<T> {
    match poll {
        Poll::Ready(result) => result,
        Poll::Pending => Err(io::ErrorKind::WouldBlock.into()),
    }
}

impl Read for Blocking<'_, '_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        or_would_block(self.sock.poll_read(self.cx, buf))
    }
}

impl Write for Blocking<'_, '_> {
    fn write(&mut self, buf: &[u8]) -> io::Result<usize> {
        or_would_block(self.sock.poll_write(self.cx, buf, false))
    }

    fn write_vectored(&mut self, bufs: &[IoSlice<'_>]) -> io::Result<usize> {
        or_would_block(self.sock.poll_write_vectored(self.cx, bufs, false))
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A ClientHello before its server block is known.
pub struct Hello {
    sock: Sock,
    accepted: Accepted,
}

impl Hello {
    /// Wait for the ClientHello. `early` was already read from the socket.
    ///
    /// # Errors
    /// The connection failed, or the bytes are not TLS.
    pub async fn read(sock: Sock, early: &[u8]) -> Result<Self, HandshakeError> {
        let mut acceptor = Acceptor::default();
        let mut early = early;
        while !early.is_empty() {
            acceptor.read_tls(&mut early).map_err(HandshakeError::Io)?;
        }
        let accepted = poll_fn(|cx| poll_hello(&sock, &mut acceptor, cx)).await?;
        Ok(Self { sock, accepted })
    }

    /// The name in the ClientHello (SNI) in lower case.
    pub fn server_name(&self) -> Option<String> {
        self.accepted
            .client_hello()
            .server_name()
            .map(str::to_ascii_lowercase)
    }

    /// The client's offer.
    pub fn offered(&self) -> Offered {
        Offered::new(&self.accepted.client_hello())
    }

    /// Whether the client is a certificate authority that validates a challenge (RFC 8737,
    /// section 3).
    pub fn is_challenge(&self) -> bool {
        let hello = self.accepted.client_hello();
        hello
            .alpn()
            .is_some_and(|names| names.eq([challenge::PROTOCOL]))
    }

    /// Show the challenge of a name, which ends the connection.
    ///
    /// # Errors
    /// Always: the connection has ended.
    pub async fn show(self, name: String, key_authorization: &[u8]) -> HandshakeError {
        let config = match challenge::config(&name, key_authorization) {
            Ok(config) => config,
            Err(e) => return HandshakeError::Io(io::Error::other(e)),
        };
        match self.finish(&config).await {
            Ok(_) => HandshakeError::Challenged(name),
            Err(e) => e,
        }
    }

    /// Reject the name that the client asks for.
    pub fn reject(self) -> HandshakeError {
        // The handshake has ended, whether or not the client receives the alert.
        let _ = self.sock.try_write(&UNRECOGNIZED_NAME);
        HandshakeError::Rejected
    }

    /// Complete the handshake with a configuration.
    ///
    /// # Errors
    /// The connection failed, or the sides do not agree; an alert was sent.
    pub async fn finish(self, config: &Arc<ServerConfig>) -> Result<TlsStream, HandshakeError> {
        let Self { sock, accepted } = self;
        // Discard the records of a failed earlier handshake.
        Noted::forget();
        let tls = match accepted.into_connection(config.clone()) {
            Ok(tls) => tls,
            Err((error, mut alert)) => {
                let mut bytes = Vec::new();
                if alert.write_all(&mut bytes).is_ok() {
                    // Return the error even if the client is gone.
                    let _ = sock.try_write(&bytes);
                }
                return Err(HandshakeError::Tls(error));
            }
        };
        let signed = Noted::take();
        let mut stream = TlsStream::handshake(sock, tls).await?;
        stream.signed.own = stream.signed.own.or(signed.own);
        if let Some(mut early) = stream.tls.early_data() {
            early
                .read_to_end(&mut stream.early)
                .map_err(HandshakeError::Io)?;
        }
        Ok(stream)
    }
}

fn poll_hello(
    sock: &Sock,
    acceptor: &mut Acceptor,
    cx: &mut Context<'_>,
) -> Poll<Result<Accepted, HandshakeError>> {
    loop {
        match acceptor.accept() {
            Ok(Some(accepted)) => return Poll::Ready(Ok(accepted)),
            Ok(None) => {}
            Err((error, mut alert)) => {
                let mut bytes = Vec::new();
                if alert.write_all(&mut bytes).is_ok() {
                    // Return the error even if the client is gone.
                    let _ = sock.try_write(&bytes);
                }
                return Poll::Ready(Err(HandshakeError::Tls(error)));
            }
        }
        match acceptor.read_tls(&mut Blocking { sock, cx }) {
            Ok(0) => {
                return Poll::Ready(Err(HandshakeError::Io(io::ErrorKind::UnexpectedEof.into())))
            }
            Ok(_) => {}
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
            Err(e) => return Poll::Ready(Err(HandshakeError::Io(e))),
        }
    }
}

impl<C, D> TlsStream<C>
where
    C: DerefMut<Target = ConnectionCommon<D>>,
    D: SideData,
{
    /// Complete a handshake that `tls` has begun.
    ///
    /// # Errors
    /// The connection failed, or the sides do not agree; an alert was sent.
    pub async fn handshake(sock: Sock, mut tls: C) -> Result<Self, HandshakeError> {
        tls.set_buffer_limit(Some(MAX_UNSENT));
        let early = Vec::new();
        let signed = Noted::default();
        let mut stream = TlsStream {
            sock,
            tls,
            early,
            signed,
        };
        poll_fn(|cx| stream.poll_handshake(cx)).await?;
        Ok(stream)
    }

    fn poll_handshake(&mut self, cx: &mut Context<'_>) -> Poll<Result<(), HandshakeError>> {
        loop {
            // First send pending bytes: an alert or handshake messages.
            ready!(self.poll_flush(cx)).map_err(HandshakeError::Io)?;
            if !self.tls.is_handshaking() {
                return Poll::Ready(Ok(()));
            }
            match self.fill(cx) {
                Ok(0) => {
                    let eof = io::ErrorKind::UnexpectedEof.into();
                    return Poll::Ready(Err(HandshakeError::Io(eof)));
                }
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(e) => return Poll::Ready(Err(HandshakeError::Io(e))),
            }
            Noted::forget();
            let processed = self.tls.process_new_packets();
            self.signed.add(Noted::take());
            if let Err(error) = processed {
                // Send the alert; return the error even if the client is gone.
                let _ = self.poll_flush(cx);
                return Poll::Ready(Err(HandshakeError::Tls(error)));
            }
        }
    }

    /// Read records from the socket.
    fn fill(&mut self, cx: &mut Context<'_>) -> io::Result<usize> {
        self.tls.read_tls(&mut Blocking {
            sock: &self.sock,
            cx,
        })
    }

    /// Read plain bytes; 0 if the client has closed its side.
    pub fn poll_read(&mut self, cx: &mut Context<'_>, buf: &mut [u8]) -> Poll<io::Result<usize>> {
        if !self.early.is_empty() {
            let n = self.early.len().min(buf.len());
            buf[..n].copy_from_slice(&self.early[..n]);
            self.early.drain(..n);
            return Poll::Ready(Ok(n));
        }
        loop {
            match self.tls.reader().read(buf) {
                Ok(n) => return Poll::Ready(Ok(n)),
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => {}
                // Many clients close without a close_notify alert.
                Err(e) if e.kind() == io::ErrorKind::UnexpectedEof => return Poll::Ready(Ok(0)),
                Err(e) => return Poll::Ready(Err(e)),
            }
            match self.fill(cx) {
                Ok(0) => {}
                Ok(_) => {}
                Err(e) if e.kind() == io::ErrorKind::WouldBlock => return Poll::Pending,
                Err(e) => return Poll::Ready(Err(e)),
            }
            let had_nothing_to_send = !self.tls.wants_write();
            if let Err(error) = self.tls.process_new_packets() {
                // Send the alert; the connection is lost even if this fails.
                let _ = self.poll_flush(cx);
                return Poll::Ready(Err(io::Error::new(io::ErrorKind::InvalidData, error)));
            }
            if had_nothing_to_send && self.tls.wants_write() {
                // Send automatic replies, such as the refusal of a renegotiation. The next write
                // reports an error, if any.
                let _ = self.poll_flush(cx);
            }
        }
    }

    /// Whether plain bytes can be read without reading from the socket.
    pub fn has_buffered(&mut self) -> bool {
        let decrypted = |state: rustls::IoState| state.plaintext_bytes_to_read() > 0;
        !self.early.is_empty() || self.tls.process_new_packets().is_ok_and(decrypted)
    }

    /// Seal plain bytes. Returns the number taken. They are sent by [`TlsStream::poll_flush`] or
    /// when too many wait.
    pub fn poll_write(&mut self, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        loop {
            let n = self.tls.writer().write(buf)?;
            if n > 0 || buf.is_empty() {
                return Poll::Ready(Ok(n));
            }
            ready!(self.poll_send(cx))?;
        }
    }

    /// Send sealed bytes until the socket accepts no more; ready if some were sent.
    fn poll_send(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.tls.write_tls(&mut Blocking {
            sock: &self.sock,
            cx,
        }) {
            Ok(_) => Poll::Ready(Ok(())),
            Err(e) if e.kind() == io::ErrorKind::WouldBlock => Poll::Pending,
            Err(e) => Poll::Ready(Err(e)),
        }
    }

    /// Send all sealed bytes.
    pub fn poll_flush(&mut self, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        while self.tls.wants_write() {
            ready!(self.poll_send(cx))?;
        }
        Poll::Ready(Ok(()))
    }

    /// Send close_notify, as far as the socket accepts it now.
    pub fn close(&mut self) {
        self.tls.send_close_notify();
        let mut cx = Context::from_waker(Waker::noop());
        // The close does not wait for the alert to arrive.
        let _ = self.poll_flush(&mut cx);
    }

    /// The rustls session.
    pub fn session(&self) -> &C {
        &self.tls
    }

    /// The signature schemes of the handshake.
    pub fn signed(&self) -> Noted {
        self.signed
    }

    /// The underlying socket.
    pub fn sock(&self) -> &Sock {
        &self.sock
    }
}
