"""Which definitions the panel takes from an operator, frozen as they would be deployed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from django.core.exceptions import ValidationError
from django.db import connection, transaction

from panel.accounts.models import User
from panel.hosts.models import WebServer
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import SiteSpec
from panel.websites import checks, freeze, services
from tests.suites.attack.paths.definitions import Hostile
from tests.suites.attack.paths.folders import Folders
from tests.support.cast import Cast, cast


@contextmanager
def database() -> Iterator[None]:
    """A database in memory, where nothing else has made one."""
    name = connection.creation.create_test_db(verbosity=0, autoclobber=True)
    try:
        yield
    finally:
        connection.creation.destroy_test_db(name, verbosity=0)


def people(folders: Folders) -> Cast:
    """Two teams on a host whose folder for sites is `folders.root`; the other team has files there."""
    found = cast()
    found.host.site_roots = [str(folders.root)]
    found.host.save()
    for name in ("beta", "alphabet", "alpha2"):
        services.site_create(
            actor=found.outsider, team=found.other_team, name=name, web_server=found.nginx,
            domains=[f"{name}.example"], root=str(folders.root / name),
        )  # fmt: skip
    return found


def frozen(sites: Sequence[Hostile], who: Cast) -> dict[str, SiteSpec]:
    """By name, those that an operator may save and plan."""
    found = {}
    for site in sites:
        spec = _frozen(site, who.owner, who.nginx)
        if spec is not None:
            found[site.name] = spec
    return found


def _frozen(site: Hostile, actor: User, web_server: WebServer) -> SiteSpec | None:
    """Nothing of the site stays in the database."""
    with transaction.atomic():
        try:
            data = {**site.data, "team": "shop", "web_server": web_server.pk}
            with transaction.atomic():
                row = services.site_define(actor=actor, data=data)
            if checks.site_problems(row, actor=actor):
                return None
            return freeze.site_spec(row, web_server)
        except (ValidationError, NotExpressible):
            return None
        finally:
            transaction.set_rollback(True)
