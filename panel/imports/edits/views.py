"""View of the button on a drift's page that adopts the edit of a file as settings of its site."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from panel.accounts.sudo import sudo_required
from panel.core.errors import ApplicationError
from panel.core.http import Request
from panel.deployments.selectors import drifts_visible
from panel.deployments.views.deployments import refused
from panel.imports.edits import services


@require_POST
@sudo_required
def adopt_edit(request: Request, name: str, pk: int) -> HttpResponse:
    """Adopt the edit of a file on the host `name` as settings of its site. `pk`: id of the drift."""
    drift = get_object_or_404(drifts_visible(request.user), pk=pk, web_server__host__name=name)
    try:
        site = services.edit_adopt(actor=request.user, drift=drift)
    except ApplicationError as error:
        return refused(request, error, reverse("deployments:drift-detail", args=[pk]))
    messages.success(request, _("The edit of %s is now part of the settings of this site.") % drift.path)
    return redirect("websites:detail", site.name)
