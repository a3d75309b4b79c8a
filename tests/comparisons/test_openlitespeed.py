"""Comparisons with OpenLiteSpeed beside the other servers: the same answers, nothing left, the switch and the way back.

These tests are there where PADDOCK_OPENLITESPEED names an installation (tests/support/openlitespeed.py); the
distribution has none.
"""

from __future__ import annotations

import shutil
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from django.utils import timezone

from panel.benchmarks.models import RunStatus
from panel.comparisons import execution, results, services
from panel.comparisons.models import Comparison, ContenderStatus
from panel.core.jobs import JobStatus
from panel.deployments.execution.services import deployment_execute
from panel.deployments.models import DeploymentStatus
from panel.hosts.models import Engine, Layout
from panel.websites import services as websites
from tests.comparisons.conftest import LiveSites, before_comparing, carried_out, logged
from tests.comparisons.test_faults import Killed, die
from tests.support.openlitespeed import OpenLiteSpeedInstance, source
from tests.support.php import PhpFpm

LABELS = ["nginx", "Apache httpd", "gallop", "OpenLiteSpeed"]
PAGE = "<!doctype html><title>Shop</title>" + "<p>Something to read, and to be made smaller.</p>" * 200


class Application(BaseHTTPRequestHandler):
    """What stands behind the site's /api/."""

    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        body = f'{{"path": "{self.path}", "host": "{self.headers["Host"]}"}}'.encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, *_: object) -> None:
        pass


class Applications(ThreadingHTTPServer):
    daemon_threads = True  # servers keep connections to it, which nobody waits for at the end


@pytest.fixture
def application() -> Iterator[int]:
    """The port of one that runs."""
    with Applications(("127.0.0.1", 0), Application) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join()


