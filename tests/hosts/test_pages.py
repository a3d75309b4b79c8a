"""Pages of hosts: visible to everyone who signed in, changed by administrators."""

from __future__ import annotations

import html
from collections.abc import Callable
from typing import Any

import paramiko
import pytest
from django.db import connection
from django.test import Client

from panel.core.jobs import JobStatus
from panel.hosts.models import Host, HostJob, HostJobKind, HostStatus, WebServer
from panel.hosts.selectors import offered_fingerprint
from panel.remote.keys import key_line
from panel.websites.models import Site
from panel.websites.services import site_define
from tests.support.cast import Cast, cast, signed_in
from tests.websites.conftest import shop_definition

NEW = "/hosts/+new/"
SECRET = "correct horse battery staple"


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


@pytest.fixture
def shop(people: Cast) -> Site:
    return site_define(actor=people.owner, data=shop_definition(people))


@pytest.fixture
def admin(people: Cast) -> Client:
    return signed_in(people.admin)


@pytest.fixture
def owner(people: Cast) -> Client:
    return signed_in(people.owner)


@pytest.fixture
def viewer(people: Cast) -> Client:
    return signed_in(people.viewer)


def text_of(answer: Any) -> str:
    return html.unescape(answer.content.decode())


def answers(**changes: object) -> dict[str, object]:
    base = {
        "name": "edge-1",
        "address": "203.0.113.7",
        "port": 22,
        "username": "deploy",
        "private_key": "",
        "password": SECRET,
        "sudo_password": "",
        "layout": "sites",
        "site_roots": "/srv/www\n/var/www",
    }
    return base | changes


@pytest.fixture
def edge(people: Cast) -> Host:
    """A host that has offered a key which nobody has trusted yet."""
    offered = key_line(paramiko.ECDSAKey.generate())
    return Host.objects.create(
        name="edge-1", address="203.0.113.7", username="deploy", password=SECRET, offered_host_key=offered
    )


def test_added_host_is_asked_for_its_key(admin: Client, people: Cast) -> None:
    answer = admin.post(NEW, answers())
    assert answer.headers["Location"] == "/hosts/edge-1/"
    host = Host.objects.get(name="edge-1")
    assert (host.status, host.password, host.site_roots) == (HostStatus.NEW, SECRET, ["/srv/www", "/var/www"])
    assert host.jobs.get().kind == "check"
    page = text_of(admin.get("/hosts/edge-1/"))
    assert 'hx-trigger="every 1s"' in page  # followed until the job has ended
    assert SECRET not in page


@pytest.mark.parametrize(
    ("changes", "field"),
    [
        ({"name": "Edge One"}, "name"),
        ({"name": "web-1"}, "name"),
        ({"address": "-oProxyCommand=touch /tmp/x"}, "address"),
        ({"address": "a;b"}, "address"),
        ({"address": ""}, "address"),
        ({"port": 0}, "port"),
        ({"username": "-l root"}, "username"),
        ({"username": "a$(id)"}, "username"),
        ({"password": "two\nlines"}, "password"),
        ({"private_key": "nonsense"}, "private_key"),
        ({"site_roots": "srv/www"}, "site_roots"),
        ({"site_roots": ""}, "site_roots"),
    ],
)
def test_host_form_errors_appear_at_their_field(
    admin: Client, people: Cast, changes: dict[str, object], field: str
) -> None:
    answer = admin.post(NEW, answers(**changes))
    assert answer.status_code == 422
    assert answer.context["form"].errors[field]
    assert SECRET not in text_of(answer)
    assert Host.objects.count() == 1


def test_form_of_a_new_host_suggests_the_account_of_the_line_to_paste(admin: Client, people: Cast) -> None:
    form = admin.get(NEW).context["form"]
    assert (form["username"].value(), form["use_sudo"].value()) == ("paddock", True)
    admin.post(NEW, answers(username="root", use_sudo="on"))
    assert not Host.objects.get(name="edge-1").use_sudo  # root needs none


def test_live_part_of_host_page_offers_a_site_once_web_servers_are_found(admin: Client, people: Cast) -> None:
    live = "/hosts/web-1/live/"
    WebServer.objects.update(is_running=False)
    people.nginx.is_running = True
    people.nginx.save()
    assert f'href="/sites/+new/?web_server={people.nginx.pk}"' in text_of(admin.get(live))
    WebServer.objects.all().delete()
    assert "Check the host to find its web servers first." in text_of(admin.get(live))
    admin.post("/hosts/web-1/ask/check/")
    assert "Paddock is checking the host." in text_of(admin.get(live))
    assert "Check the host to find" not in text_of(admin.get(live))


