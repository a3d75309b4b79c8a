"""Sites as a whole: made, changed, copied, switched, deleted."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, require, require_each
from panel.core.errors import ApplicationError
from panel.hosts.models import EngineInstall
from panel.hosts.services import rows_tag
from panel.websites import checks, paths
from panel.websites.models import Certificate, Site
from panel.websites.services.base import at_fields, removal_guards, remove, store
from panel.websites.services.definition import site_define, site_export

# Where a fault of the first block belongs in the short form.
_SHORT_FORM = {
    "names": "domains",
    "listens/address": "address",
    "listens": "port",
    "root": "root",
    "servers": "upstream",
    "certificate": "certificate",
    "install": "install",
}
# What no host is told of: changing it makes no deployment due.
_UNSAID = frozenset({"notes", "tags"})


def _listens(port: int, address: str, certificate: Certificate | None) -> list[dict[str, Any]]:
    if certificate is None:
        return [{"port": port, "address": address}]
    secure = {"port": 443 if port == 80 else port, "address": address, "tls": True, "http2": True}
    return [{"port": 80, "address": address}, secure] if port == 80 else [secure]


def _short_parts(
    listens: list[dict[str, Any]], domains: list[str], certificate: Certificate | None, root: str, upstream: str
) -> dict[str, Any]:
    """The one server block of the short form, and its upstream."""
    if not domains:
        listens = [{**listen, "default_server": True} for listen in listens]
    block: dict[str, Any] = {
        "listens": listens,
        "names": domains,
        "certificate": certificate.name if certificate else None,
        "redirect_to_https": len(listens) == 2,
        "root": root,
        "index": ["index.html"] if root else [],
    }
    if not upstream:
        return {"blocks": [block]}
    block["locations"] = [{"pattern": "/", "handler": "proxy", "upstream": "app"}]
    return {"blocks": [block], "upstreams": [{"name": "app", "servers": [{"address": upstream}]}]}


@transaction.atomic
def site_create(
    *,
    actor: User,
    team: Team,
    name: str,
    domains: list[str],
    install: EngineInstall | None = None,
    port: int = 80,
    address: str = "",
    root: str = "",
    upstream: str = "",
    certificate: Certificate | None = None,
    health_path: str = "/",
    notes: str = "",
    tags: Iterable[str] = (),
) -> Site:
    """A whole first site in one call: files below `root`, or everything passed on to `upstream` (host:port).

    Without domains it is the default server of its port. With a certificate and port 80 it listens on 443 too and
    leads there. Faults are ValidationErrors keyed by this function's own arguments.
    """
    if bool(root) == bool(upstream):
        message = "Enter either the document root or the upstream (host:port)."
        raise ValidationError({"root": message})
    listens = _listens(port, address, certificate)
    data: dict[str, Any] = {"name": name, "team": team.slug, "install": install.pk if install else None}
    data |= {"health_path": health_path, "notes": notes, "tags": list(tags)}
    data |= _short_parts(listens, domains, certificate, root, upstream)
    try:
        site = site_define(actor=actor, data=data)
    except ValidationError as error:
        raise at_fields(error.message_dict, _SHORT_FORM) from error
    problems = checks.site_problems(site, actor=actor) if install else []
    if problems:
        raise at_fields({problem.where: [problem.message] for problem in problems}, _SHORT_FORM)
    return site


@transaction.atomic
def site_update(
    *, actor: User, site: Site, expected_version: int | None = None, team: Team | None = None, **values: Any
) -> Site:
    """Change name, health_path, cache_mb, notes or tags; `team` hands the site over. The server is
    `site_install_set`'s. What changes no file of the site leaves `updated_at` as it was."""
    before = Site.objects.get(pk=site.pk)
    is_unsaid = all(name in _UNSAID or getattr(before, name, None) == value for name, value in values.items())
    if team is not None and team != site.team:
        require(actor, Action.CHANGE, team)
        require(actor, Action.CHANGE, site.team)
        foreign = Certificate.objects.filter(blocks__site=site).exclude(team=team).first()
        if foreign is not None:
            message = (
                f"The site uses the certificate {foreign} of the team {foreign.team}. Choose another certificate first."
            )
            raise ValidationError({"team": message})
        Site.objects.filter(pk=site.pk).update(team=team)
        site.team = team
        checks.refuse_foreign(actor, site, field="team")
    store(
        actor=actor,
        team=site.team,
        instance=site,
        action="site.update",
        values=values,
        expected_version=expected_version,
        children=lambda: checks.refuse_clashes(actor, site),
    )
    if is_unsaid and team in (None, before.team):
        Site.objects.filter(pk=site.pk).update(updated_at=before.updated_at)
        site.updated_at = before.updated_at
    return site


