"""Where OpenLiteSpeed departs from nginx's meaning."""

from __future__ import annotations

from collections.abc import Iterable

from panel.rendering import reach, variables
from panel.rendering.caching import locations
from panel.rendering.capability import Context, Verdict, differs, missing
from panel.rendering.capability.apache import APACHE
from panel.rendering.choice import choose
from panel.rendering.errors import NotExpressible
from panel.rendering.handlers import asks_access
from panel.rendering.locations import locations_of
from panel.rendering.openlitespeed import answers, formats, ruled, scripts
from panel.rendering.openlitespeed.vhost import REFUSALS
from panel.rendering.rewriting import redirects
from panel.rendering.spec import Location, ServerBlock

_DECODED = "OpenLiteSpeed sends a rewritten path to an upstream decoded"
_REFUSED = "such paths with blanks, control characters, %, ? or # are refused with 400"
_NAMES = "OpenLiteSpeed names the rewritten path in a Location where it answers with a status alone"
_INDEX_OF_FOLDER = "OpenLiteSpeed asks the folder's location who may have its index file, not this one"
_SLASH_FIRST = "OpenLiteSpeed redirects to a folder's final / before it asks who may come in"
_TWICE = "OpenLiteSpeed would answer some refused requests twice if they had a page"
_SERVER_WIDE = "OpenLiteSpeed has this for the whole server only"


def _has_only_www(context: Context) -> bool:
    """Whether a block of the site has www.NAME without NAME."""
    blocks = context.spec.blocks
    return any(name.startswith("www.") and name[4:] not in block.names for block in blocks for name in block.names)


def _runs_php(context: Context) -> bool:
    owners = context.block.locations if context.block else ()
    return any(location.handler == "php" for location in owners)


def _is_files(context: Context) -> bool:
    return bool(context.owner.handler == "static")


def _of_indexes(context: Context) -> list[Location]:
    """The locations that folders' index files belong to where the folder is another's."""
    if context.block is None:
        return []
    try:
        found = locations_of(context.block, "")
    except NotExpressible:
        return []
    return [place.location for others in reach.by_index(context.block, found).values() for place in others if place]


def _holds_an_index(context: Context) -> bool:
    return any(location is context.owner for location in _of_indexes(context))


def _may_be_a_folders(context: Context) -> bool:
    """Whether it is for folders, and their index files may be another's or nobody's."""
    source = context.owner
    if source.handler != "static":
        return False
    if source.match in ("~", "~*", "="):
        return bool(source.match != "=" or source.pattern.endswith("/"))
    return any(location is not source for location in _of_indexes(context))


def _several_pools(context: Context) -> bool:
    owners = context.block.locations if context.block else ()
    return len({location.php_pool for location in owners if location.handler == "php"}) > 1


def _mixed_rules(context: Context) -> bool:
    """More than one kind of rule before the last word: then the order matters, which it does not know."""
    rules = context.owner.access_rules
    before = rules[:-1] if rules[-1].source == "all" else rules
    return len({rule.action for rule in before}) > 1


def _plain_text(context: Context) -> bool:
    return any(not listen.tls for listen in context.owner.listens)


def _proxies(locations: Iterable[Location]) -> bool:
    return any(location.handler == "proxy" for location in locations)


def _ends_in_status(owner: Location | ServerBlock) -> bool:
    return bool(owner.try_files) and owner.try_files[-1].startswith("=")


def _is_by_rule(location: Location, inside: ServerBlock | None) -> bool:
    """Whether a rule of the virtual host answers all or some of it, before a context is chosen."""
    if any(redirects(item) for item in location.rewrites) or _ends_in_status(location):
        return True
    if inside is not None and ruled.is_here(location, inside):
        return any(item.flag == "break" for item in location.rewrites)
    if location.handler == "proxy":
        return bool(location.proxy_uri) or any(item.flag == "break" for item in location.rewrites)
    return location.handler == "return" and not answers.is_file(location)


def _answers_itself(location: Location) -> bool:
    return location.handler == "return" and bool(location.return_value)


def _leads_to_itself(context: Context) -> bool:
    """Whether it redirects to a path that it answers itself."""
    path, block = context.owner.return_value.partition("?")[0], context.block
    if block is None or not path.startswith("/"):
        return False
    try:
        place = choose(locations_of(block, ""), path).place
    except NotExpressible:
        return True
    return "$" in path or (place is not None and place.location is context.owner)


