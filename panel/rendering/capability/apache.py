"""Where Apache httpd departs from nginx's meaning."""

from __future__ import annotations

import re
from collections.abc import Callable

from panel.rendering.apache.modules import mpm
from panel.rendering.apache.rewriting import encodes_queries, is_checked_first
from panel.rendering.caching import caches, locations
from panel.rendering.capability import Context, Verdict, differs, missing
from panel.rendering.errors import NotExpressible
from panel.rendering.handlers import REDIRECTS, asks_access
from panel.rendering.locations import locations_of
from panel.rendering.reach import by_index
from panel.rendering.rewriting import redirects
from panel.rendering.spec import Location


def _passes_answers(context: Context) -> bool:
    """Whether answers of applications come through, with headers of their own."""
    owners = context.block.locations if context.block else ()
    return any(location.handler in ("php", "proxy") for location in owners)


def _same_upstream(context: Context) -> list[Location]:
    """The proxying locations that share a server with this one: Apache has one worker for each."""
    found = [item for block in context.spec.blocks for item in block.locations if item.handler == "proxy"]
    servers = {item.name: {server.address for server in item.servers} for item in context.spec.upstreams}
    own = servers.get(context.owner.upstream, set())
    return [item for item in found if servers.get(item.upstream, set()) & own]


def _others_differ(member: str) -> Verdict:
    return differs(
        "Apache keeps this with the upstream, not with the location",
        "the longest that any location of the upstream asks for",
        lambda context: (
            context.owner.handler == "proxy" and len({getattr(item, member) for item in _same_upstream(context)}) > 1
        ),
    )


def _refuses_an_index(context: Context) -> bool:
    """Whether a folder's index file is this location's, which refuses some or all, but the folder another's."""
    source, block = context.owner, context.block
    if block is None or not (source.handler == "deny" or asks_access(source)):
        return False
    try:
        found = locations_of(block, "")
    except NotExpressible:
        return False
    return any(place and place.location is source for others in by_index(block, found).values() for place in others)


def _skips_access(context: Context) -> bool:
    """The path that is not there is the exception: that it is 404 shows after access was checked."""
    source = context.owner
    natural = source.try_files in (("$uri", "$uri/", "=404"), ("$uri/", "$uri", "=404"))
    return bool(source.try_files) and not natural and not is_checked_first(source)


def _runs_other_files(context: Context) -> bool:
    source = context.owner
    return source.split_path_info and not (source.match in ("~", "~*") and "\\.php" in source.pattern)


def _decoded_in_query(target: str) -> bool:
    """Whether the query holds what was decoded: the path, or a part of it."""
    _, found, query = target.partition("?")
    return bool(found) and bool(re.search(r"\$(?:uri|\{uri\}|\d)", query))


def _redirects_with_path(context: Context) -> bool:
    return context.owner.return_code in REDIRECTS and _decoded_in_query(context.owner.return_value)


def _falls_back_with_path(context: Context) -> bool:
    return bool(context.owner.try_files) and _decoded_in_query(context.owner.try_files[-1])


def _blanks_in_query(meets: Callable[[Context], bool]) -> tuple[Verdict, Verdict]:
    return (
        differs("Apache encodes blanks and control characters when it puts a decoded path into a query, nginx sends "
                "them as they are", "the same, encoded",
                lambda context: meets(context) and encodes_queries(context.install)),
        differs("Apache before 2.4.57 refuses with 403 to put a decoded path with blanks or control characters into a "
                "query, nginx sends it as it is", "403 for such paths; use $request_uri, which stays encoded",
                lambda context: meets(context) and not encodes_queries(context.install)),
    )  # fmt: skip


def _limits_applications(context: Context) -> bool:
    owner = context.owner
    places = (owner,) if isinstance(owner, Location) else owner.locations
    return bool(owner.client_max_body_mb) and any(place.handler in ("php", "proxy") for place in places)


def _redirects_where_headers_are(context: Context) -> bool:
    block = context.owner
    return any(map(redirects, block.rewrites)) and any(item.headers or item.expires for item in block.locations)


