"""Bulk actions on hosts from the list: jobs, pause, resume, tags."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST

from panel.accounts.permissions import Action, require
from panel.core.http import Request
from panel.core.row_selection import go_on, ticked
from panel.core.ui import Crumb
from panel.core.views.tags import TagsPage, tags_page
from panel.hosts import services
from panel.hosts.listing import hosts_listed
from panel.hosts.models import Host, HostJobKind
from panel.hosts.selectors import host_tags

KINDS = {
    "check": HostJobKind.CHECK,
    "drift": HostJobKind.DRIFT,
    "install-gallop": HostJobKind.INSTALL_NATIVE,
    "replace-key": HostJobKind.ROTATE_KEY,
}
PAUSING = {"pause": True, "resume": False}


def paused_words(hosts: Sequence[Host], paused: bool) -> str:
    names = ", ".join(host.name for host in hosts)
    if paused:
        return _("Paused: %s. No deployments or benchmarks start on these hosts until you resume them.") % names
    return _("Resumed: %s.") % names


def _ticked(request: Request, names: list[str]) -> list[Host]:
    """Return the hosts whose names were selected on the page, by name. If the user cannot see one of them, or none is
    selected, show an error message and return [].
    """
    hosts = list(hosts_listed(request.user).filter(name__in=names).order_by("name"))
    if hosts and len(hosts) == len(set(names)):
        return hosts
    messages.error(request, _("Nothing was changed. Select hosts first; a selected host may have been deleted."))
    return []


@login_required
@require_POST
def bulk(request: Request) -> HttpResponse:
    """Apply the posted action to all selected hosts or to none: start the same job on each, pause or resume them, or
    redirect to the page for tags.
    """
    require(request.user, Action.ADMINISTER)
    action = request.POST.get("action", "")
    if action not in (*KINDS, *PAUSING, "tag"):
        raise Http404
    hosts = _ticked(request, request.POST.getlist("host"))
    if not hosts:
        return redirect("hosts:list")
    if action == "tag":
        return go_on(request, reverse("hosts:bulk_tag"), "host", (host.name for host in hosts))
    if action in PAUSING:
        services.hosts_pause(actor=request.user, hosts=hosts, paused=PAUSING[action])
        messages.success(request, paused_words(hosts, PAUSING[action]))
        return redirect("hosts:list")
    asked = services.host_jobs_request(actor=request.user, hosts=hosts, kind=KINDS[action])
    words = ngettext("%(what)s: started on %(count)d host.", "%(what)s: started on %(count)d hosts.", len(asked))
    messages.success(request, words % {"what": KINDS[action].label, "count": len(asked)})
    return redirect("hosts:list")


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def bulk_tag(request: Request) -> HttpResponse:
    """Page that adds and removes tags of the hosts that the query string selects."""
    require(request.user, Action.ADMINISTER)
    hosts = _ticked(request, ticked(request, "host"))
    if not hosts:
        return redirect("hosts:list")
    page = TagsPage(
        title=ngettext("Tags of %d host", "Tags of %d hosts", len(hosts)) % len(hosts),
        done=ngettext("Changed the tags of %d host.", "Changed the tags of %d hosts.", len(hosts)) % len(hosts),
        back=Crumb(_("Hosts"), reverse("hosts:list")),
    )
    known = host_tags(request.user)
    return tags_page(
        request, hosts, page=page, known=known, change=partial(services.hosts_tag, actor=request.user, hosts=hosts)
    )
