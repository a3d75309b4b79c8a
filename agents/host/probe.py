"""Send requests to a server on this host over a plain socket, and return observations of the responses.

An observation is {"status": 0 without a response, "error": reason without a response, "connected", "to": target of a
redirect, without query, "certificate": SHA-256 of the presented certificate, "certificate_ends": Unix time at which it
expires, "protocol": of TLS, "alpn", "found": whether the response contains the expected text, "closed": whether a
stream server closed the connection at once, "at": Unix time}. Keys without information are left out.
"""

from __future__ import annotations

import socket
import time
from typing import Any

from agents.host import addresses, streams, tls

AGENT = b"paddock-probe"
MAX_HEAD = 64 * 1024
MAX_BODY = 256 * 1024  # in which an expected text is looked for
MAX_REDIRECT = 300


def url(probe: dict[str, Any]) -> str:
    """Return the URL that a probe requests, without a default port; `tcp://HOST:PORT` or `udp://HOST:PORT` for a
    stream server.
    """
    if probe.get("stream"):
        host = "[%s]" % probe["host"] if ":" in probe["host"] else probe["host"]
        return "%s://%s:%d" % (probe["stream"][:3], host, probe["port"])
    scheme = "https" if probe["tls"] else "http"
    usual = 443 if probe["tls"] else 80
    port = "" if probe["port"] == usual else ":%d" % probe["port"]
    return "%s://%s%s%s" % (scheme, probe["host"], port, probe["path"])


def describe(probe: dict[str, Any]) -> str:
    """Return the probe's URL and the address that receives the request: "https://a.example/ at 192.0.2.7"."""
    return "%s at %s" % (url(probe), probe["address"])


def observe(probe: dict[str, Any]) -> dict[str, Any]:
    """Send one request and return the observation (see the top of this module). Certificates are not verified, because
    a site may have a self-signed one.
    """
    seen: dict[str, Any] = {"status": 0, "connected": False, "at": time.time()}
    if probe.get("stream"):
        return streams.observe(probe, seen)
    stream: Any = None
    try:
        _refuse(probe["address"])
        stream = socket.create_connection((probe["address"], probe["port"]), probe["timeout_s"])
        if probe["tls"]:
            stream = tls.secured(stream, probe["host"], with_h2=False)
            tls.note(seen, stream)
        seen["connected"] = True
        _exchange(stream, probe, seen)
        if probe.get("http2") and seen["status"]:
            seen["alpn"] = _alpn(probe)
    except OSError as error:  # ssl.SSLError is one too
        seen["error"] = str(error.strerror or error)
    finally:
        if stream is not None:
            stream.close()
    return seen


def before_of(probe: dict[str, Any]) -> dict[str, Any]:
    """Return the probe as sent before the change: with the former address and port of the site, if the change changes
    them.
    """
    return dict(probe, address=probe["was"][0], port=probe["was"][1]) if probe.get("was") else probe


def _refuse(address: str) -> None:
    """Raise OSError for a forbidden address, such as that of a cloud's metadata service. The address of a probe is
    never a name.
    """
    reason = addresses.why_refused(address)
    if reason:
        raise addresses.Refused("%s is %s" % (address, reason))


def _exchange(stream: Any, probe: dict[str, Any], seen: dict[str, Any]) -> None:
    stream.sendall(_request(probe))
    deadline = time.monotonic() + probe["timeout_s"]
    answer = _read(stream, deadline, b"", b"\r\n\r\n", MAX_HEAD)
    head, blank, body = answer.partition(b"\r\n\r\n")
    first, _, rest = head.partition(b"\r\n")
    words = first.split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        late = time.monotonic() >= deadline
        silent = "the response did not begin within %g s" % probe["timeout_s"] if late else "it closed the connection"
        seen["error"] = "the response is not HTTP" if answer and not late else silent
        return
    seen["status"] = int(words[1])
    target = _redirect(rest)
    if target:
        seen["to"] = target
    wanted = probe.get("text", "").encode("utf-8")
    if wanted:
        seen["found"] = wanted in body or wanted in _read(stream, deadline, body, wanted, MAX_BODY) if blank else False


def _request(probe: dict[str, Any]) -> bytes:
    usual = 443 if probe["tls"] else 80
    host = probe["host"] if probe["port"] == usual else "%s:%d" % (probe["host"], probe["port"])
    lines = ["%s %s HTTP/1.1" % (probe.get("method", "GET"), probe["path"]), "Host: %s" % host]
    lines += ["User-Agent: %s" % AGENT.decode(), "Accept: */*", "Connection: close"]
    lines += ["%s: %s" % (name, value) for name, value in probe.get("headers", ())]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("utf-8")


def _read(stream: Any, deadline: float, begun: bytes, until: bytes, most: int) -> bytes:
    """Return `begun` and the data that is read from the stream after it.

    Reading stops when the result contains `until` or `most` bytes, at the end of the stream, or at the deadline.
    """
    while until not in begun and len(begun) < most:
        left = deadline - time.monotonic()
        if left <= 0:
            break
        stream.settimeout(left)
        try:
            part = stream.recv(16384)
        except OSError:
            if not begun:
                raise
            break
        if not part:
            break
        begun += part
    return begun


def _redirect(head: bytes) -> str:
    """Return the target of the `Location` header without its query, which may contain a secret; "" if there is none."""
    for line in head.split(b"\r\n"):
        name, _, value = line.partition(b":")
        if name.strip().lower() == b"location":
            text = value.strip().decode("utf-8", "replace").partition("?")[0].partition("#")[0]
            return "".join(letter for letter in text if letter.isprintable())[:MAX_REDIRECT]
    return ""


def _alpn(probe: dict[str, Any]) -> str:
    """Return the protocol that the server selects by ALPN from h2 and http/1.1, in a separate TLS handshake; "" for
    none.
    """
    plain = socket.create_connection((probe["address"], probe["port"]), probe["timeout_s"])
    stream = tls.secured(plain, probe["host"], with_h2=True)
    try:
        return stream.selected_alpn_protocol() or ""
    finally:
        stream.close()