if source() is not None:

    @pytest.fixture
    def four(live_sites: LiveSites) -> Iterator[LiveSites]:
        """OpenLiteSpeed too is installed on the machine, and stopped."""
        server = OpenLiteSpeedInstance(live_sites.machine.root / "lsws").manage()
        live_sites.web_servers["openlitespeed"] = live_sites.machine.web_server(
            server, Engine.OPENLITESPEED, Layout.VHOSTS
        )
        yield live_sites
        server.stop()

    def found(comparison: Comparison) -> list[tuple[str, str, str]]:
        return list(comparison.contenders.values_list("label", "status", "detail"))

    def alike(labels: list[str]) -> list[tuple[str, str, str]]:
        return [(label, ContenderStatus.SAME, "") for label in labels]

    def test_openlitespeed_comparison_measures_pages_php_and_proxy(four: LiveSites, application: int) -> None:
        owner, root = four.machine.people.owner, four.machine.files("shop", PAGE)
        # Not HTTP_HOST: Debian's own fastcgi_params of nginx takes the port out of it.
        (root / "hello.php").write_text("<?php echo 'hello ', $_SERVER['REQUEST_URI'], ' ', strlen($_GET['q'] ?? '');")
        for folder in (four.machine.root, four.machine.root / "gallop"):  # where nginx and gallop look for it
            shutil.copy("/etc/nginx/fastcgi_params", folder)
        with PhpFpm(four.machine.root / "php") as php:
            pool = websites.php_pool_create(actor=owner, site=four.site, name="php", address=php.address)
            servers = [{"address": f"127.0.0.1:{application}"}]
            upstream = websites.upstream_create(actor=owner, site=four.site, name="app", servers=servers)
            php_files = {"match": "~", "pattern": r"\.php$", "handler": "php", "php_pool": pool}
            behind = {"pattern": "/api/", "handler": "proxy", "upstream": upstream}
            websites.block_update(actor=owner, block=four.block, gzip="on", gzip_types=["text/html"])
            for values in (php_files, behind):
                websites.location_create(actor=owner, block=four.block, **values)
            four.machine.deploy(four.site)
            arguments = {"concurrency": 2, "duration_s": 1, "gzip": True}
            comparison = four.tried(tool="wrk", arguments=arguments, paths=["/", "/hello.php?q=1", "/api/x"], rounds=3)
        assert found(comparison) == alike(LABELS)
        assert comparison.status == JobStatus.SUCCEEDED, comparison.error
        assert comparison.run is not None
        assert comparison.run.status in (RunStatus.FINISHED, RunStatus.INVALID), comparison.run.error
        assert [target["label"] for target in comparison.run.summary["targets"]] == LABELS
        for target in comparison.run.summary["targets"]:
            assert target["figures"]["throughput_rps"]["value"] > 0, target["label"]
        assert four.machine.answers("shop", PAGE)

    def test_site_switches_to_openlitespeed_and_back(four: LiveSites) -> None:
        comparison = four.tried()
        for position, name in ((3, "openlitespeed"), (2, "native"), (3, "openlitespeed"), (0, "nginx")):
            four.switched(comparison.contenders.get(position=position))
            four.running |= {name}
            assert four.site.web_server == four.web_servers[name]
            served = four.machine.get("shop")
            assert served.text == "this is shop"
            assert {"openlitespeed": "litespeed", "native": "gallop"}.get(name, name) in served.headers[
                "server"
            ].lower()
            assert four.block.access_log == f"{four.web_servers[name].paths['log_dir']}/shop.log", "the log follows"
            comparison = Comparison.objects.select_related("site", "switch", "run").get()
            way_back = results.way_back(comparison)
            assert (way_back.label if way_back else "") == ("nginx" if position else "")

    def test_rejected_switch_to_openlitespeed_is_rolled_back(four: LiveSites) -> None:
        earlier = four.tried()
        people = four.machine.people
        people.owner.role = "admin"  # whoever copies raw directives must be allowed to write them
        people.owner.save()
        websites.snippet_create(
            actor=people.owner,
            site=four.site,
            engine="openlitespeed",
            text="context /maybe/ {\n  order 1\n}",
            block=four.block,
        )
        four.machine.deploy(four.site)
        comparison = four.tried()
        *others, own = found(comparison)
        assert others == alike(LABELS[:3])
        assert own[1] == ContenderStatus.REFUSED
        assert "path is not accessible" in own[2]
        deployment = services.comparison_switch(actor=people.owner, contender=earlier.contenders.get(position=3))
        deployment_execute(deployment.uuid)
        deployment.refresh_from_db()
        assert deployment.status == DeploymentStatus.ROLLED_BACK
        assert "path is not accessible" in deployment.error
        assert "nginx" in four.machine.get("shop").headers["server"]
        four.assert_as_before()

    def test_openlitespeed_site_is_compared_with_its_own_log(four: LiveSites) -> None:
        comparison = four.tried()
        four.switched(comparison.contenders.get(position=3))
        four.running |= {"openlitespeed"}
        four.log = four.machine.root / "lsws" / "log" / "shop.log"
        logged(four, ["/", "/index.html", "/gone"])
        owner = four.machine.people.owner
        replay = services.load_from_log(actor=owner, site=four.site, duration_s=1, concurrency=2, rounds=1).load
        again = services.comparison_create(
            actor=owner, site=four.site, web_servers=four.others, load=replay, is_replay=True
        )
        carried_out(again)
        assert again.status == JobStatus.SUCCEEDED, again.error
        assert found(again) == alike(["OpenLiteSpeed", *LABELS[:3]])
        assert set(again.load["paths"]) == {"/", "/index.html"}
        four.assert_as_before()

    def test_dead_worker_leaves_nothing_on_openlitespeed(four: LiveSites, monkeypatch: pytest.MonkeyPatch) -> None:
        before_comparing(monkeypatch, die)
        comparison = four.queued()
        with pytest.raises(Killed):
            execution.comparison_execute(comparison.uuid)
        assert "openlitespeed" in four.found_running()
        assert any("lsws" in path for path in four.files())
        Comparison.objects.update(heartbeat_at=timezone.now() - timedelta(minutes=5))
        assert execution.orphans_queue() == [comparison.uuid]
        assert carried_out(comparison).error == execution.WORKER_GONE
        four.assert_as_before()
