"""The shapes of a site's definition: what `site_export` gives and `site_define` takes, and each list in it.

Keys that are left out have the model's default (models.py). The API sends the same as JSON.
"""

from __future__ import annotations

from typing import TypedDict


class ListenData(TypedDict, total=False):
    """One address of a server block; `address` "" is every IPv4 address."""

    address: str
    port: int
    tls: bool
    http2: bool
    http3: bool
    default_server: bool


class HeaderData(TypedDict, total=False):
    """A response header, or with name and value alone a request header. `always`: with every status.

    A response header with the name `@set` and no value stands for the headers of a header set.
    """

    name: str
    value: str
    always: bool


class ErrorPageData(TypedDict):
    """`response`: the status that is sent instead, None for the original one."""

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
    """An upstream. With `host_tags`, its servers follow the hosts that have all of them."""

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


class LocationData(TypedDict, total=False):
    """A location; `upstream` and `php_pool` are names, `snippets` raw directives by engine."""

    match: str
    pattern: str
    handler: str
    rewrites: list[RewriteData]
    root: str
    alias: str
    index: list[str]
    try_files: list[str]
    autoindex: bool | None
    php_pool: str | None
    split_path_info: bool
    upstream: str | None
    upstream_tls: bool
    proxy_uri: str
    websocket: bool
    request_headers: list[HeaderData]
    connect_timeout_s: int | None
    read_timeout_s: int | None
    cache_times: list[CacheTimeData]
    cache_skip_cookies: list[str]
    cache_skip_queries: bool
    cache_stale: bool
    cache_header: bool
    cache_key: str
    return_code: int | None
    return_value: str
    headers: list[HeaderData]
    expires: str
    access_rules: list[AccessRuleData]
    basic_auth_realm: str
    basic_auth_users: dict[str, str]
    rate_limit_rps: int | None
    rate_limit_burst: int
    connection_limit: int | None
    client_max_body_mb: int | None
    gzip: str
    snippets: dict[str, str]


class BlockData(TypedDict, total=False):
    """A server block; `certificate` is a name."""

    listens: list[ListenData]
    names: list[str]
    certificate: str | None
    root: str
    index: list[str]
    try_files: list[str]
    autoindex: bool
    rewrites: list[RewriteData]
    error_pages: list[ErrorPageData]
    headers: list[HeaderData]
    access_log: str
    access_log_format: str
    error_log: str
    error_log_level: str
    gzip: str
    gzip_types: list[str]
    brotli: str
    client_max_body_mb: int | None
    client_max_header_kb: int | None
    redirect_to_https: bool
    hsts_max_age_s: int | None
    client_verify: str
    client_ca: str
    client_crl: str
    client_verify_depth: int
    snippets: dict[str, str]
    locations: list[LocationData]


class SiteData(TypedDict, total=False):
    """A whole site; `team` is a slug, `web_server` an id."""

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
    blocks: list[BlockData]
