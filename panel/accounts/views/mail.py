"""Pages for the settings of the mail server."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.cache import never_cache
from django.views.decorators.debug import sensitive_post_parameters
from django.views.decorators.http import require_http_methods, require_POST

from panel.accounts.forms import MailServerForm
from panel.accounts.services import links, mail_server
from panel.accounts.sudo import sudo_required
from panel.accounts.views.common import SETTINGS, actor_of, admin_required, submit
from panel.core.errors import ApplicationError
from panel.core.forms import form_status
from panel.core.mail import server


@never_cache
@sensitive_post_parameters("password")
@require_http_methods(["GET", "POST"])
@admin_required
@sudo_required
def mail_settings(request: HttpRequest) -> HttpResponse:
    found = server()
    names = ("host", "port", "security", "username", "sender")
    initial = {name: getattr(found, name) for name in names} if found else {}
    form = MailServerForm(request.POST or None, initial=initial)
    if request.method == "POST":
        saved = submit(form, lambda data: mail_server.mail_server_set(actor=actor_of(request), **data))
        if saved:
            messages.success(request, _("The mail server was saved. Send a test mail to try the mail server."))
            return redirect("accounts:mail")
    context = {
        "form": form,
        "server": found,
        "can_mail_links": links.can_mail(),
        "crumbs": [SETTINGS],
    }
    return render(request, "accounts/mail_server.html", context, status=form_status(form))


@require_POST
@admin_required
def mail_test(request: HttpRequest) -> HttpResponse:
    actor = actor_of(request)
    try:
        said = mail_server.mail_test(actor=actor)
    except ApplicationError as error:
        messages.error(request, error.message)
    else:
        messages.success(
            request, _("A test mail was sent to %(address)s. %(response)s") % {"address": actor.email, "response": said}
        )
    return redirect("accounts:mail")


@require_POST
@admin_required
@sudo_required
def mail_delete(request: HttpRequest) -> HttpResponse:
    try:
        mail_server.mail_server_delete(actor=actor_of(request))
    except ApplicationError as error:
        messages.error(request, error.message)
    else:
        messages.success(request, _("The mail server was deleted from the panel's settings."))
    return redirect("accounts:mail")
