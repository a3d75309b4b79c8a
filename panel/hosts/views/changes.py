"""Pages to add, trust, edit and delete hosts, and to start jobs on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import ValidationError
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.accounts.sudo import sudo_required
from panel.core.errors import ApplicationError
from panel.core.forms import ConfirmNameForm, attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.jobs import JobStatus
from panel.core.ui import Crumb
from panel.hosts import selectors, services
from panel.hosts.forms import HostForm
from panel.hosts.models import Host, HostJobKind, WebServer
from panel.hosts.rules import DEFAULT_ROOTS
from panel.hosts.views.bulk import KINDS, PAUSING, paused_words
from panel.hosts.views.common import administered

SHOWN_SITES = 20
form_page = require_http_methods(["GET", "HEAD", "POST"])


def _web_server(host: Host, pk: int) -> WebServer:
    web_server = host.web_servers.filter(pk=pk).first()
    if web_server is None:
        raise Http404
    return web_server


def _crumbs(host: Host | None = None) -> list[Crumb]:
    crumbs = [Crumb(_("Hosts"), reverse("hosts:list"))]
    if host is not None:
        crumbs.append(Crumb(host.name, reverse("hosts:detail", args=[host.name])))
    return crumbs


def _form_page(request: Request, form: HostForm, host: Host | None) -> HttpResponse:
    return render(
        request, "hosts/form.html", {"form": form, "host": host, "crumbs": _crumbs(host)}, status=form_status(form)
    )


def _confirm_page(request: Request, host: Host, *, status: int = 200, **words: Any) -> HttpResponse:
    """Render the confirmation page with `words`, the variables of its template. Its cancel link points to the host's
    page.
    """
    context = words | {"cancel_url": reverse("hosts:detail", args=[host.name]), "crumbs": _crumbs(host)}
    return render(request, "hosts/confirm.html", context, status=status)


def _usual_host() -> Host:
    """Return an unsaved Host with the initial values of the form for a new host: sudo, the usual site folders, and the
    account that `prepare_command` creates.
    """
    return Host(site_roots=[*DEFAULT_ROOTS], username="paddock", use_sudo=True)


@login_required
@form_page
def add(request: Request) -> HttpResponse:
    require(request.user, Action.ADMINISTER)
    form = HostForm(request.POST or None, instance=_usual_host())
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            host = attempt(form, lambda: services.host_create(actor=request.user, **form.values()))
            if host is not None:
                return redirect("hosts:detail", host.name)
    return _form_page(request, form, None)


@login_required
@form_page
def edit(request: Request, name: str) -> HttpResponse:
    host = administered(request, name)
    form = HostForm(request.POST or None, instance=administered(request, name))
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            changed = attempt(
                form,
                lambda: services.host_update(
                    actor=request.user, host=host, expected_version=form.expected_version, **form.values()
                ),
            )
            if changed is not None:
                messages.success(request, _saved_words(changed))
                if any(value and not getattr(changed, name) for name, value in form.stored.items()):
                    words = _(
                        "Paddock cleared the stored secrets because they belong to the old address, port, or "
                        "user. Enter them again."
                    )
                    messages.warning(request, words)
                return redirect("hosts:detail", changed.name)
    return _form_page(request, form, administered(request, name))


def _saved_words(host: Host) -> str:
    if host.jobs.filter(kind=HostJobKind.CHECK, status__in=[JobStatus.QUEUED, JobStatus.RUNNING]).exists():
        return _("The host is saved. Paddock checks the SSH connection to the host now.")
    return _("The host is saved.")


@login_required
@form_page
def delete(request: Request, name: str) -> HttpResponse:
    host = administered(request, name)
    form = ConfirmNameForm(request.POST or None, expected=host.name)
    if request.method == "POST" and form.is_valid():

        def work() -> bool:
            services.host_delete(actor=request.user, host=host, confirm=form.cleaned_data["confirm"])
            return True

        if attempt(form, work):
            messages.success(request, _("The host %s was deleted from the panel.") % name)
            return redirect("hosts:list")
    standing = selectors.sites_deployed(host)
    return _confirm_page(
        request,
        host,
        status=422 if form.is_bound else 200,
        form=None if standing else form,
        instead=(_("Show the host's sites"), f"{reverse('websites:list')}?host={host.name}") if standing else None,
        title=_("Delete the host %s?") % host.name,
        text=_delete_words(standing),
        losses=[] if standing else selectors.host_losses(host),
    )


def _delete_words(standing: list[str]) -> str:
    if standing:
        words = _("Hosts with sites cannot be deleted. Move or delete %s first.")
        named = ", ".join(standing[:SHOWN_SITES])
        return words % (f"{named} …" if len(standing) > SHOWN_SITES else named)
    return _("The host itself stays unchanged.")


def _asked(request: Request, host: Host, work: Callable[[], object], done: str) -> HttpResponse:
    """Call `work`, which runs a service, and redirect to the host's page. The page shows the message `done`, or the
    error message of the service.
    """
    try:
        work()
    except ApplicationError as error:
        messages.error(request, error.message)
    except ValidationError as error:
        for text in error.messages:
            messages.error(request, text)
    else:
        messages.success(request, done)
    return redirect("hosts:detail", host.name)


@login_required
@require_POST
def trust(request: Request, name: str) -> HttpResponse:
    """Trust the host key whose fingerprint the user confirmed. If the host now offers another key, show an error."""
    host = administered(request, name)
    if not host.host_key:
        return _trust(request, host, _("The host key is trusted. Paddock checks the host now."))
    words = _("The new host key is trusted. Edit the host, and enter its private key or passwords again.")
    return sudo_required(_trust)(request, host, words)


def _trust(request: HttpRequest, host: Host, words: str) -> HttpResponse:
    actor, confirmed = cast(User, request.user), request.POST.get("confirmed", "")
    return _asked(
        cast(Request, request),
        host,
        lambda: services.host_trust_key(actor=actor, host=host, confirmed=confirmed),
        words,
    )


def _queue_job(request: Request, host: Host, kind: HostJobKind, **params: Any) -> HttpResponse:
    return _asked(
        request,
        host,
        lambda: services.host_job_request(actor=request.user, host=host, kind=kind, params=params),
        _("Started: %s. This page shows the progress.") % kind.label,
    )


@login_required
@require_POST
def ask(request: Request, name: str, action: str) -> HttpResponse:
    """Start the job named by `action` on a host (check, drift, install-gallop, replace-key), or pause or resume it."""
    host = administered(request, name)
    if action in PAUSING:
        paused, hosts = PAUSING[action], [host]
        words = paused_words(hosts, paused)
        return _asked(
            request, host, lambda: services.hosts_pause(actor=request.user, hosts=hosts, paused=paused), words
        )
    if action not in KINDS:
        raise Http404
    return _queue_job(request, host, KINDS[action])


@login_required
@require_POST
def service(request: Request, name: str) -> HttpResponse:
    """Queue a job that starts, reloads or stops a web server; the posted data names the web server and the action."""
    host = administered(request, name)
    web_server, action = request.POST.get("web_server", ""), request.POST.get("action", "")
    return _queue_job(
        request, host, HostJobKind.SERVICE, web_server=int(web_server) if web_server.isdecimal() else 0, action=action
    )


@login_required
@form_page
def stop(request: Request, name: str, pk: int) -> HttpResponse:
    """Queue a job that stops a web server, after a confirmation page that lists its sites, which become unavailable."""
    host = administered(request, name)
    web_server = _web_server(host, pk)
    if request.method == "POST":
        return _queue_job(request, host, HostJobKind.SERVICE, web_server=web_server.pk, action="stop")
    sites = list(web_server.sites.filter(enabled=True).values_list("name", flat=True)[:20])
    return _confirm_page(
        request,
        host,
        title=_("Stop %s?") % web_server,
        text=_("These sites are unavailable until you start the web server again:")
        if sites
        else _("No site uses this web server."),
        losses=sites,
        losses_are_said=True,
        verb=_("Stop the web server"),
    )


@login_required
@require_POST
def adopt(request: Request, name: str) -> HttpResponse:
    """Add a web server that the last check of the host found but did not add."""
    host = administered(request, name)
    engine, main_config = request.POST.get("engine", ""), request.POST.get("main_config", "")
    return _asked(
        request,
        host,
        lambda: services.web_server_adopt(actor=request.user, host=host, engine=engine, main_config=main_config),
        _("Paddock now manages this web server. The web server's configuration is unchanged."),
    )


@login_required
@form_page
def forget(request: Request, name: str, pk: int) -> HttpResponse:
    """Remove a web server from the panel after a confirmation; it keeps running on the host."""
    host = administered(request, name)
    web_server = _web_server(host, pk)
    if request.method == "POST":
        words = (
            _("Paddock no longer manages %s. The web server keeps running with its current configuration.") % web_server
        )
        return _asked(
            request, host, lambda: services.web_server_delete(actor=request.user, web_server=web_server), words
        )
    return _confirm_page(
        request,
        host,
        title=_("Stop managing %s?") % web_server,
        text=_("The web server keeps running with its current configuration. A check of the host can find it again."),
        verb=_("Stop managing"),
    )


@login_required
@require_POST
def cancel(request: Request, name: str, pk: int) -> HttpResponse:
    host = administered(request, name)
    job = host.jobs.filter(pk=pk).first()
    if job is None:
        raise Http404
    return _asked(
        request,
        host,
        lambda: services.host_job_cancel(actor=request.user, job=job),
        _("The job was cancelled. Nothing was changed."),
    )
