"""Pages of placements: the list, and the placement of one site."""

from __future__ import annotations

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.permissions import Action, may
from panel.core.errors import ApplicationError, words_of
from panel.core.forms import attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.hosts.selectors import host_tags
from panel.placements import services
from panel.placements.forms import PlacementForm
from panel.placements.selectors import is_due, members, placements_visible
from panel.websites.views.base import page_of, site_get


def _crumbs(*more: Crumb) -> list[Crumb]:
    return [Crumb(_("Sites"), reverse("websites:list")), *more]


@require_safe
def placement_list(request: Request) -> HttpResponse:
    page = page_of(request, placements_visible(request.user))
    due = {placement.pk for placement in page if is_due(request.user, placement)}
    context = {"page": page, "due": due, "crumbs": _crumbs(), "may_plan": may(request.user, Action.DEPLOY)}
    return render(request, "placements/list.html", context)


@require_http_methods(["GET", "HEAD", "POST"])
def placement(request: Request, name: str) -> HttpResponse:
    """Show and change the placement of a site: its tags, its hosts, and what a plan would change."""
    site = site_get(request, name)
    found = placements_visible(request.user).filter(site=site).first()
    initial = {"tags": found.tags, "values": found.values, "version": found.row_version} if found else None
    form = PlacementForm(request.POST or None, initial=initial)
    form.fields["tags"].tell_known(host_tags(request.user))  # type: ignore[attr-defined]
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            given = {name: form.cleaned_data[name] for name in ("tags", "values")}
            expected = form.cleaned_data["version"]
            work = lambda: services.placement_set(  # noqa: E731
                actor=request.user, site=site, expected_version=expected, **given
            )
            if attempt(form, work) is not None:
                messages.success(request, _("The placement is saved. Nothing was deployed yet."))
                return redirect("placements:detail", name)
    context = {
        "site": site,
        "placement": found,
        "form": form,
        "members": members(request.user, found) if found else [],
        "may_change": may(request.user, Action.CHANGE, site.team),
        "may_plan": may(request.user, Action.DEPLOY, site.team),
        "crumbs": _crumbs(Crumb(site.name, reverse("websites:detail", args=[site.name]))),
    }
    return render(request, "placements/detail.html", context, status=form_status(form))


@require_POST
def plan(request: Request) -> HttpResponse:
    """Plan the deployments of the placements of the sites in the request, or of all placements."""
    names = request.POST.getlist("site")
    rows = placements_visible(request.user)
    rows = rows.filter(site__name__in=names) if names else rows
    back = reverse("placements:detail", args=names) if len(names) == 1 else reverse("placements:list")
    try:
        planned = services.placements_plan(actor=request.user, placements=rows)
    except (ApplicationError, ValidationError) as error:
        messages.error(request, words_of(error))
        return redirect(back)
    for host, why in sorted(planned.update.problems.items()):
        messages.warning(request, f"{host}: {why}")
    if planned.deploy and planned.leave:
        words = _(
            "A second plan removes the copies from hosts that no longer have the tags. Confirm the second plan as well."
        )
        messages.info(request, words)
    first = (planned.deploy or planned.leave)[:1]
    return redirect("deployments:detail", first[0].uuid) if first else redirect(back)


@require_POST
def delete(request: Request, name: str) -> HttpResponse:
    """Delete the placement of a site; its copies stay."""
    site = site_get(request, name, Action.CHANGE)
    found = get_object_or_404(placements_visible(request.user), site=site)
    services.placement_delete(actor=request.user, placement=found)
    messages.success(request, _("The placement was deleted. The copies stay as independent sites."))
    return redirect("placements:detail", name)
