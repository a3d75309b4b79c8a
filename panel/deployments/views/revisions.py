"""Page of one revision of a site: its difference from the draft, and the button that restores it as draft."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe

from panel.accounts.permissions import Action, may
from panel.accounts.sudo import sudo_required
from panel.core.errors import ApplicationError
from panel.core.http import Request
from panel.core.ui import undo_offer
from panel.deployments import selectors
from panel.deployments.models import Revision
from panel.deployments.planning.selectors import live_revision
from panel.deployments.revisions.rendered import contents
from panel.deployments.rollback import services as rollback
from panel.deployments.views.deployments import refused, site_or_404
from panel.websites.models import Site
from panel.websites.selectors import row_version_of
from panel.websites.views.base import site_get, site_render


@login_required
@require_safe
def revision(request: Request, name: str, number: int) -> HttpResponse:
    site = site_get(request, name)
    row: Any = get_object_or_404(selectors.revisions_of(site), number=number)
    live = live_revision(site)
    texts = contents(item["sha256"] for item in row.files if not item["secret"])
    context: dict[str, object] = {
        "revision": row,
        "is_live": live is not None and live.pk == row.pk,
        "is_said": rollback.is_said(site, row),
        "may_roll_back": may(request.user, Action.DEPLOY, site.team)
        and row.was_live
        and site.enabled
        and (live is None or live.pk != row.pk)
        and row.web_server_id == site.web_server_id,
        "files": [item | {"text": texts.get(item["sha256"], "")} for item in row.files],
    }
    try:
        context["differences"] = rollback.draft_differences(site, row)
    except ValidationError as error:
        context["faults"] = error.messages
    return site_render(request, site, "history", "deployments/revision.html", **context)


@login_required
@require_POST
def set_back(request: Request, name: str, number: int) -> HttpResponse:
    """Restore the draft of a site to the content of a revision.

    The posted `version` is the draft's version at the time when the difference was shown. If raw directives change, the
    user has to enter the password first.
    """
    site = site_or_404(request, name)
    row = get_object_or_404(selectors.revisions_of(site), number=number)
    if may(request.user, Action.ADMINISTER) and rollback.restore_changes_snippets(site, row):
        return _set_back_raw(request, site, row)
    return _set_back(request, site, row)


def _set_back(request: Request, site: Site, row: Revision) -> HttpResponse:
    version = request.POST.get("version", "")
    expected = int(version) if version.isascii() and version.isdecimal() and len(version) < 10 else None
    try:
        done = rollback.draft_restore(actor=request.user, site=site, revision=row, expected_version=expected)
    except (ApplicationError, ValidationError) as error:
        return refused(request, error, reverse("websites:revision", args=[site.name, row.number]))
    _tell(request, site, row, done)
    return redirect("websites:detail", site.name)


def _tell(request: Request, site: Site, row: Revision, done: rollback.DraftRestore) -> None:
    """Show a message about the restored draft, with an undo button if the previous draft was kept."""
    words = {"n": row.number, "kept": done.kept.number if done.kept else 0}
    if not done.is_changed:
        messages.info(request, _("The draft already matches #%(n)s. Nothing was changed.") % words)
        return
    if done.kept is None:
        text = _(
            "The draft is restored to #%(n)s. The earlier draft could not be rendered, so only the audit log keeps "
            "it. Plan a deployment to apply the draft."
        )
        messages.success(request, text % words)
        return
    text = _("The draft is restored to #%(n)s; the earlier draft is saved as #%(kept)s.")
    if done.is_live:
        text += " " + _("This revision is already live: there is nothing to deploy.")
    else:
        text += " " + _("Plan a deployment to apply the draft to the host.")
    messages.success(request, text % words)
    version = row_version_of(site)
    undo_offer(request, reverse("websites:set_back", args=[site.name, done.kept.number]), {"version": version})


_set_back_raw = sudo_required(_set_back)
