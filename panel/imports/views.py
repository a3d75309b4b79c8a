"""Pages of imports: read or upload a configuration, review the result, adopt sites."""

from __future__ import annotations

from typing import Any
from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.sudo import sudo_is_open, sudo_required
from panel.core.forms import attempt
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.hosts.models import Host
from panel.hosts.views.common import administered
from panel.imports import selectors, services
from panel.imports.forms import AdoptForm, ReadForm, UploadForm
from panel.imports.models import Import
from panel.imports.report import Report
from panel.imports.selectors import Row

form_page = require_http_methods(["GET", "HEAD", "POST"])


def _import(request: Request, name: str, uuid: UUID) -> Import:
    administered(request, name)
    record = selectors.imports_visible(request.user).filter(uuid=uuid, web_server__host__name=name).first()
    if record is None:
        raise Http404
    return record


def _crumbs(host: Host, record: Import | None = None) -> list[Crumb]:
    crumbs = [
        Crumb(_("Hosts"), reverse("hosts:list")),
        Crumb(host.name, reverse("hosts:detail", args=[host.name])),
        Crumb(_("Import"), reverse("imports:start", args=[host.name])),
    ]
    if record is not None:
        crumbs.append(Crumb(str(record.web_server), reverse("imports:report", args=[host.name, record.uuid])))
    return crumbs


# --- reading ---


def _start_page(request: Request, host: Host, **forms: Any) -> HttpResponse:
    context = {
        "host": host,
        "read_form": forms.get("read") or ReadForm(host=host),
        "upload_form": forms.get("upload") or UploadForm(host=host),
        "records": selectors.imports_visible(request.user).filter(web_server__host=host)[:20],
        "has_servers": host.web_servers.exists(),
        "crumbs": _crumbs(host)[:-1],
    }
    return render(request, "imports/start.html", context, status=422 if forms else 200)


@login_required
@require_safe
def start(request: Request, name: str) -> HttpResponse:
    return _start_page(request, administered(request, name))


@login_required
@require_POST
def read(request: Request, name: str) -> HttpResponse:
    """Import the live configuration of a web server of the host; nothing on the host changes."""
    host = administered(request, name)
    form = ReadForm(request.POST, host=host)
    if form.is_valid():
        web_server = form.cleaned_data["web_server"]
        record = attempt(form, lambda: services.import_read_host(actor=request.user, web_server=web_server))
        if record is not None:
            return redirect("imports:report", host.name, record.uuid)
    return _start_page(request, host, read=form)


@login_required
@require_POST
def upload(request: Request, name: str) -> HttpResponse:
    host = administered(request, name)
    form = UploadForm(request.POST, request.FILES, host=host)
    if form.is_valid():
        web_server, archive = form.cleaned_data["web_server"], form.cleaned_data["archive"]
        record = attempt(
            form,
            lambda: services.import_read_upload(
                actor=request.user, web_server=web_server, filename=archive.name, data=archive.read()
            ),
        )
        if record is not None:
            return redirect("imports:report", host.name, record.uuid)
    return _start_page(request, host, upload=form)


# --- result ---


@login_required
@form_page
def report(request: Request, name: str, uuid: UUID) -> HttpResponse:
    """Show the result of an import. POST adopts the selected sites and requires the user's password, because adopting
    can create raw directives.
    """
    if request.method == "POST":
        return _adopt(request, name, uuid)
    record = _import(request, name, uuid)
    found = services.report_of(record)
    rows = selectors.rows_of(record, found)
    return _report_page(request, record, found, rows, AdoptForm(rows=rows))


@sudo_required
def _adopt(request: Request, name: str, uuid: UUID) -> HttpResponse:
    record = _import(request, name, uuid)
    found = services.report_of(record)
    rows = selectors.rows_of(record, found)
    form = AdoptForm(request.POST, rows=rows)
    if form.is_valid():
        data = form.cleaned_data
        adopted = attempt(
            form,
            lambda: services.import_adopt(
                actor=request.user,
                record=record,
                names=data["sites"],
                team=data["team"],
                accept_refused=data.get("accept_refused", False),
                add_folders=data.get("add_folders", False),
            ),
        )
        if adopted is not None:
            _say(request, adopted)
            return redirect("imports:report", name, uuid)
    return _report_page(request, record, found, rows, form)


def _say(request: Request, adopted: services.Adopted) -> None:
    count = len(adopted.sites)
    words = ngettext("%d site was adopted as a draft.", "%d sites were adopted as drafts.", count) % count
    messages.success(request, f"{words} {_('The host is unchanged. Plan the first deployment next.')}")
    for note in adopted.notes:
        messages.warning(request, note)


def _report_page(request: Request, record: Import, found: Report, rows: list[Row], form: AdoptForm) -> HttpResponse:
    host = record.web_server.host
    counts = selectors.totals(found)
    context = {
        "host": host,
        "record": record,
        "report": found,
        "rows": rows,
        "counts": counts,
        "share": selectors.mapped_share(counts),
        "form": form,
        "chosen": form.chosen(),
        "is_open": any(row.is_open for row in rows),
        "drafts": [row.site for row in rows if row.site is not None and not hasattr(row.site, "state")],
        "folders": sorted({folder for row in rows if row.is_open for folder in row.found.folders}),
        "losses": [loss for row in rows if row.is_open for loss in row.losses],
        "needs_password": not sudo_is_open(request),
        "crumbs": _crumbs(host),
    }
    return render(request, "imports/report.html", context, status=422 if form.is_bound else 200)


@login_required
@require_safe
def site(request: Request, name: str, uuid: UUID, site: str) -> HttpResponse:
    """Show one site found in an import, with the outcome of each directive."""
    record = _import(request, name, uuid)
    rows = selectors.rows_of(record, services.report_of(record))
    row = next((row for row in rows if row.found.name == site), None)
    if row is None:
        raise Http404
    context = {
        "host": record.web_server.host,
        "record": record,
        "row": row,
        "share": selectors.mapped_share(row.counts),
        "crumbs": _crumbs(record.web_server.host, record),
    }
    return render(request, "imports/site.html", context)


@login_required
@form_page
def delete(request: Request, name: str, uuid: UUID) -> HttpResponse:
    record = _import(request, name, uuid)
    if request.method == "POST":
        services.import_delete(actor=request.user, record=record)
        messages.success(request, _("The import was deleted. Its adopted sites are kept."))
        return redirect("imports:start", name)
    context = {
        "title": _("Delete this import?"),
        "text": _("Paddock deletes the imported configuration from the panel. Adopted sites stay unchanged."),
        "verb": _("Delete import"),
        "cancel_url": reverse("imports:report", args=[name, uuid]),
        "crumbs": _crumbs(record.web_server.host, record),
    }
    return render(request, "hosts/confirm.html", context)
