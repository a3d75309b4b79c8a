"""Selectors of releases and publications that a user may see, and of the folders of a site on its hosts."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any

from django.db.models import QuerySet
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import Action, may, visible
from panel.core.errors import ApplicationError
from panel.core.jobs import JobStatus
from panel.deployments.models import DEPLOYED, Deployment, DeploymentKind, SiteState
from panel.deployments.revisions.rendered import spec_of
from panel.hosts.models import Host, WebServer
from panel.placements.models import PlacedSite
from panel.publishing.models import UNFINISHED, Publication, Release
from panel.rendering.spec import SiteSpec
from panel.websites.models import ServerBlock, Site
from panel.websites.paths import foreign_paths


@dataclass(frozen=True)
class Place:
    """A folder on a host to which the content of a site is published.
    `is_live` is false if the site is not live on this host yet.
    """

    state: SiteState
    spec: SiteSpec
    host: Host
    folder: str
    is_live: bool = True

    @property
    def site(self) -> Site:
        return self.state.site


@dataclass(frozen=True)
class Move:
    """A published site that a plan moves from the host `old_host` to the host of `web_server`.

    `live` is the live publication, whose kept files stay on the old host. `there` is the last publication on the new
    host, None if the site has never been published there.
    """

    site: Site
    old_host: Host
    web_server: WebServer
    live: Publication
    there: Publication | None


def releases_visible(user: User) -> QuerySet[Release]:
    return visible(Release.objects.select_related("site", "created_by"), user, team_path="site__team")


def publications_visible(user: User) -> QuerySet[Publication]:
    rows = Publication.objects.select_related("site", "release", "requested_by")
    return visible(rows, user, team_path="site__team")


def published(site: Site) -> Publication | None:
    """Return the publication whose files are live; None if there is none."""
    rows = Publication.objects.filter(site=site, status="succeeded", release__isnull=False, web_server=None)
    return rows.select_related("release", "requested_by").first()


def release_numbers(site: Site, names: Iterable[str]) -> dict[str, int]:
    """Return {name: release number} for names under which agents keep content on hosts.

    A name is "r" followed by the primary key of a publication, for example "r12". Releases that the panel no longer has
    are left out.
    """
    keys = [int(name[1:]) for name in names if name[:1] == "r" and name[1:].isdecimal()]
    rows = Publication.objects.filter(site=site, pk__in=keys, release__isnull=False)
    return {f"r{pk}": number for pk, number in rows.values_list("pk", "release__number")}


def hosts_that_differ(site: Site, live: Publication | None) -> list[dict[str, Any]]:
    """Return the targets (outcomes on hosts) of the last publication whose hosts did not have the live release at its
    end. [] if the last publication succeeded.
    """
    ended = Publication.objects.filter(site=site, web_server=None).exclude(status__in=UNFINISHED)
    last = ended.exclude(targets=[]).first()
    if last is None or last.status == JobStatus.SUCCEEDED:
        return []
    wanted = ("release", live.release.number) if live is not None and live.release else ("other", None)
    told = [target for target in last.targets if target.get("serves")]  # older records do not have this field
    return [target for target in told if (target["serves"], target["release"]) != wanted]


def members(site: Site) -> list[Site]:
    """Return the site and the copies that its placement made."""
    copies = PlacedSite.objects.filter(placement__site=site).select_related("site__team").order_by("site__name")
    return [site, *(copy.site for copy in copies)]


def document_root(site: Site) -> str:
    """Return the document root of the live version of a site.

    "" if the site is not live or has no document root.
    """
    state = _live(site)
    return _root(spec_of(state.revision)) if state is not None and state.revision is not None else ""


def _live(site: Site) -> SiteState | None:
    rows = SiteState.objects.filter(site=site, status__in=DEPLOYED, revision__isnull=False)
    return rows.select_related("site__team", "revision__web_server__host").first()


def _root(spec: SiteSpec) -> str:
    return next((block.root.rstrip("/") for block in spec.blocks if block.root), "")


def places_of(site: Site, above: int, web_server: WebServer | None = None) -> list[Place]:
    """Return the folders to publish to, each on its host: one for the site, and one for each copy of a placement.

    `above` selects the document root (0) or its parent folder (1). With `web_server`, return only the same folder on
    the host of that web server. Raises ApplicationError if a folder cannot be published to.
    """
    if web_server is not None:
        return [_place_elsewhere(site, above, web_server)]
    found = [place for member in members(site) if (place := _place(member, above)) is not None]
    if not found:
        raise ApplicationError(_("The site is not live on any host. Deploy it first, then publish its content."))
    return found


def _place(site: Site, above: int) -> Place | None:
    state = _live(site)
    if state is None or state.revision is None:
        return None
    spec, host = spec_of(state.revision), state.revision.web_server.host
    root = _root(spec)
    if not root:
        raise ApplicationError(
            _(
                "The live version of %s has no document root. Enter a document root in a server "
                "block, then deploy the site."
            )
            % site.name
        )
    folder = str(PurePosixPath(root).parents[above - 1]) if above else root
    place = Place(state, spec, host, folder)
    _check(place, is_root=not above)
    return place


def _place_elsewhere(site: Site, above: int, web_server: WebServer) -> Place:
    """Return the folder on the host of `web_server` for the content of a live site that is to move to this host."""
    here = places_of(site, above)[0]
    place = replace(here, host=web_server.host, is_live=here.host == web_server.host)
    _check(place, is_root=False)
    return place


def moves_of(user: User, batch: Iterable[Deployment]) -> list[Move]:
    """Return the published sites that these plans move to another host and that the user may publish."""
    found = []
    for plan in batch:
        if plan.kind != DeploymentKind.MOVE:
            continue
        for item in plan.items.select_related("site__team", "revision__web_server__host"):
            last = published(item.site) if item.revision is not None else None
            here = _live(item.site)
            if last is None or item.revision is None or here is None or here.revision is None:
                continue
            target = item.revision.web_server
            if target.host_id != here.revision.web_server.host_id and may(user, Action.DEPLOY, item.site.team):
                there = Publication.objects.filter(site=item.site, web_server=target).first()
                found.append(Move(item.site, here.revision.web_server.host, target, last, there))
    return found


def _check(place: Place, *, is_root: bool) -> None:
    """Raise ApplicationError if a publication must not replace the folder of `place`.

    The folder must be below a site folder of the host. It must not have files of another team or another site's
    document root.
    """
    path, host = PurePosixPath(place.folder), place.host
    if not any(path.is_relative_to(root) and path != PurePosixPath(root) for root in host.site_roots):
        words = _(
            "The folder %(folder)s on %(host)s is not below a site folder of the host (%(roots)s). Add a "
            "site folder on the host's page, or change the document root."
        )
        raise ApplicationError(words % {"folder": path, "host": host, "roots": ", ".join(host.site_roots)})
    if not is_root and foreign_paths([place.folder], place.site.team, host):
        raise ApplicationError(
            _("The folder %(folder)s on %(host)s has files of another team. Choose another document root.")
            % {"folder": path, "host": host}
        )
    inside = ServerBlock.objects.filter(site__web_server__host=host, root__startswith=f"{place.folder}/")
    other = inside.exclude(site=place.site).values_list("site__name", flat=True).first()
    if other is not None:
        words = _(
            "The folder %(folder)s on %(host)s contains the document root of another site. A publication "
            "would replace that document root too."
        )
        raise ApplicationError(words % {"folder": path, "host": host})
