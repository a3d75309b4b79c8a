"""Requests to a server on this host over a plain socket."""

from __future__ import annotations

import socket
import ssl
import time
from typing import Any

from agents.host import addresses

MAX_HEAD = 64 * 1024
RETRY_FOR_S = 2.0
_context: ssl.SSLContext | None = None  # created once, because it costs more than a request


def describe(probe: dict[str, Any]) -> str:
    """The probe as a URL for people, with its address."""
    scheme = "https" if probe["tls"] else "http"
    usual = 443 if probe["tls"] else 80
    port = "" if probe["port"] == usual else ":%d" % probe["port"]
    return "%s://%s%s%s at %s" % (scheme, probe["host"], port, probe["path"], probe["address"])


def ask(probe: dict[str, Any]) -> tuple[int, str]:
    """(status, ""), or (0, error). Certificates are not verified, because a site may have a self-signed one."""
    stream: Any = None
    try:
        _refuse(probe["address"])
        stream = socket.create_connection((probe["address"], probe["port"]), probe["timeout_s"])
        if probe["tls"]:
            stream = _secured(stream, probe)
        return _exchange(stream, probe)
    except OSError as error:  # includes ssl.SSLError
        return 0, str(error.strerror or error)
    finally:
        if stream is not None:
            stream.close()


def _refuse(address: str) -> None:
    """Raise OSError for a cloud's metadata service. The address of a listen is always literal."""
    reason = addresses.why_refused(address)
    if reason:
        raise addresses.Refused("%s is %s" % (address, reason))


def is_healthy(probe: dict[str, Any], status: int) -> bool:
    """Return whether the status is below 500, or the required one."""
    wanted = probe["status"]
    return status == wanted if wanted is not None else 0 < status < 500


def until_healthy(probe: dict[str, Any]) -> tuple[int, str]:
    """(status, "") once the response is healthy; its problem after two seconds of attempts."""
    return _until(probe, lambda status: is_healthy(probe, status), "below 500")


def until_as_before(probe: dict[str, Any], before: int) -> str:
    """Problem of a site whose response differs from `before`, or ""; sites that did not respond
    before (0) are skipped.
    """
    return _until(probe, lambda status: status == before, "%d, as before" % before)[1] if before else ""


def told(probe: dict[str, Any], status: int) -> str:
    """A healthy response in words. A new site without files responds 404, which is not an error in
    its configuration.
    """
    missing = status == 404 and probe["status"] is None
    hint = " (nothing lies there: are the site's files in its folder?)" if missing else ""
    return "%s answers %d%s" % (describe(probe), status, hint)


def _until(probe: dict[str, Any], is_right: Any, wanted: str) -> tuple[int, str]:
    deadline = time.monotonic() + min(RETRY_FOR_S, probe["timeout_s"])
    pause = 0.02
    while True:
        status, problem = ask(probe)
        if is_right(status):
            return status, ""
        if time.monotonic() + pause > deadline:
            wanted = str(probe["status"]) if probe["status"] is not None and "before" not in wanted else wanted
            answer = "answers %d" % status if status else "does not answer (%s)" % problem
            if status in (502, 504):
                answer += " (what it passes requests on to does not answer: start that, or choose another health page)"
            return status, "%s %s; wanted: %s" % (describe(probe), answer, wanted)
        time.sleep(pause)
        pause *= 2


def _exchange(stream: Any, probe: dict[str, Any]) -> tuple[int, str]:
    usual = 443 if probe["tls"] else 80
    host = probe["host"] if probe["port"] == usual else "%s:%d" % (probe["host"], probe["port"])
    head = "GET %s HTTP/1.1\r\nHost: %s\r\nUser-Agent: paddock-probe\r\nAccept: */*\r\nConnection: close\r\n\r\n"
    stream.sendall((head % (probe["path"], host)).encode("utf-8"))
    answer = b""
    deadline = time.monotonic() + probe["timeout_s"]
    while b"\r\n" not in answer and len(answer) < MAX_HEAD:
        left = deadline - time.monotonic()
        if left <= 0:
            return 0, "its answer did not begin in %g s" % probe["timeout_s"]
        stream.settimeout(left)
        part = stream.recv(8192)
        if not part:
            break
        answer += part
    words = answer.split(b"\r\n", 1)[0].split(b" ", 2)
    if len(words) < 2 or not words[0].startswith(b"HTTP/") or not words[1].isdigit():
        return 0, "it closed the connection without an HTTP answer" if not answer else "its answer is not HTTP"
    return int(words[1]), ""


def _secured(plain: Any, probe: dict[str, Any]) -> ssl.SSLSocket:
    """TLS on a connection, closed together with it."""
    return _tls_context().wrap_socket(plain, server_hostname=probe["host"] or None)


def _tls_context() -> ssl.SSLContext:
    global _context
    if _context is None:
        import ssl

        _context = ssl.create_default_context()
        _context.check_hostname = False
        _context.verify_mode = ssl.CERT_NONE
    return _context
