"""The shapes of a site's definition, which `site_export` returns and `site_define` accepts, and of each list in it.
Missing keys get the model's default (models.py). The API uses the same shapes as JSON.
"""

from __future__ import annotations

from typing import TypedDict


class ListenData(TypedDict, total=False):
    """One address that a server block listens on. `address` "" means every IPv4 address."""

    address: str
    port: int
    tls: bool
    http2: bool
    http3: bool
    default_server: bool


class HeaderData(TypedDict, total=False):
    """A header of a request or a response. Request headers have only name and value. `always`: send the response header
    with every status.

    A response header with the name `@set` and no value means all headers of the header set "set".
    """

    name: str
    value: str
    always: bool


class ErrorPageData(TypedDict):
    """An error page for some status codes. `response`: the status sent with the page; None keeps the original
    status.
    """

    codes: list[int]
    uri: str
    response: int | None


class RewriteData(TypedDict):
    pattern: str
    replacement: str
    flag: str


class CacheTimeData(TypedDict):
    codes: list[int]
    seconds: int


class AccessRuleData(TypedDict):
    action: str
    source: str


class ServerData(TypedDict, total=False):
    """One server of an upstream."""

    address: str
    weight: int
    max_fails: int
    fail_timeout_s: int
    backup: bool
    down: bool


class UpstreamData(TypedDict, total=False):
    """An upstream. With `host_tags`, its servers are the hosts that have all of these tags."""

    name: str
    balancing: str
    keepalive: int
    host_tags: list[str]
    host_port: int | None
    servers: list[ServerData]


class PhpPoolData(TypedDict, total=False):
    name: str
    address: str
    settings: dict[str, str]


class StreamRouteData(TypedDict):
    """A TLS server name, and the name of the upstream that gets its connections."""

    name: str
    upstream: str


class StreamServerData(TypedDict, total=False):
    """A stream server. `upstream` is the name of an upstream of the site, `certificate` that of a certificate of the
    team.
    """

    name: str
    protocol: str
    address: str
    port: int
    upstream: str
    connect_timeout_s: int | None
    session_timeout_s: int | None
    proxy_protocol: bool
    allowed: list[str]
    certificate: str | None
    upstream_tls: bool
    upstream_tls_name: str
    upstream_tls_ca: str
    routes: list[StreamRouteData]


# The groups of fields of a location and of a server block are the cards of their pages, in this order: forms/blocks.py


class LocationPath(TypedDict, total=False):
    match: str
    pattern: str
    handler: str
    rewrites: list[RewriteData]


class LocationFiles(TypedDict, total=False):
    root: str
    alias: str
    index: list[str]
    try_files: list[str]
    autoindex: bool | None


class LocationPhp(TypedDict, total=False):
    """PHP fields of a location. `php_pool` is the name of a PHP pool of the site."""

    php_pool: str | None
    split_path_info: bool


class LocationProxy(TypedDict, total=False):
    """Proxy fields of a location. `upstream` is the name of an upstream of the site."""

    upstream: str | None
    upstream_protocol: str
    proxy_uri: str
    upstream_tls: bool
    websocket: bool
    connect_timeout_s: int | None
    read_timeout_s: int | None
    request_headers: list[HeaderData]


class LocationCaching(TypedDict, total=False):
    cache_times: list[CacheTimeData]
    cache_skip_cookies: list[str]
    cache_skip_queries: bool
    cache_stale: bool
    cache_header: bool
    cache_key: str


class LocationReturn(TypedDict, total=False):
    return_code: int | None
    return_value: str


class LocationResponses(TypedDict, total=False):
    headers: list[HeaderData]
    expires: str
    gzip: str
    client_max_body_mb: int | None


class LocationAccess(TypedDict, total=False):
    access_rules: list[AccessRuleData]
    basic_auth_realm: str
    basic_auth_users: dict[str, str]


class LocationLimits(TypedDict, total=False):
    rate_limit_rps: int | None
    rate_limit_burst: int
    connection_limit: int | None


class LocationData(
    LocationPath,
    LocationFiles,
    LocationPhp,
    LocationProxy,
    LocationCaching,
    LocationReturn,
    LocationResponses,
    LocationAccess,
    LocationLimits,
    total=False,
):
    """A location with all its fields. `snippets` maps the kind of a web server (engine) to raw directives."""

    snippets: dict[str, str]


class BlockAddresses(TypedDict, total=False):
    listens: list[ListenData]
    names: list[str]


class BlockFiles(TypedDict, total=False):
    root: str
    index: list[str]
    try_files: list[str]
    autoindex: bool
    rewrites: list[RewriteData]


class BlockTls(TypedDict, total=False):
    """TLS fields of a server block. `certificate` is the name of a certificate of the team."""

    certificate: str | None
    hsts_max_age_s: int | None
    redirect_to_https: bool


class BlockClientCertificates(TypedDict, total=False):
    client_verify: str
    client_verify_depth: int
    client_ca: str
    client_crl: str


class BlockResponses(TypedDict, total=False):
    headers: list[HeaderData]
    error_pages: list[ErrorPageData]
    gzip: str
    gzip_types: list[str]
    brotli: str
    client_max_body_mb: int | None
    client_max_header_kb: int | None


class BlockLogs(TypedDict, total=False):
    access_log: str
    access_log_format: str
    error_log: str
    error_log_level: str


class BlockData(BlockAddresses, BlockFiles, BlockTls, BlockClientCertificates, BlockResponses, BlockLogs, total=False):
    """A server block with all its fields. `snippets` maps the kind of a web server (engine) to raw directives."""

    snippets: dict[str, str]
    locations: list[LocationData]


class SiteData(TypedDict, total=False):
    """A whole site. `team` is the team's slug, `web_server` the web server's id."""

    name: str
    team: str
    web_server: int | None
    enabled: bool
    health_path: str
    cache_mb: int
    answers_challenges: bool
    notes: str
    tags: list[str]
    upstreams: list[UpstreamData]
    php_pools: list[PhpPoolData]
    stream_servers: list[StreamServerData]
    blocks: list[BlockData]
