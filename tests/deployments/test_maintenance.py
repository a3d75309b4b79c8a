"""Maintenance on real web servers: a page with 503 instead of the site, ended by hand or by itself."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import PermissionDenied, ValidationError
from django.utils import timezone

from panel.core.errors import ApplicationError, Conflict
from panel.deployments.execution.services import deployment_execute
from panel.deployments.maintenance.services import (
    Settings,
    maintenance_due_end,
    maintenance_end,
    maintenance_start,
)
from panel.deployments.models import Deployment, DeploymentStatus, Health, SiteState
from panel.deployments.planning.services import deployment_cancel, site_rollback
from panel.deployments.watching.services import host_watch
from panel.hosts.models import Engine, WebServer
from panel.rendering.explain import Request
from panel.websites.explaining import explained
from panel.websites.listing import sites_changed
from panel.websites.models import Maintenance, Site
from panel.websites.services import block_update, location_create, site_update
from tests.api.caller import caller_of
from tests.deployments.real_host import Machine
from tests.support.cast import signed_in
from tests.support.http_client import Answer

pytestmark = pytest.mark.django_db(transaction=True)

TEXT = 'Back at 10:00 – thanks for "waiting" <3 $100% {a}'


class Shop:
    def __init__(self, machine: Machine, web_server: WebServer) -> None:
        self.machine = machine
        self.owner = machine.people.owner
        self.site: Site = machine.site("shop", web_server)
        self.block = self.site.blocks.get()
        location_create(
            actor=self.owner, block=self.block, pattern="/old/", handler="return", return_code=301, return_value="/new/"
        )
        location_create(actor=self.owner, block=self.block, pattern="/closed/", handler="deny")
        block_update(
            actor=self.owner,
            block=self.block,
            rewrites=[{"pattern": "^/moved$", "replacement": "/old/", "flag": "redirect"}],
        )
        machine.deploy(self.site)

    def done(self, plans: list[Deployment]) -> list[Deployment]:
        for plan in plans:
            deployment_execute(plan.uuid)
            plan.refresh_from_db()
            assert plan.status == DeploymentStatus.SUCCEEDED, (plan.error, plan.checks)
        return plans

    def start(self, **values: Any) -> list[Deployment]:
        return self.done(maintenance_start(actor=self.owner, sites=[self.site], settings=Settings(**values)))

    def end(self) -> list[Deployment]:
        return self.done(maintenance_end(actor=self.owner, sites=[self.site]))

    def get(self, path: str = "/") -> Answer:
        return self.machine.get("shop", path)


@pytest.fixture
def shop(placed: tuple[Machine, WebServer]) -> Shop:
    return Shop(*placed)


def test_every_address_shows_the_page_until_the_maintenance_ends(shop: Shop) -> None:
    before = {path: shop.get(path).status for path in ("/", "/old/x", "/closed/", "/missing", "/moved")}
    assert set(before.values()) == {200, 301, 302, 403, 404}
    live = SiteState.objects.get().revision
    (deployment,) = shop.start(text=TEXT, retry_after_s=120)
    assert deployment.is_verified
    for path in before:
        answer = shop.get(path)
        assert answer.status == 503, path
        assert answer.headers["retry-after"] == "120" and answer.headers["cache-control"] == "no-store"
        assert answer.headers["content-type"].startswith("text/html")
        assert "&quot;waiting&quot; &lt;3 &#36;100&#37; &#123;a&#125;" in answer.text
    shop.end()
    assert {path: shop.get(path).status for path in before} == before
    assert SiteState.objects.get().revision == live, "exactly the files of before"
    assert not Maintenance.objects.exists()


def test_allowed_addresses_see_the_site(shop: Shop) -> None:
    shop.start(allowed=["127.0.0.0/8", "2001:db8::/32"])
    assert shop.get().text == "this is shop"
    assert (shop.get("/closed/").status, shop.get("/missing").status) == (403, 404)
    shop.start(allowed=["192.0.2.1"])
    assert shop.get().status == 503


def test_challenges_of_certificates_are_served_during_maintenance(shop: Shop) -> None:
    Site.objects.update(answers_challenges=True)
    shop.machine.deploy(shop.site)
    path = "/.well-known/acme-challenge/abc"
    before = shop.get(path).status
    shop.start()
    assert shop.get(path).status == before in (403, 404), "the folder is asked, which has no such file"
    assert shop.get("/.well-known/other").status == 503


def test_drafts_and_deployments_keep_the_maintenance(shop: Shop) -> None:
    shop.start()
    assert not sites_changed(shop.owner, [shop.machine.host]).exists()
    location_create(actor=shop.owner, block=shop.block, pattern="/more/", handler="deny")
    assert sites_changed(shop.owner, [shop.machine.host]).exists()
    shop.machine.deploy(shop.site)
    assert (shop.get().status, shop.get("/more/").status) == (503, 503)
    shop.end()
    assert (shop.get().status, shop.get("/more/").status) == (200, 403)


def test_draft_is_not_deployed_by_the_maintenance(shop: Shop) -> None:
    location_create(actor=shop.owner, block=shop.block, pattern="/draft/", handler="deny")
    shop.start()
    shop.end()
    assert shop.get("/draft/").status == 404


def test_maintenance_ends_by_itself(shop: Shop) -> None:
    shop.start(ends_at=timezone.now() + dt.timedelta(hours=1))
    maintenance_due_end()
    assert Deployment.objects.filter(kind="maintenance").count() == 1
    Maintenance.objects.update(ends_at=timezone.now())
    maintenance_due_end()
    maintenance_due_end()
    shop.done([Deployment.objects.filter(kind="maintenance").first()])  # type: ignore[list-item]
    assert Deployment.objects.filter(kind="maintenance").count() == 2
    assert shop.get().status == 200


def test_watch_expects_the_page_and_explains_it(shop: Shop) -> None:
    shop.start()
    host_watch(shop.machine.host.pk, pause=lambda _seconds: None)
    state = SiteState.objects.get()
    assert (state.health, "503" in state.health_words) == (Health.ANSWERING, True), state.health_words
    assert shop.site.web_server is not None
    asked = Request("http", "shop.example", shop.machine.port, "/old/x")
    found = explained(Site.objects.get(), shop.site.web_server, asked)
    assert found.outcome.status == 503 and "maintenance" in [step.name for step in found.steps]


@pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)
def test_site_with_the_longest_name_can_be_in_maintenance(shop: Shop) -> None:
    site_update(actor=shop.owner, site=shop.site, name="a" * 63)
    shop.machine.deploy(shop.site)
    shop.start()
    assert shop.get().status == 503


@pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)
def test_failed_start_leaves_the_site_and_no_row(shop: Shop) -> None:
    plans = maintenance_start(actor=shop.owner, sites=[shop.site], settings=Settings())
    main = Path(shop.site.web_server.paths["main_config"])  # type: ignore[union-attr]
    whole = main.read_text()
    main.write_text(whole + "\nnonsense;\n")
    deployment_execute(plans[0].uuid)
    main.write_text(whole)
    assert shop.get().status == 200
    assert not Maintenance.objects.exists()


@pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)
def test_cancelled_start_leaves_no_row(shop: Shop) -> None:
    (plan,) = maintenance_start(actor=shop.owner, sites=[shop.site], settings=Settings())
    with pytest.raises(Conflict):
        maintenance_start(actor=shop.owner, sites=[shop.site], settings=Settings())
    deployment_cancel(actor=shop.owner, deployment=plan)
    maintenance_due_end()
    assert not Maintenance.objects.exists()


@pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)
def test_settings_are_checked_and_foreign_sites_refused(shop: Shop) -> None:
    people = shop.machine.people
    for person in (people.outsider, people.viewer):
        with pytest.raises(PermissionDenied):
            maintenance_start(actor=person, sites=[shop.site], settings=Settings())
    for wrong in ({"text": ""}, {"allowed": ["all"]}, {"allowed": ["x"]}, {"retry_after_s": 0}, {"text": "a\nb"}):
        with pytest.raises(ValidationError):
            maintenance_start(actor=shop.owner, sites=[shop.site], settings=Settings(**wrong))  # type: ignore[arg-type]
    with pytest.raises(ValidationError, match="future"):
        past = timezone.now() - dt.timedelta(seconds=1)
        maintenance_start(actor=shop.owner, sites=[shop.site], settings=Settings(ends_at=past))
    draft = shop.machine.site("draft", shop.site.web_server)
    with pytest.raises(ApplicationError, match="not deployed"):
        maintenance_start(actor=shop.owner, sites=[shop.site, draft], settings=Settings())
    assert not Maintenance.objects.exists() and not Deployment.objects.filter(kind="maintenance").exists()


@pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)
def test_rollback_does_not_cross_a_maintenance(shop: Shop) -> None:
    first = SiteState.objects.get().revision
    assert first is not None
    shop.start()
    page = SiteState.objects.get().revision
    assert page is not None
    with pytest.raises(ApplicationError, match="End the maintenance"):
        site_rollback(actor=shop.owner, site=shop.site, revision=first)
    shop.end()
    with pytest.raises(ApplicationError, match="without a maintenance page"):
        site_rollback(actor=shop.owner, site=shop.site, revision=page)


@pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)
def test_pages_and_api_start_and_end_the_maintenance(shop: Shop) -> None:
    people = shop.machine.people
    owner, caller = signed_in(people.owner), caller_of(people.owner)
    page = owner.get("/deployments/maintenance?site=shop").content.decode()
    assert "Visitors see a page with status 503" in page
    wrong = owner.post("/deployments/maintenance?site=shop", {"text": "", "retry_after_s": 5, "allowed": "nonsense"})
    assert wrong.status_code == 422
    sent = {"text": "Soon", "retry_after_s": 5, "allowed": "192.0.2.1\n10.0.0.0/8", "ends_at": ""}
    wrong = owner.post("/deployments/maintenance?site=shop", sent | {"allowed": "nonsense"})
    assert wrong.status_code == 422 and "allowed" in wrong.context["form"].errors
    assert owner.post("/deployments/maintenance?site=shop", sent).status_code == 302
    shop.done([Deployment.objects.get(kind="maintenance")])
    assert (shop.get().status, "Soon" in shop.get().text) == (503, True)
    assert "End the maintenance" in owner.get("/sites/shop/").content.decode()
    (shown,) = caller.get("maintenance/").json()["results"]
    assert (shown["site"], shown["allowed"]) == ("shop", ["192.0.2.1", "10.0.0.0/8"])
    assert caller_of(people.outsider).get("maintenance/").json()["results"] == []
    assert caller_of(people.outsider).post("maintenance/end/", {"sites": ["shop"]}).status_code == 422
    assert caller_of(people.viewer).post("maintenance/end/", {"sites": ["shop"]}).status_code == 403
    changed = caller.post("maintenance/", {"sites": ["shop"], "text": "Later", "ends_at": "2100-01-01T00:00:00Z"})
    assert changed.status_code == 202, changed.content
    shop.done([Deployment.objects.get(uuid=changed.json()["deployments"][0]["uuid"])])
    assert "Later" in shop.get().text
    assert owner.post("/deployments/maintenance/end", {"site": "shop"}).status_code == 302
    shop.done([Deployment.objects.filter(kind="maintenance").first()])  # type: ignore[list-item]
    assert shop.get().status == 200
    assert caller.post("maintenance/end/", {"sites": ["shop"]}).status_code == 204
