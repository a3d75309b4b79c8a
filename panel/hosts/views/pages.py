"""Pages of hosts: the list, and one host with its web servers, sites and running jobs."""

from __future__ import annotations

from typing import Any

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from panel.accounts.permissions import Action, may, require, teams_read
from panel.core.http import Request
from panel.core.jobs import JobStatus
from panel.core.row_selection import can_select_all, the_others
from panel.core.templatetags.ui import bytes_iec
from panel.core.ui import Crumb
from panel.hosts import selectors
from panel.hosts.forms import HostFilterForm
from panel.hosts.listing import ORDERINGS, hosts_filtered, hosts_listed, hosts_on_page, with_web_servers
from panel.hosts.models import Engine, Host, HostStatus
from panel.hosts.resources.selectors import host_troubles, is_current, last_reading
from panel.websites.listing import changed_by_host
from panel.websites.selectors import sites_visible

PER_PAGE = 50
UNFINISHED = (JobStatus.QUEUED, JobStatus.RUNNING)


def host_get(request: Request, name: str, action: Action = Action.VIEW) -> Host:
    require(request.user, action)
    host = hosts_listed(request.user).filter(name=name).first()
    if host is None:
        raise Http404
    return host


def _crumbs() -> list[Crumb]:
    return [Crumb(_("Hosts"), reverse("hosts:list"))]


@login_required
@require_safe
def host_list(request: Request) -> HttpResponse:
    teams_read(request.user)
    filters = HostFilterForm(request.GET, user=request.user)
    hosts = hosts_on_page(request.user).order_by(*ORDERINGS.get(request.GET.get("ordering", ""), ("name",)))
    # An invalid filter shows nothing instead of everything.
    hosts = hosts_filtered(hosts, filters.cleaned_data) if filters.is_valid() else hosts.none()
    page = Paginator(hosts, PER_PAGE).get_page(request.GET.get("page"))
    may_deploy, may_administer = may(request.user, Action.DEPLOY), may(request.user, Action.ADMINISTER)
    others = the_others(request, page, "host") if may_deploy or may_administer else None
    if others is not None:
        return others
    rows = with_web_servers(page)
    waiting, busy = changed_by_host(request.user, rows), selectors.busy_hosts(rows)
    for host in rows:
        host.changed_count, host.is_busy = waiting.get(host.pk, 0), host.pk in busy  # type: ignore[attr-defined]
    context = {
        "page": page,
        "can_select_all": can_select_all(page),
        "hosts": rows,
        "filters": filters,
        "is_empty": not page.paginator.count and not filters.has_changed(),
        "may_administer": may_administer,
        "may_deploy": may_deploy,
        "may_tick": may_administer or may_deploy,
    }
    return render(request, "hosts/list.html", context)


def _live_context(request: Request, host: Host) -> dict[str, object]:
    """Return the template variables of the part of a host's page that refreshes itself during a job."""
    jobs = list(host.jobs.select_related("requested_by")[:10])
    is_busy = any(item.status in UNFINISHED for item in jobs)
    if not is_busy:
        host.refresh_from_db()  # a job may have ended after the host was read, and the page is not refreshed again
    web_servers = list(host.web_servers.select_related("state"))
    for web_server in web_servers:
        web_server.host = host
    running = next((web_server for web_server in web_servers if web_server.is_running), None)
    sites = sites_visible(request.user).filter(web_server__host=host).select_related("state")
    return {
        "host": host,
        "pinned": selectors.pinned_fingerprint(host),
        "offered": selectors.offered_fingerprint(host),
        "jobs": jobs,
        "is_busy": is_busy,
        "web_servers": web_servers,
        "sites": sites.order_by("name")[:20],
        "preselected": f"?web_server={running.pk}" if running else "",  # in the form of a new site
        "has_gallop": any(web_server.engine == Engine.NATIVE for web_server in web_servers),
        "others": _others(host),
        "facts": _facts(host),
        "reading": last_reading(host),
        "is_current": is_current(host),
        "troubles": host_troubles(host),
        "needs_sign_in": host.status in (HostStatus.NEW, HostStatus.UNREACHABLE),
        "sign_in_command": selectors.sign_in_command(host),
        "sudo_command": selectors.sudo_command(host),
        "prepare_command": selectors.prepare_command(host),
        "may_administer": may(request.user, Action.ADMINISTER),
        "may_change": may(request.user, Action.CHANGE),
    }


def _others(host: Host) -> list[dict[str, object]]:
    """Return the web servers that the last check of the host found but did not add. To each, add "name", the display
    name of its kind, for example "Apache httpd".
    """
    return [{**item, "name": Engine(item["engine"]).label} for item in host.facts.get("other_servers", [])]


def _facts(host: Host) -> list[tuple[str, Any]]:
    """Return the known facts of a host as (label, value), in the order in which the page shows them."""
    facts = host.facts
    found = [
        (_("System"), facts.get("os", {}).get("name")),
        (_("Kernel"), facts.get("kernel")),
        (_("CPUs"), facts.get("cpus")),
        (_("CPU"), facts.get("cpu_model")),
        (_("Memory"), facts.get("memory_bytes") and bytes_iec(facts["memory_bytes"])),
        (_("Python"), facts.get("python")),
        (_("Load tools"), ", ".join(facts.get("tools", {}))),
        (_("Network emulation"), _links(facts)),
    ]
    return [(label, value) for label, value in found if value]


def _links(facts: dict[str, Any]) -> str:
    """Describe how a host can emulate network links for benchmarks, or why it cannot; "" if no check has reported this
    yet.
    """
    netem = facts.get("netem", {})
    if not netem:
        return ""
    if facts.get("uid"):
        return _("not available because Paddock needs root on the host")
    if netem["can"]:
        return _("by tc netem")
    return _("by the bundled emulator, because tc netem failed: %(why)s") % {"why": netem["why"]}


@login_required
@require_safe
def detail(request: Request, name: str) -> HttpResponse:
    host = host_get(request, name)
    context = _live_context(request, host) | {
        "hosts_behind": selectors.hosts_visible(request.user).filter(bastion=host),
        "forwarding_command": selectors.forwarding_command(host) if may(request.user, Action.ADMINISTER) else "",
        "crumbs": _crumbs(),
    }
    return render(request, "hosts/detail.html", context)


@login_required
@require_safe
def live(request: Request, name: str) -> HttpResponse:
    """Render the part of a host's page that changes during a job."""
    return render(request, "hosts/live.html", _live_context(request, host_get(request, name)))
