"""The configuration of a test bed's servers: its digest ignores ports and nothing else."""

from __future__ import annotations

from dataclasses import replace

import pytest

from panel.benchmarks.suites import SUITES
from panel.benchmarks.suites.definitions import Suite
from panel.benchmarks.testbeds import layout
from panel.benchmarks.testbeds.layout import Plan, Program

SMALL, PHP = SUITES["small-static-files"], SUITES["php-application-2020"]
PROGRAMS = {
    "openlitespeed": Program("/usr/local/lsws/bin/openlitespeed", "1.9.1", lsphp="/usr/local/lsws/lsphp83/bin/lsphp"),
    "nginx": Program("/usr/sbin/nginx", "1.22.1"),
}


def planned(suite: Suite, *slugs: str, **settings: int) -> Plan:
    setups = [suite.setup(slug) for slug in slugs]
    chosen = replace(suite.settings, **settings)
    return layout.plan("testbed-of-a-test", suite.short[0], setups, suite.content, chosen, PROGRAMS, as_root=True)


def texts(plan: Plan) -> dict[str, str]:
    return {item["path"]: item["text"] for item in plan.request.files}


@pytest.mark.parametrize("slug", ["nginx", "openlitespeed"])
def test_configuration_digest_ignores_port_only(slug: str) -> None:
    first, again = (planned(SMALL, slug).places[0] for _ in range(2))
    assert first.digest == again.digest
    assert planned(SMALL, slug, workers=3).places[0].digest != first.digest


def test_openlitespeed_testbed_configuration_is_in_server_root() -> None:
    plan = planned(SMALL, "openlitespeed")
    files = texts(plan)
    main = files["openlitespeed/conf/httpd_config.conf"]
    assert "httpdWorkers 1" in " ".join(main.split())
    assert "include paddock.conf" in " ".join(main.split())
    # Without these two it refuses files to all but the first of several connections.
    for mask in ("requiredPermissionMask 000", "restrictedPermissionMask 000"):
        assert mask in " ".join(main.split())
    assert plan.request.listeners[0] in files["openlitespeed/conf/paddock.conf"]
    assert "html" in files["openlitespeed/conf/mime.properties"]
    (server,) = plan.request.servers
    assert (server.kind, server.binary) == ("openlitespeed", "/usr/local/lsws/bin/openlitespeed")


def test_openlitespeed_testbed_uses_own_php_fpm() -> None:
    plan = planned(PHP, "openlitespeed-fpm")
    assert [server.kind for server in plan.request.servers] == ["php-fpm", "openlitespeed"]
    (host,) = [text for path, text in texts(plan).items() if path.endswith("vhconf.conf")]
    assert "openlitespeed-fpm-php/php.sock" in host and "scripthandler" in host


def test_openlitespeed_testbed_uses_lsphp_at_own_address() -> None:
    plan = planned(PHP, "openlitespeed-tcp")
    php, server = plan.request.servers
    assert (php.kind, php.binary, php.children) == ("lsphp", "/usr/local/lsws/lsphp83/bin/lsphp", 25)
    assert php.listen not in plan.request.listeners, "no load tool may be aimed at it"
    main = " ".join(texts(plan)["openlitespeed-tcp/conf/httpd_config.conf"].split())
    assert f"type lsapi address {php.listen} maxConns 25" in main and "autoStart 0" in main
    assert "add lsapi:lsphp php" in main and "path" not in main
    assert plan.places[0].trees == {"server": server.name, "application": php.name}


def test_openlitespeed_testbed_starts_lsphp_sampled_separately() -> None:
    plan = planned(PHP, "openlitespeed-socket")
    assert [server.kind for server in plan.request.servers] == ["openlitespeed"]
    main = " ".join(texts(plan)["openlitespeed-socket/conf/httpd_config.conf"].split())
    assert "path /usr/local/lsws/lsphp83/bin/lsphp" in main and "env PHP_LSAPI_CHILDREN=25" in main
    assert "CGIRLimit {" in main, "without it OpenLiteSpeed starts no programs"
    (place,) = plan.places
    assert place.trees == {"server": "openlitespeed-socket", "application": "openlitespeed-socket/lsphp*"}
    assert place.digest != planned(PHP, "openlitespeed-tcp").places[0].digest


@pytest.mark.parametrize("slug", ["openlitespeed-tcp", "openlitespeed-socket"])
def test_lsphp_digest_ignores_port(slug: str) -> None:
    assert len({planned(PHP, slug).places[0].digest for _ in range(3)}) == 1
