"""Differences of Apache httpd from nginx, by field of the SiteSpec."""

from __future__ import annotations

import re
from collections.abc import Callable

from panel.rendering import streams
from panel.rendering.apache.modules import NO_GRPC, mpm
from panel.rendering.apache.rewriting import encodes_queries, is_checked_first
from panel.rendering.caching import caches, locations
from panel.rendering.capability import TLS_CHALLENGES, Context, Verdict, differs, missing, no_streams, protocols
from panel.rendering.errors import NotExpressible
from panel.rendering.handlers import REDIRECTS, asks_access
from panel.rendering.locations import locations_of
from panel.rendering.reach import by_index
from panel.rendering.rewriting import redirects
from panel.rendering.spec import Location


def _passes_answers(context: Context) -> bool:
    """Return whether the server block has locations for PHP or upstreams, whose responses have headers of their own."""
    owners = context.block.locations if context.block else ()
    return any(location.handler in ("php", "proxy") for location in owners)


def _same_upstream(context: Context) -> list[Location]:
    """Return the proxying locations whose upstream shares a server with the upstream of the location in `context`.

    Apache has one worker per server, so settings of the worker, such as WebSocket, apply to all of these locations.
    """
    found = [item for block in context.spec.blocks for item in block.locations if item.handler == "proxy"]
    servers = {item.name: {server.address for server in item.servers} for item in context.spec.upstreams}
    own = servers.get(context.owner.upstream, set())
    return [item for item in found if servers.get(item.upstream, set()) & own]


def _others_differ(member: str) -> Verdict:
    return differs(
        "Apache applies this setting to the upstream, not to the location",
        "Apache uses the longest value of all locations with this upstream",
        lambda context: (
            context.owner.handler == "proxy" and len({getattr(item, member) for item in _same_upstream(context)}) > 1
        ),
    )


def _refuses_an_index(context: Context) -> bool:
    """Return whether the location denies or restricts access, and handles the index files of another location's
    folders.
    """
    source, block = context.owner, context.block
    if block is None or not (source.handler == "deny" or asks_access(source)):
        return False
    try:
        found = locations_of(block, "")
    except NotExpressible:
        return False
    return any(place and place.location is source for others in by_index(block, found).values() for place in others)


def _skips_access(context: Context) -> bool:
    """Return whether requests that try_files handles bypass the location's access control.

    Only `$uri $uri/ =404` is safe in every location, because Apache itself sends this 404 after access control.
    """
    source = context.owner
    natural = source.try_files in (("$uri", "$uri/", "=404"), ("$uri/", "$uri", "=404"))
    return bool(source.try_files) and not natural and not is_checked_first(source)


def _runs_other_files(context: Context) -> bool:
    source = context.owner
    return source.split_path_info and not (source.match in ("~", "~*") and "\\.php" in source.pattern)


def _decoded_in_query(target: str) -> bool:
    """Return whether the query in `target`, of a redirect or fallback, contains decoded text: `$uri` or a numbered
    capture.
    """
    _, found, query = target.partition("?")
    return bool(found) and bool(re.search(r"\$(?:uri|\{uri\}|\d)", query))


def _redirects_with_path(context: Context) -> bool:
    return context.owner.return_code in REDIRECTS and _decoded_in_query(context.owner.return_value)


def _falls_back_with_path(context: Context) -> bool:
    return bool(context.owner.try_files) and _decoded_in_query(context.owner.try_files[-1])


def _blanks_in_query(meets: Callable[[Context], bool]) -> tuple[Verdict, Verdict]:
    return (
        differs("Apache encodes spaces, control characters, and # when it copies a decoded path into a query; nginx "
                "sends them unchanged", "the query has the same text, with % escapes",
                lambda context: meets(context) and encodes_queries(context.web_server)),
        differs("Apache before 2.4.57 responds with 403 when it copies a decoded path with spaces or control "
                "characters into a query; nginx sends the path unchanged", "use $request_uri, which stays encoded",
                lambda context: meets(context) and not encodes_queries(context.web_server)),
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
    "Apache rewrites only client requests, not internal redirects from try_files, index files, or error pages",
    "Apache does not change the path of an internal redirect",
)
_LETTERS = differs(
    "Apache responds with 403 when it rewrites a path with %3F, and sends non-ASCII letters to upstreams unencoded",
    "avoid rewrites of paths with %3F or non-ASCII letters; nginx keeps the ? in the path and encodes such letters",
)
_TWICE = differs(
    "when a redirect adds its own query to the request's query, Apache encodes % in the request's query again",
    "end the replacement with ? to drop the request's query",
    lambda context: any(
        redirects(item) and "?" in item.replacement and not item.replacement.endswith("?")
        for item in context.owner.rewrites
    ),
)
_CHUNKED = differs(
    "Apache enforces the body limit for applications by Content-Length, so chunked request bodies pass without a limit",
    "the application must limit chunked bodies itself",
    _limits_applications,
)


