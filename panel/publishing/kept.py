"""Notes in the plan of a move about kept files, which are not part of releases and stay on the old host."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from panel.core.errors import ApplicationError
from panel.deployments.plan import PlanWarning
from panel.hosts.models import Connection, Host, WebServer
from panel.hosts.targets import target_for
from panel.publishing.models import Publication
from panel.publishing.selectors import places_of, published
from panel.remote import pool
from panel.remote.client import Message
from panel.remote.errors import OperationRefused, RemoteError
from panel.websites.models import Site

TIMEOUT_S = 20.0  # the agent walks through the files for a few seconds
_ACCOUNT = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
_MOST_BYTES = 1 << 60


@dataclass(frozen=True)
class Kept:
    """A kept path on the old host. `size` is in bytes; `owner` is "" if unknown. `complete`: all files were counted."""

    path: str
    size: int
    files: int
    owner: str
    complete: bool


def kept_warnings(sites: Mapping[Site, Host], server: WebServer) -> list[PlanWarning]:
    """Return one warning for each published site with kept files. `sites` are the moving sites with their old hosts."""
    found, silent = [], dict[int, str]()  # why a host did not respond, by its id
    for site, host in sites.items():
        last = published(site)
        if last is not None and last.keep and (warning := _warning(site, host, server.host, last, silent)):
            found.append(warning)
    return found


def _warning(site: Site, old: Host, new: Host, last: Publication, silent: dict[int, str]) -> PlanWarning | None:
    names = ", ".join(last.keep)
    text = _("Kept files are not part of the release, and the move does not copy them from %(old)s: %(names)s.")
    try:
        if old.pk in silent:
            raise ApplicationError(silent[old.pk])
        folder = places_of(site, last.above)[0].folder
        kept = _measured(old, folder, last.keep)
    except ApplicationError as error:
        if isinstance(error, RemoteError) and not isinstance(error, OperationRefused):
            silent[old.pk] = error.message  # do not wait for each of its sites
        advice = _("Their size is unknown: %s Copy them before you deploy the move, or plan again.") % error.message
        return PlanWarning(site.name, "", text % {"old": old.name, "names": names}, advice)
    if not kept:
        return None
    words = text % {"old": old.name, "names": ", ".join(_size_words(row) for row in kept)}
    return PlanWarning(site.name, "", words, _advice(old, new, folder, kept))


def _advice(old: Host, new: Host, folder: str, kept: Sequence[Kept]) -> str:
    owners: dict[str, list[str]] = {}
    for row in kept:
        owners.setdefault("" if row.owner == "root" else row.owner, []).append(row.path)
    others = owners.pop("", [])
    words = [_("Publish the release on %s, then copy these files before you deploy the move.") % new.name]
    if others:
        words.append(_("Copy by hand, because no account of the site owns them: %s.") % ", ".join(others))
    if owners:
        words.append(_("Run where you can sign in to both hosts: %s") % _command(old, new, folder, owners))
    return " ".join(words)


def _size_words(row: Kept) -> str:
    words = ngettext("%(path)s (%(size)s, %(count)d file)", "%(path)s (%(size)s, %(count)d files)", row.files)
    size = filesizeformat(row.size).replace("\xa0", " ")
    values = {"path": row.path, "size": size, "count": row.files}
    return words % values if row.complete else _("%(words)s or more") % {"words": words % values}


def _measured(host: Host, folder: str, keep: Sequence[str]) -> list[Kept]:
    """Ask a host for the sizes of the kept paths that it has. Raises ApplicationError."""
    args: Message = {"action": "measure", "folder": folder, "roots": list(host.site_roots), "keep": list(keep)}
    return kept_of(pool.retry_lost(lambda: _asked(host, args)), keep)


def _asked(host: Host, args: Message) -> Message:
    with pool.session(target_for(host)) as agent:
        return agent.call("content", args, timeout=TIMEOUT_S)


def kept_of(response: Mapping[str, Any], keep: Sequence[str]) -> list[Kept]:
    """Return the agent's report on the paths in `keep`, without values of another form, because a hostile host can send
    anything.
    """
    told = response.get("kept")
    rows = [(path, told.get(path)) for path in keep] if isinstance(told, dict) else []
    return [
        Kept(path, _whole(row.get("bytes")), _whole(row.get("files")), _account(row), row.get("complete") is True)
        for path, row in rows
        if isinstance(row, dict)
    ]


def _whole(value: object) -> int:
    return value if type(value) is int and 0 <= value <= _MOST_BYTES else 0


def _account(row: Mapping[str, Any]) -> str:
    owner = row.get("owner")
    return owner if isinstance(owner, str) and _ACCOUNT.fullmatch(owner) else ""


def _command(old: Host, new: Host, folder: str, owners: Mapping[str, Sequence[str]]) -> str:
    """Return one command line that copies kept paths, given as {account that owns them: paths}.

    The account itself reads and writes its files, so no link that it plants leads to files of other accounts.
    """
    parts = []
    for owner, paths in owners.items():
        account = ["runuser", "-u", owner, "--"]
        read = [*account, "tar", "-C", folder, "-cSf", "-", "--", *paths]
        write = [*account, "tar", "-C", folder, "-xpf", "-"]
        parts.append(f"{_on(old, read)} | {_on(new, write)}")
    return " && ".join(parts)


def _on(host: Host, argv: Sequence[str]) -> str:
    """Return the command line that runs `argv` as root on a host."""
    line = shlex.join(["sudo", *argv] if host.use_sudo else argv)
    if host.connection == Connection.LOCAL:
        return line
    via = ["-J", f"{host.bastion.username}@{host.bastion.address}:{host.bastion.port}"] if host.bastion else []
    return shlex.join(["ssh", *via, "-p", str(host.port), f"{host.username}@{host.address}", line])
