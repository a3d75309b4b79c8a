"""Page, partial and event stream of a job of any kind (core/jobs.py)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any
from uuid import UUID

from asgiref.sync import sync_to_async
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.template.loader import render_to_string
from django.views.decorators.http import require_safe

from panel.core.http import Request
from panel.core.jobs import JobKind, job_found, job_loaded
from panel.core.stream import Look, region_events, region_view


def job_context(kind: JobKind, row: Any, user: object) -> dict[str, object]:
    """Return the variables of a job's page for this user."""
    return _region_context(kind, row) | {"region": kind.region(row), "may_cancel": kind.may_cancel(user, row)}


def _region_context(kind: JobKind, row: Any) -> dict[str, object]:
    return {"job": kind.shown(row), **kind.context(row)}


def _region(kind: JobKind, row: Any) -> str:
    return render_to_string(kind.region(row), _region_context(kind, row))


def _found(request: Request, uuid: UUID) -> tuple[JobKind, Any]:
    found = job_found(request.user, uuid)
    if found is None:
        raise Http404
    return found


@login_required
@require_safe
def job(request: Request, uuid: UUID) -> HttpResponse:
    """Show the common page of a job, or redirect to the page of its kind."""
    kind, row = _found(request, uuid)
    page = kind.page(row)
    return redirect(page) if page else render(request, "core/job.html", job_context(kind, row, request.user))


@login_required
@require_safe
def job_live(request: Request, uuid: UUID) -> HttpResponse:
    """Render the changing part of a job's page, for browsers without event streams."""
    return HttpResponse(_region(*_found(request, uuid)))


@sync_to_async
def _is_readable(user: Any, uuid: UUID) -> bool:
    return job_found(user, uuid) is not None


def _events(uuid: UUID) -> AsyncIterator[str]:
    """Yield the server-sent events of a job.
    `live` has the changed part of its page after each change, and finally `done` has its status.
    """

    kinds: list[JobKind] = []  # the job's kind, once it is known

    def look() -> Look | None:
        kind, row = (kinds[0], kinds[0].load(uuid)) if kinds else job_loaded(uuid) or (None, None)
        if kind is None or row is None:
            return None
        kinds[:] = [kind]
        return Look(kind.mark(row), lambda: _region(kind, row), "" if kind.is_live(row) else row.status)

    return region_events(look)


job_events = region_view(_is_readable, _events)