def _breaks(context: Context) -> bool:
    return any(item.flag == "break" for item in context.owner.rewrites)


_ONCE = differs(
    "Apache rewrites only what comes from outside, not what try_files, an index file or an error page leads to",
    "such a path stays as it is",
)
_LETTERS = differs(
    "Apache answers 403 where a path that holds %3F is rewritten, and passes letters above ASCII on to upstreams as "
    "they are",
    "nginx takes the ? as a letter and encodes such letters",
)
_TWICE = differs(
    "where a redirect adds a query of its own to the request's, Apache encodes the % of the request's query once more",
    "a ? at the end of the replacement leaves the request's query out",
    lambda context: any(
        redirects(item) and "?" in item.replacement and not item.replacement.endswith("?")
        for item in context.owner.rewrites
    ),
)
_CHUNKED = differs(
    "Apache limits what applications are sent by its Content-Length: a body without one (chunked) passes",
    "the application's own limit",
    _limits_applications,
)


_UNCHECKED = differs(
    "Apache chooses the fallback of try_files before it asks who may come in, and then by the fallback's own location",
    "set the same rules there",
    _skips_access,
)
_OF_PHP = missing(
    "Apache has this for a whole virtual host only (ProxyTimeout)",
    "the server's own time-out",
    lambda context: context.owner.handler == "php",
)
_LISTING = differs("the listing looks different", "mod_autoindex's own page", lambda context: True)

