"""A gallop that speaks HTTP/3, with a certificate of its own and an application behind it."""

from __future__ import annotations

import hashlib
import json
import subprocess
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.request import urlopen

import pytest

from tests.suites.http3.client import NAME, Client
from tests.support.gallop import GallopInstance
from tests.support.ports import free_port
from tests.support.process import tool
from tests.support.waiting import eventually

LARGE = bytes(range(256)) * 12_000  # 3 MB
CONFIGURATION = """\
server {{
    listen 127.0.0.1:{port} quic reuseport;
    listen 127.0.0.1:{port} ssl;
    listen 127.0.0.1:{plain};
    server_name example.org;
    ssl_certificate {certificate};
    ssl_certificate_key {key};
    ssl_early_data on;
    client_max_body_size 16m;
    keepalive_requests 100000;
    root {root}/www;
    add_header Alt-Svc 'h3=":{port}"; ma=86400' always;
    add_header X-Protocol $server_protocol always;
    location /metrics {{ stub_status; }}
    location /counted {{ status; }}
    location /early {{ return 200 "early=$ssl_early_data"; }}
    location /app {{ proxy_pass http://127.0.0.1:{application}; }}
    {extra}
}}
"""


class Application(BaseHTTPRequestHandler):
    """Says what it was sent."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers.get("Content-Length", "0")))
        said = f"{self.command} {len(body)} {hashlib.sha256(body).hexdigest()}".encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def do_HEAD(self) -> None:
        self.send_response(200)
        self.send_header("X-Said", "HEAD")
        self.end_headers()

    def log_message(self, *_: object) -> None:
        pass


@dataclass(frozen=True)
class Site:
    port: int
    plain: int
    certificate: Path
    instance: GallopInstance

    def client(self, **how: object) -> Client:
        return Client(self.port, self.certificate, **how)  # type: ignore[arg-type]

    def counted(self, name: str, least: int = 1) -> bool:
        """Whether the server's status has counted that of QUIC so often."""

        def is_there() -> bool:
            with urlopen(f"http://127.0.0.1:{self.plain}/counted", timeout=60) as answer:
                return bool(json.load(answer)["quic"][name] >= least)

        return bool(eventually(is_there))


def certify(folder: Path) -> tuple[Path, Path]:
    """A certificate for example.org that is its own authority, and its key."""
    certificate, key = folder / "own.crt", folder / "own.key"
    argv = [tool("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    argv += ["-days", "30", "-subj", f"/CN={NAME}", "-addext", f"subjectAltName=DNS:{NAME}"]
    argv += ["-keyout", str(key), "-out", str(certificate)]
    subprocess.run(argv, check=True, capture_output=True, timeout=60)
    key.chmod(0o644)
    return certificate, key


@contextmanager
def serving(root: Path, *, extra: str = "", workers: int = 1) -> Iterator[Site]:
    """gallop on `root`, once it answers over HTTP/3."""
    certificate, key = certify(root)
    with ThreadingHTTPServer(("127.0.0.1", 0), Application) as application:
        threading.Thread(target=application.serve_forever, daemon=True).start()
        gallop = GallopInstance(root)
        port, plain = free_port(), free_port()
        text = CONFIGURATION.format(
            port=port,
            plain=plain,
            certificate=certificate,
            key=key,
            root=root,
            application=application.server_address[1],
            extra=extra,
        )
        (root / "conf.d" / "site.conf").write_text(text)
        main = gallop.main_config.read_text().replace("worker_processes 1;", f"worker_processes {workers};")
        gallop.main_config.write_text(main)
        (root / "www" / "small.txt").write_text("small")
        (root / "www" / "page.html").write_text("<!doctype html><title>page</title><p>shown</p>")
        (root / "www" / "large.bin").write_bytes(LARGE)
        try:
            with gallop:
                site = Site(port, plain, certificate, gallop)
                assert eventually(lambda: _answers(site)), (root / "log" / "error.log").read_text()
                yield site
        finally:
            application.shutdown()


def _answers(site: Site) -> bool:
    with site.client() as client:
        return client.get("/small.txt").status == 200


@pytest.fixture
def site(server_root: Path) -> Iterator[Site]:
    with serving(server_root) as made:
        yield made