def test_page_of_a_host_shows_what_a_job_found_that_ended_meanwhile(admin: Client, edge: Host) -> None:
    """It is not refreshed again once it has seen the job's end."""
    job = HostJob.objects.create(host=edge, kind=HostJobKind.CHECK, status=JobStatus.RUNNING)
    Host.objects.filter(pk=edge.pk).update(offered_host_key="", status=HostStatus.NEW)
    ended: list[str] = []

    def end_first(execute: Callable[..., Any], sql: str, *arguments: Any) -> Any:
        if 'FROM "hosts_hostjob"' in sql and not ended:
            ended.append(sql)
            Host.objects.filter(pk=edge.pk).update(offered_host_key=edge.offered_host_key)
            HostJob.objects.filter(pk=job.pk).update(status=JobStatus.SUCCEEDED)
        return execute(sql, *arguments)

    with connection.execute_wrapper(end_first):
        page = admin.get(f"/hosts/{edge.name}/").content.decode()
    assert ended and offered_fingerprint(edge) in page


def test_trust_applies_to_shown_fingerprint_only(admin: Client, edge: Host) -> None:
    shown = offered_fingerprint(edge)
    page = text_of(admin.get("/hosts/edge-1/"))
    assert shown in page
    assert "Is this the right host?" in page
    admin.post("/hosts/edge-1/trust/", {"confirmed": "SHA256:somethingelse"})
    edge.refresh_from_db()
    assert (edge.host_key, edge.status) == ("", HostStatus.NEW)
    admin.post("/hosts/edge-1/trust/", {"confirmed": shown})
    edge.refresh_from_db()
    assert edge.host_key
    assert edge.status == HostStatus.READY


def test_changed_host_key_is_marked_on_page(admin: Client, edge: Host) -> None:
    edge.host_key, edge.status = key_line(paramiko.ECDSAKey.generate()), HostStatus.KEY_CHANGED
    edge.save()
    assert "The host key changed" in text_of(admin.get("/hosts/edge-1/"))


def test_host_form_keeps_empty_secrets_and_never_shows_them(admin: Client, edge: Host) -> None:
    page = text_of(admin.get("/hosts/edge-1/edit/"))
    assert SECRET not in page
    assert "A value is stored." in page
    sent = answers(password="", tags="eu", version=edge.row_version)
    assert admin.post("/hosts/edge-1/edit/", sent).status_code == 302
    edge.refresh_from_db()
    assert (edge.tags, edge.password) == (["eu"], SECRET)
    assert admin.post("/hosts/edge-1/edit/", sent | {"tags": "us"}).status_code == 422, "an old version"
    sent = answers(password="another", port=2222, version=edge.row_version)
    answer = admin.post("/hosts/edge-1/edit/", sent, follow=True)
    assert "checks the SSH connection" in text_of(answer), "its port has changed"
    edge.refresh_from_db()
    assert (edge.port, edge.password, edge.tags) == (2222, "another", [])


def test_host_jobs_are_started_and_cancelled_on_page(admin: Client, people: Cast) -> None:
    for action in ("check", "drift", "install-gallop"):
        assert admin.post(f"/hosts/web-1/ask/{action}/").status_code == 302
    assert admin.post("/hosts/web-1/ask/format-disk/").status_code == 404
    assert [row.kind for row in HostJob.objects.order_by("pk")] == ["check", "drift", "install_native"]
    first = HostJob.objects.order_by("pk")[0]
    admin.post(f"/hosts/web-1/jobs/{first.pk}/cancel/")
    first.refresh_from_db()
    assert first.status == JobStatus.CANCELLED


def test_detected_web_server_is_registered_and_removed(admin: Client, owner: Client, people: Cast) -> None:
    main_config = "/opt/shop/nginx.conf"
    found = {"engine": "nginx", "label": "shop", "version": "1.22.1", "modules": [], "layout": "conf_d", "unit": ""}
    paths = {name: f"/opt/shop/{name}" for name in ("binary", "prefix", "config_root", "log_dir", "pid_file")}
    found |= {"control": "direct", "running": False, "private": True, "paths": {**paths, "main_config": main_config}}
    Host.objects.filter(name="web-1").update(facts={"other_servers": [found]})
    assert main_config in text_of(admin.get("/hosts/web-1/"))
    assert main_config not in text_of(owner.get("/hosts/web-1/"))
    sent = {"engine": "nginx", "main_config": main_config}
    assert owner.post("/hosts/web-1/servers/+adopt/", sent).status_code == 403
    admin.post("/hosts/web-1/servers/+adopt/", sent | {"main_config": "/etc/shadow"})
    assert not people.host.web_servers.filter(label="shop").exists()
    admin.post("/hosts/web-1/servers/+adopt/", sent)
    web_server = people.host.web_servers.get(label="shop")
    assert web_server.paths["main_config"] == main_config
    assert "Other running instances" not in text_of(admin.get("/hosts/web-1/"))
    forget = f"/hosts/web-1/servers/{web_server.pk}/forget/"
    assert "keeps running" in text_of(admin.get(forget))
    assert owner.post(forget).status_code == 403
    assert people.host.web_servers.filter(label="shop").exists()
    admin.post(forget)
    assert not people.host.web_servers.filter(label="shop").exists()


