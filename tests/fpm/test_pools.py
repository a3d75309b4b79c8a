"""PHP-FPM pools over the API and on pages: settings, rights, and what hosts report. No host is contacted."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.utils import timezone

from agents.host import fpm as agent
from agents.host.errors import Refusal
from panel.audit.models import AuditEntry
from panel.fpm.models import FpmPool
from panel.fpm.reading import CURRENT, cleaned, digest, offer_of, server_of
from panel.fpm.rules import folder_of
from panel.fpm.selectors import state_of
from panel.hosts.models import Host, HostJob, WebServer
from panel.rendering.errors import NotExpressible
from panel.rendering.fpm import PoolSpec, pool_file
from panel.websites import services as websites
from panel.websites.models import Site
from tests.api.caller import Caller, caller_of, pointers
from tests.support.cast import Cast, cast, signed_in
from tests.websites.conftest import shop_definition

PATH = "fpm-pools/"
SPEC = PoolSpec("paddock-shop", "shop", "www-data", "www-data", "/srv/www/shop", 5, 128, 8)


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


@pytest.fixture
def shop(people: Cast) -> Site:
    return websites.site_define(actor=people.owner, data=shop_definition(people))


@pytest.fixture
def caller(people: Cast, shop: Site) -> Caller:
    return caller_of(people.admin)


def body(**values: Any) -> dict[str, Any]:
    return {"site": "shop", "php_version": "8.2", "account": "shop", "folder": "/srv/www/shop", **values}


def written(pool: FpmPool) -> None:
    """Record the pool as written to its host, and seen there."""
    text = pool_file(SPEC)
    FpmPool.objects.filter(pk=pool.pk).update(
        text=text,
        owner="www-data",
        group="www-data",
        seen={"digest": digest(text), "listens": True},
        seen_at=timezone.now(),
    )


def test_pool_is_created_changed_and_removed_by_jobs(caller: Caller) -> None:
    response = caller.post(PATH, body(max_children=4))
    assert response.status_code == 202, response.content
    job = HostJob.objects.get(kind="fpm_pool")
    assert job.params == {"name": "paddock-shop", "action": "apply", "replace": False}
    found = json.loads(caller.get(f"{PATH}shop/").content)
    assert (found["name"], found["status"], found["socket"]) == (
        "paddock-shop",
        "planned",
        "/run/php/paddock-shop.sock",
    )
    assert caller.patch(f"{PATH}shop/", {"max_children": 6}).status_code == 409
    HostJob.objects.update(status="succeeded")
    written(FpmPool.objects.get())
    assert caller.patch(f"{PATH}shop/", {"max_children": 6}).status_code == 202
    found = json.loads(caller.get(PATH).content)["results"][0]
    assert (found["max_children"], found["status"], found["is_changed"]) == (6, "succeeded", True)
    HostJob.objects.update(status="succeeded")
    assert caller.delete(f"{PATH}shop/").status_code == 202
    assert HostJob.objects.latest("pk").params["action"] == "remove" and FpmPool.objects.exists()
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"fpm_pool.create", "fpm_pool.update", "fpm_pool.remove", "host.fpm_pool"} <= actions


def test_pool_of_a_lost_host_is_forgotten_on_purpose(caller: Caller) -> None:
    assert caller.post(PATH, body()).status_code == 202
    assert caller.delete(f"{PATH}shop/?forget=true").status_code == 409
    HostJob.objects.update(status="failed", error="web-1 is not reachable")
    assert caller.delete(f"{PATH}shop/?forget=yes").status_code == 400
    assert caller.delete(f"{PATH}shop/?forget=true").status_code == 204
    assert not FpmPool.objects.exists()


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"php_version": "8"}, "/php_version"),
        ({"php_version": "../8.2"}, "/php_version"),
        ({"account": "shop\nuser = root"}, "/account"),
        ({"account": "shop;"}, "/account"),
        ({"account": "Shop"}, "/account"),
        ({"folder": '/srv/www/shop"\nuser = root'}, "/folder"),
        ({"folder": "/srv/www/shop/../blog"}, "/folder"),
        ({"folder": "/srv/www/shop:/etc"}, "/folder"),
        ({"folder": "/srv/www/shop\n/x"}, "/folder"),
        ({"folder": "/srv/www"}, "/folder"),
        ({"folder": "/etc"}, "/folder"),
        ({"max_children": 0}, "/max_children"),
        ({"memory_mb": 4}, "/memory_mb"),
        ({"upload_mb": 100000}, "/upload_mb"),
        ({"site": "missing"}, "/site"),
        ({"php_admin_value": "x"}, "/php_admin_value"),
    ],
)
def test_values_that_would_break_the_file_are_refused(caller: Caller, values: dict[str, Any], place: str) -> None:
    response = caller.post(PATH, body(**values))
    assert (response.status_code, set(pointers(response))) == (422, {place}), response.content
    assert not FpmPool.objects.exists()


def test_files_and_accounts_of_other_teams_are_refused(people: Cast, caller: Caller) -> None:
    data = shop_definition(people, name="blog", team=people.other_team.slug, upstreams=[], php_pools=[])
    data["blocks"][0] |= {"names": ["blog.example"], "root": "/srv/www/blog", "locations": []}
    websites.site_define(actor=people.outsider, data=data)
    for folder in ("/srv/www/blog", "/srv/www/blog/inner"):
        assert pointers(caller.post(PATH, body(folder=folder))) == ["/folder"]
    assert caller.post(PATH, body(account="mine")).status_code == 202
    blog = body(site="blog", folder="/srv/www/blog")
    assert pointers(caller.post(PATH, {**blog, "account": "mine"})) == ["/account"]
    assert caller.post(PATH, {**blog, "account": "other"}).status_code == 202


def test_only_administrators_change_pools(people: Cast, caller: Caller) -> None:
    assert caller.post(PATH, body()).status_code == 202
    jobs = HostJob.objects.count()
    operator = caller_of(people.owner)
    assert operator.get(f"{PATH}shop/").status_code == 200
    for response in (
        operator.post(PATH, body()),
        operator.patch(f"{PATH}shop/", {"max_children": 6}),
        operator.post(f"{PATH}shop/apply/"),
        operator.delete(f"{PATH}shop/"),
    ):
        assert response.status_code == 403
    client = signed_in(people.owner)
    page = client.get("/sites/shop/fpm-pool/")
    assert page.status_code == 200 and b"Not on the host" in page.content and b"<form" not in _content(page.content)
    assert client.post("/sites/shop/fpm-pool/", body()).status_code == 403
    for action in ("apply", "remove", "forget"):
        assert client.post(f"/sites/shop/fpm-pool/{action}/").status_code == 403
    assert HostJob.objects.count() == jobs


def _content(page: bytes) -> bytes:
    """The page's own part, without the menus around it."""
    return page.partition(b"<main")[2].partition(b"</main")[0]


