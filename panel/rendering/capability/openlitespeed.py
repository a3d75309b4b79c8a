"""Differences of OpenLiteSpeed from nginx, by field of the SiteSpec."""

from __future__ import annotations

from panel.rendering import streams, variables
from panel.rendering.caching import locations
from panel.rendering.capability import TLS_CHALLENGES, Verdict, differs, missing, no_streams, protocols
from panel.rendering.capability import openlitespeed_traits as traits
from panel.rendering.capability.apache import APACHE
from panel.rendering.handlers import asks_access
from panel.rendering.openlitespeed import answers, fallbacks, formats, ruled, scripts
from panel.rendering.openlitespeed.hosts import NOT_OFFERED
from panel.rendering.openlitespeed.vhost import REFUSALS, answers_twice
from panel.rendering.rewriting import redirects

_DECODED = "OpenLiteSpeed decodes rewritten paths before it sends them to an upstream"
_REFUSED = "OpenLiteSpeed responds with 400 if such a path has spaces, control characters, %, ?, or #"
_NAMES = "OpenLiteSpeed adds a Location header with the rewritten path to responses that have no body"
_INDEX_OF_FOLDER = (
    "OpenLiteSpeed protects a folder's index file by the access control of the folder's location, not of this location"
)
_SLASH_FIRST = "OpenLiteSpeed redirects requests for folders to the final / before access control"
_TWICE = "OpenLiteSpeed would send some responses with status 401 and 403 twice if they had an error page"
_SERVER_WIDE = "OpenLiteSpeed supports this setting only for the whole web server"


