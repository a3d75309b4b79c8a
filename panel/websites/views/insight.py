"""Looking at a site: what is rendered for each server, its logs, its benchmarks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import Http404, HttpResponse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from panel.accounts.permissions import Action, may
from panel.benchmarks.models import Run
from panel.core.errors import ApplicationError
from panel.core.http import Request
from panel.deployments.rendered import site_files
from panel.hosts.logs import log_tail
from panel.hosts.models import EngineInstall, Host
from panel.websites import freeze
from panel.websites.models import Site
from panel.websites.views.base import page_of, site_get, site_render

LOG_LINES = 200


def install_wanted(request: Request, site: Site) -> EngineInstall | None:
    """The server named by `?install=`, else the site's own, else any: drafts can be looked at before they have one."""
    wanted = request.GET.get("install", "")
    installs = EngineInstall.objects.select_related("host")
    if wanted:
        return installs.filter(pk=wanted).first() if wanted.isdecimal() else None
    return site.install or installs.first()


def install_choices(site: Site) -> list[EngineInstall]:
    """One server for every engine, the site's own first: the same engine renders the same anywhere."""
    found = {site.install.engine: site.install} if site.install else {}
    for install in EngineInstall.objects.select_related("host").order_by("engine", "pk"):
        found.setdefault(install.engine, install)
    return list(found.values())


@login_required
@require_safe
def raw(request: Request, name: str) -> HttpResponse:
    """The exact files that the site would have on a server, rendered now from the draft."""
    site = site_get(request, name)
    install = install_wanted(request, site)
    context: dict[str, Any] = {"install": install, "installs": install_choices(site)}
    if install is not None:
        fetched = freeze.fetched(site)
        try:
            context["files"] = site_files(fetched, install, freeze.spec_of_fetched(fetched, install))
        except ValidationError as error:
            context["faults"] = error.messages
    return site_render(request, site, "raw", "websites/raw.html", **context)


@dataclass(frozen=True)
class Log:
    key: str
    label: str
    path: str


def _logs(request: Request, site: Site) -> list[Log]:
    """The site's own logs. A server's common logs hold other teams' visitors, so they are for administrators."""
    found: list[Log] = []
    for number, block in enumerate(site.blocks.all(), start=1):
        for kind, label in (("access_log", _("Access log")), ("error_log", _("Error log"))):
            path = getattr(block, kind)
            if path and path != "off" and path not in {log.path for log in found}:
                found.append(Log(f"{kind}-{block.pk}", _("%(log)s of block %(n)d") % {"log": label, "n": number}, path))
    folder = site.install.paths.get("log_dir") if site.install else ""
    if folder and may(request.user, Action.ADMINISTER):
        found += [
            Log("server-access", _("The server's access log"), f"{folder.rstrip('/')}/access.log"),
            Log("server-error", _("The server's error log"), f"{folder.rstrip('/')}/error.log"),
        ]
    return found


def _roots(host: Host, install: EngineInstall) -> list[str]:
    return [root for root in [*host.site_roots, install.paths.get("log_dir", "")] if root]


@login_required
@require_safe
def logs(request: Request, name: str) -> HttpResponse:
    site = site_get(request, name)
    choices = _logs(request, site)
    wanted = request.GET.get("log", "")
    chosen = next((log for log in choices if log.key == wanted), None) if wanted else next(iter(choices), None)
    if wanted and chosen is None:
        raise Http404
    context: dict[str, Any] = {"logs": choices, "chosen": chosen, "is_followed": request.GET.get("follow") == "1"}
    if chosen is not None and site.install is not None:
        host = Host.objects.get(pk=site.install.host_id)
        try:
            lines = log_tail(host, chosen.path, roots=_roots(host, site.install), lines=LOG_LINES)
            context["text"] = "\n".join(lines)
        except ApplicationError as error:
            context["fault"] = error.message
    is_part = request.htmx and request.htmx.target == "log"
    return site_render(request, site, "logs", "websites/log_part.html" if is_part else "websites/logs.html", **context)


@login_required
@require_safe
def benchmarks(request: Request, name: str) -> HttpResponse:
    site = site_get(request, name)
    runs = Run.objects.filter(targets__site=site).select_related("requested_by").distinct()
    return site_render(request, site, "benchmarks", "websites/benchmarks.html", page=page_of(request, runs))
