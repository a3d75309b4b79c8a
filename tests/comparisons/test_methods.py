"""A replay of requests other than GET: an application behind the site tells what really arrived."""

from __future__ import annotations

import os
import threading
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from django.urls import reverse

from panel.audit.models import AuditEntry
from panel.comparisons import services
from panel.comparisons.models import Comparison, Contender
from panel.core.jobs import JobStatus
from panel.remote import pool
from panel.websites import services as websites
from tests.api.caller import caller_of, pointers
from tests.comparisons.conftest import LiveSites, carried_out, logged
from tests.support.cast import signed_in

Arrived = Counter[tuple[str, str, str]]


class Application(BaseHTTPRequestHandler):
    """Notes method, path and Content-Length of what arrives. The thing may be deleted once."""

    protocol_version = "HTTP/1.1"
    server: Applications

    def do_GET(self) -> None:
        arrived = (self.command, self.path, self.headers.get("Content-Length", "none"))
        with self.server.lock:
            self.server.arrived[arrived] += 1
            gone = self.command == "DELETE" and self.server.arrived[arrived] > 1
        self.send_response(404 if gone else 200)
        self.send_header("Content-Type", "text/plain")
        self.send_header("Content-Length", "2")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(b"ok")

    do_HEAD = do_POST = do_PUT = do_DELETE = do_GET

    def log_message(self, *_: object) -> None:
        pass


class Applications(ThreadingHTTPServer):
    daemon_threads = True  # servers keep connections to it, which nobody waits for at the end

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Application)
        self.lock = threading.Lock()
        self.arrived: Arrived = Counter()


@pytest.fixture
def arrived(live_sites: LiveSites) -> Iterator[Arrived]:
    """What arrives at the application below /app/ of the site, in whose log all methods stand."""
    with Applications() as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        owner = live_sites.machine.people.owner
        servers = [{"address": f"127.0.0.1:{server.server_port}"}]
        upstream = websites.upstream_create(actor=owner, site=live_sites.site, name="app", servers=servers)
        websites.location_create(
            actor=owner, block=live_sites.block, pattern="/app/", handler="proxy", upstream=upstream
        )
        live_sites.machine.deploy(live_sites.site)
        logged(live_sites, ["/app/read"] * 6)
        for method, times in (("POST", 2), ("HEAD", 3), ("PUT", 1), ("DELETE", 1)):
            logged(live_sites, [f"/app/{method.lower()}"] * times, method=method, queries=True)
        yield server.arrived
        server.shutdown()
        thread.join()


def without(live_sites: LiveSites, monkeypatch: pytest.MonkeyPatch, *names: str) -> None:
    """The host's agent finds every program but these."""
    folder = live_sites.machine.root / "programs"
    folder.mkdir()
    for place in os.environ["PATH"].split(os.pathsep):
        for program in Path(place).glob("*"):
            if program.name not in names and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    pool.close()
    monkeypatch.setenv("PATH", str(folder))


def asked(live_sites: LiveSites, **values: Any) -> dict[str, Any]:
    shape = {"load": "replay", "concurrency": 2, "duration_s": 1, "rounds": 3}
    return {**shape, "web_servers": [live_sites.web_servers["native"].pk], **values}


def test_replay_sends_other_methods_without_body_in_proportion(live_sites: LiveSites, arrived: Arrived) -> None:
    client = signed_in(live_sites.machine.people.owner)
    page = reverse("websites:comparisons", args=["shop"])
    assert "can change or delete data of the application" in client.get(page).content.decode()
    preview = client.get(
        reverse("websites:comparisons_replay", args=["shop"]), {"other_methods": "on"}
    ).content.decode()
    assert "HEAD /app/head<" in preview and "POST /app/post<" in preview and "secret" not in preview
    answer = client.post(page, asked(live_sites, other_methods="on"))
    assert answer.status_code == 302, answer.content
    comparison = carried_out(Comparison.objects.get())
    assert comparison.status == JobStatus.SUCCEEDED, comparison.error
    assert set(comparison.load["paths"]) == {"/app/read", "HEAD /app/head", "POST /app/post"}
    posts, reads = arrived[("POST", "/app/post", "0")], arrived[("GET", "/app/read", "none")]
    assert posts > 20
    assert 2 < reads / posts < 4, "three reads to each post, as in the log"
    heads = arrived[("HEAD", "/app/head", "none")]
    assert 1 < reads / heads < 3, "two reads to each HEAD, as in the log"
    deletes = arrived[("DELETE", "/app/delete", "none")]
    checked = {("GET", "/app/paddock-check")}  # by deployments, not by the replay
    assert {(method, path) for method, path, _ in arrived} - checked == {
        *(("POST", "/app/post"), ("GET", "/app/read"), ("HEAD", "/app/head"), ("DELETE", "/app/delete")),
    }
    assert deletes == 2, "it was asked twice whether it can be repeated"
    result = client.get(reverse("comparisons:detail", args=[comparison.uuid])).content.decode()
    for words in ("Sent with PUT: 1.", "DELETE /app/delete with status 404"):
        assert words in result
    assert comparison.run is not None
    run = client.get(reverse("benchmarks:detail", args=[comparison.run.uuid])).content.decode()
    assert "gallop-load" in run, "what stood in for h2load is named"
    assert "Repeat the server comparison" in run and f'href="{page}"' in run
    assert reverse("benchmarks:again", args=[comparison.run.uuid]) not in run, (
        "its copies are gone: it would be refused"
    )
    audited = AuditEntry.objects.get(action="comparison.create").after or {}
    assert audited["load"]["methods"] == ["DELETE", "GET", "HEAD", "POST"]


