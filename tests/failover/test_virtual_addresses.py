"""Virtual addresses over the API and on pages: settings, rights, and what hosts report. No host is contacted."""

from __future__ import annotations

import datetime as dt
import json
from typing import Any

import pytest
from django.utils import timezone

from panel.accounts.models import Team, User
from panel.alerts.virtual_addresses import virtual_address_alerts
from panel.failover.models import KeepalivedHost, VirtualAddress
from panel.failover.reading import CURRENT, cleaned
from panel.failover.selectors import draft_of, state_of, virtual_addresses_visible
from panel.hosts.models import Host, HostJob
from tests.api.caller import Caller, caller_of, pointers
from tests.support.cast import Cast, cast, signed_in

PATH = "virtual-addresses/"
CHECK = "http://www.example.com/health"


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


@pytest.fixture
def hosts(people: Cast) -> list[Host]:
    return [
        Host.objects.create(name=f"edge-{n}", address=f"192.0.2.{n}", username="root", status="ready") for n in (1, 2)
    ]


@pytest.fixture
def caller(people: Cast, hosts: list[Host]) -> Caller:
    return caller_of(people.admin)


def body(**values: Any) -> dict[str, Any]:
    members = [{"host": "edge-1"}, {"host": "edge-2"}]
    return {"name": "www", "address": "192.0.2.200/24", "check_url": CHECK, "hosts": members, **values}


def stored() -> VirtualAddress:
    return VirtualAddress.objects.get()


def test_address_is_added_changed_and_deleted(caller: Caller) -> None:
    response = caller.post(PATH, body())
    assert response.status_code == 201, response.content
    found = json.loads(response.content)
    assert [(host["host"], host["address"]) for host in found["hosts"]] == [
        ("edge-1", "192.0.2.1"),
        ("edge-2", "192.0.2.2"),
    ]
    assert (found["status"], found["is_changed"], found["router_id"]) == ("planned", True, 1)
    swapped = [{"host": "edge-2"}, {"host": "edge-1", "address": "192.0.2.11"}]
    changed = caller.patch(f"{PATH}www/", {"hosts": swapped, "returns": True})
    assert changed.status_code == 200, changed.content
    assert [peer.address for peer in draft_of(stored()).peers] == ["192.0.2.2", "192.0.2.11"]
    assert pointers(caller.patch(f"{PATH}www/", {"hosts": [{"address": "192.0.2.1"}]})) == ["/hosts/0/host"]
    assert json.loads(caller.get(PATH).content)["results"][0]["returns"] is True
    assert caller.delete(f"{PATH}www/").status_code == 204 and not VirtualAddress.objects.exists()


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"address": "192.0.2.200"}, "/address"),
        ({"address": "127.0.0.1/8"}, "/address"),
        ({"address": "192.0.2.1/24"}, "/hosts"),
        ({"address": "2001:db8::1/64"}, "/hosts"),
        ({"hosts": [{"host": "edge-1"}]}, "/hosts"),
        ({"hosts": [{"host": "edge-1"}, {"host": "edge-1"}]}, "/hosts"),
        ({"hosts": [{"host": "edge-1"}, {"host": "nobody"}]}, "/hosts/1"),
        ({"hosts": [{"host": "edge-1"}, {"host": "edge-2", "address": "192.0.2.1"}]}, "/hosts"),
        ({"hosts": [{"host": "edge-1"}, {"host": "edge-2", "address": "edge-2.example"}]}, "/hosts"),
        ({"check_url": "ftp://www.example.com/"}, "/check_url"),
        ({"check_url": 'http://x/"\n}\nglobal_defs {'}, "/check_url"),
        ({"check_url": "x http://www.example.com/"}, "/check_url"),
        ({"check_url": "http://www.example.com/$(reboot)"}, "/check_url"),
        ({"name": "www {"}, "/name"),
    ],
)
def test_values_that_would_break_the_file_are_refused(caller: Caller, values: dict[str, Any], place: str) -> None:
    response = caller.post(PATH, body(**values))
    assert (response.status_code, set(pointers(response))) == (422, {place}), response.content
    assert not VirtualAddress.objects.exists()


def test_address_and_router_id_belong_to_one_virtual_address(caller: Caller) -> None:
    assert caller.post(PATH, body()).status_code == 201
    assert pointers(caller.post(PATH, body(name="mail"))) == ["/address"]
    second = caller.post(PATH, body(name="mail", address="192.0.2.201/24"))
    assert json.loads(second.content)["router_id"] == 2


def test_only_administrators_change_virtual_addresses(people: Cast, caller: Caller) -> None:
    assert caller.post(PATH, body()).status_code == 201
    operator = caller_of(people.owner)
    assert operator.get(f"{PATH}www/").status_code == 200
    for response in (
        operator.post(PATH, body(name="other")),
        operator.patch(f"{PATH}www/", {"returns": True}),
        operator.post(f"{PATH}www/apply/"),
        operator.post(f"{PATH}www/withdraw/"),
        operator.delete(f"{PATH}www/"),
    ):
        assert response.status_code == 403
    client = signed_in(people.owner)
    assert client.get("/virtual-addresses/+new").status_code == 403
    assert client.post("/virtual-addresses/www/apply").status_code == 403
    assert not HostJob.objects.filter(kind="virtual_address").exists()


