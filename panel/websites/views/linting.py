"""Warnings about a draft: shown on the site's page and before a plan is confirmed, each fixed by one button."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import HttpResponse
from django.shortcuts import redirect
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST

from panel.accounts.models import User
from panel.accounts.permissions import Action, may
from panel.accounts.sudo import sudo_required
from panel.core.errors import ApplicationError
from panel.core.http import Request
from panel.hosts.models import WebServer
from panel.rendering.lint import Finding
from panel.websites import linting
from panel.websites.models import Site
from panel.websites.views.base import site_get

MAX_SITES = 20  # per plan; more are shown on the sites' own pages


@dataclass(frozen=True)
class Line:
    """A warning for display. `may_fix`: the user may apply the fix; `may_edit`: the user may change the draft."""

    site: Site
    finding: Finding
    may_fix: bool
    may_edit: bool

    @property
    def others(self) -> str:
        """Note for a user who may not change the draft: the role that can apply the fix or make the change."""
        if self.finding.is_raw:
            words = _("An administrator can fix this: %s."), _("An administrator can change this.")
        else:
            words = _("An operator of the team can fix this: %s."), _("An operator of the team can change this.")
        return words[0] % self.finding.fix if self.finding.fix else words[1]


def lines_of(user: User, sites: Iterable[tuple[Site, WebServer | None]]) -> list[Line]:
    """Return the warnings about each site on its current or planned web server, for templates/websites/findings.html.
    Warnings about a planned web server can be fixed only after the site has moved.
    """
    return [
        Line(site, finding, is_there and _may_fix(user, site, finding), _may_edit(user, site, finding))
        for site, web_server in list(sites)[:MAX_SITES]
        for is_there in (web_server is None or web_server.pk == site.web_server_id,)
        for finding in linting.site_findings(site, web_server)
    ]


def _may_edit(user: User, site: Site, finding: Finding) -> bool:
    return may(user, Action.ADMINISTER if finding.is_raw else Action.CHANGE, site.team)


def _may_fix(user: User, site: Site, finding: Finding) -> bool:
    return finding.apply_fix is not None and _may_edit(user, site, finding)


@login_required
@require_POST
def fix(request: Request, name: str) -> HttpResponse:
    """Apply the fix of a warning. If the fix changes raw directives, the user must confirm the password first."""
    site = site_get(request, name, Action.CHANGE)
    code, where = request.POST.get("code", ""), request.POST.get("where", "")
    try:
        finding = linting.finding_get(site, code, where)
    except ApplicationError as error:
        messages.error(request, error.message)
        return redirect("websites:detail", site.name)
    return _fix_raw(request, site, code, where) if finding.is_raw else _fix(request, site, code, where)


def _fix(request: Request, site: Site, code: str, where: str) -> HttpResponse:
    try:
        _site, finding = linting.finding_fix(actor=request.user, site=site, code=code, where=where)
    except ApplicationError as error:
        messages.error(request, error.message)
    except ValidationError as error:
        for text in error.messages:
            messages.error(request, text)
    else:
        done = _("Fixed in the draft: %s. Plan a deployment to apply the fix on the host.")
        messages.success(request, done % finding.fix)
    return redirect("websites:detail", site.name)


_fix_raw = sudo_required(_fix)
