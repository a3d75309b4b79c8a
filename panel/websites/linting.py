"""Warnings about known mistakes in a site's draft (rendering.lint), and their fixes."""

from __future__ import annotations

from contextlib import suppress

from django.core.exceptions import ValidationError

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.core.errors import ApplicationError
from panel.hosts.models import WebServer
from panel.rendering.lint import Finding, Socket, findings
from panel.websites import freeze, lines, web_server_specs
from panel.websites.models import Listen, Site
from panel.websites.services import site_define, site_export


def site_findings(site: Site, web_server: WebServer | None = None) -> list[Finding]:
    """Return the warnings about the draft on `web_server` (default: the site's web server); empty without a
    web server.
    """
    web_server = web_server or site.web_server
    if web_server is None:
        return []
    fetched = freeze.fetched(site)
    spec = freeze.spec_of_fetched(fetched, web_server)
    return findings(spec, web_server_specs.web_server_spec_for(site, web_server, spec), _defaults(site, web_server))


def _defaults(site: Site, web_server: WebServer) -> set[Socket]:
    """Return the sockets (address, port) that already have a default server: in an enabled site of the web server, in
    `site` itself, or in the host's own files, such as the default sites of Debian's nginx and Apache.
    """
    rows = Listen.objects.filter(default_server=True, block__site__web_server=web_server, block__site__enabled=True)
    own = Listen.objects.filter(default_server=True, block__site=site)
    return set((rows | own).order_by().values_list("address", "port")) | _of_the_host(web_server)


def _of_the_host(web_server: WebServer) -> set[Socket]:
    """Return the sockets (address, port) of default servers in the web server's own files, from the last check of the
    host.
    """
    found = set()
    for item in web_server.host.facts.get("default_servers", []):
        if item["main_config"] == web_server.paths.get("main_config"):
            with suppress(ValidationError):  # a Unix socket
                listen = lines.listens_from_text(
                    item["listen"] if ":" in item["listen"] else _with_port(item["listen"])
                )
                found |= {(row["address"], row["port"]) for row in listen}
    return found


def _with_port(place: str) -> str:
    """Add port 80 to an address; return a port unchanged.

    `place` is a value of nginx's `listen` that contains no colon: either an address or a port.
    """
    return place if place.isdecimal() else f"{place}:80"


def finding_fix(
    *, actor: User, site: Site, code: str, where: str, expected_version: int | None = None
) -> tuple[Site, Finding]:
    """Apply the fix of a warning to the draft. The host changes only with the next deployment.

    `code` is the kind of warning, `where` its place in the site's definition. Raises PermissionDenied (only
    administrators change raw directives), ApplicationError if the warning is gone or has no automatic fix, and
    ValidationError if the changed draft is not valid.
    """
    require(actor, Action.CHANGE, site.team)
    finding = finding_get(site, code, where)
    if finding.apply_fix is None:
        words = "Paddock cannot fix this warning. Change the setting in the editor."
        raise ApplicationError(f"{finding.what} {words}", field="code")
    data: dict[str, object] = {**site_export(site)}
    finding.apply_fix(data)
    return site_define(actor=actor, data=data, site=site, expected_version=expected_version), finding


def finding_get(site: Site, code: str, where: str) -> Finding:
    """Return the site's warning with the given code and place in the definition.

    Raises ApplicationError if the draft no longer has this warning.
    """
    for finding in site_findings(site):
        if (finding.code, finding.where) == (code, where):
            return finding
    raise ApplicationError(f"{site} no longer has the warning “{code}” at {where or 'this place'}.", field="where")
