"""Differences of OpenLiteSpeed from nginx, by field of the SiteSpec."""

from __future__ import annotations

from panel.rendering import variables
from panel.rendering.caching import locations
from panel.rendering.capability import TLS_CHALLENGES, Verdict, differs, missing, protocols
from panel.rendering.capability import openlitespeed_traits as traits
from panel.rendering.capability.apache import APACHE
from panel.rendering.handlers import asks_access
from panel.rendering.openlitespeed import answers, fallbacks, formats, ruled, scripts
from panel.rendering.openlitespeed.hosts import NOT_OFFERED
from panel.rendering.openlitespeed.vhost import REFUSALS, answers_twice
from panel.rendering.rewriting import redirects

_DECODED = "OpenLiteSpeed decodes a rewritten path before it sends it to an upstream"
_REFUSED = "400 for such paths with spaces, control characters, %, ?, or #"
_NAMES = "OpenLiteSpeed adds a Location header with the rewritten path to responses without a body"
_INDEX_OF_FOLDER = (
    "OpenLiteSpeed applies the access control of the folder's location to its index file, not of this location"
)
_SLASH_FIRST = "OpenLiteSpeed redirects to a folder's final / before access control"
_TWICE = "OpenLiteSpeed would send some denied responses twice if they had an error page"
_SERVER_WIDE = "OpenLiteSpeed has this setting only for the whole web server"


