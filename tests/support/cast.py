"""The people, hosts and servers that tests of the database share."""

from __future__ import annotations

from dataclasses import dataclass

from django.test import Client

from panel.accounts.models import Role, Team, User
from panel.hosts.models import Connection, Engine, EngineInstall, Host, HostStatus, Layout


@dataclass
class Cast:
    team: Team
    other_team: Team
    admin: User
    owner: User  # an operator of `team`
    viewer: User  # of `team`
    outsider: User  # an operator of `other_team`
    host: Host
    nginx: EngineInstall
    apache: EngineInstall


def user(name: str, role: Role, *teams: Team) -> User:
    row = User(username=name, role=role)
    row.set_unusable_password()
    row.save()
    row.teams.set(teams)
    return row


def signed_in(person: User) -> Client:
    """A browser in which this person signed in, at an address that the panel answers at."""
    client = Client(HTTP_HOST="localhost")
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    return client


def install(host: Host, engine: Engine, root: str, **values: object) -> EngineInstall:
    """A server whose files are where Debian puts them, below `root`."""
    paths = {
        "binary": f"/usr/sbin/{engine.value}",
        "prefix": f"{root}/etc/{engine.value}",
        "main_config": f"{root}/etc/{engine.value}/{engine.value}.conf",
        "config_root": f"{root}/etc/{engine.value}",
        "log_dir": f"{root}/var/log/{engine.value}",
        "pid_file": f"{root}/run/{engine.value}.pid",
    }
    defaults: dict[str, object] = {"layout": Layout.SITES, "paths": paths}
    return EngineInstall.objects.create(host=host, engine=engine, **(defaults | values))


def cast(root: str = "") -> Cast:
    team = Team.objects.create(name="Shop", slug="shop")
    other_team = Team.objects.create(name="Blog", slug="blog")
    host = Host.objects.create(
        name="web-1", connection=Connection.LOCAL, status=HostStatus.READY, site_roots=[f"{root}/srv/www"]
    )
    return Cast(
        team=team,
        other_team=other_team,
        admin=user("ada", Role.ADMIN),
        owner=user("olaf", Role.OPERATOR, team),
        viewer=user("vera", Role.VIEWER, team),
        outsider=user("otto", Role.OPERATOR, other_team),
        host=host,
        nginx=install(host, Engine.NGINX, root),
        apache=install(host, Engine.APACHE, root),
    )