@transaction.atomic
def sites_tag(*, actor: User, sites: Iterable[Site], add: Iterable[str] = (), remove: Iterable[str] = ()) -> list[Site]:
    """Gives these sites the tags of `add` and takes those of `remove` from them, all of them or none.

    Raises PermissionDenied, ValidationError, ApplicationError when no site or no tag is named.
    """
    chosen = {site.pk: site for site in sites}
    if not chosen:
        raise ApplicationError("No sites selected. Choose at least one site.", field="sites")
    require_each(actor, Action.CHANGE, (site.team for site in chosen.values()))
    rows_tag(actor, "site.tag", list(chosen.values()), add, remove)
    return list(chosen.values())


def _refuse_install(actor: User, site: Site, kept: checks.Kept, may_clash: bool) -> None:
    checks.refuse_foreign(actor, site, kept=kept, field="install")
    if not may_clash:
        checks.refuse_clashes(actor, site)


@transaction.atomic
def site_install_set(
    *,
    actor: User,
    site: Site,
    install: EngineInstall | None,
    expected_version: int | None = None,
    may_clash: bool = False,
) -> Site:
    """Choose the server of a site that stands nowhere yet. A live one is moved by deployments.site_move.

    `may_clash`: with what goes there as well and is still on its former server; the caller asked what else clashes.
    """
    require(actor, Action.CHANGE, site.team)
    if install != site.install:
        for guard in removal_guards:
            guard(site, "move")
    kept = checks.kept_of(site, site.team, install)
    if install is not None:
        paths.logs_follow(site, install)
    site.install = install
    Site.objects.filter(pk=site.pk).update(install=install)
    store(
        actor=actor,
        team=site.team,
        instance=site,
        action="site.install",
        values={},
        expected_version=expected_version,
        children=lambda: _refuse_install(actor, site, kept, may_clash),
    )
    return site


def site_enable(*, actor: User, site: Site, enabled: bool, expected_version: int | None = None) -> Site:
    """Whether the site should be served; the host follows with the next deployment."""
    return site_update(actor=actor, site=site, expected_version=expected_version, enabled=enabled)


def site_clone(
    *,
    actor: User,
    site: Site,
    name: str,
    domains: list[str] | None = None,
    install: EngineInstall | None = None,
    port: int | None = None,
) -> Site:
    """A copy under another name; `install` and `port` (of its listens without TLS) take the place of the original's.

    With `domains` they replace the names of its blocks. Without, the copy keeps the names; on the same server and
    port it then starts disabled, since two sites cannot answer to one name there.
    """
    require(actor, Action.VIEW, site.team)
    data = site_export(site, with_secrets=True) | {"name": name}
    if install is not None:
        data["install"] = install.pk
    if domains is None and install in (None, site.install) and port is None:
        data["enabled"] = False
    for block in data["blocks"]:
        if domains is not None:
            block["names"] = domains
        for listen in block["listens"]:
            listen["default_server"] = listen["default_server"] and domains is None
            if port is not None and not listen["tls"]:
                listen["port"] = port
    return site_define(actor=actor, data=data)


@transaction.atomic
def site_delete(*, actor: User, site: Site, expected_version: int | None = None) -> None:
    """Forget a site that stands on no host. A live one is taken off first by deployments.site_delete."""
    for guard in removal_guards:
        guard(site, "delete")
    remove(actor=actor, team=site.team, instance=site, action="site.delete", expected_version=expected_version)
