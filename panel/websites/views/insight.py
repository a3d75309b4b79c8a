"""Pages about a site: rendered files for each web server, logs, requests, traffic counters, benchmark runs."""

from __future__ import annotations

import datetime as dt

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied, ValidationError
from django.http import Http404, HttpResponse
from django.utils import timezone
from django.utils.formats import date_format
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_safe

from panel.accounts.models import User
from panel.benchmarks.selectors import runs_visible
from panel.core.bars import columns, shares
from panel.core.errors import ApplicationError
from panel.core.http import Request
from panel.core.templatetags.ui import seconds
from panel.deployments.revisions.rendered import site_files
from panel.hosts.models import WebServer
from panel.hosts.selectors import web_servers_visible
from panel.hosts.views.logs import log_context
from panel.websites import freeze
from panel.websites.logs import site_log_search, site_log_tail, site_logs
from panel.websites.models import Site
from panel.websites.requests import MAX_HOURS, site_requests
from panel.websites.traffic import site_traffic
from panel.websites.views.base import page_of, site_get, site_render
from panel.websites.views.notes import site_differences, words

LOG_LINES = 200
HOURS = ((24, _("24 hours")), (7 * 24, _("7 days")), (MAX_HOURS, _("31 days")))


def web_server_wanted(request: Request, site: Site) -> WebServer | None:
    """Return the web server of `?web_server=`, else the site's web server. For a draft without a web server, return any
    web server that the user can see, so that the draft can be rendered.
    """
    wanted = request.GET.get("web_server", "")
    web_servers = web_servers_visible(request.user)
    if wanted:
        return web_servers.filter(pk=wanted).first() if wanted.isdecimal() else None
    return site.web_server or web_servers.first()


def web_server_choices(user: User, site: Site) -> list[WebServer]:
    """Return one web server for each engine, beginning with the site's web server. Web servers of the same engine get
    the same files.
    """
    found = {site.web_server.engine: site.web_server} if site.web_server else {}
    for web_server in web_servers_visible(user).order_by("engine", "pk"):
        found.setdefault(web_server.engine, web_server)
    return list(found.values())


@login_required
@require_safe
def raw(request: Request, name: str) -> HttpResponse:
    """Show the files of the draft as they would be rendered for a web server now."""
    site = site_get(request, name)
    web_server = web_server_wanted(request, site)
    context: dict[str, object] = {"web_server": web_server, "web_servers": web_server_choices(request.user, site)}
    if web_server is not None:
        fetched = freeze.fetched(site)
        context["remarks"] = [words(item, web_server) for item in site_differences(site, web_server)]
        try:
            context["files"] = site_files(fetched, web_server, freeze.spec_of_fetched(fetched, web_server))
        except ValidationError as error:
            context["faults"] = error.messages
    return site_render(request, site, "raw", "websites/raw.html", **context)


@login_required
@require_safe
def logs(request: Request, name: str) -> HttpResponse:
    site = site_get(request, name)
    choices = site_logs(request.user, site)
    wanted = request.GET.get("log", "")
    chosen = next((log for log in choices if log.key == wanted), None) if wanted else next(iter(choices), None)
    if wanted and chosen is None:
        raise Http404
    context: dict[str, object] = {"logs": choices, "chosen": chosen}
    if chosen is not None and site.web_server is not None:
        context |= log_context(
            request,
            chosen,
            tail=lambda: site_log_tail(request.user, site, chosen, lines=LOG_LINES),
            search=lambda wanted: site_log_search(request.user, site, chosen, wanted),
        )
    is_part = request.htmx and request.htmx.target == "log"
    return site_render(request, site, "logs", "components/log.html" if is_part else "websites/logs.html", **context)


@login_required
@require_safe
def requests(request: Request, name: str) -> HttpResponse:
    """Show the page with the site's requests by hour or day, which the host counts in its access logs."""
    site = site_get(request, name)
    hours = next((hours for hours, _label in HOURS if str(hours) == request.GET.get("hours")), HOURS[0][0])
    context: dict[str, object] = {"choices": HOURS, "hours": hours}
    try:
        found = site_requests(request.user, site, hours)
        bars = columns([(_step(step.begin, found.by_day), step.requests) for step in found.steps])
        context |= {"found": found, "columns": bars, "rows": found.steps[::-1]}
        if bars:
            context |= {"first": bars[0].label, "last": bars[-1].label}
    except (ApplicationError, PermissionDenied) as error:
        context["fault"] = str(error)
    return site_render(request, site, "requests", "websites/requests.html", **context)


def _step(begin: dt.datetime, by_day: bool) -> str:
    return date_format(timezone.localtime(begin), "SHORT_DATE_FORMAT" if by_day else "TIME_FORMAT")


def _until(milliseconds: float) -> str:
    return seconds(milliseconds / 1000)


@login_required
@require_safe
def traffic(request: Request, name: str) -> HttpResponse:
    """Show the page with traffic counters, or only its part that refreshes every few seconds."""
    site = site_get(request, name)
    context: dict[str, object] = {"is_asked": site.web_server is not None}
    try:
        found = site_traffic(site)
    except ApplicationError as error:
        context |= {"fault": error.message, "is_asked": error.retry}
    else:
        zone = next(iter(found.zones), None)
        context |= {"traffic": found, "zone": zone}
        if zone is not None:
            bars = columns([(_until(bound), count) for bound, count in zone.latency_histogram])
            context |= {"shares": shares(zone.responses), "columns": bars}
            if bars:
                context |= {"first": bars[0].label, "last": bars[-1].label}
    is_part = request.htmx and request.htmx.target == "traffic"
    template = "websites/traffic_live.html" if is_part else "websites/traffic.html"
    return site_render(request, site, "traffic", template, **context)


@login_required
@require_safe
def benchmarks(request: Request, name: str) -> HttpResponse:
    site = site_get(request, name)
    runs = runs_visible(request.user).filter(targets__site=site)
    return site_render(request, site, "benchmarks", "websites/benchmarks.html", page=page_of(request, runs))
