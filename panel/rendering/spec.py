"""SiteSpec: a site frozen for rendering, as immutable data without the ORM; the only input of all engine modules.

Values are not quoted for the syntax of any server. JSON form: `to_json` / `from_json` (lossless; stored with every
Revision).
"""

from __future__ import annotations

import dataclasses
import functools
import types
import typing
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Literal

from panel.rendering.targets import LocalServices

DISTRIBUTION_PORTS = frozenset({80, 443})
Match = Literal["=", "^~", "~", "~*", ""]
HandlerKind = Literal["static", "php", "proxy", "return", "deny"]
UpstreamProtocol = Literal["http", "grpc", "uwsgi"]
TransportProtocol = Literal["tcp", "udp"]
EngineName = Literal["nginx", "apache", "openlitespeed", "native"]
ENGINE_NAMES: tuple[EngineName, ...] = typing.get_args(EngineName)


@dataclass(frozen=True)
class Header:
    name: str
    value: str
    always: bool = True  # also on error responses


@dataclass(frozen=True)
class ErrorPage:
    codes: tuple[int, ...]
    uri: str  # /404.html or https://...
    response: int | None = None  # status to send instead


@dataclass(frozen=True)
class AccessRule:
    action: Literal["allow", "deny"]
    source: str  # IP, CIDR or "all"


@dataclass(frozen=True)
class Listen:
    port: int
    address: str = ""  # "" all IPv4, "::" all IPv6; never bracketed
    tls: bool = False
    http2: bool = False
    http3: bool = False
    default_server: bool = False


@dataclass(frozen=True)
class TlsFiles:
    """Paths of a certificate and its key on the host; a deployment writes both files."""

    name: str
    certificate_path: str
    key_path: str


@dataclass(frozen=True)
class ClientCertificates:
    """Settings to check clients' certificates in the TLS handshake. A deployment writes the PEM texts `ca` and `crl` to
    the files `ca_path` and `crl_path`.
    """

    required: bool
    ca: str
    ca_path: str
    crl: str = ""
    crl_path: str = ""
    depth: int = 1  # most intermediate certificates between a client's certificate and its authority


@dataclass(frozen=True)
class UpstreamServer:
    address: str
    weight: int = 1
    max_fails: int = 1
    fail_timeout_s: int = 10
    backup: bool = False
    down: bool = False


@dataclass(frozen=True)
class Upstream:
    name: str  # unique within the site; engines prefix it with the site's name
    servers: tuple[UpstreamServer, ...]
    balancing: Literal["round_robin", "least_conn", "ip_hash"] = "round_robin"
    keepalive: int = 16


@dataclass(frozen=True)
class PhpPool:
    name: str
    address: str
    settings: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class BasicAuth:
    realm: str
    users: tuple[tuple[str, str], ...]  # (name, bcrypt hash)
    path: str  # path of the htpasswd file on the host


@dataclass(frozen=True)
class RateLimit:
    requests_per_s: int
    burst: int = 0


@dataclass(frozen=True)
class CacheTime:
    """Cache time of responses that have one of the statuses `codes` and no expiry time of their own."""

    codes: tuple[int, ...]
    seconds: int


@dataclass(frozen=True)
class Cache:
    """Response caching of a location with PHP or an upstream.

    A response's own headers take precedence: no-store, private and Set-Cookie prevent caching, max-age and Expires set
    the time. Requests with an Authorization header bypass the cache, and their responses are not stored (RFC 9111
    section 3.5).
    """

    valid: tuple[CacheTime, ...]
    skip_cookies: tuple[str, ...] = ()  # requests with these cookies bypass the cache; a final * matches any suffix
    skip_queries: bool = False
    stale_on_error: bool = True
    status_header: bool = False  # send X-Cache
    key: str = ""  # "": original scheme, host, path and query


@dataclass(frozen=True)
class Rewrite:
    """Rewrite of a path as by nginx's `rewrite`: in order, before a location is chosen or inside the location.

    The old query is appended to the new one unless the replacement ends in `?`. `last` ends the list and chooses the
    location again, `break` ends the list and keeps the location; a replacement with a scheme redirects.
    """

    pattern: str
    replacement: str
    flag: Literal["", "last", "break", "redirect", "permanent"] = ""


