"""Pages of the editor: server blocks, locations, and their raw directives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.permissions import Action, require
from panel.accounts.sudo import sudo_required
from panel.core.errors import ApplicationError
from panel.core.forms import attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.websites import services
from panel.websites.forms.blocks import BlockForm, LocationForm
from panel.websites.forms.cards import shown
from panel.websites.forms.parts import SnippetForm
from panel.websites.models import Location, RawSnippet, ServerBlock, Site
from panel.websites.part_selectors import blocks_of, locations_of, snippets_of
from panel.websites.views.base import crumbs_below, part_get, site_get, site_render
from panel.websites.views.notes import Notes, notes_for

form_page = require_http_methods(["GET", "HEAD", "POST"])


@login_required
@require_safe
def blocks(request: Request, name: str) -> HttpResponse:
    site = site_get(request, name)
    return site_render(request, site, "blocks", "websites/blocks.html", blocks=blocks_of(site))


def _edit(
    request: Request, site: Site, form: Any, template: str, save: Callable[[], object], **context: Any
) -> HttpResponse:
    """Handle a request of an editor page: validate a field during typing, save the form, or show the form with its
    errors.
    """
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid() and attempt(form, save) is not None:
            messages.success(request, _("Saved as a draft. Deploy the site to apply the draft on the host."))
            return redirect("websites:blocks", site.name)
    context |= {"form": form, "crumbs": _crumbs(site), "status_code": form_status(form)}
    return site_render(request, site, "blocks", template, **context)


def _cards(form: BlockForm | LocationForm, notes: Notes) -> dict[str, Any]:
    """Return the template context for the editor page of a server block or location: the form's cards and notes."""
    return {"notes": notes, "cards": shown(form, form.cards, notes)}


def _crumbs(site: Site) -> list[Crumb]:
    return [*crumbs_below(site), Crumb(_("Server blocks"), reverse("websites:blocks", args=[site.name]))]


@login_required
@form_page
def block_add(request: Request, name: str) -> HttpResponse:
    site = site_get(request, name, Action.CHANGE)
    form = BlockForm(request.POST or None, instance=ServerBlock(site=site), initial={"listens": "80"})
    return _edit(
        request,
        site,
        form,
        "websites/block_form.html",
        lambda: services.block_create(actor=request.user, site=site, **form.values()),
        **_cards(form, notes_for(site)),
    )


@login_required
@form_page
def block(request: Request, name: str, pk: int) -> HttpResponse:
    site = site_get(request, name, Action.CHANGE)
    row = part_get(blocks_of(site), pk)
    form = BlockForm(request.POST or None, instance=row)
    return _edit(
        request,
        site,
        form,
        "websites/block_form.html",
        lambda: services.block_update(
            actor=request.user,
            block=part_get(blocks_of(site), pk),
            expected_version=form.expected_version,
            **form.values(),
        ),
        block=row,
        **_cards(form, notes_for(site, block=row)),
    )


@login_required
@form_page
def location_add(request: Request, name: str, pk: int) -> HttpResponse:
    site = site_get(request, name, Action.CHANGE)
    owner = part_get(blocks_of(site), pk)
    is_inline = "_field" in request.POST
    form = LocationForm(request.POST or None, instance=Location(block=owner), is_inline=is_inline)
    return _edit(
        request,
        site,
        form,
        "websites/location_form.html",
        lambda: services.location_create(actor=request.user, block=owner, **form.values()),
        block=owner,
        **_cards(form, notes_for(site)),
    )


@login_required
@form_page
def location(request: Request, name: str, pk: int) -> HttpResponse:
    site = site_get(request, name, Action.CHANGE)
    row = part_get(locations_of(site), pk)
    form = LocationForm(request.POST or None, instance=row, is_inline="_field" in request.POST)
    return _edit(
        request,
        site,
        form,
        "websites/location_form.html",
        lambda: services.location_update(
            actor=request.user,
            location=part_get(locations_of(site), pk),
            expected_version=form.expected_version,
            **form.values(),
        ),
        block=row.block,
        location=row,
        **_cards(form, notes_for(site, location=row)),
    )


