"""Pages of certificates of the user's teams, and the TLS page of a site."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_safe

from panel.accounts.permissions import Action, may, require, teams_visible
from panel.accounts.sudo import sudo_required
from panel.core.errors import ApplicationError
from panel.core.forms import ConfirmNameForm, attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.websites import services
from panel.websites.forms.parts import (
    CertificateExportForm,
    CertificateReplaceForm,
    CertificateUploadForm,
    SelfSignForm,
)
from panel.websites.models import Certificate, Site
from panel.websites.part_selectors import stream_servers_of
from panel.websites.selectors import certificates_visible
from panel.websites.views.base import named_get, page_of, site_get, site_render

form_page = require_http_methods(["GET", "HEAD", "POST"])


def _crumbs() -> list[Crumb]:
    return [Crumb(_("Sites"), reverse("websites:list")), Crumb(_("Certificates"), reverse("websites:certificates"))]


def _get(request: Request, name: str, action: Action = Action.VIEW) -> Certificate:
    return named_get(request, certificates_visible(request.user), name, action)


@login_required
@require_safe
def tls(request: Request, name: str) -> HttpResponse:
    site = site_get(request, name)
    blocks = site.blocks.select_related("certificate").prefetch_related("listens", "names")
    streams = stream_servers_of(site).exclude(certificate=None)
    context = {
        "blocks": blocks,
        "streams": streams,
        "now": timezone.now(),
        "is_watch_outdated": _is_watch_outdated(site),
    }
    return site_render(request, site, "tls", "websites/tls.html", **context)


def _is_watch_outdated(site: Site) -> bool:
    """Return whether the site's health changed after its certificates were last observed."""
    watch, state = getattr(site, "certificate_watch", None), getattr(site, "state", None)
    return bool(watch and state and state.health_since and watch.looked_at < state.health_since)


@login_required
@require_safe
def certificates(request: Request) -> HttpResponse:
    rows = certificates_visible(request.user).select_related("automatic__site")
    rows = rows.prefetch_related("blocks", "stream_servers").order_by("not_after")
    context = {
        "page": page_of(request, rows),
        "crumbs": _crumbs()[:1],
        "may_change": may(request.user, Action.CHANGE),
        "now": timezone.now(),
    }
    return render(request, "websites/certificates.html", context)


@login_required
@require_safe
def certificate(request: Request, name: str) -> HttpResponse:
    row = _get(request, name)
    context = {
        "certificate": row,
        "automatic": getattr(row, "automatic", None),
        "users": [
            *row.blocks.select_related("site").order_by("site__name"),
            *row.stream_servers.select_related("site").order_by("site__name", "name"),
        ],
        "crumbs": _crumbs(),
        "may_change": may(request.user, Action.CHANGE, row.team),
        "now": timezone.now(),
    }
    return render(request, "websites/certificate.html", context)


def _form_page(request: Request, form: Any, title: str, lead: str, verb: str) -> HttpResponse:
    context = {"form": form, "crumbs": _crumbs(), "title": title, "lead": lead, "verb": verb}
    return render(request, "websites/certificate_form.html", context, status=form_status(form))


@sensitive_post_parameters()
@login_required
@form_page
def upload(request: Request) -> HttpResponse:
    require(request.user, Action.CHANGE)
    form = CertificateUploadForm(request.POST or None, instance=Certificate(), teams=teams_visible(request.user))
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            row = attempt(form, lambda: services.certificate_upload(actor=request.user, **form.values()))
            if row is not None:
                messages.success(request, _("The certificate %s was saved.") % row.name)
                return redirect("websites:certificate", row.name)
    lead = _("Paddock checks that the key matches the certificate and that the chain is complete.")
    return _form_page(request, form, _("Upload a certificate"), lead, _("Upload"))


@login_required
@form_page
def self_sign(request: Request) -> HttpResponse:
    require(request.user, Action.CHANGE)
    form = SelfSignForm(request.POST or None, instance=Certificate(), teams=teams_visible(request.user))
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            row = attempt(form, lambda: services.certificate_self_sign(actor=request.user, **form.values()))
            if row is not None:
                messages.success(request, _("The certificate %s was created.") % row.name)
                return redirect("websites:certificate", row.name)
    lead = _("For tests and internal sites. Browsers show a warning because no public authority signed it.")
    return _form_page(request, form, _("Create a self-signed certificate"), lead, _("Create"))


@sensitive_post_parameters()
@login_required
@form_page
def replace(request: Request, name: str) -> HttpResponse:
    row = _get(request, name, Action.CHANGE)
    form = CertificateReplaceForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        saved = attempt(
            form, lambda: services.certificate_replace(actor=request.user, certificate=row, **form.cleaned_data)
        )
        if saved is not None:
            messages.success(request, _("%s was renewed. Deploy its sites to use the new certificate.") % row.name)
            return redirect("websites:certificate", row.name)
    lead = _("Deploy the sites afterwards to use the new certificate.")
    return _form_page(request, form, _("Renew %s") % row.name, lead, _("Renew"))


@login_required
@require_safe
def file(request: Request, name: str) -> HttpResponse:
    """Download a certificate with its chain as PEM, without the private key."""
    row = _get(request, name)
    return _download(row.certificate_pem.encode(), f"{row.name}.pem", "application/x-pem-file")


@sensitive_post_parameters()
@login_required
@form_page
@sudo_required
def export(request: Request, name: str) -> HttpResponse:
    """Show the form to download a certificate with its private key as PKCS #12, or send the file."""
    row = _get(request, name, Action.CHANGE)
    form = CertificateExportForm(request.POST or None)
    if request.method == "POST" and form.is_valid():
        made = attempt(
            form, lambda: services.certificate_export(actor=request.user, certificate=row, **form.cleaned_data)
        )
        if made is not None:
            return _download(made, f"{row.name}.p12", "application/x-pkcs12")
    lead = _(
        "A PKCS #12 file with the certificate, its chain, and its private key. The audit log records the download."
    )
    return _form_page(request, form, _("Download %s with its key") % row.name, lead, _("Download"))


def _download(content: bytes, name: str, kind: str) -> HttpResponse:
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return HttpResponse(content, content_type=kind, headers=headers)


@login_required
@form_page
def delete(request: Request, name: str) -> HttpResponse:
    row = _get(request, name, Action.CHANGE)
    form = ConfirmNameForm(request.POST or None, expected=row.name)
    if request.method == "POST" and form.is_valid():
        try:
            services.certificate_delete(actor=request.user, certificate=row)
        except ApplicationError as error:
            messages.error(request, error.message)
            return redirect("websites:certificate", row.name)
        messages.success(request, _("The certificate %s was deleted.") % row.name)
        return redirect("websites:certificates")
    context = {
        "form": form,
        "title": _("Delete the certificate %s?") % row.name,
        "losses": [
            _("The certificate for %s") % ", ".join(row.names),
            _("The certificate's private key, which Paddock stores nowhere else"),
        ],
        "cancel_url": reverse("websites:certificate", args=[row.name]),
        "crumbs": _crumbs(),
    }
    return render(request, "websites/confirm.html", context, status=422 if form.is_bound else 200)