@dataclass(frozen=True)
class Location:
    match: Match
    pattern: str
    handler: HandlerKind
    rewrites: tuple[Rewrite, ...] = ()
    root: str = ""
    alias: str = ""
    index: tuple[str, ...] = ()
    try_files: tuple[str, ...] = ()
    autoindex: bool | None = None
    php_pool: str = ""
    split_path_info: bool = False
    upstream: str = ""
    upstream_protocol: UpstreamProtocol = "http"
    upstream_tls: bool = False
    proxy_uri: str = ""
    websocket: bool = False
    request_headers: tuple[Header, ...] = ()
    connect_timeout_s: int | None = None
    read_timeout_s: int | None = None
    return_code: int | None = None
    return_value: str = ""
    headers: tuple[Header, ...] = ()
    expires: str = ""
    access_rules: tuple[AccessRule, ...] = ()
    basic_auth: BasicAuth | None = None
    rate_limit: RateLimit | None = None
    connection_limit: int | None = None
    client_max_body_mb: int | None = None
    gzip: Literal["", "on", "off"] = ""
    cache: Cache | None = None
    snippet: str = ""  # this engine's raw directives


@dataclass(frozen=True)
class ServerBlock:
    listens: tuple[Listen, ...]
    names: tuple[str, ...] = ()
    root: str = ""
    index: tuple[str, ...] = ()
    try_files: tuple[str, ...] = ()
    autoindex: bool = False
    rewrites: tuple[Rewrite, ...] = ()
    error_pages: tuple[ErrorPage, ...] = ()
    headers: tuple[Header, ...] = ()
    access_log: str = ""
    access_log_format: Literal["", "common", "timed", "json"] = ""  # "": combined; for the block's own log
    error_log: str = ""
    error_log_level: str = "error"
    gzip: Literal["", "on", "off"] = ""
    gzip_types: tuple[str, ...] = ()
    brotli: Literal["", "on", "off"] = ""  # for the same types as gzip
    client_max_body_mb: int | None = None
    # limit of the request line and of each header; only the default server's value applies
    client_max_header_kb: int | None = None
    tls: TlsFiles | None = None
    client_certificates: ClientCertificates | None = None
    redirect_to_https: bool = False
    hsts_max_age_s: int | None = None
    locations: tuple[Location, ...] = ()
    snippet: str = ""


@dataclass(frozen=True)
class Maintenance:
    """Maintenance page with status 503 instead of the site, for everybody except the `allowed` addresses."""

    text: str
    retry_after_s: int
    allowed: tuple[str, ...] = ()  # addresses and networks in CIDR notation


@dataclass(frozen=True)
class StreamRoute:
    """A TLS server name, exact or `*.example.com`, whose connections a stream server passes on to an upstream."""

    name: str
    upstream: str


@dataclass(frozen=True)
class StreamServer:
    """Server in nginx's stream block: passes TCP connections or UDP datagrams on to an upstream of the site.

    With `tls`, the web server decrypts the connections of clients. With `routes`, it passes TLS on unchanged and
    chooses the upstream by the server name that the client requests; `upstream` gets all other connections.
    """

    name: str  # unique within the site
    port: int
    upstream: str
    address: str = ""  # as in Listen
    protocol: TransportProtocol = "tcp"
    connect_timeout_s: int | None = None
    session_timeout_s: int | None = None  # longest time without data in either direction
    proxy_protocol: bool = False  # send the client's address to the upstream
    allowed: tuple[str, ...] = ()  # addresses and networks in CIDR notation; empty: every client
    tls: TlsFiles | None = None
    upstream_tls: bool = False
    upstream_tls_name: str = ""  # name that the upstream gets in the handshake, and that its certificate must have
    upstream_tls_ca: str = ""  # file on the host; "": every certificate of the upstream is accepted
    routes: tuple[StreamRoute, ...] = ()


@dataclass(frozen=True)
class SiteSpec:
    name: str  # [a-z0-9-]+, part of file names
    blocks: tuple[ServerBlock, ...]
    upstreams: tuple[Upstream, ...] = ()
    php_pools: tuple[PhpPool, ...] = ()
    cache_mb: int = 100  # limit for the cached responses of all locations
    challenge_folder: str = ""  # folder of ACME challenge files on the host; "": no challenges are served
    # Port of the TLS listener for ACME challenges (TLS-ALPN-01) that is added to blocks without TLS; 0: none.
    tls_challenge_port: int = 0
    maintenance: Maintenance | None = None
    stream_servers: tuple[StreamServer, ...] = ()


