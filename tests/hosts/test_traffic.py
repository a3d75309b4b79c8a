"""Readings of gallop's status as rates, shares and charts, per site."""

from __future__ import annotations

from typing import Any

import pytest

from panel.core.bars import HEIGHT, WIDTH, columns, shares
from panel.hosts.traffic import traffic
from panel.rendering.nginx.main import status_socket
from panel.websites.traffic import of_site


def reading(at: float, requests: int, **changes: Any) -> dict[str, Any]:
    """As gallop gives it, with one site, an upstream, a cache and limits."""
    classes = {"none": 0, "1xx": 0, "2xx": requests, "3xx": 0, "4xx": 0, "5xx": 0}
    zone = {
        "requests": requests,
        "responses": classes,
        "received": 10 * requests,
        "sent": 100 * requests,
        "time_ms": 1.0,
        "latency_ms": {"p50": 0.04, "p90": 0.05, "p99": 0.05, "p999": 0.05},
        "buckets_us": [[16, 1], [40, 2], [64, 3], [None, 1]],
    }
    peer = {"state": "up", "backup": False, "weight": 1, "active": 0, "requests": requests, "responses": classes}
    peer |= {"fails": 0, "time_ms": 5 * requests}
    cached = {"hit": 3, "miss": 1, "expired": 0, "stale": 0, "updating": 0, "revalidated": 0, "bypass": 9}
    limit = {"passed": 1, "delayed": 0, "rejected": 2}
    status = {
        "server": "gallop/1",
        "started": 1000,
        "loaded": 1000,
        "now": at,
        "connections": {"accepted": 5, "handled": 5, "active": 2, "reading": 0, "writing": 1, "idle": 1},
        "requests": requests,
        "protocols": {"HTTP/1.1": requests},
        "quic": {"connections": 0},
        "zones": {"a": zone, "a-b": zone},
        "zone_count": 2,
        "upstreams": {name: {"127.0.0.1:1": peer} for name in ("paddock_a_x", "paddock_a_b_x", "other")},
        "caches": {"one": {"size": 5, "max_size": None, "entries": 1, "cold": False, "responses": cached}},
        "limit_req": {"paddock_a_req_0_1": limit, "paddock_a_b_req_0_1": limit},
        "limit_conn": {"paddock_a_conn_0": {"passed": 1, "rejected": 0}},
    }
    return status | changes


def test_traffic_rates_are_differences_of_two_readings() -> None:
    found = traffic(reading(1000, 10), reading(1005, 60))
    assert (found.requests_per_s, found.seconds, found.requests) == (10.0, 5, 60)
    zone = found.zones[0]
    assert (zone.requests_per_s, zone.sent_per_s) == (10.0, 1000.0)
    assert found.upstreams[0].requests_per_s == 10.0
    assert found.upstreams[0].mean_ms == 5.0
    assert found.caches[0].hit_ratio == 0.75


def test_restarted_web_server_has_no_rate_yet() -> None:
    found = traffic(reading(1000, 1000), reading(1005, 3, started=1004))
    assert (found.requests_per_s, found.zones[0].requests_per_s) == (0.0, 0.0)
    first = traffic(reading(1000, 7, zones={}, upstreams={}), reading(1005, 9))
    assert first.zones[0].requests_per_s == 0.0, "a site that was not there before"


def test_latencies_are_grouped_in_powers_of_two() -> None:
    zone = traffic(reading(1000, 1), reading(1001, 2)).zones[0]
    assert zone.latency_histogram[:3] == [(0.016, 1), (0.032, 0), (0.064, 5)]
    assert zone.latency_histogram[-1] == (2**27 / 1000, 1)
    assert traffic(reading(0, 0), reading(1, 0) | {"zones": {}}).zones == []


@pytest.mark.parametrize(
    ("site", "upstreams", "limits"), [("a", ["x"], ["req_0_1", "conn_0"]), ("a-b", ["x"], ["req_0_1"])]
)
def test_site_traffic_is_separate_for_names_with_same_prefix(
    site: str, upstreams: list[str], limits: list[str]
) -> None:
    whole = traffic(reading(1000, 10), reading(1005, 60))
    mine = of_site(whole, site)
    assert [zone.name for zone in mine.zones] == [site]
    assert [peer.upstream for peer in mine.upstreams] == upstreams
    assert [limit.zone for limit in mine.limits] == limits
    assert (mine.connections, mine.quic, mine.protocols, mine.caches) == ({}, {}, {}, [])
    assert mine.requests == 60


def test_traffic_bars_fill_chart() -> None:
    parts = shares({"2xx": 30, "4xx": 0, "5xx": 10})
    assert [(bar.label, bar.x, bar.width, bar.percent) for bar in parts] == [("2xx", 0, 75, 75), ("5xx", 75, 25, 25)]
    assert shares({"2xx": 0}) == [] and columns([]) == [] and columns([("a", 0)]) == []
    high = columns([("a", 1), ("b", 4)])
    assert [bar.height for bar in high] == [HEIGHT / 4, HEIGHT]
    assert all(bar.x >= 0 and bar.x + bar.width <= WIDTH and bar.y + bar.height == HEIGHT for bar in high)


def test_status_socket_is_beside_pid_file_unless_path_is_too_long() -> None:
    assert status_socket("/run/gallop.pid") == "/run/gallop-status.sock"
    assert status_socket(f"/{'x' * 100}/gallop.pid") == ""
