"""Plain fields of server blocks and locations, in display order of pages and the API.

`BLOCK_SCALARS` and `LOCATION_SCALARS` are those that a SiteSpec holds under the same name and with the same value, so a
new one needs no line in freeze.py or definition_from_spec.py.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

from panel.rendering import spec

BLOCK = (
    "root",
    "index",
    "try_files",
    "autoindex",
    "rewrites",
    "error_pages",
    "headers",
    "access_log",
    "access_log_format",
    "error_log",
    "error_log_level",
    "gzip",
    "gzip_types",
    "brotli",
    "client_max_body_mb",
    "client_max_header_kb",
    "certificate",
    "redirect_to_https",
    "hsts_max_age_s",
    "client_verify",
    "client_ca",
    "client_crl",
    "client_verify_depth",
)
# Of one server of an upstream.
SERVER = ("address", "weight", "max_fails", "fail_timeout_s", "backup", "down")
LOCATION = (
    "match",
    "pattern",
    "handler",
    "rewrites",
    "root",
    "alias",
    "index",
    "try_files",
    "autoindex",
    "php_pool",
    "split_path_info",
    "upstream",
    "upstream_tls",
    "proxy_uri",
    "websocket",
    "request_headers",
    "connect_timeout_s",
    "read_timeout_s",
    "cache_times",
    "cache_skip_cookies",
    "cache_skip_queries",
    "cache_stale",
    "cache_header",
    "cache_key",
    "return_code",
    "return_value",
    "headers",
    "expires",
    "access_rules",
    "basic_auth_realm",
    "basic_auth_users",
    "rate_limit_rps",
    "rate_limit_burst",
    "connection_limit",
    "client_max_body_mb",
    "gzip",
)


def _is_scalar(hint: object) -> bool:
    if get_origin(hint) in (Union, UnionType):
        return all(_is_scalar(part) for part in get_args(hint))
    return hint in (str, int, bool, NoneType) or get_origin(hint) is Literal


def _scalars(kind: type, names: tuple[str, ...], other: set[str]) -> tuple[str, ...]:
    """The plain fields of a model that `kind` holds unchanged. `other`: those with another meaning there."""
    hints = get_type_hints(kind)
    return tuple(name for name in names if name not in other and name in hints and _is_scalar(hints[name]))


BLOCK_SCALARS = _scalars(spec.ServerBlock, BLOCK, {"access_log", "error_log"})
LOCATION_SCALARS = _scalars(spec.Location, LOCATION, {"php_pool", "upstream"})
