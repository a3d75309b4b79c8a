"""Validation of a PHP-FPM pool that depends on several fields or on other rows."""

from __future__ import annotations

import posixpath
from collections.abc import Iterable
from typing import TYPE_CHECKING

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from panel.websites.models import Location, ServerBlock

if TYPE_CHECKING:
    from panel.fpm.models import FpmPool

# Document roots of applications that keep their code in the folder above.
_PUBLIC = {"public", "public_html", "web", "htdocs", "pub", "webroot"}


def check_pool(pool: FpmPool) -> None:
    """Raise ValidationError if the pool could read files of another team, or runs as the account of another team's
    pool.
    """
    faults: dict[str, str] = {}
    if not any(is_below(pool.folder, root) for root in pool.host.site_roots):
        words = _("Choose a folder below one of the host's site folders: %s.")
        faults["folder"] = words % ", ".join(pool.host.site_roots)
    elif _is_of_another_team(pool):
        faults["folder"] = _(
            "Another team's site has files in this folder, or in a folder that contains it. Choose another folder."
        )
    others = type(pool).objects.filter(host=pool.host, account=pool.account).exclude(site__team=pool.site.team)
    if others.exclude(pk=pool.pk).exists():
        faults["account"] = _("A pool of another team runs as this account. Choose another account.")
    if faults:
        raise ValidationError(faults)


def is_below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder.rstrip('/')}/")


def _is_of_another_team(pool: FpmPool) -> bool:
    host, team = pool.host, pool.site.team
    blocks = ServerBlock.objects.filter(site__web_server__host=host).exclude(site__team=team)
    places = Location.objects.filter(block__site__web_server__host=host).exclude(block__site__team=team)
    pools = type(pool).objects.filter(host=host).exclude(site__team=team)
    named = [(blocks, "root"), (places, "root"), (places, "alias"), (pools, "folder")]
    found = [path for rows, field in named for path in rows.order_by().values_list(field, flat=True).distinct()]
    taken = {posixpath.normpath(path) for path in found if path.startswith("/")}
    return any(path == pool.folder or is_below(path, pool.folder) or is_below(pool.folder, path) for path in taken)


def folder_of(roots: Iterable[str], site_roots: Iterable[str]) -> str:
    """Return the folder that a pool may read: the first document root below one of the host's site folders. If this
    root is the public folder of an application, return the folder above. "" if no document root is below a site folder.
    """
    for root in roots:
        above, last = posixpath.split(root.rstrip("/"))
        for path in (above, root.rstrip("/")) if last in _PUBLIC else (root.rstrip("/"),):
            if any(is_below(path, folder) for folder in site_roots):
                return path
    return ""