OPENLITESPEED: dict[str, tuple[Verdict, ...]] = {
    "ServerBlock.names": (
        missing("OpenLiteSpeed has no regular expressions in server names", "the name is left out; use *.name",
                lambda context: any(name.startswith("~") for name in context.owner.names)),
        differs("OpenLiteSpeed takes no notice of a leading www. in names and hosts",
                "www.NAME and NAME are one name; of two blocks one answers both, with the other's redirects",
                _has_only_www),
    ),
    "Listen.http2": (
        missing("OpenLiteSpeed speaks HTTP/2 without TLS for the whole server or not at all", "HTTP/1.1",
                lambda context: not context.owner.tls),
    ),
    "Listen.http3": (
        differs("OpenLiteSpeed announces HTTP/3 in its own words and speaks it with clients that name the host",
                "Alt-Svc for 30 days, with the draft h3-29 too; HTTP/2 for addresses without a name"),
    ),
    "ServerBlock.brotli": (
        differs("OpenLiteSpeed uses Brotli for files only", "gzip for what applications and PHP answer",
                lambda context: context.owner.brotli == "on"
                and any(place.handler in ("proxy", "php") for place in context.owner.locations)),
    ),
    "ServerBlock.autoindex": APACHE["ServerBlock.autoindex"],
    "Location.autoindex": APACHE["Location.autoindex"],
    "ServerBlock.error_log_level": (
        differs("OpenLiteSpeed's highest level is ERROR", "ERROR",
                lambda context: context.owner.error_log_level == "crit"),
    ),
    "ServerBlock.access_log_format": (
        missing("OpenLiteSpeed writes no JSON", "its combined format",
                lambda context: context.owner.access_log_format == "json"),
        differs("OpenLiteSpeed gives the time that an answer took in microseconds", "the last number of the line",
                lambda context: context.owner.access_log_format == "timed"),
    ),
    "ServerBlock.client_max_header_kb": (missing(_SERVER_WIDE, "the server's own limit (maxReqHeaderSize)"),),
    "ServerBlock.gzip_types": (missing(_SERVER_WIDE, "the server's own list (compressibleTypes)"),),
    "ServerBlock.client_max_body_mb": (missing(_SERVER_WIDE, "the server's own limit (maxReqBodySize)"),),
    "ServerBlock.hsts_max_age_s": (
        differs("a virtual host answers plain and encrypted requests alike", "the header goes out over HTTP too, where "
                "browsers ignore it", _plain_text),
    ),
    "Location.client_max_body_mb": (missing(_SERVER_WIDE, "the server's own limit (maxReqBodySize)"),),
    "Location.gzip": (missing("OpenLiteSpeed compresses per virtual host", "the server block's setting"),),
    "Location.rate_limit": (missing(_SERVER_WIDE, "no limit here (perClientConnLimit is server-wide)"),),
    "Location.connection_limit": (missing(_SERVER_WIDE, "no limit here (perClientConnLimit is server-wide)"),),
    "Location.connect_timeout_s": (missing("OpenLiteSpeed has no time-out of its own for connecting", "its default"),),
    "Location.read_timeout_s": (
        missing("OpenLiteSpeed does not give up an upstream that takes a request and is slow to answer", "it waits",
                lambda context: context.owner.handler == "proxy"),
        missing("OpenLiteSpeed keeps this with the PHP pool", "its default",
                lambda context: context.owner.handler == "php"),
    ),
    "Location.return_code": (
        missing("OpenLiteSpeed's fixed answers of status 2xx are files: only 200 has a text, one that never changes",
                "the location serves files; put one there",
                lambda context: context.owner.handler == "return" and not answers.is_file(context.owner)
                and not answers.is_rule(context.owner)),
        differs("OpenLiteSpeed's fixed answers are files", "as text/plain, with ranges, and GET, HEAD and POST only",
                lambda context: answers.is_file(context.owner)),
        APACHE["Location.return_code"][1],
    ),
    "Location.return_value": (
        differs("OpenLiteSpeed sends no redirect to the very path that was asked",
                "403, or the file that is there; with nginx such visitors go round in a circle", _leads_to_itself),
        differs("OpenLiteSpeed's $uri is the path as the visitor wrote it",
                "the same path, with its % escapes and dots",
                lambda context: "$uri" in context.owner.return_value),
        differs("OpenLiteSpeed answers errors with its own text", "the same status, another text",
                lambda context: _answers_itself(context.owner) and (context.owner.return_code or 0) >= 400),
    ),
    "Location.handler": (
        differs("PHP runs by its suffix anywhere in a virtual host",
                "paths ending in .php are refused here, without headers",
                lambda context: context.owner.handler == "static" and context.owner.match in ("=", "^~")
                and _runs_php(context)),
        differs("PHP runs by its suffix here too", "what ends in .php runs, where nginx sends the file as it is",
                lambda context: context.owner.handler == "static" and context.owner.match not in ("=", "^~")
                and _runs_php(context)),
        differs("OpenLiteSpeed gives a folder's index file with the settings of the folder's location, not of this one",
                "access and headers of the folder's location; give it the same rules", _holds_an_index),
        differs("OpenLiteSpeed gives a folder's index file with this location's settings, whosever the file is",
                "headers and access of this location", _may_be_a_folders),
    ),
    "Location.basic_auth": (
        differs(_INDEX_OF_FOLDER, "the password of the folder's location; give it the same", _holds_an_index),
        differs(_SLASH_FIRST, "the redirect, which tells that the folder is there", _is_files),
        differs("OpenLiteSpeed names the realm with other answers than 401 as well", "WWW-Authenticate in them"),
    ),
    "Location.php_pool": (
        differs("a virtual host has one PHP pool", "the first location's pool runs all scripts", _several_pools),
    ),
    "Location.pattern": (
        missing("a virtual host knows scripts by their suffix, and this expression names none",
                "files that end in .php run", lambda context: context.owner.handler == "php"
                and not scripts.are_known(context.owner)),
    ),
    "Location.split_path_info": (
        differs("OpenLiteSpeed always splits the path after a script's name", "PATH_INFO is set",
                lambda context: context.owner.handler == "php" and not context.owner.split_path_info),
    ),
    "Location.upstream": (
        differs("OpenLiteSpeed chooses the headers that tell an upstream of the visitor",
                "X-Forwarded-Host, X-Forwarded-For (but of requests from the host itself) and, of encrypted requests, "
                "X-Forwarded-Proto; no X-Real-IP", lambda context: context.owner.handler == "proxy"),
    ),
    "Location.request_headers": (
        missing("OpenLiteSpeed does not add headers to what PHP is asked", "none",
                lambda context: context.owner.handler == "php"),
        differs("OpenLiteSpeed adds the header beside one of that name that the client sent", "both are passed on"),
        differs("OpenLiteSpeed 1.9 takes the end of a body that came together with its request for the connection's "
                "next request", "400 to what follows on that connection; leave this empty behind a proxy that shares "
                "its connections among visitors", lambda context: context.owner.handler == "proxy"),
        missing("OpenLiteSpeed adds no headers to what is asked by a path that it has replaced", "none",
                lambda context: _is_by_rule(context.owner, context.block)),
    ),
    "Location.websocket": (
        missing("OpenLiteSpeed upgrades by prefix only", "a location that begins with a path",
                lambda context: context.owner.match not in ("", "^~")),
        differs("only the upstream's first server is upgraded to", "its first server"),
    ),
    "Location.expires": (
        differs("OpenLiteSpeed says public with the times of files", "Cache-Control: public, max-age=N",
                lambda context: context.owner.handler in ("static", "php") or answers.is_file(context.owner)),
        differs("OpenLiteSpeed gives times in the past with errors too", "Cache-Control: no-cache with them as well",
                lambda context: context.owner.expires.startswith(("-", "epoch"))
                and (context.owner.handler != "return" or answers.is_file(context.owner))),
        differs("OpenLiteSpeed gives a fixed answer no Expires", "Cache-Control: max-age=N alone",
                lambda context: context.owner.expires[:1].isdigit() and context.owner.handler == "return"
                and not answers.is_file(context.owner)),
        missing("OpenLiteSpeed gives times only to files",
                "none with redirects by rewriting, errors, and what PHP and upstreams answer",
                lambda context: context.owner.handler in ("php", "proxy") or _is_by_rule(context.owner, context.block)),
        missing("OpenLiteSpeed redirects to the final / before it looks at the location",
                "no times and headers of the location with that redirect",
                lambda context: context.owner.handler != "return"),
    ),
    "Location.cache": (
        differs("OpenLiteSpeed's cache module keeps the answers of all sites in one folder and has no limit of size",
                "what expired is removed in time"),
        missing("what OpenLiteSpeed keeps cannot be thrown away at once", "an answer goes when its time has come"),
        missing("OpenLiteSpeed keeps an answer also where the application says no-store or private",
                "skip its visitors by a cookie, or do not keep that location"),
        differs("for a second after it was started or reloaded OpenLiteSpeed takes what it keeps for old",
                "such answers are made anew"),
        differs("OpenLiteSpeed gives an expired answer only while another request fetches a new one",
                "up to 200 s after it expired", lambda context: context.owner.cache.stale_on_error),
    ),
    "SiteSpec.cache_mb": (
        missing("OpenLiteSpeed has no limit on what it keeps", "what expired is removed in time",
                lambda context: any(True for _ in locations(context.spec))),
    ),
    "Cache.key": (missing("OpenLiteSpeed's key is host, path and query", "that key"),),
    "Cache.status_header": (differs("OpenLiteSpeed calls it X-LiteSpeed-Cache and sends it with hits only",
                                    "X-LiteSpeed-Cache: hit"),),
    "CacheTime.codes": (
        differs("OpenLiteSpeed has one time for all answers", "the first time given here",
                lambda context: context.owner.codes != (200, 301, 302)),
    ),
    "ServerBlock.rewrites": (
        differs(_DECODED, _REFUSED, lambda context: _proxies(context.owner.locations)),
        differs(_NAMES, "a Location that browsers take no notice of"),
    ),
    "Location.rewrites": (
        *APACHE["Location.rewrites"],
        differs(_DECODED, _REFUSED, lambda context: context.block is not None and _proxies(context.block.locations)),
        differs(_NAMES, "a Location that browsers take no notice of"),
        differs("rewrites that lead in a circle end after ten rounds", "the last path is answered; nginx says 500"),
    ),
    "Location.access_rules": (
        differs(_INDEX_OF_FOLDER, "the rules of the folder's location; give it the same", _holds_an_index),
        differs(_SLASH_FIRST, "the redirect, which tells that the folder is there", _is_files),
        differs("OpenLiteSpeed takes the most specific rule, not the first", "one kind of rule and a last word for all",
                _mixed_rules),
    ),
    "Location.try_files": (
        *APACHE["Location.try_files"][:1],
        differs("OpenLiteSpeed's $uri in a fallback's query is the path as the visitor wrote it",
                "the same path, with its % escapes",
                lambda context: "$uri" in context.owner.try_files[-1].partition("?")[2]),
        missing("OpenLiteSpeed chooses the fallback before it asks who may come in",
                "the fallback is open to everybody; give its location the same access rules",
                lambda context: asks_access(context.owner) and not context.owner.try_files[-1].startswith("=")),
        differs("OpenLiteSpeed looks for the files before it asks who may come in",
                "the status tells that none is there",
                lambda context: asks_access(context.owner) and context.owner.try_files[-1].startswith("=")),
    ),
    "Header.name": APACHE["Header.name"],
    "Header.always": (
        differs("OpenLiteSpeed sends it with errors as well", "the header is always sent",
                lambda context: not context.owner.always),
    ),
    "Location.headers": (
        missing("OpenLiteSpeed gives such an answer without headers", "the answer without them",
                lambda context: _is_by_rule(context.owner, context.block)),
    ),
    "ServerBlock.headers": (
        differs("OpenLiteSpeed gives such headers only with what a location's context answers",
                "none with redirects and errors that are fixed, and what a rule hands to an upstream",
                lambda context: any(_is_by_rule(place, context.owner) for place in context.owner.locations)
                or any(map(redirects, context.owner.rewrites)) or _ends_in_status(context.owner)),
    ),
    "Header.value": (
        missing("OpenLiteSpeed has no variables in what it asks an upstream", "a fixed value",
                lambda context: bool(variables.names(context.owner.value)) and _is_of_request(context)),
        missing("OpenLiteSpeed's headers hold no variable that may have a line break in it, nor these",
                "a fixed value, or $host, $request_uri, $args, $http_...",
                lambda context: context.block is not None and not _is_of_request(context) and not all(
                    formats.is_sayable(name, context.block) for name in variables.names(context.owner.value))),
        differs("OpenLiteSpeed sends a header also where its variables are empty", "an empty header",
                lambda context: bool(context.owner.value) and not _is_of_request(context)
                and all(isinstance(part, variables.Variable) for part in _parts(context.owner.value))),
    ),
    "ErrorPage.codes": (
        missing(_TWICE, "its own text for 401 and 403",
                lambda context: context.block is not None and any(map(asks_access, context.block.locations))
                and bool(set(REFUSALS) & set(context.owner.codes))),
    ),
    "ErrorPage.response": APACHE["ErrorPage.response"],
    "Upstream.balancing": (
        missing("OpenLiteSpeed's load balancer has one method", "its own choice among the servers",
                lambda context: context.owner.balancing != "round_robin"),
    ),
    "Upstream.keepalive": (
        differs("OpenLiteSpeed keeps connections by time, not by number", "pcKeepAliveTimeout 60",
                lambda context: context.owner.keepalive not in (0, 16)),
    ),
    "UpstreamServer.weight": (missing("OpenLiteSpeed's load balancer has no weights", "equal shares"),),
    "UpstreamServer.max_fails": (missing("OpenLiteSpeed does not count failures", "retryTimeout"),),
    "UpstreamServer.backup": (missing("OpenLiteSpeed's load balancer has no backups", "the server is left out"),),
    "PhpPool.settings": (
        missing("settings reach only LSAPI applications", "set them in the pool's own configuration"),
    ),
}  # fmt: skip


def _is_of_request(context: Context) -> bool:
    """Whether the header is sent to an upstream."""
    places = context.block.locations if context.block else ()
    return any(header is context.owner for place in places for header in place.request_headers)


def _parts(value: str) -> tuple[variables.Part, ...]:
    try:
        return variables.parse(value, "")
    except NotExpressible:
        return ("",)
