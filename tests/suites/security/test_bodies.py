"""The size of a request is limited before its body is read, as the panel is served."""

from __future__ import annotations

import base64
import io
import json
import socket
import time
import zipfile
from collections.abc import Iterator
from urllib.parse import urlsplit

import pytest
from django.test import Client

from panel.accounts.services.tokens import token_create
from panel.api import bodies
from panel.imports.sources import MAX_ARCHIVE_BYTES
from tests.api.caller import caller_of
from tests.support.asgi_server import LiveServer
from tests.support.cast import Cast, cast, signed_in

HUGE = 157_000_000
API = "/api/v1/sites/"


@pytest.fixture
def people(transactional_db: None) -> Cast:
    return cast()


@pytest.fixture
def server(people: Cast) -> Iterator[LiveServer]:
    with LiveServer() as running:
        yield running


def begun(server: LiveServer, path: str, *headers: str) -> socket.socket:
    """A POST whose head was sent and whose body was not."""
    stream = socket.create_connection(("127.0.0.1", urlsplit(server.url).port or 0), timeout=20)
    lines = [f"POST {path} HTTP/1.1", "Host: 127.0.0.1", "Content-Type: application/json", *headers]
    stream.sendall(("\r\n".join(lines) + "\r\n\r\n").encode())
    return stream


def answer(stream: socket.socket) -> tuple[int, bytes]:
    """The status and the body that came until the server closed, or said all."""
    with stream:
        text = b""
        while part := stream.recv(65536):
            text += part
            head, blank, body = text.partition(b"\r\n\r\n")
            if blank and f"content-length: {len(body)}".encode() in head.lower():
                break
    return int(text.split(b" ", 2)[1]), text.partition(b"\r\n\r\n")[2]


def sent_in_chunks(stream: socket.socket, most: int) -> tuple[int, int, bytes]:
    """How many bytes could be sent before the answer, and the answer."""
    chunk, count = b"8000\r\n" + b"x" * 0x8000 + b"\r\n", 0
    stream.settimeout(0.02)
    while count < most:
        try:
            stream.sendall(chunk)
        except (BrokenPipeError, ConnectionResetError):
            break
        except TimeoutError:
            break
        count += 0x8000
        try:
            if stream.recv(1, socket.MSG_PEEK):
                break
        except TimeoutError:
            continue
    stream.settimeout(20)
    return (count, *answer(stream))


@pytest.mark.parametrize(
    "path", [API, "/login/", "/setup/x/", "/hosts/web-1/imports/+upload/", "/api/v1/imports/upload/"]
)
def test_large_anonymous_bodies_are_rejected_before_upload(server: LiveServer, path: str) -> None:
    began = time.monotonic()
    status, _body = answer(begun(server, path, f"Content-Length: {HUGE}"))
    assert status == 413
    status, body = answer(begun(server, path, f"Content-Length: {bodies.ANONYMOUS + 1}"))
    assert status == 401 and b"Sign in" in body
    assert time.monotonic() - began < 15


@pytest.mark.parametrize(
    "credentials",
    [[], ["Authorization: Bearer pdk_guess"], ["Authorization: Basic eDp5"], ["Cookie: paddock_session=guess"]],
)
def test_streamed_anonymous_bodies_are_cut_off(server: LiveServer, credentials: list[str]) -> None:
    stream = begun(server, API, "Transfer-Encoding: chunked", *credentials)
    count, status, _body = sent_in_chunks(stream, HUGE)
    assert status == 401
    assert count < 4 * bodies.MIB, "what the sockets' buffers take, and no more"


def test_body_limit_of_signed_in_callers_depends_on_url(server: LiveServer, people: Cast) -> None:
    token = f"Authorization: Bearer {token_create(actor=people.admin, name='t', scopes=['read'])[1]}"
    status, body = answer(begun(server, API, token, f"Content-Length: {bodies.USUAL + 1}"))
    problem = json.loads(body)
    assert (status, problem["type"]) == (413, "/api/v1/problems/too-large/") and "2 MiB" in problem["detail"]
    stream = begun(server, API, token, "Transfer-Encoding: chunked")
    _count, status, _body = sent_in_chunks(stream, HUGE)
    assert status == 413
    status, body = answer(begun(server, "/hosts/web-1/edit/", f"Content-Length: {bodies.USUAL + 1}"))
    assert status == 413 and b"larger than 2 MiB" in body


def test_session_may_send_body_that_page_accepts(server: LiveServer, people: Cast) -> None:
    browser = signed_in(people.admin)
    cookie = f"Cookie: paddock_session={browser.cookies['paddock_session'].value}"
    stream = begun(server, "/hosts/web-1/imports/+upload/", cookie, f"Content-Length: {3 * bodies.MIB}")
    stream.sendall(b"x" * 3 * bodies.MIB)
    assert answer(stream)[0] == 403, "read to its end: it lacks the CSRF token"


def archive(*, size: int = 0, text: str = "events {}\nhttp {}\n") -> str:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as file:
        file.writestr("nginx/nginx.conf", text)
        for number in range(size // 900_000):
            file.writestr(f"nginx/{number}.bin", b"\0" * 900_000)
    return base64.b64encode(made.getvalue()).decode()


def test_upload_accepts_archives_above_2_5_megabytes(people: Cast) -> None:
    caller = caller_of(people.admin)
    sent = {"web_server": people.nginx.pk, "filename": "nginx.zip", "archive": archive(size=6_000_000)}
    made = caller.post("imports/upload/", sent, Idempotency_Key="once")
    assert made.status_code == 201, made.content[:500]
    too_large = "A" * (MAX_ARCHIVE_BYTES * 4 // 3 + bodies.FORM)
    refused = caller.post("imports/upload/", sent | {"archive": too_large})
    assert (refused.status_code, refused.json()["type"]) == (413, "/api/v1/problems/too-large/")


@pytest.mark.parametrize("depth", [60, 900, 50_000])
def test_deeply_nested_configuration_is_reported(people: Cast, depth: int) -> None:
    text = "http {\n" + "if (a) {\n" * depth + "}\n" * depth + "}\n"
    sent = {"web_server": people.nginx.pk, "filename": "nginx.zip", "archive": archive(text=text)}
    made = caller_of(people.admin).post("imports/upload/", sent)
    assert made.status_code == 201, made.content[:500]
    assert "nested more than 50 levels deep" in made.content.decode()


@pytest.mark.parametrize("opening", ["[", '{"a":'])
def test_deeply_nested_json_is_rejected(people: Cast, opening: str) -> None:
    token = token_create(actor=people.admin, name="t", scopes=["admin", "sites"])[1]
    sent = Client(headers={"Authorization": f"Bearer {token}"}).post(
        "/api/v1/imports/upload/", opening * 200_000, content_type="application/json"
    )
    assert (sent.status_code, sent.json()["type"]) == (400, "/api/v1/problems/malformed/")
