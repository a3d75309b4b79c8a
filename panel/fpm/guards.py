"""Checks before a PHP-FPM pool is removed, and before a site that has one is deleted or moved to another host."""

from __future__ import annotations

from collections.abc import Iterable

from django.utils.translation import gettext as _

from panel.core.errors import ApplicationError, Conflict
from panel.fpm.models import FpmPool
from panel.fpm.selectors import is_arriving, live_users, site_host
from panel.hosts.models import WebServer
from panel.websites.models import Site


def deletion_guard(sites: Iterable[Site]) -> None:
    """Raise ApplicationError (in_use) if one of the sites to be deleted has a PHP-FPM pool on a host."""
    pool = FpmPool.objects.filter(site__in=list(sites)).select_related("site", "host").first()
    if pool is None:
        return
    words = _(
        "The site %(site)s has the PHP-FPM pool %(pool)s on %(host)s. If the site is live, disable the site. "
        "Remove the pool on the site's PHP page, then delete the site."
    )
    values = {"site": pool.site.name, "pool": pool.name, "host": pool.host.name}
    raise ApplicationError(words % values, code="in_use")


def move_guard(sites: Iterable[Site], web_server: WebServer | None) -> None:
    """Raise ApplicationError (in_use) if one of the sites, none of which is live, has a PHP-FPM pool on its host.
    `web_server` is the new web server of the sites. Pools on its host do not prevent the move.
    """
    rows = FpmPool.objects.filter(site__in=list(sites), host=site_host()).select_related("site", "host")
    pool = (rows.exclude(host=web_server.host_id) if web_server is not None else rows).first()
    if pool is None:
        return
    words = _(
        "The site %(site)s has the PHP-FPM pool %(pool)s on %(host)s, which does not move with the site, because the "
        "site is not live. Deploy the site, then move it. Or remove the pool on the site's PHP page, move the site, "
        "and create a pool on the new host."
    )
    values = {"site": pool.site.name, "pool": pool.name, "host": pool.host.name}
    raise ApplicationError(words % values, code="in_use", field="web_server")


def refuse_arriving(pool: FpmPool) -> None:
    """Raise Conflict while a deployment that creates the PHP-FPM pool on its host is queued or running."""
    if is_arriving(pool):
        words = _("A deployment moves %(site)s to %(host)s and creates this pool. Wait until the deployment ends.")
        raise Conflict(words % {"site": pool.site.name, "host": pool.host.name})


def refuse_used(pool: FpmPool) -> None:
    """Raise ApplicationError (in_use) if live sites send requests to the PHP-FPM pool."""
    users = live_users(pool)
    if users:
        words = _("Live sites use this pool: %s. First deploy these sites with another PHP pool, or disable them.")
        raise ApplicationError(words % ", ".join(users), code="in_use")
