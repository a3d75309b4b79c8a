"""Known mistakes in a site's draft (rendering.lint), and mending one of them as one action."""

from __future__ import annotations

from contextlib import suppress

from django.core.exceptions import ValidationError

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.core.errors import ApplicationError
from panel.hosts.models import EngineInstall
from panel.rendering.lint import Finding, Socket, findings
from panel.websites import freeze, lines
from panel.websites.models import Listen, Site
from panel.websites.services import site_define, site_export


def site_findings(site: Site, install: EngineInstall | None = None) -> list[Finding]:
    """What is known to go wrong with the draft on `install` (default: its own); empty without a server."""
    install = install or site.install
    if install is None:
        return []
    fetched = freeze.fetched(site)
    spec = freeze.spec_of_fetched(fetched, install)
    return findings(spec, freeze.install_spec_for(site, install, spec), _defaults(site, install))


def _defaults(site: Site, install: EngineInstall) -> set[Socket]:
    """Where another enabled site of the server is the default server already, another block of this one, or what a
    file of the host's own says, as those that Debian's nginx and Apache come with."""
    rows = Listen.objects.filter(default_server=True, block__site__install=install, block__site__enabled=True)
    own = Listen.objects.filter(default_server=True, block__site=site)
    return set((rows | own).order_by().values_list("address", "port")) | _of_the_host(install)


def _of_the_host(install: EngineInstall) -> set[Socket]:
    """As the last check of the host found them."""
    found = set()
    for item in install.host.facts.get("default_servers", []):
        if item["main_config"] == install.paths.get("main_config"):
            with suppress(ValidationError):  # a socket in the file system
                listen = lines.listens_from_text(
                    item["listen"] if ":" in item["listen"] else _with_port(item["listen"])
                )
                found |= {(row["address"], row["port"]) for row in listen}
    return found


def _with_port(place: str) -> str:
    """A listen of nginx that names only one of both: a port, or an address, which is then port 80's."""
    return place if place.isdecimal() else f"{place}:80"


def finding_mend(
    *, actor: User, site: Site, code: str, where: str, expected_version: int | None = None
) -> tuple[Site, Finding]:
    """Do what the finding `code` at `where` offers, in the draft. Nothing on the host changes before it is deployed.

    Raises PermissionDenied (raw directives are administrators' to change), ApplicationError when there is no such
    finding any more or only a person can decide, ValidationError.
    """
    require(actor, Action.CHANGE, site.team)
    finding = finding_get(site, code, where)
    if finding.mend is None:
        raise ApplicationError(f"{finding.what} There is no automatic fix: change it in the editor.", field="code")
    data = site_export(site)
    finding.mend(data)
    return site_define(actor=actor, data=data, site=site, expected_version=expected_version), finding


def finding_get(site: Site, code: str, where: str) -> Finding:
    """Raises ApplicationError when the site has no such finding (any more)."""
    for finding in site_findings(site):
        if (finding.code, finding.where) == (code, where):
            return finding
    raise ApplicationError(f"{site} no longer has the warning “{code}” at {where or 'this place'}.", field="where")
