"""Hosts that belong to teams: others neither see them nor put sites on them, by no page and no address of the API."""

from __future__ import annotations

import json
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.test import Client

from panel.accounts.models import Role, Team, User
from panel.benchmarks.models import SuiteRun
from panel.deployments.planning.services import sites_move
from panel.hosts import selectors
from panel.hosts.models import Connection, Engine, Host, HostJob, HostJobKind, HostStatus, Layout, WebServer
from panel.hosts.services import host_update
from panel.placements.choosing import targets
from panel.placements.models import Placement
from panel.reports.models import Kind, Report, Schedule
from panel.websites import services as websites
from panel.websites.models import Site
from tests.api.caller import caller_of
from tests.suites.security import world
from tests.suites.security.addresses import addresses
from tests.support.cast import Cast, cast, signed_in

SECRET = "hidden-host"


@pytest.fixture
def people(db: None) -> Cast:
    return cast()


@pytest.fixture
def hidden(people: Cast) -> WebServer:
    """The web server of a host that belongs to another team."""
    host = Host.objects.create(
        name=SECRET,
        address="hidden.example.net",
        username="root",
        password="x",
        status=HostStatus.READY,
        site_roots=["/srv/www"],
        tags=["hidden-tag"],
    )
    host.teams.add(Team.objects.create(name="Owners of it", slug="its-owners"))
    paths = {"config_root": "/etc/nginx", "log_dir": "/var/log/nginx"}
    return WebServer.objects.create(host=host, engine=Engine.NGINX, layout=Layout.SITES, paths=paths)


def site(people: Cast, **values: Any) -> Site:
    block = {"listens": [{"port": 80}], "names": ["shop.example"], "root": "/srv/www/shop"}
    data = {"name": "shop", "team": people.team.slug, "web_server": people.nginx.pk, "blocks": [block]}
    return websites.site_define(actor=people.admin, data=data | values)


def test_host_of_no_team_is_for_everybody_and_host_of_team_for_its_members(people: Cast, hidden: WebServer) -> None:
    def seen(user: User) -> set[str]:
        return set(selectors.hosts_visible(user).values_list("name", flat=True))

    assert seen(people.admin) == {people.host.name, SECRET}
    assert seen(people.owner) == seen(people.viewer) == {people.host.name}
    people.owner.teams.add(Team.objects.get(slug="its-owners"))
    assert seen(people.owner) == {people.host.name, SECRET}
    assert hidden in selectors.web_servers_visible(people.owner)
    assert hidden not in selectors.web_servers_visible(people.viewer)


@pytest.mark.one_database("rows are chosen by the same queries on each; test_every_url requests the pages on both")
def test_no_page_and_no_address_of_the_api_names_a_host_of_another_team(db: None) -> None:
    """Every address that can be read, requested by an operator and a viewer with a team of their own."""
    world.build()
    host = Host.objects.create(
        name=SECRET,
        address=f"{SECRET}.example.net",
        status=HostStatus.UNREACHABLE,
        site_roots=["/srv/www"],
        connection=Connection.SSH,
        tags=[f"{SECRET}-tag"],
    )
    host.teams.add(Team.objects.create(name="Owners of it", slug="its-owners"))
    WebServer.objects.create(host=host, engine=Engine.NGINX, layout=Layout.SITES, label=f"{SECRET}-label", paths={})
    used_by_its_team(host)
    team = Team.objects.create(name="Only mine", slug="only-mine")
    for role in (Role.OPERATOR, Role.VIEWER):
        user = User.objects.create_user(f"eve-{role}", "correct horse battery staple", role=role)
        user.teams.add(team)
        client = signed_in(user)
        told = [address.path for address in addresses() if _names_it(client, address.path)]
        told += [path for path in (f"/search/?q={SECRET[:6]}", f"/hosts/?q={SECRET[:6]}") if _names_it(client, path)]
        assert not told
    admin = signed_in(User.objects.filter(role=Role.ADMIN).first())
    assert sum(_names_it(admin, address.path) for address in addresses()) > 10, "many addresses name it to others"


def used_by_its_team(host: Host) -> None:
    """A job, suite runs, a schedule and a report that name the host."""
    HostJob.objects.create(host=host, kind=HostJobKind.CHECK)
    near = Host.objects.filter(teams=None).first()
    suite = {"suite": "http3-2019", "preset": "short", "plan": [], "title": f"HTTP/3 on {host}"}
    run = SuiteRun.objects.create(host=host, host_name=host.name, **suite)
    SuiteRun.objects.create(host=near, host_name="near", chosen={"load_from": host.name}, **suite)
    SuiteRun.objects.create(host=None, host_name=host.name, **suite)
    content = Report.objects.filter(about_sites=True).values_list("content", flat=True).first()
    for owner in (run, None):
        Report.objects.create(
            suite_run=owner, about_sites=False, title=f"Report on {host}", headline="x", content=content
        )
    Schedule.objects.create(name="Nightly", cron="0 3 * * *", kind=Kind.SUITE, suite="http3-2019", host=host)


