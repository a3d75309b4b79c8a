"""Page to prepare a host for a predefined application: the list of packages, and their installation."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import Http404, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods

from panel.core.errors import ApplicationError
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.hosts import preparing, services
from panel.hosts.models import APPLICATIONS, Host, HostJobKind
from panel.hosts.services.jobs import UNFINISHED
from panel.hosts.views.common import administered


@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def prepare(request: Request, name: str, application: str) -> HttpResponse:
    """Show the latest package list for an application. POST requests a new list; POST with `plan`, the uuid of a
    list, requests the installation of its packages.
    """
    host = administered(request, name)
    if application not in APPLICATIONS:
        raise Http404
    if request.method == "POST":
        return _asked(request, host, application)
    jobs = host.jobs.filter(kind=HostJobKind.PREPARE, params__application=application)
    newest = jobs.first()
    packages = (newest.result or {}).get("packages", []) if newest is not None else []
    brought, upgraded = preparing.services(packages)
    context = {
        "host": host,
        "label": APPLICATIONS[application],
        "version": preparing.version(host, application),
        "under_way": newest if newest is not None and newest.status in UNFINISHED else None,
        "newest": newest,
        "is_plan": newest is not None and "plan" not in newest.params,
        "brought": brought,
        "upgraded": upgraded,
        "has_modules": any(package["name"].endswith("-mysql") for package in packages),
        "crumbs": [
            Crumb(_("Hosts"), reverse("hosts:list")),
            Crumb(host.name, reverse("hosts:detail", args=[host.name])),
        ],
    }
    is_part = request.htmx and request.htmx.target == "preparing"
    return render(request, "hosts/prepare_live.html" if is_part else "hosts/prepare.html", context)


def _asked(request: Request, host: Host, application: str) -> HttpResponse:
    params = {"application": application}
    if "plan" in request.POST:
        try:
            params["plan"] = str(UUID(request.POST["plan"]))
        except ValueError as error:
            raise Http404 from error
    try:
        services.host_job_request(actor=request.user, host=host, kind=HostJobKind.PREPARE, params=params)
    except ApplicationError as error:
        messages.error(request, error.message)
    except ValidationError as error:
        for text in error.messages:
            messages.error(request, text)
    return redirect("hosts:prepare", host.name, application)
