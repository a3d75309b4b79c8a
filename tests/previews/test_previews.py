"""Previews of plans on real web servers: what visitors would notice, before the plan is confirmed."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from django.core.exceptions import PermissionDenied

from panel.core.errors import ApplicationError, Conflict
from panel.core.jobs import JobStatus
from panel.deployments.execution.services import deployment_execute
from panel.deployments.planning.services import deployment_confirm, site_disable
from panel.hosts.models import Engine
from panel.previews.execution import preview_execute
from panel.previews.models import Preview
from panel.previews.results import SiteResult
from panel.previews.services import preview_cancel, preview_request
from panel.websites.services import block_update, certificate_self_sign, snippet_create
from tests.api.caller import caller_of
from tests.previews.conftest import LiveSite
from tests.support.cast import signed_in
from tests.support.http_client import ask
from tests.support.waiting import eventually

pytestmark = pytest.mark.django_db(transaction=True)

HASH = "$2b$12$abcdefghijklmnopqrstuuK1yVYl8nLzvG0rTzYbKqQ5QmT3y6b2S"


def only(preview: Preview) -> SiteResult:
    assert preview.status == JobStatus.SUCCEEDED, preview.error
    (result,) = preview.results
    assert not result.error, result.error
    return result


def by_url(result: SiteResult) -> dict[str, dict[str, tuple[str, str]]]:
    """{url: {kind or name of the header: (before, after)}}"""
    return {
        item.url: {change.name or change.kind: (change.before, change.after) for change in item.changes}
        for item in result.differences
    }


def changes(result: SiteResult) -> dict[str, dict[str, tuple[str, str]]]:
    """The same by path."""
    return {"/" + url.split("/", 3)[3]: found for url, found in by_url(result).items()}


def test_preview_lists_changed_responses_and_changes_nothing(live_site: LiveSite) -> None:
    machine, site = live_site.machine, live_site
    site.visited("/", "/about.html", "/img/logo.txt", "/img/logo.txt?token=secret-of-a-visitor")
    moved = machine.root / "www" / "moved"
    moved.mkdir()
    (moved / "logo.txt").write_text("another logo")
    site.add("/img/", "static", alias=f"{moved}/")
    site.add("/about.html", "return", match="=", return_code=301, return_value="/about/")
    site.add("/private/", "deny")
    site.add("/members/", "static", basic_auth_users={"ada": HASH}, basic_auth_realm="Members")
    log, files = site.log.read_text(), set(machine.root.rglob("*"))
    testbeds = set(Path(tempfile.gettempdir()).glob("paddock-testbed*"))
    preview = site.preview()
    result = only(preview)
    found = changes(result)
    assert found["/about.html"]["status"] == ("200", "301")
    assert found["/about.html"]["redirect"] == ("", f"http://shop.example:{machine.port}/about/")
    assert found["/about.html"]["location"] == ("", "= /about.html")
    assert found["/img/logo.txt"]["content"] == ("4 bytes", "12 bytes")
    assert found["/private/paddock-check"]["status"] == ("404", "403")
    assert found["/members/paddock-check"]["status"] == ("404", "401")
    assert "/" not in found
    assert result.logged == 3
    assert "secret" not in str(preview.sites)
    assert site.log.read_text() == log, "the copies write no log"
    assert {path for path in set(machine.root.rglob("*")) - files if "agent-home" not in str(path)} == set()
    assert eventually(lambda: set(Path(tempfile.gettempdir()).glob("paddock-testbed*")) <= testbeds)
    assert machine.get("shop", "/about.html").text == "about"


def test_preview_predicts_the_responses_after_the_deployment(live_site: LiveSite) -> None:
    site = live_site
    site.visited("/", "/about.html", "/img/", "/img/logo.txt", "/missing", "/img")
    block_update(
        actor=site.machine.people.owner,
        block=site.block,
        headers=[{"name": "X-Frame-Options", "value": "DENY", "always": True}],
        error_pages=[{"codes": [404], "uri": "/about.html", "response": None}],
    )
    site.add("/about.html", "return", match="=", return_code=302, return_value="https://other.example$request_uri")
    before = {path: ask(site.machine.port, path, host="shop.example") for path in ("/", "/about.html", "/missing")}
    found = changes(only(site.preview()))
    plan = site.machine.plan(site.site)
    deployment_confirm(actor=site.machine.people.owner, deployment=plan, deploy_anyway=True)
    deployment_execute(plan.uuid)
    for path, old in before.items():
        new = ask(site.machine.port, path, host="shop.example")
        told = found.get(path, {})
        assert told.get("status", (str(new.status),) * 2) == (str(old.status), str(new.status)) or (
            "status" not in told and old.status == new.status
        ), path
        frame = new.headers.get("x-frame-options", "")
        assert told.get("x-frame-options", ("", frame))[1] == frame, path
        assert told.get("redirect", ("", new.headers.get("location", "")))[1] == new.headers.get("location", ""), path


def test_preview_of_a_draft_with_the_same_responses_is_empty(live_site: LiveSite) -> None:
    live_site.visited("/", "/about.html", "/img/", "/missing", "/img")
    block_update(actor=live_site.machine.people.owner, block=live_site.block, client_max_body_mb=7)
    result = only(live_site.preview())
    assert (result.differences, result.unlisted) == ([], 0)
    assert result.asked >= 5


def test_preview_shows_the_redirect_to_https(live_site: LiveSite) -> None:
    owner, machine = live_site.machine.people.owner, live_site.machine
    certificate = certificate_self_sign(actor=owner, team=machine.people.team, name="shop", names=["shop.example"])
    tls = machine.port + 1
    listens = [{"port": machine.port}, {"port": tls, "tls": True}]
    block_update(actor=owner, block=live_site.block, listens=listens, certificate=certificate, redirect_to_https=True)
    result = only(live_site.preview())
    found = by_url(result)
    plain = found[f"http://shop.example:{machine.port}/"]
    assert plain["status"] == ("200", "301")
    assert plain["redirect"] == ("", f"https://shop.example:{tls}/")
    assert found[f"https://shop.example:{tls}/"]["status"] == ("this version has no listener for the request", "200")


@pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)
def test_draft_that_does_not_start_is_not_compared_and_says_why(live_site: LiveSite) -> None:
    machine, block = live_site.machine, live_site.block
    snippet_create(
        actor=machine.people.admin,
        site=live_site.site,
        engine="nginx",
        text="limit_req zone=maybe;",
        block=block,
    )
    preview = live_site.preview()
    (result,) = preview.results
    assert 'zero size shared memory zone "maybe"' in result.error
    assert preview.summary == "Paddock could not compare any site."


@pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)
def test_site_without_live_version_is_not_compared(live_site: LiveSite) -> None:
    machine = live_site.machine
    new = machine.site("new", live_site.site.web_server)
    plan = machine.plan(new)
    preview = preview_request(actor=machine.people.owner, deployment=plan)
    preview_execute(preview.uuid)
    (result,) = Preview.objects.get(pk=preview.pk).results
    assert "not deployed on this host yet" in result.error


@pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)
def test_preview_needs_a_waiting_plan_and_the_right_to_deploy(live_site: LiveSite) -> None:
    people, site = live_site.machine.people, live_site.site
    live_site.add("/x/", "deny")
    plan = live_site.machine.plan(site)
    for person in (people.outsider, people.viewer):
        with pytest.raises(PermissionDenied):
            preview_request(actor=person, deployment=plan)
    preview = preview_request(actor=people.owner, deployment=plan)
    with pytest.raises(Conflict, match="already running"):
        preview_request(actor=people.owner, deployment=plan)
    assert preview_cancel(actor=people.owner, preview=preview).status == JobStatus.CANCELLED
    live_site.machine.run(plan)
    with pytest.raises(Conflict, match="no longer waits"):
        preview_request(actor=people.owner, deployment=plan)


@pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)
def test_pages_and_api_show_the_preview_to_its_team_only(live_site: LiveSite) -> None:
    people = live_site.machine.people
    live_site.visited("/about.html")
    live_site.add("/about.html", "return", match="=", return_code=301, return_value="/about/")
    plan = live_site.machine.plan(live_site.site)
    owner = signed_in(people.owner)
    assert "Preview responses" in owner.get(f"/deployments/{plan.uuid}").content.decode()
    asked = owner.post(f"/previews/request/{plan.uuid}")
    preview = Preview.objects.get()
    assert asked.headers["Location"] == f"/previews/{preview.uuid}"
    preview_execute(preview.uuid)
    preview = Preview.objects.get()
    page = owner.get(f"/previews/{preview.uuid}").content.decode()
    assert f"http://shop.example:{live_site.machine.port}/about.html" in page and "= /about.html" in page
    assert "a different response" in owner.get(f"/deployments/{plan.uuid}").content.decode()
    shown = caller_of(people.owner).get(f"previews/{preview.uuid}/").json()
    assert shown["sites"][0]["differences"][0]["changes"][0] == {
        "kind": "status",
        "name": "",
        "before": "200",
        "after": "301",
    }
    job = caller_of(people.owner).get(f"jobs/{preview.uuid}/").json()
    assert job["type"] == "preview" and job["result"]["different"] == preview.count
    assert signed_in(people.outsider).get(f"/previews/{preview.uuid}").status_code == 404
    assert caller_of(people.outsider).get(f"previews/{preview.uuid}/").status_code == 404
    assert caller_of(people.outsider).get(f"jobs/{preview.uuid}/").status_code == 404
    again = caller_of(people.owner).post("previews/", {"deployment": str(plan.uuid)})
    assert again.status_code == 202


def test_error_names_the_plans_that_have_no_preview(live_site: LiveSite) -> None:
    plan = site_disable(actor=live_site.machine.people.owner, site=live_site.site)
    assert plan is not None
    with pytest.raises(ApplicationError, match="Only plans that deploy"):
        preview_request(actor=live_site.machine.people.owner, deployment=plan)
