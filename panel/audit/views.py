"""Pages of the audit log: list, details, CSV export."""

from __future__ import annotations

import csv
import json
from collections.abc import Generator
from typing import cast

from django.http import HttpRequest, HttpResponse, StreamingHttpResponse
from django.shortcuts import get_object_or_404, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from panel.accounts.models import User
from panel.audit import selectors, words
from panel.audit.forms import AuditFilterForm
from panel.audit.models import AuditEntry
from panel.core import cells
from panel.core.pages import MOST, page_of
from panel.core.stream import as_served
from panel.core.ui import Crumb

EXPORT_LIMIT = 100_000
_COLUMNS = ("at", "actor", "token", "address", "action", "object_type", "object", "before", "after", "request_id")


def _form(request: HttpRequest) -> AuditFilterForm:
    entries = selectors.audit_visible(cast(User, request.user))
    return AuditFilterForm(request.GET or {}, entries=entries)


@require_safe
def entry_list(request: HttpRequest) -> HttpResponse:
    form = _form(request)
    page = page_of(form.found(), 50, request.GET.get("page"), most=MOST)
    told = words.told(page.object_list, is_admin=cast(User, request.user).is_admin)
    return render(request, "audit/list.html", {"filters": form, "page": page, "told": told})


@require_safe
def entry_detail(request: HttpRequest, pk: int) -> HttpResponse:
    entry = get_object_or_404(selectors.audit_visible(cast(User, request.user)), pk=pk)
    (told,) = words.told([entry], is_admin=cast(User, request.user).is_admin)
    context = {
        "entry": entry,
        "told": told,
        "changes": selectors.changes(entry),
        "crumbs": [Crumb(_("Audit log"), reverse("audit:list"))],
    }
    return render(request, "audit/detail.html", context)


class _Echo:
    """File object for csv.writer that returns each line instead of storing it, so that exports need no memory."""

    def write(self, line: str) -> str:
        return line


def _row(entry: AuditEntry) -> list[object]:
    def as_json(value: object) -> str:
        return "" if value is None else json.dumps(value, ensure_ascii=False)

    values = (
        entry.at.isoformat(),
        entry.actor_label,
        entry.token_prefix,
        entry.address or "",
        entry.action,
        entry.object_type,
        entry.object_label,
        as_json(entry.before),
        as_json(entry.after),
        entry.request_id,
    )
    return cells.row(values)


@require_safe
def export(request: HttpRequest) -> StreamingHttpResponse:
    """Export the filtered entries as CSV, newest first, at most EXPORT_LIMIT."""
    found = _form(request).found()[:EXPORT_LIMIT]
    writer = csv.writer(_Echo())

    def lines() -> Generator[str, None, None]:
        yield writer.writerow(_COLUMNS)
        for entry in found.iterator(chunk_size=2000):
            yield writer.writerow(_row(entry))

    return StreamingHttpResponse(
        as_served(request, lines()),
        content_type="text/csv; charset=utf-8",
        headers={"Content-Disposition": 'attachment; filename="paddock-audit.csv"'},
    )