_UNCHECKED = differs(
    "Apache applies the fallback of try_files before access control, and then only the access control of the "
    "fallback's location",
    "set the same access rules in the fallback's location",
    _skips_access,
)
_OF_PHP = missing(
    "Apache sets this timeout only per virtual host (ProxyTimeout)",
    "the timeout of the web server applies",
    lambda context: context.owner.handler == "php",
)
_LISTING = differs(
    "Apache's and OpenLiteSpeed's file listings look different from nginx's",
    "the web server's own listing",
    lambda context: True,
)

APACHE: dict[str, tuple[Verdict, ...]] = {
    "SiteSpec.tls_challenge_port": (TLS_CHALLENGES,),
    "SiteSpec.stream_servers": no_streams(streams.NOT_OFFERED["apache"]),
    "Listen.http2": (
        missing("Apache's prefork MPM (process model) does not support HTTP/2",
                "Apache uses HTTP/1.1; load the event or worker MPM for HTTP/2",
                lambda context: mpm(context.web_server) == "mpm_prefork"),
    ),
    "Listen.http3": (missing("Apache does not support HTTP/3", "clients use HTTP/2 if it is on, otherwise HTTP/1.1"),),
    "Listen.address": (
        differs("Apache does not distinguish virtual hosts for IPv4 and IPv6",
                "the server block receives IPv4 requests too",
                lambda context: context.owner.address == "::"),
    ),
    "ServerBlock.names": (
        missing("Apache does not support regular expressions in server names",
                "the name has no effect; list the names, or use a wildcard such as "
                "*.example.com",
                lambda context: any(name.startswith("~") for name in context.owner.names)),
    ),
    "ServerBlock.access_log_format": (
        differs("Apache logs the response time in milliseconds, nginx in seconds",
                "Apache logs 5 where nginx logs 0.005",
                lambda context: context.owner.access_log_format in ("timed", "json")),
        differs("Apache logs control characters and non-ASCII bytes as \\xHH, which is not valid JSON",
                "correct such lines before you parse them", lambda context: context.owner.access_log_format == "json"),
    ),
    "ServerBlock.autoindex": (_LISTING,),
    "Location.autoindex": (_LISTING,),
    "Header.name": (
        differs("Apache replaces a header of the same name from the application; nginx sends both",
                "the response has only the header of the site",
                _passes_answers),
    ),
    "Header.always": (
        differs("nginx also adds a header to redirects if “always” is off, and Apache does not",
                "turn on “always” to send the header with redirects",
                lambda context: not context.owner.always),
    ),
    "ErrorPage.response": (
        missing("Apache cannot change the status of an error response",
                "Apache sends the error page with the original status"),
    ),
    "Upstream.balancing": (
        missing("Apache cannot balance by client address",
                "Apache uses round robin; for sticky sessions, let the application use a "
                "cookie",
                lambda context: context.owner.balancing == "ip_hash"),
        differs("Apache counts active requests, nginx counts connections",
                "Apache sends requests to the server with the fewest active requests "
                "(lbmethod=bybusyness)",
                lambda context: context.owner.balancing == "least_conn"),
    ),
    "Upstream.keepalive": (
        differs("Apache keeps idle connections separately for each child process and sets their number itself",
                "Apache uses the default connection pool of mod_proxy",
                lambda context: context.owner.keepalive != 16),
    ),
    "UpstreamServer.max_fails": (
        missing("Apache marks a server as failed after one failed connection", "Apache works as with max_fails=1"),
    ),
    "Location.connect_timeout_s": (_OF_PHP, _others_differ("connect_timeout_s")),
    "Location.read_timeout_s": (
        _OF_PHP,
        _others_differ("read_timeout_s"),
        differs("when an upstream times out, Apache responds with 502, and nginx with 504", "Apache responds with 502",
                lambda context: context.owner.handler == "proxy"),
    ),
    "Location.upstream_protocol": (
        *protocols({"grpc": NO_GRPC}, lambda context: mpm(context.web_server) == "mpm_prefork"),
        differs("Apache passes gRPC calls on with mod_proxy_http2, which its documentation calls experimental",
                "gRPC calls and streams work as in nginx",
                lambda context: context.owner.upstream_protocol == "grpc"),
    ),
    "Location.websocket": (
        differs("Apache turns WebSocket on for an upstream, not for a location",
                "all locations with this upstream can use WebSocket",
                lambda context: not all(item.websocket for item in _same_upstream(context))),
    ),
    "Location.rate_limit": (
        missing("Apache cannot limit the request rate (mod_ratelimit only limits bandwidth)", "Paddock sets no limit"),
    ),
    "Location.connection_limit": (missing("Apache cannot limit connections per client address",
                                          "Paddock sets no limit"),),
    "Location.handler": (
        differs("if this location denies a folder's index file, Apache tries the next index file of the folder",
                "Apache denies the request only if the folder has no other index file",
                _refuses_an_index),
        differs("Apache runs files that end in .php and serves other files unchanged; nginx passes all of them "
                "to PHP, which rejects them", "end the pattern with \\.php$ to select only scripts",
                _runs_other_files),
    ),
    "Location.return_value": _blanks_in_query(_redirects_with_path),
    "Location.client_max_body_mb": (_CHUNKED,),
    "ServerBlock.client_max_body_mb": (_CHUNKED,),
    "Location.cache": (
        differs("Apache does not cache paths with % escapes, or responses reached through try_files or an index file",
                "the application handles these requests each time"),
        differs("Apache does not pass the visitor's Cache-Control header to the application, and a POST request to "
                "a path removes its cached response", "the application cannot see the visitor's Cache-Control header"),
        differs("Apache caches the responses of all sites in one folder; only htcacheclean limits its size",
                "run htcacheclean; Debian's service apache-htcacheclean limits the folder to 300 MB"),
        differs("Apache adds Cache-Control: private to responses that set a cookie, because only this header "
                "keeps such responses out of the cache",
                "other caches between Apache and the visitor do not store these responses either"),
        differs("Apache caches responses to URLs with a query only if the application sets an expiry time",
                "let the application send max-age or Expires", lambda context: not context.owner.cache.skip_queries),
    ),
    "SiteSpec.cache_mb": (
        missing("Apache has no cache size limit per site", "Apache only limits the size of each cached response",
                lambda context: any(True for _ in locations(context.spec))),
    ),
    "Cache.key": (missing("Apache cannot change its cache key: scheme, host, path, and query",
                          "Apache uses scheme, host, path, and query"),),
    "Cache.status_header": (differs("Apache adds the site's name to the header X-Cache",
                                    "the header is, for example, X-Cache: HIT from www.example.com"),),
    "CacheTime.codes": (
        differs("Apache has one caching time, for the statuses 200, 203, 300, and 301, and caches other responses "
                "only if the application sets an expiry time", "Apache uses the first time in the list",
                lambda context: context.owner.codes != (200, 301)),
    ),
    "Location.rewrites": (
        _ONCE,
        _LETTERS,
        _TWICE,
        differs("after a rewrite with the flag “break”, Apache chooses the location again",
                "the location of the new path handles the request",
                lambda context: context.owner.handler != "proxy" and _breaks(context)),
        differs("after a rewrite with the flag “break”, Apache chooses the location again if an earlier rewrite "
                "sent the request to this location",
                "the location of the new path handles the request",
                lambda context: context.owner.handler == "proxy" and _breaks(context)),
    ),
    "ServerBlock.rewrites": (
        _ONCE,
        differs("when a rewrite of the server block redirects, Apache adds the headers and expiry times of the "
                "original path's location", "the redirect also has the headers of the server block",
                _redirects_where_headers_are),
        _LETTERS,
        _TWICE,
        differs("Apache does not cache responses for rewritten paths",
                "the application handles these requests each time",
                lambda context: any(map(caches, context.owner.locations))),
    ),
    "Location.access_rules": (_UNCHECKED,),
    "Location.basic_auth": (_UNCHECKED,),
    "Location.try_files": (
        differs("when try_files finds a different file, Apache chooses the location for that file again",
                "Apache sends the same file with the settings of the file's location",
                lambda context: any(item.rstrip("/") != "$uri" for item in context.owner.try_files[:-1])),
        *_blanks_in_query(_falls_back_with_path),
    ),
    "Location.return_code": (
        differs("Apache cannot send an empty body with this status", "Apache sends a body of one space",
                lambda context: 200 <= (context.owner.return_code or 0) < 300 and context.owner.return_code != 204
                and not context.owner.return_value),
        differs("for status 444, nginx closes the connection without a response; Apache responds",
                "Apache sends a response with status 444",
                lambda context: context.owner.return_code == 444),
    ),
}  # fmt: skip