def test_address_with_a_host_of_another_team_is_hidden(people: Cast, hosts: list[Host], caller: Caller) -> None:
    assert caller.post(PATH, body()).status_code == 201
    hosts[1].teams.add(Team.objects.create(name="Others", slug="others"))
    assert list(virtual_addresses_visible(people.owner)) == []
    assert signed_in(people.owner).get("/virtual-addresses/www").status_code == 404
    assert caller_of(people.owner).get(f"{PATH}www/").status_code == 404


def test_address_in_use_is_deleted_only_on_purpose(caller: Caller) -> None:
    assert caller.post(PATH, body()).status_code == 201
    VirtualAddress.objects.update(applied=draft_of(stored()).as_json())
    refused = caller.delete(f"{PATH}www/")
    assert refused.status_code == 409 and "Withdraw the address" in json.loads(refused.content)["detail"]
    assert caller.delete(f"{PATH}www/?forget=yes").status_code == 400
    assert caller.delete(f"{PATH}www/?forget=true").status_code == 204


def test_one_change_of_an_address_runs_at_a_time(caller: Caller) -> None:
    assert caller.post(PATH, body()).status_code == 201
    assert caller.post(f"{PATH}www/withdraw/").status_code == 409
    first = caller.post(f"{PATH}www/apply/")
    assert first.status_code == 202
    again = caller.post(f"{PATH}www/apply/", {"replace": True})
    assert again.status_code == 409 and "Wait until the job ends" in json.loads(again.content)["detail"]


def test_host_of_a_virtual_address_is_not_deleted(caller: Caller) -> None:
    assert caller.post(PATH, body()).status_code == 201
    refused = caller.delete("hosts/edge-1/", **{"Content-Type": "application/json"})
    assert refused.status_code in (409, 422)
    refused = caller.call("DELETE", "hosts/edge-1/", {"confirm": "edge-1"})
    assert refused.status_code == 409 and "virtual address" in json.loads(refused.content)["detail"]


def test_state_is_what_the_hosts_reported_within_three_minutes(caller: Caller, hosts: list[Host]) -> None:
    assert caller.post(PATH, body()).status_code == 201
    row = stored()
    VirtualAddress.objects.update(applied=draft_of(row).as_json())

    def said(first: list[str], second: list[str], *, age: dt.timedelta = dt.timedelta()) -> str:
        for host, addresses in zip(hosts, (first, second), strict=True):
            report = {"running": True, "version": "2.2.7", "addresses": dict.fromkeys(addresses, "eth0")}
            values = {"seen": cleaned(report, []), "seen_at": timezone.now() - age}
            KeepalivedHost.objects.update_or_create(host=host, defaults=values)
        return f"{state_of(stored()).label}"

    assert state_of(stored()).label == "Unknown"
    assert said(["192.0.2.200"], []) == "In use"
    assert said([], []) == "On no host"
    assert said(["192.0.2.200"], ["192.0.2.200"]) == "On several hosts"
    assert said(["192.0.2.200"], [], age=CURRENT) == "Unknown"
    administrator = User.objects.get(username="ada")
    assert len(virtual_address_alerts(administrator, 6)) == 1
    Host.objects.update(is_paused=True)  # maintenance: nobody looks at the hosts
    assert virtual_address_alerts(administrator, 6) == []


@pytest.mark.parametrize("report", [{}, {"addresses": 7, "checks": [], "version": {}}, {"addresses": {"a": {}}}])
def test_report_of_a_hostile_host_is_reduced_to_texts(
    people: Cast, caller: Caller, hosts: list[Host], report: dict[str, Any]
) -> None:
    assert caller.post(PATH, body()).status_code == 201
    VirtualAddress.objects.update(applied=draft_of(stored()).as_json())
    hostile = {"neighbours": {f"{n}": "x" * 5000 for n in range(5000)}, **report}
    for host in hosts:
        KeepalivedHost.objects.create(host=host, seen=cleaned(hostile, [CHECK]), seen_at=timezone.now())
    assert KeepalivedHost.objects.all()[0].seen["checks"] == {CHECK: "the host did not report the result"}
    assert len(json.dumps(KeepalivedHost.objects.all()[0].seen)) < 300_000
    assert caller.get(f"{PATH}www/").status_code == 200
    assert signed_in(people.admin).get("/virtual-addresses/www").status_code == 200


def test_pages_add_and_change_an_address(people: Cast, hosts: list[Host]) -> None:
    client = signed_in(people.admin)
    data = {"name": "www", "address": "192.0.2.200/24", "hosts": "edge-1\nedge-2 192.0.2.12", "check_url": CHECK}
    refused = client.post("/virtual-addresses/+new", data | {"hosts": "edge-1\nedge-9"})
    assert refused.status_code == 422 and "The panel has no host with the name “edge-9”." in refused.content.decode()
    assert client.post("/virtual-addresses/+new", data).status_code == 302
    page = client.get("/virtual-addresses/www").content.decode()
    assert "Not applied" in page and "edge-2 192.0.2.12" in page
    changed = data | {"returns": "on", "version": stored().row_version}
    assert client.post("/virtual-addresses/www", changed).status_code == 302
    assert stored().returns
    assert client.post("/virtual-addresses/www", changed).status_code == 422  # changed by someone else since
    response = client.post("/virtual-addresses/www/apply")
    assert response.status_code == 302 and "/jobs/" in response.headers["Location"]
    assert "Change a virtual address" in client.get(response.headers["Location"]).content.decode()
