"""Find raw directives that can change how a request is handled. `explain` does not evaluate raw directives."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from panel.rendering.readers import Read, Unreadable
from panel.rendering.readers.engines import READERS


def _set(words: str) -> frozenset[str]:
    return frozenset(words.split())


_NGINX = _set(
    """
    alias allow auth_basic auth_request break deny error_page fastcgi_pass grpc_pass if index internal limit_except
    location memcached_pass proxy_pass return rewrite root satisfy scgi_pass set try_files uwsgi_pass
    """
)
_APACHE = _set(
    """
    alias aliasmatch allow authtype deny directory directorymatch else elseif errordocument fallbackresource files
    filesmatch if location locationmatch order proxypass proxypassmatch redirect redirectmatch redirectpermanent
    redirecttemp require requireall requireany requirenone rewritebase rewritecond rewriteengine rewriterule scriptalias
    sethandler
    """
)
_OPENLITESPEED = _set("accesscontrol context errorpage realm rewrite rewritecond rewriterule")
DECIDING = {"nginx": _NGINX, "native": _NGINX, "apache": _APACHE, "openlitespeed": _OPENLITESPEED}


def deciding(text: str, engine: str) -> tuple[str, ...]:
    """Return the names of raw directives that can choose another location or response, each once.

    A text that cannot be parsed counts as one unreadable directive.
    """
    if not text.strip():
        return ()
    try:
        found = READERS[engine](text)
    except Unreadable:
        return ("an unreadable directive",)
    return tuple(dict.fromkeys(item.name for item in _all(found) if item.name.lower() in DECIDING[engine]))


def _all(items: Iterable[Read]) -> Iterator[Read]:
    for item in items:
        yield item
        yield from _all(item.body or ())