def test_replay_sends_only_get_and_head_by_default(live_sites: LiveSites, arrived: Arrived) -> None:
    caller = caller_of(live_sites.machine.people.owner)
    seen = caller.get("comparisons/replay/?site=shop").json()  # type: ignore[attr-defined]
    assert {share["method"] for share in seen["paths"]} == {"GET", "HEAD"}
    assert seen["left_out"] == 4
    assert "Sent with POST: 2. Not selected for replay" in " ".join(seen["reasons"])
    answer = caller.post("comparisons/", {"site": "shop", **asked(live_sites)})
    assert answer.status_code == 202, answer.content
    assert set(Comparison.objects.get().load["paths"]) == {"/app/read", "HEAD /app/head"}
    assert Comparison.objects.get().load["tool"] == "h2load"
    assert answer.json()["left_out"] == seen["reasons"]  # type: ignore[attr-defined]


def test_get_replay_uses_wrk_and_is_rejected_without_a_tool(
    live_sites: LiveSites, monkeypatch: pytest.MonkeyPatch
) -> None:
    caller = caller_of(live_sites.machine.people.owner)
    logged(live_sites, ["/"] * 3)
    assert caller.post("comparisons/", {"site": "shop", **asked(live_sites)}).status_code == 202
    assert Comparison.objects.get().load["tool"] == "wrk"
    without(live_sites, monkeypatch, "wrk", "h2load", "siege")
    answer = caller.post("comparisons/", {"site": "shop", **asked(live_sites)})
    assert answer.status_code == 422 and pointers(answer) == ["/load"]
    assert "Install one of wrk, h2load, siege." in answer.content.decode()


def test_repeated_comparison_keeps_load_and_web_servers(live_sites: LiveSites) -> None:
    client = signed_in(live_sites.machine.people.owner)
    first = live_sites.queued()
    services.comparison_cancel(actor=live_sites.machine.people.owner, comparison=first)
    first = carried_out(first)
    again = reverse("comparisons:again", args=[first.uuid])
    assert again in client.get(reverse("comparisons:detail", args=[first.uuid])).content.decode()
    answer = client.post(again)
    second = Comparison.objects.exclude(pk=first.pk).get()
    assert answer.url == reverse("comparisons:detail", args=[second.uuid])  # type: ignore[attr-defined]
    assert second.load == first.load
    shown = [list(comparison.contenders.values_list("web_server", flat=True)) for comparison in (first, second)]
    assert shown[0] == shown[1]
    client.post(again)
    assert Comparison.objects.count() == 2, "one at a time"


def test_other_methods_require_replay(live_sites: LiveSites) -> None:
    caller = caller_of(live_sites.machine.people.owner)
    answer = caller.post(
        "comparisons/", {"site": "shop", **asked(live_sites, load="quick:ab-keep-alive", other_methods=True)}
    )
    assert answer.status_code == 422 and pointers(answer) == ["/other_methods"]
    scenario = {"name": "Orders", "tool": "wrk", "arguments": {"duration_s": 1}, "paths": ["POST /app/post"]}
    refused = caller.post("scenarios/", scenario)
    assert refused.status_code == 422 and pointers(refused) == ["/paths"]
    assert not Contender.objects.exists()
