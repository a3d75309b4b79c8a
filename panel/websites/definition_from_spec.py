"""Conversion of a frozen site (SiteSpec) back to a definition, to restore the draft of an earlier revision. Inverse of
freeze.py.
A SiteSpec contains everything sent to a web server. All other values stay as in the draft: team, web server, health
path, notes, tags, and the raw directives for other web servers of blocks and locations that still exist.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict
from typing import Any, cast

from panel.hosts.models import WebServer
from panel.rendering import spec
from panel.websites import field_names, paths
from panel.websites.definitions import SiteData

_LISTS = ("index", "try_files", "gzip_types")


def definition_of(frozen: spec.SiteSpec, was_on: WebServer, now: SiteData, is_on: WebServer | None) -> SiteData:
    """Return the definition of the site that `frozen` describes.

    `now` is `site_export(site, with_secrets=True)`. `was_on` is the web server of `frozen`, `is_on` the site's current
    web server: log paths are changed from the log folder of `was_on` to the log folder of `is_on`.
    """
    thaw = _Thaw(was_on, is_on)
    definition = {
        **now,
        "cache_mb": frozen.cache_mb,
        "upstreams": [_upstream(item, now) for item in frozen.upstreams],
        "php_pools": [asdict(pool) | {"settings": dict(pool.settings)} for pool in frozen.php_pools],
        "stream_servers": [_stream_server(item) for item in frozen.stream_servers],
        "blocks": [thaw.block(block, _same_block(block, n, now)) for n, block in enumerate(frozen.blocks)],
    }
    return cast(SiteData, definition)


def _upstream(source: spec.Upstream, now: SiteData) -> Mapping[str, object]:
    """Return the upstream's definition. Host tags come from the draft's upstream of the same name, because a revision
    stores only the addresses of the tagged hosts.
    """
    same: Mapping[str, object] = next((item for item in now["upstreams"] if item["name"] == source.name), {})
    following = {name: same[name] for name in ("host_tags", "host_port") if name in same}
    return asdict(source) | {"servers": [asdict(row) for row in source.servers]} | following


def _stream_server(source: spec.StreamServer) -> dict[str, object]:
    values: dict[str, object] = spec.to_json(source)
    tls = values.pop("tls")
    return values | {"certificate": source.tls.name if tls and source.tls else None}


def _same_block(block: spec.ServerBlock, place: int, now: SiteData) -> Mapping[str, Any]:
    same = [item for item in now["blocks"] if tuple(item["names"]) == block.names]
    found: Mapping[str, Any] = (same or now["blocks"][place : place + 1] or [{}])[0]
    return found


def _same_location(location: spec.Location, block: Mapping[str, Any]) -> Mapping[str, Any]:
    rows = block.get("locations", [])
    same = [row for row in rows if (row["match"], row["pattern"]) == (location.match, location.pattern)]
    found: Mapping[str, Any] = (same or [{}])[0]
    return found


def _plain(items: Iterable[Any]) -> list[object]:
    """Convert dataclasses to JSON values, with tuples as lists."""
    return [spec.to_json(item) for item in items]


def _client_certificates(source: spec.ClientCertificates | None) -> dict[str, object]:
    if source is None:
        return {"client_verify": "", "client_ca": "", "client_crl": "", "client_verify_depth": 1}
    verify = "required" if source.required else "optional"
    texts = {"client_ca": source.ca, "client_crl": source.crl}
    return {"client_verify": verify, **texts, "client_verify_depth": source.depth}


class _Thaw:
    def __init__(self, was_on: WebServer, is_on: WebServer | None) -> None:
        self.was_on = was_on
        self.is_on = is_on

    def block(self, block: spec.ServerBlock, now: Mapping[str, Any]) -> dict[str, object]:
        return {
            **{name: getattr(block, name) for name in field_names.BLOCK_SCALARS},
            **{name: list(getattr(block, name)) for name in _LISTS},
            **_client_certificates(block.client_certificates),
            "listens": _plain(block.listens),
            "names": list(block.names),
            "certificate": block.tls.name if block.tls else None,
            "rewrites": _plain(block.rewrites),
            "error_pages": _plain(block.error_pages),
            "headers": _plain(block.headers),
            **{name: paths.log_on(getattr(block, name), self.was_on, self.is_on) for name in paths.LOGS},
            "snippets": self._snippets(block.snippet, now),
            "locations": [self.location(item, _same_location(item, now)) for item in block.locations],
        }

    def location(self, row: spec.Location, now: Mapping[str, Any]) -> dict[str, object]:
        limit, auth = row.rate_limit, row.basic_auth
        return {
            **{name: getattr(row, name) for name in field_names.LOCATION_SCALARS},
            "index": list(row.index),
            "try_files": list(row.try_files),
            "rewrites": _plain(row.rewrites),
            "upstream": row.upstream or None,
            "php_pool": row.php_pool or None,
            "request_headers": _plain(row.request_headers),
            "headers": _plain(row.headers),
            "access_rules": _plain(row.access_rules),
            "basic_auth_realm": auth.realm if auth else "",
            "basic_auth_users": dict(auth.users) if auth else {},
            "rate_limit_rps": limit.requests_per_s if limit else None,
            "rate_limit_burst": limit.burst if limit else 0,
            **(_cache(row.cache) if row.cache else {}),
            "snippets": self._snippets(row.snippet, now),
        }

    def _snippets(self, text: str, now: Mapping[str, Any]) -> dict[str, str]:
        engine, texts = self.was_on.engine, dict(now.get("snippets", {}))
        if texts.get(engine, "").strip("\n") != text:  # otherwise keep the stored text
            texts[engine] = text
        return {name: value for name, value in texts.items() if value}


def _cache(cache: spec.Cache) -> dict[str, object]:
    return {
        "cache_times": _plain(cache.valid),
        "cache_skip_cookies": list(cache.skip_cookies),
        "cache_skip_queries": cache.skip_queries,
        "cache_stale": cache.stale_on_error,
        "cache_header": cache.status_header,
        "cache_key": cache.key,
    }