def test_pool_of_another_team_is_invisible(people: Cast, caller: Caller) -> None:
    assert caller.post(PATH, body()).status_code == 202
    outsider = caller_of(people.outsider)
    assert outsider.get(f"{PATH}shop/").status_code == 404
    assert json.loads(outsider.get(PATH).content)["results"] == []
    assert signed_in(people.outsider).get("/sites/shop/fpm-pool/").status_code == 404


def test_operators_find_the_pool_from_the_php_page(people: Cast, shop: Site) -> None:
    page = signed_in(people.owner).get("/sites/shop/php/").content.decode()
    assert "/sites/shop/fpm-pool/" in page
    form = signed_in(people.admin).get("/sites/shop/php/+new/").content.decode()
    assert "Create a PHP-FPM pool on the host" in form


def test_host_that_does_not_respond_is_named_on_the_page(people: Cast, shop: Site) -> None:
    Host.objects.update(connection="ssh", address="127.0.0.1", port=1, username="root", host_key="")
    page = signed_in(people.admin).get("/sites/shop/fpm-pool/")
    assert page.status_code == 200 and b"PHP-FPM on the host" in page.content


def test_state_says_what_the_host_reported(caller: Caller) -> None:
    assert caller.post(PATH, body()).status_code == 202
    pool = FpmPool.objects.get()
    assert state_of(pool).label == "Not on the host"
    written(pool)
    pool.refresh_from_db()
    assert state_of(pool).label == "Listening"
    pool.seen["listens"] = False
    assert state_of(pool).status == "failed"
    pool.seen = {"digest": digest("edited"), "listens": True}
    assert state_of(pool).status == "drifted"
    pool.seen_at = timezone.now() - 2 * CURRENT
    assert state_of(pool).label == "Unknown"


@pytest.mark.parametrize(("found", "badge"), [("0" * 64, False), ("", True)])
def test_edited_pool_is_in_the_list_of_drift(people: Cast, caller: Caller, found: str, badge: bool) -> None:
    assert caller.post(PATH, body()).status_code == 202
    pool = FpmPool.objects.get()
    written(pool)
    path = "/etc/php/8.2/fpm/pool.d/paddock-shop.conf"
    assert path not in signed_in(people.owner).get("/deployments/drift").content.decode()
    FpmPool.objects.update(seen={"digest": found, "listens": True})
    page = signed_in(people.owner).get("/deployments/drift").content.decode()
    assert path in page and 'href="/sites/shop/fpm-pool/"' in page and "No drift found" not in page
    assert ("deleted" in page) is badge
    assert path not in signed_in(people.outsider).get("/deployments/drift").content.decode()
    FpmPool.objects.update(seen_at=timezone.now() - 2 * CURRENT)
    assert path not in signed_in(people.owner).get("/deployments/drift").content.decode()


