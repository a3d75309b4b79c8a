"""How one server's answer departs from another's: status, body, and the headers that a site controls."""

from __future__ import annotations

import gzip
import re
from dataclasses import replace

from tests.suites.conformance.wire import Answer

# What a SiteSpec decides of an answer's head. Everything else (Server, Date, ETag...) is the server's own.
CONTROLLED = (
    "location", "cache-control", "www-authenticate", "content-encoding", "x-one", "x-two", "x-app", "content-range",
    "strict-transport-security", "alt-svc", "content-type", "x-place",
)  # fmt: skip
_OWN_PAGE = re.compile(
    rb"<center>(nginx|gallop)[^<]*</center>|<address>Apache|<!DOCTYPE HTML PUBLIC|<html style=\"height:100%\">"
)
# OpenLiteSpeed says this of its own error pages, and compresses them.
_OF_OWN_PAGES = "private, no-cache, max-age=0"


def difference(nginx: Answer, other: Answer) -> str:
    """How `other` departs from nginx's answer; empty when it does not."""
    other = server_page(other)
    if other.status != nginx.status:
        return f"{other.status} {other.body[:80]!r}, nginx {nginx.status} {nginx.body[:80]!r}"
    if nginx.status == 400:
        return ""  # no request, so no site's headers
    for name in CONTROLLED:
        ours, theirs = _value(name, other), _value(name, nginx)
        if ours != theirs:
            return f"{nginx.status} {name}: {ours!r}, nginx {theirs!r}"
    if ("expires" in nginx.headers) != ("expires" in other.headers):
        return f"{nginx.status} expires: {other.headers.get('expires')!r}, nginx {nginx.headers.get('expires')!r}"
    if nginx.body != other.body and not (_OWN_PAGE.search(nginx.body) and _is_own_page(other)):
        return f"{nginx.status} body {other.body[:120]!r}, nginx {nginx.body[:120]!r}"
    return ""


def _is_own_page(answer: Answer) -> bool:
    return answer.status >= 300 and _OWN_PAGE.search(answer.body) is not None


def _value(name: str, answer: Answer) -> str:
    value = answer.headers.get(name, "")
    if name == "location":
        return re.sub("%[0-9a-f]{2}", lambda found: found[0].upper(), value)  # equal: RFC 3986 section 6.2.2.1
    if name == "content-type":
        if _OWN_PAGE.search(answer.body) or not answer.body:
            return ""  # the server's own page
        return value.partition(";")[0].lower()
    return value


def server_page(answer: Answer) -> Answer:
    """A server's own error page without the headers that are its own as well; any other answer as it is."""
    if answer.status < 300:
        return answer
    packed = answer.headers.get("content-encoding") == "gzip" and answer.body
    body = gzip.decompress(answer.body) if packed else answer.body
    if body and not _OWN_PAGE.search(body):
        return answer
    own = {("cache-control", _OF_OWN_PAGES), ("content-encoding", "gzip")}
    return replace(answer, body=body, headers={k: v for k, v in answer.headers.items() if (k, v) not in own})