@login_required
@require_POST
def location_move(request: Request, name: str, pk: int) -> HttpResponse:
    """Move a location one place up or down, which changes the order in which regular expressions are tried."""
    site = site_get(request, name, Action.CHANGE)
    row = part_get(locations_of(site), pk)
    order = list(row.block.locations.values_list("pk", flat=True))
    at = order.index(row.pk)
    to = at + (-1 if request.POST.get("direction") == "up" else 1)
    if 0 <= to < len(order):
        order[at], order[to] = order[to], order[at]
        services.locations_reorder(actor=request.user, block=row.block, order=order)
    return redirect(reverse("websites:blocks", args=[site.name]) + f"#location-{pk}")


def _delete(
    request: Request, site: Site, row: Any, title: str, delete: Callable[[], object], losses: Sequence[str] = ()
) -> HttpResponse:
    """Show a confirmation page, or delete an object of the draft. The user need not type its name, because a rollback
    restores drafts.
    """
    if request.method == "POST":
        try:
            delete()
        except ApplicationError as error:
            messages.error(request, error.message)
        else:
            messages.success(request, _("%s was deleted from the draft.") % row)
        return redirect("websites:blocks", site.name)
    context = {
        "title": title,
        "text": _("This only changes the draft; the next deployment changes the host."),
        "losses": losses,
        "cancel_url": reverse("websites:blocks", args=[site.name]),
        "crumbs": _crumbs(site),
    }
    return site_render(request, site, "blocks", "websites/confirm.html", **context)


@login_required
@form_page
def block_delete(request: Request, name: str, pk: int) -> HttpResponse:
    site = site_get(request, name, Action.CHANGE)
    row = part_get(blocks_of(site), pk)
    losses = [str(item.name) for item in row.names.all()] + [str(item) for item in row.locations.all()]
    title = _("Delete server block %(number)d of %(site)s?") % {"number": row.position + 1, "site": site.name}
    return _delete(request, site, row, title, lambda: services.block_delete(actor=request.user, block=row), losses)


@login_required
@form_page
def location_delete(request: Request, name: str, pk: int) -> HttpResponse:
    site = site_get(request, name, Action.CHANGE)
    row = part_get(locations_of(site), pk)
    title = _("Delete the location %s?") % row
    return _delete(request, site, row, title, lambda: services.location_delete(actor=request.user, location=row))


# --- raw directives: administrators only ---


@login_required
@form_page
@sudo_required
def snippet_add(request: Request, name: str) -> HttpResponse:
    """Show or save the form for new raw directives; `?block=` or `?location=` has the id of their owner."""
    site = site_get(request, name)
    require(request.user, Action.ADMINISTER)
    place = _snippet_place(request, site)
    engine = site.web_server.engine if site.web_server else ""
    form = SnippetForm(request.POST or None, instance=RawSnippet(site=site, **place), initial={"engine": engine})
    return _edit(
        request,
        site,
        form,
        "websites/snippet_form.html",
        lambda: services.snippet_create(actor=request.user, site=site, **place, **form.values()),
        place=next(iter(place.values())),
    )


def _snippet_place(request: Request, site: Site) -> dict[str, Any]:
    for word, rows in (("block", blocks_of(site)), ("location", locations_of(site))):
        key = request.GET.get(word, "")
        if key.isdecimal():
            return {word: part_get(rows, int(key))}
    raise Http404


@login_required
@form_page
@sudo_required
def snippet(request: Request, name: str, pk: int) -> HttpResponse:
    site = site_get(request, name)
    require(request.user, Action.ADMINISTER)
    row = part_get(snippets_of(site), pk)
    form = SnippetForm(request.POST or None, instance=row)
    return _edit(
        request,
        site,
        form,
        "websites/snippet_form.html",
        lambda: services.snippet_update(
            actor=request.user,
            snippet=part_get(snippets_of(site), pk),
            text=form.cleaned_data["text"],
            expected_version=form.expected_version,
        ),
        snippet=row,
        place=row.block or row.location,
    )


@login_required
@form_page
@sudo_required
def snippet_delete(request: Request, name: str, pk: int) -> HttpResponse:
    site = site_get(request, name)
    require(request.user, Action.ADMINISTER)
    row = part_get(snippets_of(site), pk)
    title = _("Delete these raw directives for %s?") % row.get_engine_display()
    return _delete(request, site, row, title, lambda: services.snippet_delete(actor=request.user, snippet=row))
