"""Pages of the PHP-FPM pool of a site."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.http import Http404, HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST

from panel.accounts.permissions import Action, may, require
from panel.core.errors import ApplicationError, words_of
from panel.core.forms import ConfirmNameForm, attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.fpm import services
from panel.fpm.forms import FpmPoolForm
from panel.fpm.models import FpmPool
from panel.fpm.observing import offer
from panel.fpm.selectors import (
    accounts_of_others,
    is_changed,
    last_job,
    pool_of,
    pools_left,
    state_of,
    suggested_folder,
)
from panel.hosts.models import HostJob
from panel.remote.errors import RemoteError
from panel.websites.models import Site
from panel.websites.views.base import crumbs_below, site_get, site_render

form_page = require_http_methods(["GET", "HEAD", "POST"])


def _crumbs(site: Site) -> list[Crumb]:
    return [*crumbs_below(site), Crumb(_("PHP"), reverse("websites:php", args=[site.name]))]


@form_page
def pool(request: Request, name: str) -> HttpResponse:
    """Show the state of a site's PHP-FPM pool on its host, and the form with its settings; without a pool, the form
    that creates one.
    """
    site = site_get(request, name)
    found = pool_of(request.user, site)
    form, problem = None, ""
    if request.method == "POST":
        require(request.user, Action.ADMINISTER)
    if may(request.user, Action.ADMINISTER):
        form, problem = _form(request, site, found)
    if request.method == "POST" and form is not None:
        if "_field" in request.POST:
            return field_errors(request, form)
        job = attempt(form, lambda: _saved(request, site, form)) if form.is_valid() else None
        if job is not None:
            return redirect("job", job.uuid)
    context = {"form": form, "problem": problem, "crumbs": _crumbs(site), **_shown(request, site)}
    status = form_status(form) if form is not None else 200
    return site_render(request, site, "php", "fpm/pool.html", status_code=status, **context)


def _shown(request: Request, site: Site) -> dict[str, object]:
    found = pool_of(request.user, site)  # as stored: the form has changed its own
    left = [(row, state_of(row)) for row in pools_left(request.user, site)]
    if found is None:
        return {"pool": None, "left": left}
    job = last_job(found)
    failed = job if job is not None and job.error else None
    is_chosen = site.php_pools.filter(address=f"unix:{found.socket}").exists()
    shown = {"pool": found, "state": state_of(found), "is_changed": is_changed(found), "failed": failed}
    return {**shown, "is_chosen": is_chosen, "left": left}


def _form(request: Request, site: Site, found: FpmPool | None) -> tuple[FpmPoolForm | None, str]:
    """Return the form of the pool, or None and the reason why the page has no form."""
    if site.web_server is None:
        return None, _("This site has no web server yet. Choose a web server, then create the pool.")
    host = found.host if found else site.web_server.host
    try:
        has = offer(host)
    except (RemoteError, ApplicationError) as error:
        return None, error.message
    if found is None and not has.versions:
        words = _(
            "Paddock found no PHP-FPM on %s in the folders that Debian and Ubuntu use. Install PHP-FPM on the host: "
            "apt-get install php-fpm"
        )
        return None, words % host.name
    row = found or FpmPool(site=site, host=host, name=f"paddock-{site.name}", folder=suggested_folder(site))
    taken = accounts_of_others(site, host)
    return FpmPoolForm(request.POST or None, instance=row, offer=has, taken=taken), ""


def _saved(request: Request, site: Site, form: FpmPoolForm) -> HostJob:
    found = pool_of(request.user, site)
    if found is None:
        return services.fpm_pool_create(actor=request.user, site=site, **form.values())
    return services.fpm_pool_update(
        actor=request.user, pool=found, expected_version=form.expected_version, **form.values()
    )


@require_POST
def apply(request: Request, name: str) -> HttpResponse:
    """Start the job that writes the pool to its host again."""
    replace = request.POST.get("replace") == "yes"
    return _job(request, name, lambda row: services.fpm_pool_apply(actor=request.user, pool=row, replace=replace))


@form_page
def remove(request: Request, name: str) -> HttpResponse:
    """Show a confirmation page, or start the job that removes the pool from its host."""
    site, row = _row(request, name)
    if request.method == "POST":
        return _job(request, name, lambda row: services.fpm_pool_remove(actor=request.user, pool=row))
    context = {
        "title": _("Remove the PHP-FPM pool %s?") % row.name,
        "text": _("Paddock removes %(path)s on %(host)s and reloads php-fpm.")
        % {"path": row.path, "host": row.host.name},
        "cancel_url": reverse("fpm:pool", args=[site.name]),
        "action": request.get_full_path(),
        "crumbs": _crumbs(site),
    }
    return site_render(request, site, "php", "websites/confirm.html", **context)


@form_page
def forget(request: Request, name: str) -> HttpResponse:
    """Show a confirmation page, or delete the pool in the panel only; the pool remains on its host."""
    site, row = _row(request, name)
    form = ConfirmNameForm(request.POST or None, expected=row.name)
    if request.method == "POST" and form.is_valid():
        try:
            services.fpm_pool_forget(actor=request.user, pool=row)
        except ApplicationError as error:
            messages.error(request, error.message)
            return redirect("fpm:pool", site.name)
        messages.success(request, _("Paddock no longer manages %s.") % row.name)
        return redirect("websites:php", site.name)
    context = {
        "form": form,
        "title": _("Delete the PHP-FPM pool %s in Paddock only?") % row.name,
        "text": _("The host %(host)s keeps the pool and its file %(path)s.")
        % {"host": row.host.name, "path": row.path},
        "cancel_url": reverse("fpm:pool", args=[site.name]),
        "action": request.get_full_path(),
        "crumbs": _crumbs(site),
        "status_code": form_status(form),
    }
    return site_render(request, site, "php", "websites/confirm.html", **context)


def _row(request: Request, name: str) -> tuple[Site, FpmPool]:
    """Return a site and its pool on the host in the query, by default on the host of the site."""
    require(request.user, Action.ADMINISTER)
    site = site_get(request, name)
    row = pool_of(request.user, site, request.GET.get("host", ""))
    if row is None:
        raise Http404
    return site, row


def _job(request: Request, name: str, work: Callable[[FpmPool], HostJob]) -> HttpResponse:
    site, row = _row(request, name)
    try:
        job = work(row)
    except (ApplicationError, ValidationError) as error:
        messages.error(request, words_of(error))
        return redirect("fpm:pool", site.name)
    return redirect("job", job.uuid)