OPENLITESPEED: dict[str, tuple[Verdict, ...]] = {
    "SiteSpec.tls_challenge_port": (TLS_CHALLENGES,),
    "SiteSpec.stream_servers": no_streams(streams.NOT_OFFERED["openlitespeed"]),
    "ServerBlock.names": (
        missing("OpenLiteSpeed does not support regular expressions in server names",
                "the name has no effect; use a wildcard such as *.example.com",
                lambda context: any(name.startswith("~") for name in context.owner.names)),
        differs("OpenLiteSpeed ignores a leading www. in server names and Host headers",
                "www.example.com and example.com are the same name; if each is in another server block, one block "
                "handles both names",
                traits.has_only_www),
    ),
    "Listen.http2": (
        missing("OpenLiteSpeed turns HTTP/2 without TLS on or off for the whole web server",
                "clients use HTTP/1.1 without TLS",
                lambda context: not context.owner.tls),
    ),
    "Listen.http3": (
        differs("OpenLiteSpeed sends its own Alt-Svc header, and supports HTTP/3 only for clients that send a host "
                "name (SNI)",
                "the Alt-Svc header is valid for 30 days and lists the draft h3-29 too; clients that request an IP "
                "address use HTTP/2"),
    ),
    "ServerBlock.brotli": (
        differs("OpenLiteSpeed uses Brotli only for files",
                "OpenLiteSpeed compresses responses of applications and PHP with gzip",
                lambda context: context.owner.brotli == "on"
                and any(place.handler in ("proxy", "php") for place in context.owner.locations)),
    ),
    "ServerBlock.autoindex": APACHE["ServerBlock.autoindex"],
    "Location.autoindex": APACHE["Location.autoindex"],
    "ServerBlock.error_log_level": (
        differs("the least verbose log level of OpenLiteSpeed is ERROR",
                "the log contains messages of level ERROR and above",
                lambda context: context.owner.error_log_level == "crit"),
    ),
    "ServerBlock.access_log_format": (
        missing("OpenLiteSpeed does not support JSON logs", "the log has the combined format",
                lambda context: context.owner.access_log_format == "json"),
        differs("OpenLiteSpeed logs the response time in microseconds, nginx in seconds",
                "the response time is the last number in the line",
                lambda context: context.owner.access_log_format == "timed"),
    ),
    "ServerBlock.client_max_header_kb": (missing(_SERVER_WIDE, "the web server's limit maxReqHeaderSize applies"),),
    "ServerBlock.gzip_types": (missing(_SERVER_WIDE, "the web server's list compressibleTypes applies"),),
    "ServerBlock.client_max_body_mb": (missing(_SERVER_WIDE, "the web server's limit maxReqBodySize applies"),),
    "ServerBlock.client_certificates": (
        missing("On OpenLiteSpeed, a TLS session of another site bypasses the check of client certificates",
                "Paddock does not deploy the site until you turn client certificates off"),
    ),
    "ServerBlock.hsts_max_age_s": (
        differs("OpenLiteSpeed sends the same headers with HTTP and HTTPS responses",
                "HTTP responses have the HSTS header too, which browsers ignore", traits.plain_text),
    ),
    "Location.client_max_body_mb": (missing(_SERVER_WIDE, "the web server's limit maxReqBodySize applies"),),
    "Location.gzip": (missing("OpenLiteSpeed sets compression per virtual host",
                              "the setting of the server block applies"),),
    "Location.rate_limit": (missing(_SERVER_WIDE,
                                    "Paddock sets no limit; the web server's perClientConnLimit applies to all "
                                    "sites"),),
    "Location.connection_limit": (missing(_SERVER_WIDE,
                                          "Paddock sets no limit; the web server's perClientConnLimit applies to all "
                                          "sites"),),
    "Location.connect_timeout_s": (missing("OpenLiteSpeed has no connect timeout",
                                           "the default of the web server applies"),),
    "Location.read_timeout_s": (
        missing("OpenLiteSpeed has no timeout for an upstream that accepts a request and responds slowly",
                "OpenLiteSpeed waits for the response without a limit",
                lambda context: context.owner.handler == "proxy"),
        missing("OpenLiteSpeed supports this timeout only for a PHP pool, not for a location",
                "the default of the web server applies",
                lambda context: context.owner.handler == "php"),
    ),
    "Location.return_code": (
        missing("for a fixed 2xx response with a text, OpenLiteSpeed supports only status 200 and a text without "
                "variables",
                "the location serves files; create a file with the text",
                lambda context: context.owner.handler == "return" and not answers.is_file(context.owner)
                and not answers.is_rule(context.owner)),
        differs("OpenLiteSpeed sends this fixed response as a file",
                "the response has the type text/plain, supports range requests, and is "
                "sent only for GET, HEAD, and POST",
                lambda context: answers.is_file(context.owner)),
        APACHE["Location.return_code"][1],
    ),
    "Location.return_value": (
        differs("OpenLiteSpeed does not redirect a path to itself",
                "OpenLiteSpeed sends the existing file or 403, where nginx would redirect in a loop",
                traits.leads_to_itself),
        differs("OpenLiteSpeed's $uri is the original path, not the normalized path",
                "the redirect contains the original path, with its % escapes and dots",
                lambda context: "$uri" in context.owner.return_value),
        differs("OpenLiteSpeed cannot send an error with a text that contains variables or line breaks",
                "OpenLiteSpeed sends its own error page with the same status",
                lambda context: traits.answers_itself(context.owner) and (context.owner.return_code or 0) >= 400
                and not ruled.error_text(context.owner)),
    ),
    "Location.handler": (
        differs("OpenLiteSpeed runs PHP files on all paths of a virtual host",
                "Paddock denies paths of this location that end in .php; these responses have no headers of the site",
                lambda context: context.owner.match in ("=", "^~") and traits.runs_everywhere(context)),
        differs("OpenLiteSpeed runs PHP files also in this location, as in the whole virtual host",
                "files that end in .php run in this location; nginx would send their source",
                lambda context: context.owner.match not in ("=", "^~") and traits.runs_everywhere(context)),
        differs("OpenLiteSpeed serves a folder's index file with the settings of the folder's location, not of "
                "this location",
                "the access rules and headers of the folder's location apply; set the same values in both locations",
                traits.holds_an_index),
        differs("OpenLiteSpeed serves a folder's index file with the settings of this location, even if another "
                "location matches the file",
                "the headers and access rules of this location apply", traits.may_be_a_folders),
    ),
    "Location.basic_auth": (
        differs(_INDEX_OF_FOLDER, "the realm and users of the folder's location apply; set the same realm and "
                                  "users in both locations",
                traits.holds_an_index),
        differs(_SLASH_FIRST,
                "OpenLiteSpeed sends the redirect, which reveals that the folder exists", traits.redirects_first),
        differs("OpenLiteSpeed sends the realm also with other statuses than 401",
                "these responses have the header WWW-Authenticate"),
    ),
    "Location.php_pool": (
        differs("OpenLiteSpeed supports only one PHP pool per virtual host",
                "the PHP pool of the first location runs all scripts",
                traits.several_pools),
    ),
    "Location.pattern": (
        missing("OpenLiteSpeed recognizes PHP scripts by their suffix, and this regular expression names no suffix",
                "OpenLiteSpeed runs files that end in .php", lambda context: context.owner.handler == "php"
                and not scripts.are_known(context.owner)),
    ),
    "Location.split_path_info": (
        differs("OpenLiteSpeed always splits the path after the script name", "PHP receives PATH_INFO",
                lambda context: context.owner.handler == "php" and not context.owner.split_path_info),
    ),
    "Location.upstream": (
        differs("OpenLiteSpeed sends a fixed set of X-Forwarded headers",
                "OpenLiteSpeed sends X-Forwarded-Host, X-Forwarded-For (except for requests from the host itself), "
                "and for HTTPS X-Forwarded-Proto, but no X-Real-IP", lambda context: context.owner.handler == "proxy"),
    ),
    "Location.upstream_protocol": protocols(NOT_OFFERED),
    "Location.request_headers": (
        missing("OpenLiteSpeed cannot add request headers for PHP", "the request has none of these headers",
                lambda context: context.owner.handler == "php"),
        differs("if the client sends a header of the same name, OpenLiteSpeed adds a second header",
                "the upstream receives both headers"),
        differs("OpenLiteSpeed 1.9 can read the end of a request body as the next request on the connection",
                "the next request on the connection gets status 400; add no request headers behind a proxy that "
                "shares connections between visitors", lambda context: context.owner.handler == "proxy"),
        missing("OpenLiteSpeed adds no request headers if it replaces the path for the upstream",
                "the request has none of these headers",
                lambda context: traits.is_by_rule(context.owner, context.block)),
    ),
    "Location.websocket": (
        missing("OpenLiteSpeed supports WebSocket only for path prefixes", "use a location with a path prefix",
                lambda context: context.owner.match not in ("", "^~")),
        differs("OpenLiteSpeed passes WebSocket connections only to the upstream's first server",
                "all WebSocket connections go to the first server"),
    ),
    "Location.expires": (
        differs("OpenLiteSpeed adds “public” to the Cache-Control header of files",
                "the header is Cache-Control: public, max-age=N",
                lambda context: context.owner.handler in ("static", "php") or answers.is_file(context.owner)),
        differs("OpenLiteSpeed sends an expiry time in the past with error responses too",
                "error responses have the header Cache-Control: no-cache too",
                lambda context: context.owner.expires.startswith(("-", "epoch"))
                and (context.owner.handler != "return" or answers.is_file(context.owner))),
        differs("OpenLiteSpeed sends fixed responses without Expires",
                "the response has only the header Cache-Control: max-age=N",
                lambda context: context.owner.expires[:1].isdigit() and context.owner.handler == "return"
                and not answers.is_file(context.owner)),
        missing("OpenLiteSpeed sends expiry times only with files",
                "redirects of rewrites, error responses, and responses of PHP and upstreams have no expiry time",
                lambda context: context.owner.handler in ("php", "proxy")
                or traits.is_by_rule(context.owner, context.block)),
        missing("OpenLiteSpeed redirects requests for folders to the final / before it chooses the location",
                "this redirect has neither expiry times nor headers of the location",
                lambda context: context.owner.handler != "return"),
    ),
    "Location.cache": (
        differs("OpenLiteSpeed caches the responses of all sites in one folder without a size limit",
                "OpenLiteSpeed removes expired responses over time"),
        missing("OpenLiteSpeed cannot clear its cache on request", "cached responses stay until they expire"),
        missing("OpenLiteSpeed caches responses even if the application sends no-store or private",
                "let requests with a cookie of these visitors bypass the cache, or turn caching off in this location"),
        differs("for one second after a start or reload, OpenLiteSpeed treats cached responses as expired",
                "the application creates these responses again"),
        differs("OpenLiteSpeed serves expired responses only while another request fetches a new one",
                "OpenLiteSpeed serves an expired response for up to 200 s",
                lambda context: context.owner.cache.stale_on_error),
    ),
    "Maintenance.text": (missing("OpenLiteSpeed has no directive for a page with status 503",
                                 "OpenLiteSpeed sends its own page"),),
    "Maintenance.retry_after_s": (missing("OpenLiteSpeed adds no headers to the pages that it creates",
                                          "the maintenance page has no Retry-After header"),),
    "Maintenance.allowed": (missing("OpenLiteSpeed cannot let some client addresses pass the maintenance page",
                                    "Paddock does not deploy the maintenance page until you remove the allowed "
                                    "addresses"),),
    "SiteSpec.cache_mb": (
        missing("OpenLiteSpeed has no cache size limit", "OpenLiteSpeed removes expired responses over time",
                lambda context: any(True for _ in locations(context.spec))),
    ),
    "Cache.key": (missing("OpenLiteSpeed cannot change its cache key: host, path, and query",
                          "OpenLiteSpeed uses host, path, and query"),),
    "Cache.status_header": (differs("OpenLiteSpeed sends the header X-LiteSpeed-Cache instead of X-Cache, and only "
    "for cache hits",
                                    "cached responses have the header X-LiteSpeed-Cache: hit"),),
    "CacheTime.codes": (
        differs("OpenLiteSpeed has one caching time for all statuses", "OpenLiteSpeed uses the first time in the list",
                lambda context: context.owner.codes != (200, 301, 302)),
    ),
    "ServerBlock.rewrites": (
        differs(_DECODED, _REFUSED, lambda context: traits.proxies(context.owner.locations)),
        differs(_NAMES, "these responses have a Location header, which browsers ignore"),
    ),
    "Location.rewrites": (
        *APACHE["Location.rewrites"],
        differs(_DECODED, _REFUSED,
                lambda context: context.block is not None and traits.proxies(context.block.locations)),
        differs(_NAMES, "these responses have a Location header, which browsers ignore"),
        differs("OpenLiteSpeed ends a rewrite loop after ten rounds",
                "OpenLiteSpeed uses the last path; nginx responds with 500"),
    ),
    "Location.access_rules": (
        differs(_INDEX_OF_FOLDER, "the access rules of the folder's location apply; set the same rules in both "
                                  "locations",
                traits.holds_an_index),
        differs(_SLASH_FIRST,
                "OpenLiteSpeed sends the redirect, which reveals that the folder exists", traits.redirects_first),
        differs("OpenLiteSpeed applies the most specific access rule, not the first",
                "use either only allow rules or only deny rules, and a final rule for all",
                traits.mixed_rules),
    ),
    "Location.try_files": (
        *APACHE["Location.try_files"][:1],
        differs("in the query of a fallback, OpenLiteSpeed's $uri is the original path, not the normalized path",
                "the query contains the original path, with its % escapes",
                lambda context: "$uri" in context.owner.try_files[-1].partition("?")[2]),
        missing("OpenLiteSpeed applies the fallback of try_files before access control",
                "everybody can reach the fallback; set the same access rules in the fallback's location",
                lambda context: asks_access(context.owner) and not context.owner.try_files[-1].startswith("=")
                and not (context.block is not None and fallbacks.is_here(context.owner, context.block))),
        differs("OpenLiteSpeed looks for the files of try_files before access control",
                "the status of a denied request reveals that no file exists",
                lambda context: asks_access(context.owner) and traits.ends_in_status(context.owner, context.block)),
    ),
    "Header.name": APACHE["Header.name"],
    "Header.always": (
        differs("OpenLiteSpeed sends a header without “always” with error responses too",
                "all responses have the header",
                lambda context: not context.owner.always),
    ),
    "Location.headers": (
        missing("OpenLiteSpeed adds no headers if a rewrite rule sends the response or passes the request to an "
                "upstream", "the response has none of these headers",
                lambda context: traits.is_by_rule(context.owner, context.block)),
    ),
    "ServerBlock.headers": (
        differs("OpenLiteSpeed adds headers only to responses of a context, its counterpart of a location",
                "fixed redirects, fixed errors, and responses to requests that a rewrite rule passes to an "
                "upstream have none of these headers",
                lambda context: any(traits.is_by_rule(place, context.owner) for place in context.owner.locations)
                or any(map(redirects, context.owner.rewrites)) or traits.ends_in_status(context.owner, context.owner)),
    ),
    "Header.value": (
        missing("OpenLiteSpeed does not support variables in upstream request headers", "use a fixed value",
                lambda context: bool(variables.names(context.owner.value)) and traits.is_of_request(context)),
        missing("OpenLiteSpeed does not support these variables in headers, nor variables that can contain a line "
                "break",
                "use a fixed value, or $host, $request_uri, $args, or $http_...",
                lambda context: context.block is not None and not traits.is_of_request(context) and not all(
                    formats.is_sayable(name, context.block) for name in variables.names(context.owner.value))),
        differs("OpenLiteSpeed sends a header even if its variables are empty; nginx leaves the header out",
                "OpenLiteSpeed sends the header with an empty value",
                lambda context: bool(context.owner.value) and not traits.is_of_request(context)
                and all(isinstance(part, variables.Variable) for part in traits.parts(context.owner.value))),
    ),
    "ErrorPage.codes": (
        missing(_TWICE, "OpenLiteSpeed sends its own text for 401 and 403",
                lambda context: context.block is not None and any(map(answers_twice, context.block.locations))
                and bool(set(REFUSALS) & set(context.owner.codes))),
    ),
    "ErrorPage.response": APACHE["ErrorPage.response"],
    "Upstream.balancing": (
        missing("OpenLiteSpeed's load balancer has only one method",
                "OpenLiteSpeed chooses the server by its own method",
                lambda context: context.owner.balancing != "round_robin"),
    ),
    "Upstream.keepalive": (
        differs("OpenLiteSpeed limits idle connections to an upstream by time, not by number",
                "OpenLiteSpeed closes idle connections after 60 s (pcKeepAliveTimeout)",
                lambda context: context.owner.keepalive not in (0, 16)),
    ),
    "UpstreamServer.weight": (missing("OpenLiteSpeed's load balancer does not support weights",
                                      "all servers receive the same share of the requests"),),
    "UpstreamServer.max_fails": (missing("OpenLiteSpeed does not count failures of an upstream server",
                                         "OpenLiteSpeed tries a failed server again after retryTimeout"),),
    "UpstreamServer.backup": (missing("OpenLiteSpeed's load balancer does not support backup servers",
        "Paddock leaves the backup server out"),),
    "PhpPool.settings": (
        missing("OpenLiteSpeed passes PHP settings on only to LSAPI applications",
                "enter the settings in the configuration of php-fpm"),
    ),
}  # fmt: skip