def test_web_server_with_sites_cannot_be_removed(admin: Client, people: Cast, shop: Site) -> None:
    page = text_of(admin.post(f"/hosts/web-1/servers/{people.nginx.pk}/forget/", follow=True))
    assert "cannot be deleted because it has sites: shop" in page
    assert people.host.web_servers.filter(pk=people.nginx.pk).exists()


def test_web_server_is_started_and_stop_dialog_lists_sites(admin: Client, people: Cast, shop: Site) -> None:
    admin.post("/hosts/web-1/service/", {"web_server": people.nginx.pk, "action": "start"})
    assert HostJob.objects.get().params == {"web_server": people.nginx.pk, "action": "start"}
    assert "<li>shop</li>" in text_of(admin.get(f"/hosts/web-1/servers/{people.nginx.pk}/stop/"))
    assert HostJob.objects.count() == 1
    admin.post(f"/hosts/web-1/servers/{people.nginx.pk}/stop/")
    assert HostJob.objects.count() == 2


@pytest.mark.parametrize(
    "sent", [{"web_server": "x", "action": "start"}, {"web_server": "999999", "action": "start"}, {}]
)
def test_unknown_web_server_returns_404(admin: Client, people: Cast, sent: dict[str, str]) -> None:
    answer = admin.post("/hosts/web-1/service/", sent, follow=True)
    assert 'class="message tone-bad"' in text_of(answer)
    assert not HostJob.objects.exists()


def test_host_deletion_requires_name_and_no_sites(admin: Client, people: Cast, shop: Site, edge: Host) -> None:
    page = text_of(admin.get("/hosts/web-1/delete/"))
    assert "Move or delete shop first" in page and 'href="/sites/?host=web-1"' in page
    assert 'name="confirm"' not in page, "what cannot be done is not asked for"
    refused = admin.post("/hosts/web-1/delete/", {"confirm": "web-1"})
    assert refused.status_code == 422
    assert "Move or delete shop first" in text_of(refused)
    assert admin.post("/hosts/edge-1/delete/", {"confirm": "edge"}).status_code == 422
    assert Host.objects.count() == 2
    assert admin.post("/hosts/edge-1/delete/", {"confirm": "edge-1"}).status_code == 302
    assert list(Host.objects.values_list("name", flat=True)) == ["web-1"]


@pytest.mark.parametrize("name", ["owner", "viewer"])
def test_host_pages_are_read_only_without_administrator_role(
    request: pytest.FixtureRequest, name: str, edge: Host, people: Cast
) -> None:
    client: Client = request.getfixturevalue(name)
    page = text_of(client.get("/hosts/edge-1/"))
    assert "203.0.113.7" in page
    assert "/hosts/edge-1/edit/" not in page
    assert "trust this key" not in page
    for url in (NEW, "/hosts/edge-1/edit/", "/hosts/edge-1/delete/", "/hosts/web-1/logs/"):
        assert client.get(url).status_code == 403
    for url in ("trust/", "ask/check/", "service/", "delete/", f"servers/{people.nginx.pk}/stop/"):
        assert client.post(f"/hosts/edge-1/{url}", {"confirm": "edge-1"}).status_code == 403
    edge.refresh_from_db()
    assert edge.status == HostStatus.NEW
    assert not HostJob.objects.exists()


def test_host_actions_on_get_change_nothing(admin: Client, people: Cast) -> None:
    for url in ("trust/", "ask/check/", "service/"):
        assert admin.get(f"/hosts/web-1/{url}").status_code == 405


@pytest.mark.parametrize(
    ("query", "is_found"),
    [("q=web", True), ("q=zzz", False), ("status=ready", True), ("status=x", False), ("engine=apache", True)],
)
def test_host_list_filters_rows(owner: Client, people: Cast, query: str, is_found: bool) -> None:
    assert ('href="/hosts/web-1/"' in text_of(owner.get(f"/hosts/?{query}"))) is is_found


@pytest.mark.parametrize(
    ("found", "words"),
    [
        ({"uid": 0, "netem": {"can": True, "why": ""}}, "by tc netem"),
        ({"uid": 0, "netem": {"can": False, "why": "Not known."}}, "emulator, because tc netem failed: Not known."),
        ({"uid": 1000, "netem": {"can": False, "why": "Not root."}}, "needs root on the host"),
    ],
)
def test_host_page_names_link_shaping_tool(admin: Client, people: Cast, found: dict[str, object], words: str) -> None:
    assert "Links with a profile" not in text_of(admin.get("/hosts/web-1/")), "nobody asked it yet"
    Host.objects.filter(name="web-1").update(facts=found)
    assert words in text_of(admin.get("/hosts/web-1/"))
