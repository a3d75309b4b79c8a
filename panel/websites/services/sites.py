"""Services for whole sites: create, change, copy, enable, delete."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.utils.translation import gettext as _

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, require, require_each
from panel.core.errors import ApplicationError
from panel.hosts.models import WebServer
from panel.hosts.services import rows_tag
from panel.websites import checks, paths
from panel.websites.definitions import BlockData, ListenData, SiteData
from panel.websites.models import Certificate, Site
from panel.websites.selectors import certificates_of, shared_settings_used
from panel.websites.services.base import at_fields, deletion_guards, move_guards, removal_guards, remove, store
from panel.websites.services.definition import UNSAID, site_define, site_export
from panel.websites.versions import version_count

# Maps places in the definition to arguments of `site_create`, for errors.
_SHORT_FORM = {
    "names": "domains",
    "listens/address": "address",
    "listens": "port",
    "root": "root",
    "servers": "upstream",
    "certificate": "certificate",
    "web_server": "web_server",
}


def listens_of(port: int, certificate: Certificate | None, *, address: str = "", is_default: bool) -> list[ListenData]:
    """Return the listens of a new site. Without a certificate, the site listens on `port` over HTTP; with a
    certificate, over HTTPS. With a certificate and port 80, it listens on 80 over HTTP and on 443 over HTTPS.
    """
    plain: ListenData = {"port": port, "address": address, "default_server": is_default}
    if certificate is None:
        return [plain]
    secure: ListenData = {**plain, "port": 443 if port == 80 else port, "tls": True, "http2": True}
    return [plain, secure] if port == 80 else [secure]


def _short_parts(
    listens: list[ListenData], domains: list[str], certificate: Certificate | None, root: str, upstream: str
) -> SiteData:
    """Return the part of a definition that `site_create` needs: "blocks", and "upstreams" if the site is a proxy."""
    block: BlockData = {
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
    web_server: WebServer | None = None,
    port: int = 80,
    address: str = "",
    root: str = "",
    upstream: str = "",
    certificate: Certificate | None = None,
    health_path: str = "/",
    notes: str = "",
    tags: Iterable[str] = (),
) -> Site:
    """Create a site from a few values: files below `root`, or a proxy for `upstream` (host:port).

    Without domains, the site is the default server of its port. With a certificate and port 80, the site also listens
    on 443 and redirects to it. Raises ValidationError keyed by the arguments of this function.
    """
    if bool(root) == bool(upstream):
        message = "Enter either the document root or the upstream (host:port)."
        raise ValidationError({"root": message})
    listens = listens_of(port, certificate, address=address, is_default=not domains)
    data: SiteData = {"name": name, "team": team.slug, "web_server": web_server.pk if web_server else None}
    data |= {"health_path": health_path, "notes": notes, "tags": list(tags)}
    data |= _short_parts(listens, domains, certificate, root, upstream)
    try:
        site = site_define(actor=actor, data=data)
    except ValidationError as error:
        raise at_fields(error.message_dict, _SHORT_FORM) from error
    problems = checks.site_problems(site, actor=actor) if web_server else []
    if problems:
        raise at_fields({problem.where: [problem.message] for problem in problems}, _SHORT_FORM)
    return site


@transaction.atomic
def site_update(
    *, actor: User, site: Site, expected_version: int | None = None, team: Team | None = None, **values: Any
) -> Site:
    """Change name, health check, cache_mb, notes or tags; with `team`, transfer the site to this team.

    Use `site_web_server_set` for the web server. Notes, tags and the health check do not count as changes of the draft.
    """
    before = Site.objects.get(pk=site.pk)
    changed = {name for name, value in values.items() if getattr(before, name, None) != value} - UNSAID
    if team not in (None, before.team):
        changed.add("team")
    if team is not None and team != site.team:
        require(actor, Action.CHANGE, team)
        require(actor, Action.CHANGE, site.team)
        foreign = certificates_of(site).exclude(team=team).first()
        if foreign is not None:
            message = (
                f"The site uses the certificate {foreign} of the team {foreign.team}. Choose another certificate first."
            )
            raise ValidationError({"team": message})
        for model, names in shared_settings_used(site).items():
            message = _("The site uses %(kind)s of its team: %(names)s. Remove them from the site's settings first.")
            words = {"kind": model._meta.verbose_name_plural, "names": ", ".join(names)}
            raise ValidationError({"team": message % words})
        Site.objects.filter(pk=site.pk).update(team=team)
        site.team = team
        checks.refuse_host_of_others(site, field="team")
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
    if changed:
        version_count(site)
    return site


@transaction.atomic
def sites_tag(*, actor: User, sites: Iterable[Site], add: Iterable[str] = (), remove: Iterable[str] = ()) -> list[Site]:
    """Add tags to all given sites, and remove tags from them. If one change is rejected, no site changes.

    Raises PermissionDenied, ValidationError, and ApplicationError if no site or no tag is given.
    """
    chosen = {site.pk: site for site in sites}
    if not chosen:
        raise ApplicationError("No sites selected. Choose at least one site.", field="sites")
    require_each(actor, Action.CHANGE, (site.team for site in chosen.values()))
    rows_tag(actor, "site.tag", list(chosen.values()), add, remove)
    return list(chosen.values())


def _installed(actor: User, site: Site, kept: checks.Kept, may_clash: bool) -> None:
    version_count(site)
    checks.refuse_foreign(actor, site, kept=kept, field="web_server")
    if not may_clash:
        checks.refuse_clashes(actor, site)


@transaction.atomic
def site_web_server_set(
    *,
    actor: User,
    site: Site,
    web_server: WebServer | None,
    expected_version: int | None = None,
    may_clash: bool = False,
) -> Site:
    """Set the web server of an undeployed site; deployments.site_move moves a deployed one.

    `may_clash`: do not check conflicts with other sites, because the caller does, for example after the move of several
    sites.
    """
    require(actor, Action.CHANGE, site.team)
    if web_server != site.web_server:
        for guard in removal_guards:
            guard(site, "move")
        for move_guard in move_guards:
            move_guard([site], web_server)
    kept = checks.kept_of(site, site.team, web_server)
    if web_server is not None:
        paths.logs_follow(site, web_server)
    site.web_server = web_server
    checks.refuse_host_of_others(site)
    Site.objects.filter(pk=site.pk).update(web_server=web_server)
    store(
        actor=actor,
        team=site.team,
        instance=site,
        action="site.web_server",
        values={},
        expected_version=expected_version,
        children=lambda: _installed(actor, site, kept, may_clash),
    )
    return site


def site_enable(*, actor: User, site: Site, enabled: bool, expected_version: int | None = None) -> Site:
    """Enable or disable a site in its draft; the next deployment applies the change."""
    return site_update(actor=actor, site=site, expected_version=expected_version, enabled=enabled)


def site_clone(
    *,
    actor: User,
    site: Site,
    name: str,
    domains: list[str] | None = None,
    web_server: WebServer | None = None,
    port: int | None = None,
) -> Site:
    """Copy a site under another name. `web_server` and `port` (of listens without TLS) replace those of the original.

    `domains` replace the server names of all blocks. Without domains, the copy keeps the names of the original; with
    the same web server and port it then starts disabled, because two enabled sites cannot share a name. An enabled copy
    on the same host has no stream servers, because a port of a host belongs to one site.
    """
    require(actor, Action.VIEW, site.team)
    data = site_export(site, with_secrets=True) | {"name": name}
    if web_server is not None:
        data["web_server"] = web_server.pk
    if domains is None and web_server in (None, site.web_server) and port is None:
        data["enabled"] = False
    elif web_server is None or (site.web_server and web_server.host_id == site.web_server.host_id):
        data["stream_servers"] = []  # a port of a host belongs to one site
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
    """Delete an undeployed site. For a deployed one, use deployments.site_delete, which first removes the site from its
    host.
    """
    for check in deletion_guards:
        check([site])
    for guard in removal_guards:
        guard(site, "delete")
    remove(actor=actor, team=site.team, instance=site, action="site.delete", expected_version=expected_version)
