"""What OpenLiteSpeed answers to fixed cases otherwise than they expect: to which request, what, and by which row."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from panel.rendering.capability.openlitespeed import OPENLITESPEED
from tests.suites.conformance.explained import openlitespeed
from tests.suites.conformance.wire import Answer, Request


@dataclass(frozen=True)
class Otherwise:
    """`row`: the name of a request's row, or the beginning of a computed difference. `body`: what it begins with."""

    row: str
    asked: tuple[str, ...]  # method and target, or their beginning
    status: int
    body: str = ""


_METHODS, _INDEX, _SERVER = (
    "methods of files",
    "OpenLiteSpeed serves a folder's index file with",
    "OpenLiteSpeed supports this setting only for the",
)
_PAGE = "<!DOCTYPE html>"
_CACHE = "OpenLiteSpeed caches responses even if the"
_FALLBACK = "OpenLiteSpeed applies the fallback of try_files before"
_STALE = "OpenLiteSpeed serves expired responses only"
CASES: Mapping[str, Sequence[Otherwise]] = {
    "headers": (Otherwise("OpenLiteSpeed sends a header without “always”", ("GET /missing",), 404),),
    "php": (Otherwise("OpenLiteSpeed passes PHP settings on only to", ("GET /info.php",), 200, "/info.php|"),),
    "guide-wildcards": (
        Otherwise("OpenLiteSpeed ignores a leading www. in server names", ("GET /",), 200, "any"),
        Otherwise("OpenLiteSpeed ignores a leading www. in server names", ("GET /",), 200, "longer"),
    ),
    "sizes": (
        Otherwise(_SERVER, ("POST /", "GET /?xxx"), 200),
        Otherwise(_SERVER, ("GET /",), 200, "GET / "),
    ),
    "compressed": (Otherwise("OpenLiteSpeed sets compression per virtual host", ("GET /docs/long.txt",), 200),),
    "kept": (Otherwise(_CACHE, ("GET /counted/no-store", "GET /counted/private"), 200, "/counted/"),),
    "expired": (
        Otherwise(_STALE, ("GET /counted/old/fresh",), 200, "/counted/old/fresh 2"),
        Otherwise(_STALE, ("GET /counted/old/fails",), 503, "/counted/old/fails 2"),
    ),
    "kept-php": (Otherwise("OpenLiteSpeed cannot add request headers for", ("GET /counting/index.php",), 200),),
    "index-files": (
        Otherwise(_METHODS, ("POST /own/",), 200, "own index"),
        Otherwise(_METHODS, ("PUT /found/",), 501, _PAGE),
        Otherwise(_INDEX, ("GET /aliased/", "POST /aliased/", "GET /guarded/"), 200, "front:/"),
        Otherwise(_INDEX, ("GET /found/",), 200, "a"),
        Otherwise(_INDEX, ("GET /docs/",), 200, "docs x"),
        Otherwise(_INDEX, ("GET /manual/",), 200, "manual page"),
        Otherwise(_INDEX, ("GET /media/",), 200, "gif in root"),
    ),
    "rewrites": (Otherwise("for a fixed 2xx response with a text, OpenLiteSpeed", ("GET /home",), 200, "home"),),
    "fallbacks": (Otherwise(_FALLBACK, ("GET /manual/none",), 302),),
    "paths": (Otherwise("absolute form", ("GET http://a.test/ab",), 200, "GET http://a.test/ab host=a.test "),),
}


def explained(site: str, request: Request, answer: Answer, shown: frozenset[str]) -> bool:
    """Whether the table has this very answer, and its row is one that stands or is shown."""
    asked, body = f"{request.method} {request.target}", answer.body.decode(errors="replace")
    return any(
        answer.status == item.status and body.startswith(item.body) and asked.startswith(item.asked)
        for item in CASES.get(site, ())
        if stands(item.row) or any(text.startswith(item.row) for text in shown)
    )


def stands(row: str) -> bool:
    """Whether it is one of the rows that depend on the request alone."""
    return any(item.name == row and item.text for item in openlitespeed.EXPLAINED)


def known(row: str) -> bool:
    """Whether there is such a row at all."""
    texts = [verdict.what for verdicts in OPENLITESPEED.values() for verdict in verdicts]
    return stands(row) or any(text.startswith(row) for text in texts)
