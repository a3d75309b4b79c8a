"""Read the counters of gallop on a host: connections, requests, latencies, caches, upstreams.

gallop publishes them on a private socket, enabled by the panel's main configuration. Rates are computed from two
readings; the last one is kept for a while, so a page that refreshes every few seconds never waits for two.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any

from django.core.cache import cache
from django.utils.translation import gettext as _

from panel.core.errors import ApplicationError
from panel.hosts.models import Engine, Host, WebServer
from panel.hosts.targets import target_for
from panel.remote import pool
from panel.rendering.nginx.main import status_socket

TIMEOUT_S = 12.0
PAUSE_S = 0.5  # between two readings, if there is no earlier one
KEPT_S = 60  # maximum age of an earlier reading
NEWEST_S = 1.0  # minimum age of an earlier reading
CLASSES = ("1xx", "2xx", "3xx", "4xx", "5xx", "none")


@dataclass(frozen=True)
class Zone:
    """Counters of one site since the web server started; rates cover the time between the last two readings."""

    name: str
    requests: int
    requests_per_s: float
    responses: dict[str, int]  # by status class; "none": closed without a response
    sent_bytes: int
    sent_per_s: float  # bytes
    received_bytes: int
    latency_ms: dict[str, float]  # p50, p90, p99, p999; empty before the first request
    latency_histogram: list[tuple[float, int]] = field(default_factory=list)  # upper bounds in ms, each doubled


@dataclass(frozen=True)
class Peer:
    """Counters of one server of an upstream.

    `state` is up, down (by configuration), unavailable (after failures), unhealthy (by a health check) or checking
    (before the first check).
    """

    upstream: str
    server: str
    state: str
    backup: bool
    active: int
    requests: int
    requests_per_s: float
    responses: dict[str, int]
    fails: int
    mean_ms: float | None


@dataclass(frozen=True)
class Cache:
    name: str
    size_bytes: int
    max_size_bytes: int | None
    entries: int
    responses: dict[str, int]  # hit, miss, expired, stale, updating, revalidated, bypass
    hit_ratio: float | None

    @property
    def hit_percent(self) -> float | None:
        return None if self.hit_ratio is None else 100 * self.hit_ratio


@dataclass(frozen=True)
class Limit:
    kind: str  # limit_req or limit_conn
    zone: str
    outcomes: dict[str, int]


@dataclass(frozen=True)
class Traffic:
    server: str
    started_at: dt.datetime
    loaded_at: dt.datetime
    seconds: float  # time between the two readings of the rates
    connections: dict[str, int]
    requests: int
    requests_per_s: float
    protocols: dict[str, int]
    quic: dict[str, int]
    zone_count: int
    zones: list[Zone]
    upstreams: list[Peer]
    caches: list[Cache]
    limits: list[Limit]

    @property
    def more(self) -> int:
        """Number of sites that are not in `zones`, because only the requested or the busiest sites are."""
        return self.zone_count - len(self.zones)


def tells(web_server: WebServer) -> bool:
    """Return whether the panel can read traffic counters of a web server. Only gallop with the panel's main
    configuration has them.
    """
    return web_server.engine == Engine.NATIVE and web_server.manages_main_config


def web_server_traffic(web_server: WebServer, zones: Sequence[str] | None = None) -> Traffic:
    """Return the counters of a web server, and those of the sites named in `zones`, or of the busiest sites if it is
    None.

    Raises ApplicationError for a web server without counters. Raises RemoteError or Conflict if the agent cannot be
    reached.
    """
    socket = status_socket(web_server.paths.get("pid_file", "")) if tells(web_server) else ""
    if not socket:
        name = web_server.get_engine_display()
        raise ApplicationError(
            _(
                "%s reports no traffic figures. Only gallop with a main file that Paddock manages reports traffic "
                "figures."
            )
            % name,
            code="no_status",
        )
    key = f"traffic:{web_server.pk}:{','.join(zones) if zones is not None else '*'}"
    before = cache.get(key)
    args = {
        "socket": socket,
        "roots": [str(PurePosixPath(socket).parent)],
        "zones": None if zones is None else list(zones),
        "seconds": 0 if before else PAUSE_S,
    }
    with pool.session(target_for(web_server.host)) as session:
        readings = session.call("traffic", args, timeout=TIMEOUT_S)["readings"]
    now = readings[-1]
    if before is None or now["now"] - before["now"] >= NEWEST_S or now["started"] != before["started"]:
        cache.set(key, now, KEPT_S)
    return traffic(before or readings[0], now)


def traffic(before: Mapping[str, Any], now: Mapping[str, Any]) -> Traffic:
    """Compute counters and rates from two readings of gallop's status. Rates are 0 if gallop was restarted between
    the readings.
    """
    seconds = max(now["now"] - before["now"], 0.001)
    former: Mapping[str, Any] = before if before["started"] == now["started"] else {}
    started = dt.datetime.fromtimestamp(now["started"], dt.UTC)
    return Traffic(
        server=now["server"],
        started_at=started,
        loaded_at=dt.datetime.fromtimestamp(now["loaded"], dt.UTC),
        seconds=round(seconds, 3),
        connections=dict(now["connections"]),
        requests=now["requests"],
        requests_per_s=_rate(now, former, "requests", seconds),
        protocols=dict(now["protocols"]),
        quic=dict(now["quic"]),
        zone_count=now.get("zone_count", len(now["zones"])),
        zones=[
            _zone(name, zone, former.get("zones", {}).get(name, {}), seconds) for name, zone in now["zones"].items()
        ],
        upstreams=list(_peers(now["upstreams"], former.get("upstreams", {}), seconds)),
        caches=[_cache(name, item) for name, item in now["caches"].items()],
        limits=[
            Limit(kind, zone, dict(outcomes))
            for kind in ("limit_req", "limit_conn")
            for zone, outcomes in now[kind].items()
        ],
    )


def _rate(now: Mapping[str, Any], before: Mapping[str, Any], name: str, seconds: float) -> float:
    return round(max(now[name] - before.get(name, 0), 0) / seconds, 1) if before else 0.0


def _zone(name: str, zone: Mapping[str, Any], before: Mapping[str, Any], seconds: float) -> Zone:
    return Zone(
        name=name,
        requests=zone["requests"],
        requests_per_s=_rate(zone, before, "requests", seconds),
        responses={key: zone["responses"][key] for key in CLASSES},
        sent_bytes=zone["sent"],
        sent_per_s=_rate(zone, before, "sent", seconds),
        received_bytes=zone["received"],
        latency_ms=dict(zone["latency_ms"]),
        latency_histogram=_doublings(zone["buckets_us"]),
    )


def _doublings(buckets: Iterable[tuple[int | None, int]]) -> list[tuple[float, int]]:
    """Merge gallop's latency buckets into one bar per power of two. gallop has four buckets per power of two.

    A bucket is (upper bound in microseconds, count); a bar is (upper bound in milliseconds, count). The bars reach from
    the first to the last bucket in `buckets`, without gaps.
    """
    found: dict[int, int] = {}
    for bound, count in buckets:
        power = (bound - 1).bit_length() if bound else 27  # above 67 s: the last
        found[power] = found.get(power, 0) + count
    if not found:
        return []
    return [(2**power / 1000, found.get(power, 0)) for power in range(min(found), max(found) + 1)]


def _peers(groups: Mapping[str, Any], before: Mapping[str, Any], seconds: float) -> Iterable[Peer]:
    for group, servers in groups.items():
        for server, item in servers.items():
            yield Peer(
                upstream=group,
                server=server,
                state=item["state"],
                backup=item["backup"],
                active=item["active"],
                requests=item["requests"],
                requests_per_s=_rate(item, before.get(group, {}).get(server, {}), "requests", seconds),
                responses={key: item["responses"][key] for key in CLASSES},
                fails=item["fails"],
                mean_ms=round(item["time_ms"] / item["requests"], 1) if item["requests"] else None,
            )


def _cache(name: str, item: Mapping[str, Any]) -> Cache:
    responses = dict(item["responses"])
    asked = sum(count for status, count in responses.items() if status != "bypass")
    served = sum(responses[status] for status in ("hit", "stale", "updating", "revalidated"))
    return Cache(
        name=name,
        size_bytes=item["size"],
        max_size_bytes=item["max_size"],
        entries=item["entries"],
        responses=responses,
        hit_ratio=round(served / asked, 4) if asked else None,
    )


@dataclass(frozen=True)
class ServerTraffic:
    """One web server of a host with its counters, or the reason why they are unknown (`detail`)."""

    web_server: WebServer
    traffic: Traffic | None
    detail: str = ""


def host_traffic(host: Host) -> list[ServerTraffic]:
    """Return the counters of each web server of a host, or the reason why they are unknown. For administrators only,
    because the counters cover the sites of all teams.
    """
    found = []
    for web_server in host.web_servers.select_related("host"):
        try:
            found.append(ServerTraffic(web_server, web_server_traffic(web_server)))
        except ApplicationError as error:
            found.append(ServerTraffic(web_server, None, error.message))
    return found