def _names_it(client: Client, path: str) -> bool:
    answer = client.get(path)
    if answer.streaming or answer.status_code >= 400:
        return answer.status_code >= 500
    return (
        f"{SECRET}." in answer.content.decode(errors="replace")
        or f">{SECRET}" in answer.content.decode(errors="replace")
        or f'"{SECRET}' in answer.content.decode(errors="replace")
    )


def test_operator_cannot_use_web_server_of_hidden_host(people: Cast, hidden: WebServer) -> None:
    shop = site(people)
    api = caller_of(people.owner)
    body = {"name": "other", "team": people.team.slug, "web_server": hidden.pk, "blocks": []}
    for method, path, data in (
        ("POST", "sites/", body),
        ("PUT", "sites/shop/definition/", {**websites.site_export(shop), "web_server": hidden.pk}),
        ("PATCH", "sites/shop/", {"web_server": hidden.pk}),
        ("POST", "sites/shop/move/", {"web_server": hidden.pk}),
        ("POST", "sites/shop/clone/", {"name": "twin", "web_server": hidden.pk}),
        ("POST", "deployments/", {"hosts": [SECRET]}),
    ):
        answer = api.call(method, path, data)
        assert answer.status_code in (400, 404, 422), (path, answer.content)
        assert SECRET not in answer.content.decode().replace(f'"{SECRET}"', "").replace(f"“{SECRET}”", ""), path
    for path in (f"hosts/{SECRET}/", f"web-servers/{hidden.pk}/", f"sites/shop/differences/?web_server={hidden.pk}"):
        assert api.get(path).status_code in (400, 404), path
    for path in ("", "resources/", "live/"):
        assert signed_in(people.owner).get(f"/hosts/{SECRET}/{path}").status_code == 404, path
    page = signed_in(people.owner).post("/sites/shop/server/", {"web_server": hidden.pk, "version": 1})
    assert page.status_code in (200, 422) and SECRET not in page.content.decode()
    shop.refresh_from_db()
    assert shop.web_server == people.nginx


def test_administrator_is_told_that_team_may_not_use_host(people: Cast, hidden: WebServer) -> None:
    shop = site(people)
    for work in (
        lambda: websites.site_web_server_set(actor=people.admin, site=shop, web_server=hidden),
        lambda: site(people, name="new", web_server=hidden.pk),
        lambda: sites_move(actor=people.admin, sites=[shop], web_server=hidden),
    ):
        with pytest.raises(ValidationError, match="belongs to other teams than"):
            work()
    others = Team.objects.get(slug="its-owners")
    hidden.host.teams.add(people.team)
    shop = websites.site_web_server_set(actor=people.admin, site=shop, web_server=hidden)
    with pytest.raises(ValidationError, match="Sites of other teams are on this host: shop"):
        host_update(actor=people.admin, host=hidden.host, teams=[others])
    assert set(hidden.host.teams.all()) == {others, people.team}
    third = Team.objects.create(name="Third", slug="third")
    with pytest.raises(ValidationError, match="belongs to other teams than Third"):
        websites.site_update(actor=people.admin, site=shop, team=third)


def test_placement_uses_no_host_of_other_teams(people: Cast, hidden: WebServer) -> None:
    placement = Placement.objects.create(site=site(people), tags=["hidden-tag"])
    assert targets(placement) == []
    hidden.host.teams.add(people.team)
    assert [target.host.name for target in targets(placement)] == [SECRET]


def test_teams_of_host_are_set_by_page_and_api_and_audited(people: Cast, hidden: WebServer) -> None:
    api = caller_of(people.admin)
    answer = api.patch(f"hosts/{people.host.name}/", {"teams": [people.team.slug]})
    assert answer.status_code == 200, answer.content
    assert json.loads(answer.content)["teams"] == [people.team.slug]
    assert caller_of(people.owner).get(f"hosts/{people.host.name}/").status_code == 200
    assert caller_of(people.outsider).get(f"hosts/{people.host.name}/").status_code == 404
    entry = api.get("audit/?action=host.teams").json()["results"][0]
    assert (entry["before"], entry["after"]) == ({"teams": []}, {"teams": [people.team.slug]})
    page = signed_in(people.admin).get(f"/hosts/{people.host.name}/edit/").content.decode()
    assert "Only these teams see the host" in page
    assert api.patch(f"hosts/{people.host.name}/", {"teams": []}).status_code == 200
    assert caller_of(people.outsider).get(f"hosts/{people.host.name}/").status_code == 200