def test_draft_with_a_pool_stays_on_its_host_until_the_pool_is_removed(people: Cast, caller: Caller) -> None:
    site = Site.objects.get(name="shop")
    assert site.web_server is not None
    assert caller.post(PATH, body()).status_code == 202
    host = Host.objects.create(name="web-9", connection=site.web_server.host.connection, address="192.0.2.9")
    other = WebServer.objects.create(host=host, engine=site.web_server.engine, paths=site.web_server.paths)
    responses = [
        caller.put("sites/shop/definition/", shop_definition(people, web_server=other.pk)),
        caller.patch("sites/shop/", {"web_server": other.pk}),
        caller.patch("sites/shop/", {"web_server": None}),
    ]
    for response in responses:
        assert response.status_code == 409, response.content
        assert b"has the PHP-FPM pool paddock-shop on web-1, which does not move with the site" in response.content
    site.refresh_from_db()
    assert site.web_server_id != other.pk
    FpmPool.objects.all().delete()
    assert caller.patch("sites/shop/", {"web_server": other.pk}).status_code == 200


def test_report_of_a_hostile_host_is_reduced_to_expected_values() -> None:
    hostile = {
        "versions": [{"version": "8.2\n"}, {"version": "8.3", "running": "yes"}, 7, {"version": ["8.4"]}],
        "accounts": ["shop", "<b>", 9, "root\n"],
        "server": {"user": "www-data\nuser = root", "group": "www-data"},
        "pools": {"paddock-shop": {"digest": "<script>", "listens": 1}},
    }
    offer = offer_of(hostile)
    assert (dict(offer.versions), offer.accounts) == ({"8.3": False}, ("shop",))
    assert server_of(hostile) == ("", "")
    assert cleaned(hostile, "paddock-shop") == {"digest": "refused", "listens": False}
    assert cleaned({"pools": []}, "paddock-shop") == {"digest": "", "listens": False}


def test_file_has_the_pool_with_limits_and_its_folder() -> None:
    lines = pool_file(SPEC).splitlines()
    assert lines[1] == "[paddock-shop]"
    assert 'php_admin_value[open_basedir] = "/srv/www/shop/:/var/lib/php/paddock/paddock-shop/"' in lines
    assert {"user = shop", "listen.owner = www-data", "listen.mode = 0660", "pm.max_children = 5"} <= set(lines)


@pytest.mark.parametrize(
    "values",
    [{"account": "shop\nuser = root"}, {"folder": '/srv"'}, {"owner": "x y"}, {"name": "www"}, {"group": "a;b"}],
)
def test_rendering_refuses_values_that_are_no_names(values: dict[str, Any]) -> None:
    with pytest.raises(NotExpressible):
        pool_file(PoolSpec(**{**SPEC.__dict__, **values}))


def test_agent_accepts_the_rendered_file_and_refuses_other_directives(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(agent.fpm_accounts, "require_usable", lambda account: None)
    pool, text = agent.Pool("8.2", "paddock-shop"), pool_file(SPEC)
    assert agent._text_of({"text": text, "account": "shop"}, pool) == text.encode()
    for changed in (
        text.replace("user = shop", "user = root"),
        text.replace("listen = /run/php/paddock-shop.sock", "listen = /run/php/php8.2-fpm.sock"),
        text.replace("listen.mode = 0660", "listen.mode = 0666"),
        text + "php_admin_value[auto_prepend_file] = /tmp/x\n",
        text + "chroot = /\n",
        text + "[other]\nuser = root\n",
        text + "include = /tmp/x\n",
        text.replace("php_admin_value[open_basedir]", "; php_admin_value[open_basedir]"),
        text + "user = root\n",
    ):
        with pytest.raises(Refusal):
            agent._text_of({"text": changed, "account": "shop"}, pool)


@pytest.mark.parametrize("name", ["www", "paddock-../x", "paddock-", "paddock-shop\n", "paddock-Shop", 7])
def test_agent_changes_only_files_of_its_own_names(name: object) -> None:
    with pytest.raises(Refusal):
        agent.Pool("8.2", name)


def test_suggested_folder_is_above_a_public_document_root() -> None:
    roots = ["/srv/www"]
    assert folder_of(["/srv/www/shop"], roots) == "/srv/www/shop"
    assert folder_of(["/srv/www/shop/public/"], roots) == "/srv/www/shop"
    assert folder_of(["/srv/www/public"], roots) == "/srv/www/public"
    assert folder_of(["/etc/shop"], roots) == ""
