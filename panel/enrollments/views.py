"""Pages of enrollments for administrators, and the endpoints that a new host requests with its token."""

from __future__ import annotations

from collections.abc import Callable
from urllib.parse import urlsplit

from django.conf import settings
from django.contrib import messages
from django.contrib.auth.decorators import login_not_required, login_required
from django.core.exceptions import ValidationError
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import csrf_exempt
from django.views.decorators.http import require_http_methods, require_POST

from panel.accounts.guessing import Kind, wrong_secret_counted
from panel.accounts.permissions import Action, require
from panel.core.errors import ApplicationError
from panel.core.forms import attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.network import client_address
from panel.core.ui import Crumb
from panel.enrollments import script, services
from panel.enrollments.forms import EnrollmentForm
from panel.enrollments.report import report_of
from panel.enrollments.selectors import SHOWN, enrollment_of, enrollments_visible

PLAIN, SCRIPT = "text/plain; charset=utf-8", "text/x-shellscript; charset=utf-8"


@never_cache
@login_required
@require_http_methods(["GET", "HEAD", "POST"])
def enrollment_list(request: Request) -> HttpResponse:
    """List enrollments and create one. The response to the form is the only page that shows the new command."""
    require(request.user, Action.ADMINISTER)
    form = EnrollmentForm(request.POST or None)
    context = {"crumbs": [Crumb(_("Hosts"), reverse("hosts:list"))]}
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            made = attempt(form, lambda: services.enrollment_create(actor=request.user, **form.values()))
            if made is not None:
                enrollment, token = made
                return render(request, "enrollments/created.html", context | _commands(request, token, enrollment))
    rows = enrollments_visible(request.user)[:SHOWN]
    return render(
        request, "enrollments/list.html", context | {"form": form, "enrollments": rows}, status=form_status(form)
    )


def _commands(request: HttpRequest, token: str, enrollment: object) -> dict[str, object]:
    url = panel_url(request)
    place = urlsplit(url)
    return {
        "enrollment": enrollment,
        "command": script.command(url, token),
        "cloud_init": script.cloud_init(url, token),
        "is_plain": place.scheme == "http" and place.hostname not in ("127.0.0.1", "localhost"),
    }


def panel_url(request: HttpRequest) -> str:
    """Return the URL at which hosts reach the panel: PADDOCK_URL if set, otherwise the URL of this request."""
    return str(settings.PANEL_URL) or request.build_absolute_uri("/").rstrip("/")


@login_required
@require_POST
def revoke(request: Request, pk: int) -> HttpResponse:
    require(request.user, Action.ADMINISTER)
    services.enrollment_revoke(
        actor=request.user, enrollment=get_object_or_404(enrollments_visible(request.user), pk=pk)
    )
    messages.success(request, _("The enrollment was revoked. The hosts that the enrollment added stay in the panel."))
    return redirect("enrollments:list")


@never_cache
@csrf_exempt
@login_not_required
@require_http_methods(["GET", "POST"])
def enroll(request: HttpRequest) -> HttpResponse:
    """Endpoint for new hosts: GET returns the script, POST takes the host's report.

    The response to POST has the host's name in the panel and the panel's public key.
    """
    token = _token(request)
    enrollment = enrollment_of(token)
    if enrollment is None or not (enrollment.is_open or enrollment.waiting_at(client_address(request)).exists()):
        return _gone(request)
    if request.method == "GET":
        text = script.script(panel_url(request), token, enrollment.username)
        return HttpResponse(text, content_type=SCRIPT)
    return _answered(request, lambda: _added(request, token))


@never_cache
@csrf_exempt
@login_not_required
@require_POST
def ready(request: HttpRequest) -> HttpResponse:
    """Endpoint for new hosts: a host reports that it accepts the panel's SSH key now."""
    return _answered(request, lambda: services.host_ready(token=_token(request), name=request.POST.get("name", "")))


def _added(request: HttpRequest, token: str) -> str:
    report = report_of(request.POST.dict())
    host, line = services.host_add(token=token, address=client_address(request), report=report)
    return f"name {host.name}\nkey {line}\n"


def _answered(request: HttpRequest, act: Callable[[], str | None]) -> HttpResponse:
    """Call `act` and return its result as a response in plain text for the enrollment script.
    Errors become plain text with a 4xx status, which the script prints.
    """
    try:
        return HttpResponse(act() or "", content_type=PLAIN)
    except ApplicationError:
        return _gone(request)
    except ValidationError as error:
        return HttpResponse(" ".join(error.messages) + "\n", status=422, content_type=PLAIN)
    except ValueError as error:
        return HttpResponse(f"{error}\n", status=422, content_type=PLAIN)


def _gone(request: HttpRequest) -> HttpResponse:
    if _token(request):
        wrong_secret_counted(request, Kind.SETUP)
    return HttpResponse(f"{services.GONE}\n", status=403, content_type=PLAIN)


def _token(request: HttpRequest) -> str:
    scheme, _space, token = request.headers.get("Authorization", "").partition(" ")
    return token.strip() if scheme.lower() == "bearer" else ""
