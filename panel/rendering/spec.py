"""SiteSpec: a site frozen for rendering. Plain immutable data, no ORM; the one input of every engine module.

Values are meanings, not syntax: nothing here is quoted for any server. JSON form: `to_json` / `from_json`
(lossless; stored with every Revision).
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


@dataclass(frozen=True)
class Header:
    name: str
    value: str
    always: bool = True  # also on error answers


@dataclass(frozen=True)
class ErrorPage:
    codes: tuple[int, ...]
    uri: str  # /404.html or https://...
    response: int | None = None  # status to answer with instead


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
    """Where the certificate's files lie on the host (written with the revision)."""

    name: str
    certificate_path: str
    key_path: str


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
    path: str  # where the htpasswd file lies on the host


@dataclass(frozen=True)
class RateLimit:
    requests_per_s: int
    burst: int = 0


@dataclass(frozen=True)
class CacheTime:
    """How long answers with these statuses are kept where they do not say so themselves."""

    codes: tuple[int, ...]
    seconds: int


@dataclass(frozen=True)
class Cache:
    """Answers of PHP or of an upstream, kept by the server.

    What an answer says itself comes first: no-store, private and Set-Cookie keep it out, max-age and Expires say how
    long. A request with an Authorization header neither gets a kept answer nor leaves one (RFC 9111 section 3.5).
    """

    valid: tuple[CacheTime, ...]
    skip_cookies: tuple[str, ...] = ()  # cookies whose bearers get no kept answers; a * at the end: all that begin so
    skip_queries: bool = False
    stale_on_error: bool = True
    status_header: bool = False  # X-Cache
    key: str = ""  # "": scheme, host, path and query as they came


@dataclass(frozen=True)
class Rewrite:
    """A path that fits becomes another, as nginx's `rewrite` does it; in order, before a location is chosen, or in it.

    The query is kept behind the new one unless the replacement ends in `?`. `last` ends the list and chooses the
    location anew, `break` ends it and stays; a replacement with a scheme redirects.
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
    access_log_format: Literal["", "common", "timed", "json"] = ""  # "": combined; of the block's own log
    error_log: str = ""
    error_log_level: str = "error"
    gzip: Literal["", "on", "off"] = ""
    gzip_types: tuple[str, ...] = ()
    brotli: Literal["", "on", "off"] = ""  # of the same types as gzip
    client_max_body_mb: int | None = None
    client_max_header_kb: int | None = None  # the request's first line and each header; the default server's counts
    tls: TlsFiles | None = None
    redirect_to_https: bool = False
    hsts_max_age_s: int | None = None
    locations: tuple[Location, ...] = ()
    snippet: str = ""


@dataclass(frozen=True)
class SiteSpec:
    name: str  # [a-z0-9-]+, names the files
    blocks: tuple[ServerBlock, ...]
    upstreams: tuple[Upstream, ...] = ()
    php_pools: tuple[PhpPool, ...] = ()
    cache_mb: int = 100  # at most, of what its locations keep


@dataclass(frozen=True)
class OwnListener:
    """A listener of OpenLiteSpeed's own files. A second block of its name adds maps to it; two listeners of one
    address would share its connections by chance. `text` is what it says beside its maps, which is said again, since
    the later block's certificate counts."""

    name: str
    address: str  # as Listen has it: "" for every IPv4 address, "::" for both families
    port: int
    secure: bool
    text: str


@dataclass(frozen=True)
class InstallSpec:
    """The server that a site is rendered for: what its files are called and what it can do."""

    engine: Literal["nginx", "apache", "openlitespeed", "native"]
    layout: Literal["conf_d", "sites", "vhosts"]
    config_root: str  # absolute; rendered paths lie below it
    log_dir: str
    version: str = ""
    modules: frozenset[str] = field(default_factory=frozenset)
    site_roots: tuple[str, ...] = ()  # folders that sites' files must lie in; raw directives may name no others
    services: LocalServices = field(default_factory=LocalServices)  # that raw directives may pass requests on to
    own_ports: frozenset[int] = DISTRIBUTION_PORTS  # Apache: its own files listen on these already
    own_listeners: tuple[OwnListener, ...] = ()  # OpenLiteSpeed
    cache_dir: str = "/var/cache"  # a folder that is there, where sites' answers are kept; Apache's own may write to it


@dataclass(frozen=True)
class RenderedFile:
    path: str  # absolute on the host
    text: str = ""
    mode: int = 0o644
    link_target: str = ""  # a symbolic link instead of a file
    is_secret: bool = False


_PLAIN = frozenset({str, int, bool, type(None)})


@functools.cache
def _names(kind: Any) -> tuple[str, ...]:
    """The members of a dataclass; none of anything else."""
    return tuple(item.name for item in dataclasses.fields(kind)) if dataclasses.is_dataclass(kind) else ()


def to_json(value: Any) -> Any:
    """Dataclasses to plain JSON values; frozensets become sorted lists."""
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
    # Nearly every member is plain or empty: those are not worth a call.
    return {
        name: item if type(item := getattr(value, name)) in _PLAIN else to_json(item) if item != () else []
        for name in names
    }


T = typing.TypeVar("T")
_Decode = Callable[[Any], Any]


def from_json(kind: type[T], data: dict[str, Any]) -> T:
    """The inverse of `to_json` for one of this module's dataclasses. Unknown members raise TypeError."""
    decoders = _decoders(typing.cast(Any, kind))
    unknown = data.keys() - decoders.keys()
    if unknown:
        raise TypeError(f"{kind.__name__} has unknown fields {', '.join(sorted(unknown))}")
    return kind(**{name: decode(value) if (decode := decoders[name]) else value for name, value in data.items()})


@functools.cache
def _decoders(kind: Any) -> dict[str, _Decode | None]:
    """How each member is read back, None for as it is. Worked out once: that costs more than all the reading."""
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
