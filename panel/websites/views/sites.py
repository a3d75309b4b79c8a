"""Pages of a site: the wizard for a new site, its overview, and changes of its settings."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import islice

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.permissions import Action, require, teams_visible
from panel.core.errors import ApplicationError
from panel.core.forms import attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.hosts.forms import offer_web_servers
from panel.hosts.selectors import web_servers_visible
from panel.websites import checks, services
from panel.websites.forms.sites import SiteCloneForm, SiteCreateForm, SiteEditForm
from panel.websites.forms.wizard import site_from_wizard
from panel.websites.listing import domains_of
from panel.websites.models import Site
from panel.websites.part_selectors import listens_of
from panel.websites.presets import PRESETS, Answers
from panel.websites.selectors import certificates_of, certificates_visible, php_sockets, site_again
from panel.websites.views.base import site_get, site_render
from panel.websites.views.linting import lines_of

form_page = require_http_methods(["GET", "HEAD", "POST"])


@login_required
@form_page
def site_create(request: Request) -> HttpResponse:
    require(request.user, Action.CHANGE)
    teams = teams_visible(request.user)
    sockets = php_sockets(request.user)
    form = SiteCreateForm(
        request.POST or None,
        teams=teams,
        certificates=certificates_visible(request.user),
        initial={
            "web_server": request.GET.get("web_server") or _only(web_servers_visible(request.user)[:2]),
            "php_address": _only(address for address, _host in sockets),
        },
    )
    offer_web_servers(form, request.user)
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        site = attempt(form, lambda: site_from_wizard(request.user, form)) if form.is_valid() else None
        if site is not None:
            messages.success(
                request, _("The draft of %s was created. Review it, then plan its deployment.") % site.name
            )
            return redirect("websites:detail", site.name)
    context = {
        "php_sockets": sockets,
        "form": form,
        "kinds": [(name, preset.label, preset.detail) for name, preset in PRESETS.items()],
        "kinds_with": {need: _kinds_with(need) for need in Answers.__dataclass_fields__},
        "kind": form["kind"].value(),
        "crumbs": [Crumb(_("Sites"), reverse("websites:list"))],
        "has_teams": teams.exists(),
        "has_servers": web_servers_visible(request.user).exists(),
    }
    return render(request, "websites/create.html", context, status=form_status(form))


def _only(values: Iterable[object]) -> object:
    """Return the single distinct value in `values`; None if `values` is empty or has different values."""
    found = list(islice(dict.fromkeys(values), 2))
    return found[0] if len(found) == 1 else None


def _kinds_with(need: str) -> str:
    """Return the names of the presets that need the field, separated by spaces, for the wizard's script."""
    return " ".join(name for name, preset in PRESETS.items() if need in preset.needs)


def urls_of(site: Site) -> list[str]:
    """Return the URLs of a site for links: its server names that a browser can open, with their scheme and port."""
    found = []
    listens = list(listens_of(site))
    for name in domains_of(site):
        if name.startswith(("~", "*", ".")) or name.endswith(".*"):
            continue
        for listen in listens[:1]:
            usual = 443 if listen.tls else 80
            port = "" if listen.port == usual else f":{listen.port}"
            found.append(f"{'https' if listen.tls else 'http'}://{name}{port}/")
    return found


@login_required
@require_safe
def detail(request: Request, name: str) -> HttpResponse:
    site = site_get(request, name)
    drifts = site.drifts.filter(resolution="").order_by("path")
    return site_render(
        request,
        site,
        "detail",
        "websites/detail.html",
        problems=[
            (problem, problem_url(site, problem.where)) for problem in checks.site_problems(site, actor=request.user)
        ],
        findings=lines_of(request.user, [(site, site.web_server)]),
        urls=urls_of(site),
        domains=domains_of(site),
        drifts=drifts,
        pinned=site.pinned_files.select_related("adopted_by"),
        certificates=certificates_of(site),
        counts=_counts(site),
        roots=sorted({block.root for block in site.blocks.all() if block.root}),
        health_changes=site.health_changes.order_by("-pk")[:10],
        last=site.deployment_items.select_related("deployment__requested_by").order_by("-deployment__pk")[:5],
    )


def _counts(site: Site) -> dict[str, int]:
    blocks = site.blocks.prefetch_related("locations")
    return {
        "blocks": len(blocks),
        "locations": sum(len(block.locations.all()) for block in blocks),
        "cached": sum(bool(location.cache_times) for block in blocks for location in block.locations.all()),
        "upstreams": site.upstreams.count(),
        "pools": site.php_pools.count(),
        "streams": site.stream_servers.count(),
        "snippets": site.snippets.count(),
    }


_PART_PAGES = {"upstreams": "websites:upstreams", "stream_servers": "websites:streams"}


def problem_url(site: Site, where: str) -> str:
    """Return the URL of the page on which to solve a problem at the given place of the site's definition."""
    parts = where.split("/")
    if parts[0] == "web_server":
        return reverse("websites:server", args=[site.name])
    if parts[0] in _PART_PAGES:
        return reverse(_PART_PAGES[parts[0]], args=[site.name])
    if parts[0] == "blocks" and len(parts) > 1:
        block = list(site.blocks.all())[int(parts[1])]
        if len(parts) > 3 and parts[2] == "locations":
            location = list(block.locations.all())[int(parts[3])]
            return reverse("websites:location", args=[site.name, location.pk])
        return reverse("websites:block", args=[site.name, block.pk])
    return reverse("websites:blocks", args=[site.name])


@login_required
@form_page
def edit(request: Request, name: str) -> HttpResponse:
    site = site_get(request, name, Action.CHANGE)
    subject = site_again(site)  # the form modifies its instance
    form = SiteEditForm(request.POST or None, instance=subject, teams=teams_visible(request.user))
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            target = site_again(site)
            saved = attempt(
                form,
                lambda: services.site_update(
                    actor=request.user, site=target, expected_version=form.expected_version, **form.values()
                ),
            )
            if saved is not None:
                messages.success(request, _("Saved."))
                return redirect("websites:detail", saved.name)
    return site_render(request, site, "detail", "websites/edit.html", form=form, status_code=form_status(form))


@login_required
@form_page
def clone(request: Request, name: str) -> HttpResponse:
    site = site_get(request, name)
    require(request.user, Action.CHANGE, site.team)
    form = SiteCloneForm(request.POST or None, initial={"name": f"{site.name[:58]}-copy"})
    offer_web_servers(form, request.user)
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            data = form.cleaned_data
            copy = attempt(
                form,
                lambda: services.site_clone(
                    actor=request.user, site=site, **(data | {"domains": data["domains"] or None})
                ),
            )
            if copy is not None:
                messages.success(
                    request, _("%(copy)s was created as a copy of %(site)s.") % {"copy": copy, "site": site}
                )
                return redirect("websites:detail", copy.name)
    status = form_status(form)
    return site_render(request, site, "detail", "websites/clone.html", form=form, status_code=status)


@login_required
@require_POST
def enable(request: Request, name: str) -> HttpResponse:
    site = site_get(request, name, Action.CHANGE)
    try:
        services.site_enable(actor=request.user, site=site, enabled=True)
    except ApplicationError as error:
        messages.error(request, error.message)
    else:
        messages.success(
            request, _("%s is enabled. Plan a deployment to apply this change on the site's host.") % site.name
        )
    return redirect("websites:detail", site.name)