@dataclass(frozen=True)
class OwnListener:
    """Listener in OpenLiteSpeed's own files, to which a second block of the same name adds maps.

    Two listeners on one address would share its connections at random. `text` holds the listener's settings besides
    maps. The second block repeats these settings, because OpenLiteSpeed uses the certificate of the later block.
    """

    name: str
    address: str  # as in Listen: "" for all IPv4 addresses, "::" for both families
    port: int
    secure: bool
    text: str


@dataclass(frozen=True)
class WebServerSpec:
    """Web server for which a site is rendered: file layout, paths, and features."""

    engine: EngineName
    layout: Literal["conf_d", "sites", "vhosts"]
    config_root: str  # absolute; rendered paths are below it
    log_dir: str
    version: str = ""
    modules: frozenset[str] = field(default_factory=frozenset)
    site_roots: tuple[str, ...] = ()  # folders for sites' files; raw directives may not name others
    services: LocalServices = field(default_factory=LocalServices)  # proxy targets that raw directives may use
    own_ports: frozenset[int] = DISTRIBUTION_PORTS  # Apache: ports on which its own files already listen
    own_listeners: tuple[OwnListener, ...] = ()  # OpenLiteSpeed
    cache_dir: str = "/var/cache"  # existing folder for cached responses; Apache must be able to write to its own


@dataclass(frozen=True)
class RenderedFile:
    path: str  # absolute path on the host
    text: str = field(default="", repr=False)  # may be a private key
    mode: int = 0o644
    link_target: str = ""  # set for a symbolic link instead of a file
    is_secret: bool = False


_PLAIN = frozenset({str, int, bool, type(None)})


@functools.cache
def _names(kind: Any) -> tuple[str, ...]:
    """Return the field names of a dataclass; an empty tuple for other types."""
    return tuple(item.name for item in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()


def to_json(value: Any) -> Any:
    """Convert dataclasses to plain JSON values; frozensets become sorted lists."""
    kind: Any = type(value)
    if kind in _PLAIN:
        return value
    if isinstance(value, frozenset):
        return sorted(value)
    if isinstance(value, tuple | list):
        return [item if type(item) in _PLAIN else to_json(item) for item in value]
    names = _names(kind)
    if not names:
        return value
    # Nearly all fields are plain or empty, so skip the call for those.
    return {
        name: item if type(item := getattr(value, name)) in _PLAIN else to_json(item) if item != () else []
        for name in names
    }


T = typing.TypeVar("T")
_Decode = Callable[[Any], Any]


def from_json(kind: type[T], data: dict[str, object]) -> T:
    """Convert JSON values of `to_json` back to a dataclass of this module. Unknown fields raise TypeError."""
    decoders = _decoders(typing.cast(Any, kind))
    unknown = data.keys() - decoders.keys()
    if unknown:
        raise TypeError(f"{kind.__name__} has unknown fields {', '.join(sorted(unknown))}")
    return kind(**{name: decode(value) if (decode := decoders[name]) else value for name, value in data.items()})


@functools.cache
def _decoders(kind: Any) -> dict[str, _Decode | None]:
    """Return a decoder for each field of a spec class; None for a field whose JSON value is used unchanged. Cached,
    because building decoders takes longer than decoding.
    """
    return {name: _decoder(hint) for name, hint in typing.get_type_hints(kind).items()}


def _decoder(hint: Any) -> _Decode | None:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = [argument for argument in arguments if argument is not type(None)]
        return _optional(_decoder(inner))
    if origin is tuple:
        if len(arguments) == 2 and arguments[1] is Ellipsis:
            return _many(_decoder(arguments[0]))
        return _each([_decoder(argument) for argument in arguments])
    if origin is frozenset:
        return frozenset
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return functools.partial(from_json, hint)
    return None


def _optional(decode: _Decode | None) -> _Decode | None:
    return (lambda value: None if value is None else decode(value)) if decode else None


def _many(decode: _Decode | None) -> _Decode:
    return (lambda value: tuple(map(decode, value))) if decode else tuple


def _each(decoders: list[_Decode | None]) -> _Decode:
    def read(value: Any) -> Any:
        pairs = zip(decoders, value, strict=True)
        return tuple(decode(item) if decode else item for decode, item in pairs)

    return read
