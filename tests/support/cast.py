"""The people, hosts and servers that tests of the database share."""

from __future__ import annotations

from dataclasses import dataclass

from django.test import Client

from panel.accounts.models import Role, Team, User
from panel.hosts.models import Connection, Engine, Host, HostStatus, Layout, WebServer
from panel.websites.models import Allowance, AllowanceKind


@dataclass
class Cast:
    team: Team
    other_team: Team
    admin: User
    owner: User  # an operator of `team`
    viewer: User  # of `team`
    outsider: User  # an operator of `other_team`
    host: Host
    nginx: WebServer
    apache: WebServer


def person(name: str, role: Role) -> User:
    """Not stored yet."""
    row = User(username=name, role=role)
    row.set_unusable_password()
    return row


def user(name: str, role: Role, *teams: Team) -> User:
    row = person(name, role)
    row.save()
    row.teams.set(teams)
    return row


def signed_in(person: User) -> Client:
    """A browser in which this person signed in, at an address that the panel answers at."""
    client = Client(HTTP_HOST="localhost")
    client.force_login(person, backend="django.contrib.auth.backends.ModelBackend")
    return client


def web_server(host: Host, engine: Engine, root: str, **values: object) -> WebServer:
    """A server whose files are where Debian puts them, below `root`."""
    row = _web_server(host, engine, root, **values)
    row.save()
    return row


def _web_server(host: Host, engine: Engine, root: str, **values: object) -> WebServer:
    paths = {
        "binary": f"/usr/sbin/{engine.value}",
        "prefix": f"{root}/etc/{engine.value}",
        "main_config": f"{root}/etc/{engine.value}/{engine.value}.conf",
        "config_root": f"{root}/etc/{engine.value}",
        "log_dir": f"{root}/var/log/{engine.value}",
        "pid_file": f"{root}/run/{engine.value}.pid",
    }
    defaults: dict[str, object] = {"layout": Layout.SITES, "paths": paths}
    return WebServer(host=host, engine=engine, **(defaults | values))


def cast(root: str = "") -> Cast:
    """With as few queries as may be: a thousand tests begin with it."""
    team, other_team = Team.objects.bulk_create([Team(name="Shop", slug="shop"), Team(name="Blog", slug="blog")])
    roles = {"ada": Role.ADMIN, "olaf": Role.OPERATOR, "vera": Role.VIEWER, "otto": Role.OPERATOR}
    admin, owner, viewer, outsider = User.objects.bulk_create(person(name, role) for name, role in roles.items())
    member = User.teams.through
    member.objects.bulk_create(
        member(user=user, team=of) for user, of in ((owner, team), (viewer, team), (outsider, other_team))
    )
    host = Host.objects.create(
        name="web-1", connection=Connection.LOCAL, status=HostStatus.READY, site_roots=[f"{root}/srv/www"]
    )
    nginx, apache = WebServer.objects.bulk_create(
        _web_server(host, engine, root) for engine in (Engine.NGINX, Engine.APACHE)
    )
    everything_listed(host)
    return Cast(team, other_team, admin, owner, viewer, outsider, host, nginx, apache)


def everything_listed(host: Host) -> None:
    """Every team may pass requests on to every service of `host` itself, as on a host that one team has."""
    Allowance.objects.bulk_create(
        Allowance(kind=AllowanceKind.SERVICE, value=value, host=host) for value in ("127.0.0.1:*", "unix:/*")
    )
