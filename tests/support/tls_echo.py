"""An echo server behind TLS, and a TLS client that shows which certificate it got."""

from __future__ import annotations

import socket
import ssl
import tempfile
from pathlib import Path

from tests.support.echo_server import EchoServer

PATIENCE_S = 30


class TlsEchoServer(EchoServer):
    """Responds as EchoServer, after a TLS handshake. `names`: the server names that clients requested, "" for none."""

    def __init__(self, name: str, certificate: tuple[str, str]) -> None:
        super().__init__(name)
        self.certificate, key = certificate
        self.names: list[str] = []
        self._context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "pair.pem"
            path.write_text(key + self.certificate)
            self._context.load_cert_chain(path)
        self._context.sni_callback = lambda _socket, name, _context: self.names.append(name or "")

    def _serve(self, stream: socket.socket) -> None:
        try:
            secured = self._context.wrap_socket(stream, server_side=True)
        except OSError:
            stream.close()
            return
        super()._serve(secured)


def tls_said(port: int, name: str = "", text: bytes = b"hello") -> tuple[str, bytes]:
    """Return the certificate (PEM) that a TLS port presents to a client which requests `name`, and the response to
    `text`: b"" if the connection is closed. The certificate is "" without a handshake.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    certificate = ""
    try:
        with (
            socket.create_connection(("127.0.0.1", port), PATIENCE_S) as plain,
            context.wrap_socket(plain, server_hostname=name or None) as stream,
        ):
            certificate = ssl.DER_cert_to_PEM_cert(stream.getpeercert(binary_form=True) or b"")
            stream.sendall(text)
            return certificate, stream.recv(65536)
    except (ConnectionError, ssl.SSLError):
        return certificate, b""
