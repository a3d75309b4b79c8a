"""Actions beside deployments, over a real sshd on each web server: clones, logs, services and facts.

OpenLiteSpeed takes part where PADDOCK_OPENLITESPEED names an installation (server_traits.py).
"""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest
from django.utils import timezone

from panel.core.claims import Attempt
from panel.core.jobs import JobStatus
from panel.hosts.execution import host_job_execute
from panel.hosts.logs import host_log_tail, host_logs
from panel.hosts.models import HostJob, HostJobKind
from panel.hosts.services import host_job_request
from panel.websites import services as websites
from panel.websites.logs import site_log_tail, site_logs
from panel.websites.models import Site
from tests.api.caller import caller_of
from tests.deployments.real_host import Machine
from tests.deployments.server_traits import Served
from tests.support.cast import signed_in
from tests.support.http_client import ask
from tests.support.ports import free_port
from tests.support.waiting import eventually


def asked(machine: Machine, kind: str, **params: Any) -> HostJob:
    job = host_job_request(actor=machine.people.admin, host=machine.host, kind=kind, params=params)
    assert host_job_execute(job.uuid) == Attempt.DONE
    job.refresh_from_db()
    return job


@pytest.fixture
def shop(remote: Machine, served: Served) -> Site:
    """Live, with logs of its own."""
    site = remote.site("shop", served.web_server(remote))
    folder = served.server.paths["log_dir"]
    block = site.blocks.get()
    logs = {"access_log": f"{folder}/shop.access.log", "error_log": f"{folder}/shop.error.log"}
    websites.block_update(actor=remote.people.admin, block=block, **logs)
    remote.deploy(site)
    assert remote.answers("shop", "this is shop")
    return site


def test_cloned_site_responds_beside_original(remote: Machine, shop: Site) -> None:
    twin = websites.site_clone(actor=remote.people.owner, site=shop, name="twin", domains=["twin.example"])
    elsewhere = websites.site_clone(
        actor=remote.people.owner, site=shop, name="third", domains=["third.example"], port=(port := free_port())
    )
    for site in (twin, elsewhere):
        block = site.blocks.get()
        websites.block_update(actor=remote.people.admin, block=block, root=str(remote.files(site.name)))
    remote.deploy(twin, elsewhere)
    assert remote.answers("twin", "this is twin")
    assert remote.answers("shop", "this is shop")
    assert eventually(lambda: ask(port, host="third.example").text == "this is third")


def test_site_logs_are_read_from_the_end(remote: Machine, shop: Site) -> None:
    user = remote.people.admin
    access = next(log for log in site_logs(user, shop) if log.path.endswith("shop.access.log"))

    def lines(wanted: int) -> list[str]:
        return site_log_tail(user, shop, access, lines=wanted)

    for number in range(5):
        remote.get("shop", f"/asked-{number}")
    assert eventually(lambda: any("/asked-4" in line for line in lines(50)))
    assert ["/asked-3" in lines(2)[0], "/asked-4" in lines(2)[1]] == [True, True]
    common = next(log for log in host_logs(remote.host) if log.path.endswith("/error.log"))
    Path(common.path).touch()  # a server that has nothing to say may not have made it
    assert isinstance(host_log_tail(remote.host, common), list)


def test_web_server_is_stopped_started_and_reloaded(remote: Machine, shop: Site) -> None:
    web_server = shop.web_server
    assert web_server is not None
    for action, running in (("stop", False), ("start", True), ("reload", True)):
        job = asked(remote, HostJobKind.SERVICE, web_server=web_server.pk, action=action)
        assert job.status == JobStatus.SUCCEEDED, job.error
        web_server.refresh_from_db()
        assert web_server.is_running is running
        assert eventually(lambda wanted=running: is_served(remote) is wanted)  # type: ignore[misc]


def is_served(machine: Machine) -> bool:
    try:
        return machine.get("shop").text.strip() == "this is shop"
    except OSError:
        return False


def test_host_check_finds_web_server_and_its_facts(remote: Machine, shop: Site) -> None:
    job = asked(remote, HostJobKind.CHECK)
    assert job.status == JobStatus.SUCCEEDED, job.error
    web_server = shop.web_server
    assert web_server is not None
    web_server.refresh_from_db()
    assert (web_server.is_running, bool(web_server.version)) == (True, True)
    assert str(web_server) in job.result["servers"]


def test_log_of_day_is_searched_in_rotated_files_by_page_and_api(remote: Machine, shop: Site) -> None:
    folder = Path(shop.blocks.get().access_log).parent
    today = timezone.now()
    with gzip.open(folder / "shop.access.log.1.gz", "wt") as file:
        file.write(f'192.0.2.9 - - [{today:%d/%b/%Y}:00:00:00 +0000] "GET /needle/old HTTP/1.1" 500 90 "-" "<b>x"\n')
        file.write('192.0.2.9 - - [01/Jan/2026:00:00:00 +0000] "GET /needle/january HTTP/1.1" 200 9 "-" "x"\n')
    for name in ("/needle/new", "/other"):
        remote.get("shop", name)
    key = f"access_log-{shop.blocks.get().pk}"
    owner = signed_in(remote.people.owner)

    def page(text: str) -> str:
        query = {"log": key, "text": text, "day": f"{today:%Y-%m-%d}"}
        return owner.get("/sites/shop/logs/", query).content.decode()

    assert eventually(lambda: "/needle/new" in page("NEEDLE"))
    found = page("NEEDLE")
    assert "2 lines match." in found and "/needle/old" in found and "&lt;b&gt;x" in found
    assert "january" not in found and "/other" not in found
    assert "No line of the chosen day matches the search." in page("nothing like it")
    api = caller_of(remote.people.owner)
    answer = api.get(f"sites/shop/logs/?log={key}&search=needle&lines=1").json()
    assert (answer["matching"], answer["is_complete"]) == (2, True)
    assert "/needle/new" in answer["lines"][0]
    assert api.get(f"sites/shop/logs/?log={key}&day=yesterday").status_code == 400


def test_requests_of_site_are_counted_from_its_access_log(remote: Machine, shop: Site) -> None:
    sent = sum(len(remote.get("shop", "/").text) for _ in range(6))
    for _ in range(3):
        remote.get("shop", "/missing")
    api = caller_of(remote.people.owner)
    assert eventually(lambda: api.get("sites/shop/requests/").json()["whole"]["statuses"]["4"] == 3)
    answer = api.get("sites/shop/requests/?hours=2").json()
    assert len(answer["steps"]) in (2, 3) and sum(step["requests"] for step in answer["steps"]) >= 9
    assert answer["whole"]["sent_bytes"] > sent
    own = Path(shop.blocks.get().access_log).read_text().splitlines()
    assert answer["whole"]["requests"] == len(own), "another reader of the same log counts as many"
    owner = signed_in(remote.people.owner)
    for hours in ("24", "168"):
        page = owner.get(f"/sites/shop/requests/?hours={hours}").content.decode()
        assert f"<dd>{answer['whole']['requests']}</dd>" in page
        assert "its rotated" in page
    assert signed_in(remote.people.outsider).get("/sites/shop/requests/").status_code == 404
    websites.block_update(actor=remote.people.admin, block=shop.blocks.get(), access_log="")
    assert "has no access log of its own" in owner.get("/sites/shop/requests/").content.decode()