OPENLITESPEED: dict[str, tuple[Verdict, ...]] = {
    "SiteSpec.tls_challenge_port": (TLS_CHALLENGES,),
    "ServerBlock.names": (
        missing("OpenLiteSpeed does not support regular expressions in server names", "the name is ignored; use *.name",
                lambda context: any(name.startswith("~") for name in context.owner.names)),
        differs("OpenLiteSpeed ignores a leading www. in names and hosts",
                "www.NAME and NAME are the same; if two server blocks use them, one handles both, " "including the "
                        "other's redirects",
                traits.has_only_www),
    ),
    "Listen.http2": (
        missing("OpenLiteSpeed turns HTTP/2 without TLS on or off for the whole web server", "HTTP/1.1",
                lambda context: not context.owner.tls),
    ),
    "Listen.http3": (
        differs("OpenLiteSpeed sends its own Alt-Svc header, and supports HTTP/3 only for clients that send a host "
                "name",
                "Alt-Svc for 30 days, including draft h3-29; HTTP/2 for addresses without a name"),
    ),
    "ServerBlock.brotli": (
        differs("OpenLiteSpeed uses Brotli only for files", "gzip for responses of applications and PHP",
                lambda context: context.owner.brotli == "on"
                and any(place.handler in ("proxy", "php") for place in context.owner.locations)),
    ),
    "ServerBlock.autoindex": APACHE["ServerBlock.autoindex"],
    "Location.autoindex": APACHE["Location.autoindex"],
    "ServerBlock.error_log_level": (
        differs("the least verbose log level of OpenLiteSpeed is ERROR", "ERROR",
                lambda context: context.owner.error_log_level == "crit"),
    ),
    "ServerBlock.access_log_format": (
        missing("OpenLiteSpeed does not support JSON logs", "the combined format",
                lambda context: context.owner.access_log_format == "json"),
        differs("OpenLiteSpeed logs the response time in microseconds", "the last number in the line",
                lambda context: context.owner.access_log_format == "timed"),
    ),
    "ServerBlock.client_max_header_kb": (missing(_SERVER_WIDE, "the web server's limit (maxReqHeaderSize)"),),
    "ServerBlock.gzip_types": (missing(_SERVER_WIDE, "the web server's list (compressibleTypes)"),),
    "ServerBlock.client_max_body_mb": (missing(_SERVER_WIDE, "the web server's limit (maxReqBodySize)"),),
    "ServerBlock.client_certificates": (
        missing("On OpenLiteSpeed, a TLS session of another site bypasses the check of client certificates",
                "no deployment until this is off"),
    ),
    "ServerBlock.hsts_max_age_s": (
        differs("a virtual host handles HTTP and HTTPS requests alike", "the header is sent over HTTP too, where "
                "browsers ignore it", traits.plain_text),
    ),
    "Location.client_max_body_mb": (missing(_SERVER_WIDE, "the web server's limit (maxReqBodySize)"),),
    "Location.gzip": (missing("OpenLiteSpeed sets compression per virtual host", "the server block's setting"),),
    "Location.rate_limit": (missing(_SERVER_WIDE, "no limit (perClientConnLimit is server-wide)"),),
    "Location.connection_limit": (missing(_SERVER_WIDE, "no limit (perClientConnLimit is server-wide)"),),
    "Location.connect_timeout_s": (missing("OpenLiteSpeed has no connect timeout", "the web server's default"),),
    "Location.read_timeout_s": (
        missing("OpenLiteSpeed has no timeout for an upstream that accepts a request and responds slowly",
                "no limit; OpenLiteSpeed waits for the response",
                lambda context: context.owner.handler == "proxy"),
        missing("OpenLiteSpeed applies this setting to the PHP pool", "the web server's default",
                lambda context: context.owner.handler == "php"),
    ),
    "Location.return_code": (
        missing("OpenLiteSpeed sends fixed responses with status 2xx from files: only 200 can have a text, "
                "without variables",
                "the location serves files; create the file there",
                lambda context: context.owner.handler == "return" and not answers.is_file(context.owner)
                and not answers.is_rule(context.owner)),
        differs("OpenLiteSpeed sends fixed responses from files", "text/plain, with range requests, and only for "
                "GET, HEAD, and POST",
                lambda context: answers.is_file(context.owner)),
        APACHE["Location.return_code"][1],
    ),
    "Location.return_value": (
        differs("OpenLiteSpeed does not redirect a path to itself",
                "403, or the existing file; nginx would redirect in a loop", traits.leads_to_itself),
        differs("in OpenLiteSpeed, $uri is the original path",
                "the same path, with its % escapes and dots",
                lambda context: "$uri" in context.owner.return_value),
        differs("OpenLiteSpeed sends its own error pages for texts with variables or line breaks", "the same status, "
                "with a different text",
                lambda context: traits.answers_itself(context.owner) and (context.owner.return_code or 0) >= 400
                and not ruled.error_text(context.owner)),
    ),
    "Location.handler": (
        differs("a virtual host runs PHP for the file suffix on all paths",
                "paths that end in .php are denied here, without headers",
                lambda context: context.owner.match in ("=", "^~") and traits.runs_everywhere(context)),
        differs("PHP runs by file suffix here too", "files that end in .php run; nginx would send their source",
                lambda context: context.owner.match not in ("=", "^~") and traits.runs_everywhere(context)),
        differs("OpenLiteSpeed serves a folder's index file with the settings of the folder's location, not of this "
                "one",
                "access rules and headers of the folder's location; set the same rules there",
                traits.holds_an_index),
        differs("OpenLiteSpeed serves a folder's index file with the settings of this location, even if the "
                "file belongs to another",
                "headers and access rules of this location", traits.may_be_a_folders),
    ),
    "Location.basic_auth": (
        differs(_INDEX_OF_FOLDER, "the password of the folder's location; set the same one there",
                traits.holds_an_index),
        differs(_SLASH_FIRST, "the redirect, which reveals that the folder exists", traits.redirects_first),
        differs("OpenLiteSpeed sends the realm with other responses than 401 too", "WWW-Authenticate in these "
                "responses"),
    ),
    "Location.php_pool": (
        differs("a virtual host can use only one PHP pool", "the first location's pool runs all scripts",
                traits.several_pools),
    ),
    "Location.pattern": (
        missing("a virtual host recognizes scripts by their suffix, and this expression has none",
                "files that end in .php run", lambda context: context.owner.handler == "php"
                and not scripts.are_known(context.owner)),
    ),
    "Location.split_path_info": (
        differs("OpenLiteSpeed always splits the path after the script name", "PATH_INFO is set",
                lambda context: context.owner.handler == "php" and not context.owner.split_path_info),
    ),
    "Location.upstream": (
        differs("OpenLiteSpeed sends a fixed set of X-Forwarded headers",
                "X-Forwarded-Host, X-Forwarded-For (except for requests from the host itself), and "
                        "X-Forwarded-Proto for HTTPS; no X-Real-IP", lambda context: context.owner.handler == "proxy"),
    ),
    "Location.upstream_protocol": protocols(NOT_OFFERED),
    "Location.request_headers": (
        missing("OpenLiteSpeed does not add request headers for PHP", "none",
                lambda context: context.owner.handler == "php"),
        differs("if the client sends a header of the same name, OpenLiteSpeed adds a second one", "the upstream "
                "receives both"),
        differs("OpenLiteSpeed 1.9 can treat the end of a request body as the connection's next request",
                "400 for the next request on that connection; leave this empty behind a proxy that " "shares "
                "connections between visitors", lambda context: context.owner.handler == "proxy"),
        missing("OpenLiteSpeed adds no request headers if it replaced the path", "none",
                lambda context: traits.is_by_rule(context.owner, context.block)),
    ),
    "Location.websocket": (
        missing("OpenLiteSpeed supports WebSocket only for path prefixes", "a location with a path prefix",
                lambda context: context.owner.match not in ("", "^~")),
        differs("WebSocket uses only the upstream's first server", "the first server"),
    ),
    "Location.expires": (
        differs("OpenLiteSpeed adds public to the cache time of files", "Cache-Control: public, max-age=N",
                lambda context: context.owner.handler in ("static", "php") or answers.is_file(context.owner)),
        differs("OpenLiteSpeed sends past expiry times with errors too", "Cache-Control: no-cache with errors too",
                lambda context: context.owner.expires.startswith(("-", "epoch"))
                and (context.owner.handler != "return" or answers.is_file(context.owner))),
        differs("OpenLiteSpeed sends fixed responses without Expires", "only Cache-Control: max-age=N",
                lambda context: context.owner.expires[:1].isdigit() and context.owner.handler == "return"
                and not answers.is_file(context.owner)),
        missing("OpenLiteSpeed sets expiry times only for files",
                "none for redirects by rewriting, errors, and responses of PHP and upstreams",
                lambda context: context.owner.handler in ("php", "proxy")
                or traits.is_by_rule(context.owner, context.block)),
        missing("OpenLiteSpeed redirects to the final / before it chooses the location",
                "this redirect has no expiry times and headers of the location",
                lambda context: context.owner.handler != "return"),
    ),
    "Location.cache": (
        differs("OpenLiteSpeed caches the responses of all sites in one folder without a size limit",
                "expired responses are removed over time"),
        missing("OpenLiteSpeed cannot clear its cache on request", "responses stay until they expire"),
        missing("OpenLiteSpeed caches responses even if the application sends no-store or private",
                "bypass the cache for such visitors by a cookie, or turn caching off in this location"),
        differs("for one second after a start or reload, OpenLiteSpeed treats cached responses as expired",
                "such responses are created again"),
        differs("OpenLiteSpeed serves expired responses only while another request fetches a new one",
                "for up to 200 s after expiry", lambda context: context.owner.cache.stale_on_error),
    ),
    "Maintenance.text": (missing("OpenLiteSpeed has no directive for a page with status 503", "its own page"),),
    "Maintenance.retry_after_s": (missing("OpenLiteSpeed adds no headers to its own pages", "no Retry-After header"),),
    "Maintenance.allowed": (missing("OpenLiteSpeed cannot make exceptions by address", "none: it refuses them"),),
    "SiteSpec.cache_mb": (
        missing("OpenLiteSpeed has no cache size limit", "expired responses are removed over time",
                lambda context: any(True for _ in locations(context.spec))),
    ),
    "Cache.key": (missing("OpenLiteSpeed's cache key is host, path, and query", "this cache key"),),
    "Cache.status_header": (differs("OpenLiteSpeed sends X-LiteSpeed-Cache instead, and only for cache hits",
                                    "X-LiteSpeed-Cache: hit"),),
    "CacheTime.codes": (
        differs("OpenLiteSpeed has one caching time for all responses", "the first time in the list",
                lambda context: context.owner.codes != (200, 301, 302)),
    ),
    "ServerBlock.rewrites": (
        differs(_DECODED, _REFUSED, lambda context: traits.proxies(context.owner.locations)),
        differs(_NAMES, "a Location header that browsers ignore"),
    ),
    "Location.rewrites": (
        *APACHE["Location.rewrites"],
        differs(_DECODED, _REFUSED,
                lambda context: context.block is not None and traits.proxies(context.block.locations)),
        differs(_NAMES, "a Location header that browsers ignore"),
        differs("rewrite loops end after ten rounds", "the last path is used; nginx responds with 500"),
    ),
    "Location.access_rules": (
        differs(_INDEX_OF_FOLDER, "the rules of the folder's location; set the same rules there",
                traits.holds_an_index),
        differs(_SLASH_FIRST, "the redirect, which reveals that the folder exists", traits.redirects_first),
        differs("OpenLiteSpeed applies the most specific rule, not the first", "one kind of rule, and a final rule "
                "for all",
                traits.mixed_rules),
    ),
    "Location.try_files": (
        *APACHE["Location.try_files"][:1],
        differs("in the query of a fallback, OpenLiteSpeed's $uri is the original path",
                "the same path, with its % escapes",
                lambda context: "$uri" in context.owner.try_files[-1].partition("?")[2]),
        missing("OpenLiteSpeed applies the fallback before access control",
                "everybody can reach the fallback; set the same access rules in its location",
                lambda context: asks_access(context.owner) and not context.owner.try_files[-1].startswith("=")
                and not (context.block is not None and fallbacks.is_here(context.owner, context.block))),
        differs("OpenLiteSpeed looks for the files before access control",
                "the status reveals that no file exists",
                lambda context: asks_access(context.owner) and context.owner.try_files[-1].startswith("=")),
    ),
    "Header.name": APACHE["Header.name"],
    "Header.always": (
        differs("OpenLiteSpeed sends the header with errors too", "the header is always sent",
                lambda context: not context.owner.always),
    ),
    "Location.headers": (
        missing("OpenLiteSpeed sends this response without headers", "the response without these headers",
                lambda context: traits.is_by_rule(context.owner, context.block)),
    ),
    "ServerBlock.headers": (
        differs("OpenLiteSpeed adds these headers only to responses of the location's context",
                "none for fixed redirects and errors, and for requests that a rule sends to an upstream",
                lambda context: any(traits.is_by_rule(place, context.owner) for place in context.owner.locations)
                or any(map(redirects, context.owner.rewrites)) or traits.ends_in_status(context.owner)),
    ),
    "Header.value": (
        missing("OpenLiteSpeed does not support variables in upstream request headers", "a fixed value",
                lambda context: bool(variables.names(context.owner.value)) and traits.is_of_request(context)),
        missing("OpenLiteSpeed's headers support no variables that can contain a line break, and not these",
                "a fixed value, or $host, $request_uri, $args, $http_...",
                lambda context: context.block is not None and not traits.is_of_request(context) and not all(
                    formats.is_sayable(name, context.block) for name in variables.names(context.owner.value))),
        differs("OpenLiteSpeed sends a header even if its variables are empty", "an empty header",
                lambda context: bool(context.owner.value) and not traits.is_of_request(context)
                and all(isinstance(part, variables.Variable) for part in traits.parts(context.owner.value))),
    ),
    "ErrorPage.codes": (
        missing(_TWICE, "its own text for 401 and 403",
                lambda context: context.block is not None and any(map(answers_twice, context.block.locations))
                and bool(set(REFUSALS) & set(context.owner.codes))),
    ),
    "ErrorPage.response": APACHE["ErrorPage.response"],
    "Upstream.balancing": (
        missing("OpenLiteSpeed's load balancer has only one method", "OpenLiteSpeed chooses the server itself",
                lambda context: context.owner.balancing != "round_robin"),
    ),
    "Upstream.keepalive": (
        differs("OpenLiteSpeed limits idle connections by time, not by number", "pcKeepAliveTimeout 60",
                lambda context: context.owner.keepalive not in (0, 16)),
    ),
    "UpstreamServer.weight": (missing("OpenLiteSpeed's load balancer does not support weights", "equal shares"),),
    "UpstreamServer.max_fails": (missing("OpenLiteSpeed does not count failures", "retryTimeout"),),
    "UpstreamServer.backup": (missing("OpenLiteSpeed's load balancer does not support backup servers",
        "the server is ignored"),),
    "PhpPool.settings": (
        missing("settings apply only to LSAPI applications", "set them in the pool's own configuration"),
    ),
}  # fmt: skip
