"""Page to add and remove tags of several hosts or sites."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import redirect, render

from panel.core.forms import TagsChangeForm, attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb


class Tagged(Protocol):
    """A row with tags, for example a host or a site; the page also shows its name."""

    tags: list[str]


@dataclass(frozen=True)
class TagsPage:
    """Texts of the page that changes tags.
    `done` is the message after saving; `back` is the name and URL of the list.
    """

    title: str
    done: str
    back: Crumb
    lead: str = ""


def tags_page(
    request: Request,
    rows: Sequence[Tagged],
    *,
    page: TagsPage,
    known: Iterable[str],
    change: Callable[..., object],
) -> HttpResponse:
    """Show the form to change the tags of `rows`; on POST, validate one field, or change the tags and redirect to the
    list.

    `known` are all tags in use. `change` is called with the lists `add` and `remove`.
    """
    theirs = sorted({tag for row in rows for tag in row.tags})
    form = TagsChangeForm(request.POST if request.method == "POST" else None, known=known, theirs=theirs)
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid() and attempt(form, lambda: change(**form.cleaned_data)) is not None:
            messages.success(request, page.done)
            return redirect(str(page.back.url))
    context = {
        "form": form,
        "rows": rows,
        "title": page.title,
        "lead": page.lead,
        "cancel_url": page.back.url,
        "crumbs": [page.back],
    }
    return render(request, "components/tags_form.html", context, status=form_status(form))
