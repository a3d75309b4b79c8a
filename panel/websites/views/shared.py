"""Pages of shared settings. Access lists, header sets and directive sets have the same pages with different fields."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.db.models import QuerySet
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy
from django.views.decorators.http import require_http_methods, require_safe

from panel.accounts.models import User
from panel.accounts.permissions import Action, may, require, teams_visible
from panel.accounts.sudo import sudo_required
from panel.core.errors import ApplicationError
from panel.core.forms import ConfirmNameForm, attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb, Tab, Text
from panel.websites import services
from panel.websites.forms.shared import AccessListForm, DirectiveSetForm, HeaderSetForm, SharedSettingForm
from panel.websites.models import AccessList, DirectiveSet, HeaderSet, SharedSetting
from panel.websites.selectors import shared_settings_visible, sites_of_shared_setting, sites_of_shared_settings
from panel.websites.services.shared import needs_of
from panel.websites.views.base import named_get, page_of

form_page = require_http_methods(["GET", "HEAD", "POST"])


@dataclass(frozen=True)
class Kind:
    """Texts and classes of the pages of one kind of shared setting. `title` is the heading of its list."""

    model: type[SharedSetting]
    form: type[SharedSettingForm[Any]]
    title: Text
    lead: Text
    add: Text
    empty: Text

    @property
    def needs(self) -> Action:
        return needs_of(self.model)

    def url(self, page: str, *args: str) -> str:
        """Return the URL of a page of this kind of setting: "list", "add", "detail" or "delete"."""
        name = self.model.slug.replace("-", "_")
        end = {"list": "s", "add": "_add", "detail": "", "delete": "_delete"}[page]
        return reverse(f"websites:{name}{end}", args=args)

    def rows(self, user: User) -> QuerySet[SharedSetting]:
        return shared_settings_visible(self.model, user)


ACCESS_LISTS = Kind(
    AccessList,
    AccessListForm,
    gettext_lazy("Access lists"),
    gettext_lazy("Addresses and networks under a name, for the access rules of all sites of a team: “allow @office”."),
    gettext_lazy("Add an access list"),
    gettext_lazy("No access lists"),
)
HEADER_SETS = Kind(
    HeaderSet,
    HeaderSetForm,
    gettext_lazy("Header sets"),
    gettext_lazy("Response headers under a name, for all sites of a team: the line “@security” means all of them."),
    gettext_lazy("Add a header set"),
    gettext_lazy("No header sets"),
)
DIRECTIVE_SETS = Kind(
    DirectiveSet,
    DirectiveSetForm,
    gettext_lazy("Directive sets"),
    gettext_lazy("Raw directives under a name, for all sites of a team: the line “@cors” means all of them."),
    gettext_lazy("Add a directive set"),
    gettext_lazy("No directive sets"),
)
KINDS = (ACCESS_LISTS, HEADER_SETS, DIRECTIVE_SETS)


def _tabs(kind: Kind) -> list[Tab]:
    return [Tab(other.title, other.url("list"), other is kind) for other in KINDS]


def _crumbs(kind: Kind, *, below: bool = False) -> list[Crumb]:
    found = [Crumb(_("Sites"), reverse("websites:list"))]
    return [*found, Crumb(kind.title, kind.url("list"))] if below else found


def _page(request: Request, template: str, kind: Kind, status: int = 200, **context: Any) -> HttpResponse:
    return render(request, template, {"kind": kind, "list_url": kind.url("list"), **context}, status=status)


@require_safe
def shared_settings(request: Request, kind: Kind) -> HttpResponse:
    page = page_of(request, kind.rows(request.user))
    sites = sites_of_shared_settings(kind.model, page.object_list)
    return _page(
        request,
        "websites/shared_settings.html",
        kind,
        page=page,
        rows=[(row, kind.url("detail", row.name), sites[row.name]) for row in page],
        tabs=_tabs(kind),
        crumbs=_crumbs(kind),
        add_url=kind.url("add"),
        may_change=may(request.user, kind.needs),
    )


@form_page
def shared_setting_add(request: Request, kind: Kind) -> HttpResponse:
    require(request.user, kind.needs)
    form = kind.form(request.POST or None, teams=teams_visible(request.user))
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid() and _created(request, kind, form):
            return redirect(kind.url("list"))
    crumbs = _crumbs(kind, below=True)
    return _page(
        request, "websites/shared_setting.html", kind, form_status(form), form=form, crumbs=crumbs, may_change=True
    )


def _created(request: Request, kind: Kind, form: SharedSettingForm[Any]) -> bool:
    values = form.values()
    team = values.pop("team")
    row = attempt(
        form,
        lambda: services.shared_setting_create(actor=request.user, model=kind.model, team=team, values=values),
    )
    if row is None:
        return False
    messages.success(request, _("%s was saved.") % row.name)
    return True


@form_page
def shared_setting(request: Request, kind: Kind, name: str) -> HttpResponse:
    """Show and change one shared setting, with the sites that use it."""
    row = named_get(request, kind.rows(request.user), name, Action.VIEW)
    form = kind.form(request.POST or None, instance=row, teams=teams_visible(request.user))
    if request.method == "POST":
        require(request.user, kind.needs, row.team)
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid() and _changed(request, kind, row.pk, form):
            return redirect(kind.url("detail", name))
    return _page(
        request,
        "websites/shared_setting.html",
        kind,
        form_status(form),
        row=row,
        form=form,
        sites=sites_of_shared_setting(row),
        may_change=may(request.user, kind.needs, row.team),
        delete_url=kind.url("delete", name),
        crumbs=_crumbs(kind, below=True),
    )


def _changed(request: Request, kind: Kind, pk: int, form: SharedSettingForm[Any]) -> bool:
    """Save the form's values; return False if an error was added to the form."""
    row = kind.rows(request.user).get(pk=pk)  # the form has changed its own
    values, expected = form.values(), form.expected_version
    saved = attempt(
        form,
        lambda: services.shared_setting_update(actor=request.user, row=row, values=values, expected_version=expected),
    )
    if saved is None:
        return False
    words = _("%s was saved.") % row.name
    if sites := sites_of_shared_setting(row):
        words += " " + _("Deploy the sites that use it: %s.") % ", ".join(site.name for site in sites)
    messages.success(request, words)
    return True


@form_page
def shared_setting_delete(request: Request, kind: Kind, name: str) -> HttpResponse:
    row = named_get(request, kind.rows(request.user), name, kind.needs)
    form = ConfirmNameForm(request.POST or None, expected=row.name)
    if request.method == "POST" and form.is_valid():
        try:
            services.shared_setting_delete(actor=request.user, row=row)
            messages.success(request, _("%s was deleted.") % name)
        except ApplicationError as error:
            messages.error(request, error.message)
        return redirect(kind.url("list"))
    context = {
        "form": form,
        "title": _("Delete the %(kind)s %(name)s?") % {"kind": row._meta.verbose_name, "name": row.name},
        "losses": [row._meta.verbose_name],
        "cancel_url": kind.url("detail", row.name),
        "crumbs": _crumbs(kind, below=True),
    }
    return render(request, "websites/confirm.html", context, status=422 if form.is_bound else 200)


# Raw directives can change what a server runs, so a session confirms its password first.
directive_set_add = sudo_required(shared_setting_add)
directive_set_delete = sudo_required(shared_setting_delete)


def directive_set(request: Request, kind: Kind, name: str) -> HttpResponse:
    view = sudo_required(shared_setting) if request.method == "POST" else shared_setting
    return view(request, kind, name)