APACHE: dict[str, tuple[Verdict, ...]] = {
    "Listen.http2": (
        missing("Apache's prefork has no HTTP/2", "HTTP/1.1; the MPMs event and worker have it",
                lambda context: mpm(context.install) == "mpm_prefork"),
    ),
    "Listen.http3": (missing("Apache has no HTTP/3", "HTTP/2, where it is on"),),
    "Listen.address": (
        differs("Apache's virtual hosts are not told apart by address family", "IPv4 is answered too",
                lambda context: context.owner.address == "::"),
    ),
    "ServerBlock.names": (
        missing("Apache has no regular expressions in server names", "the name is left out; list names or use *.name",
                lambda context: any(name.startswith("~") for name in context.owner.names)),
    ),
    "ServerBlock.access_log_format": (
        differs("Apache gives the time that an answer took in milliseconds, nginx in seconds", "5 for 0.005",
                lambda context: context.owner.access_log_format in ("timed", "json")),
        differs("Apache writes control characters and bytes above ASCII as \\xHH, which JSON readers refuse",
                "such lines need mending", lambda context: context.owner.access_log_format == "json"),
    ),
    "ServerBlock.autoindex": (_LISTING,),
    "Location.autoindex": (_LISTING,),
    "Header.name": (
        differs("Apache replaces a header of this name that the application sent, nginx sends both", "one header",
                _passes_answers),
    ),
    "Header.always": (
        differs("without “always” Apache leaves the header out of redirects too", "set “always” to send it there",
                lambda context: not context.owner.always),
    ),
    "ErrorPage.response": (
        missing("Apache keeps the error's own status", "the page is shown with the original status"),
    ),
    "Upstream.balancing": (
        missing("Apache cannot balance by client address", "round robin; sticky sessions need a cookie",
                lambda context: context.owner.balancing == "ip_hash"),
        differs("Apache counts busy requests where nginx counts connections", "lbmethod=bybusyness",
                lambda context: context.owner.balancing == "least_conn"),
    ),
    "Upstream.keepalive": (
        differs("Apache keeps idle connections per child process and by its own count", "mod_proxy's own pool",
                lambda context: context.owner.keepalive != 16),
    ),
    "UpstreamServer.max_fails": (
        missing("Apache takes a server out at its first failed connection", "max_fails=1"),
    ),
    "Location.connect_timeout_s": (_OF_PHP, _others_differ("connect_timeout_s")),
    "Location.read_timeout_s": (
        _OF_PHP,
        _others_differ("read_timeout_s"),
        differs("Apache answers 502 where an upstream does not answer in time, nginx 504", "502",
                lambda context: context.owner.handler == "proxy"),
    ),
    "Location.websocket": (
        differs("Apache keeps this with the upstream", "other locations of the upstream may be upgraded too",
                lambda context: not all(item.websocket for item in _same_upstream(context))),
    ),
    "Location.rate_limit": (
        missing("Apache has no limit on requests (mod_ratelimit slows down bytes)", "no limit"),
    ),
    "Location.connection_limit": (missing("Apache has no limit on connections per address", "no limit"),),
    "Location.handler": (
        differs("where a folder's index file belongs to this location, which refuses it, but the folder to another, "
                "Apache goes on to the next index file", "the refusal only where no other index file is there",
                _refuses_an_index),
        differs("Apache runs files that end in .php and serves other files as they are, where nginx asks PHP, which "
                "refuses them", "end the pattern in \\.php$ to say which files are scripts", _runs_other_files),
    ),
    "Location.return_value": _blanks_in_query(_redirects_with_path),
    "Location.client_max_body_mb": (_CHUNKED,),
    "ServerBlock.client_max_body_mb": (_CHUNKED,),
    "Location.cache": (
        differs("Apache keeps answers by the path that a fallback of try_files or an index file leads to, so it keeps "
                "none of those, nor any of a path with % escapes", "such requests go to the application"),
        differs("Apache sends the application no Cache-Control of the visitor's, and drops what it kept of a path that "
                "is posted to", "the cache is the server's alone"),
        differs("Apache keeps the answers of all sites in one folder, whose size only htcacheclean limits",
                "Debian's service apache-htcacheclean: 300 MB"),
        differs("an answer that sets a cookie gets Cache-Control: private, which is how Apache is told not to keep it",
                "no cache on the way keeps it either"),
        differs("Apache keeps answers to requests with a query only where the application says how long",
                "max-age or Expires from the application", lambda context: not context.owner.cache.skip_queries),
    ),
    "SiteSpec.cache_mb": (
        missing("Apache has no limit on what one site keeps", "no single answer is larger than this",
                lambda context: any(True for _ in locations(context.spec))),
    ),
    "Cache.key": (missing("Apache's key is scheme, host, path and query", "that key"),),
    "Cache.status_header": (differs("Apache adds its own name", "X-Cache: HIT from www.example.com"),),
    "CacheTime.codes": (
        differs("Apache keeps answers with status 200, 203, 300 and 301 for the first time given here, others only "
                "where the application says how long", "no time of its own for each status",
                lambda context: context.owner.codes != (200, 301)),
    ),
    "Location.rewrites": (
        _ONCE,
        _LETTERS,
        _TWICE,
        differs("Apache chooses the location anew after “break”", "the location of the new path answers",
                lambda context: context.owner.handler != "proxy" and _breaks(context)),
        differs("Apache chooses the location anew after “break” where a rewrite before it has led here",
                "the location of the new path answers",
                lambda context: context.owner.handler == "proxy" and _breaks(context)),
    ),
    "ServerBlock.rewrites": (
        _ONCE,
        differs("a redirect by a server block's rewrites carries the headers and times of the location that the path "
                "would have had", "headers of the server block in any case", _redirects_where_headers_are),
        _LETTERS,
        _TWICE,
        differs("Apache keeps no answer of a path that was rewritten", "the application is asked",
                lambda context: any(map(caches, context.owner.locations))),
    ),
    "Location.access_rules": (_UNCHECKED,),
    "Location.basic_auth": (_UNCHECKED,),
    "Location.try_files": (
        differs("when a file other than the request's own is found, Apache chooses the location for it anew",
                "the same file, with that location's settings",
                lambda context: any(item.rstrip("/") != "$uri" for item in context.owner.try_files[:-1])),
        *_blanks_in_query(_falls_back_with_path),
    ),
    "Location.return_code": (
        differs("Apache gives no empty answer with this status", "an answer of one blank",
                lambda context: 200 <= (context.owner.return_code or 0) < 300 and context.owner.return_code != 204
                and not context.owner.return_value),
        differs("nginx's 444 closes the connection without an answer", "an answer with status 444",
                lambda context: context.owner.return_code == 444),
    ),
}  # fmt: skip
