"""Pages of a site's upstreams, PHP pools and stream servers, which work the same way."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from panel.accounts.permissions import Action
from panel.core.errors import ApplicationError
from panel.core.forms import attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb, Text
from panel.websites import services
from panel.websites.forms.parts import PhpPoolForm, StreamServerForm, UpstreamForm
from panel.websites.models import PhpPool, Site, StreamServer, Upstream
from panel.websites.part_selectors import php_pools_of, stream_servers_of, upstreams_of
from panel.websites.views.base import crumbs_below, part_get, site_get, site_render

WIDE = frozenset({"servers", "settings", "allowed", "routes"})  # fields with a list of lines

form_page = require_http_methods(["GET", "HEAD", "POST"])


@dataclass(frozen=True)
class Kind:
    """Classes, services and texts by which the pages of upstreams, PHP pools and stream servers differ."""

    tab: str  # also the name of the list's URL
    model: type[Any]
    form: type[Any]
    member: str  # argument name in the services
    create: Callable[..., Any]
    update: Callable[..., Any]
    delete: Callable[..., None]
    rows: Callable[[Site], QuerySet[Any]]
    title: Text
    new_title: Text
    delete_title: Text


UPSTREAMS = Kind(
    "upstreams",
    Upstream,
    UpstreamForm,
    "upstream",
    services.upstream_create,
    services.upstream_update,
    services.upstream_delete,
    upstreams_of,
    gettext_lazy("Upstreams"),
    gettext_lazy("Add an upstream"),
    gettext_lazy("Delete the upstream %s?"),
)
POOLS = Kind(
    "php",
    PhpPool,
    PhpPoolForm,
    "pool",
    services.php_pool_create,
    services.php_pool_update,
    services.php_pool_delete,
    php_pools_of,
    gettext_lazy("PHP pools"),
    gettext_lazy("Add a PHP pool"),
    gettext_lazy("Delete the PHP pool %s?"),
)
STREAMS = Kind(
    "streams",
    StreamServer,
    StreamServerForm,
    "server",
    services.stream_server_create,
    services.stream_server_update,
    services.stream_server_delete,
    stream_servers_of,
    gettext_lazy("Stream servers"),
    gettext_lazy("Add a stream server"),
    gettext_lazy("Delete the stream server %s?"),
)


def _crumbs(site: Site, kind: Kind) -> list[Crumb]:
    return [*crumbs_below(site), Crumb(kind.title, reverse(f"websites:{kind.tab}", args=[site.name]))]


@login_required
@require_safe
def part_list(request: Request, name: str, kind: Kind) -> HttpResponse:
    site = site_get(request, name)
    return site_render(request, site, kind.tab, f"websites/{kind.tab}.html", rows=kind.rows(site))


def _form_page(
    request: Request, site: Site, kind: Kind, form: Any, save: Callable[[], object], part: Any = None
) -> HttpResponse:
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid() and attempt(form, save) is not None:
            messages.success(request, _("Saved as a draft. Deploy the site to apply the draft on the host."))
            return redirect(f"websites:{kind.tab}", site.name)
    back = reverse(f"websites:{kind.tab}", args=[site.name])
    context = {"form": form, "part": part, "kind": kind, "crumbs": _crumbs(site, kind), "back": back, "wide": WIDE}
    status = form_status(form)
    return site_render(request, site, kind.tab, "websites/part_form.html", status_code=status, **context)


@login_required
@form_page
def part_add(request: Request, name: str, kind: Kind) -> HttpResponse:
    site = site_get(request, name, Action.CHANGE)
    form = kind.form(request.POST or None, instance=kind.model(site=site))
    return _form_page(request, site, kind, form, lambda: kind.create(actor=request.user, site=site, **form.values()))


@login_required
@form_page
def part_edit(request: Request, name: str, pk: int, kind: Kind) -> HttpResponse:
    site = site_get(request, name, Action.CHANGE)
    row = part_get(kind.rows(site), pk)
    form = kind.form(request.POST or None, instance=row)

    def save() -> object:
        fresh = {kind.member: part_get(kind.rows(site), pk)}
        return kind.update(actor=request.user, expected_version=form.expected_version, **fresh, **form.values())

    return _form_page(request, site, kind, form, save, row)


@login_required
@form_page
def part_delete(request: Request, name: str, pk: int, kind: Kind) -> HttpResponse:
    site = site_get(request, name, Action.CHANGE)
    row = part_get(kind.rows(site), pk)
    if request.method == "POST":
        try:
            kind.delete(actor=request.user, **{kind.member: row})
        except ApplicationError as error:
            messages.error(request, error.message)
        else:
            messages.success(request, _("%s was deleted from the draft.") % row)
        return redirect(f"websites:{kind.tab}", site.name)
    context = {
        "title": str(kind.delete_title) % row,
        "text": _("This only changes the draft; the next deployment changes the host."),
        "cancel_url": reverse(f"websites:{kind.tab}", args=[site.name]),
        "crumbs": _crumbs(site, kind),
    }
    return site_render(request, site, kind.tab, "websites/confirm.html", **context)
