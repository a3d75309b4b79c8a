"""Pages of the logs of a host's web servers: the last lines, live updates, and a search in one day."""

from __future__ import annotations

from collections.abc import Callable

from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_safe

from panel.accounts.permissions import Action
from panel.core.errors import ApplicationError
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.hosts.forms import LogSearchForm
from panel.hosts.log_periods import LogPeriod
from panel.hosts.logs import Log, Search, host_log_search, host_log_tail, host_logs
from panel.hosts.views.pages import host_get


@login_required
@require_safe
def logs(request: Request, name: str) -> HttpResponse:
    """Show a log of the host's web servers. Administrators only, because the logs have requests to the sites of all
    teams.
    """
    host = host_get(request, name, Action.ADMINISTER)
    found = host_logs(host)
    wanted = request.GET.get("log", "")
    chosen = next((log for log in found if wanted in ("", log.key)), None)
    if wanted and chosen is None:
        raise Http404
    crumbs = [Crumb(_("Hosts"), reverse("hosts:list")), Crumb(host.name, reverse("hosts:detail", args=[host.name]))]
    context: dict[str, object] = {"host": host, "logs": found, "chosen": chosen, "crumbs": crumbs}
    if chosen is not None:
        context |= log_context(
            request,
            chosen,
            tail=lambda: host_log_tail(host, chosen),
            search=lambda wanted: host_log_search(host, chosen, wanted),
        )
    is_part = request.htmx and request.htmx.target == "log"
    return render(request, "components/log.html" if is_part else "hosts/logs.html", context)


def log_context(
    request: Request, chosen: Log, *, tail: Callable[[], list[str]], search: Callable[[Search], LogPeriod]
) -> dict[str, object]:
    """Return the template variables for components/logs.html: the last lines of a log, or with `?day=` the results of a
    search.
    """
    today = timezone.localdate()
    is_search = "day" in request.GET
    form = LogSearchForm(request.GET if is_search else None, initial={"log": chosen.key, "day": today})
    context: dict[str, object] = {
        "is_followed": not is_search and request.GET.get("follow") == "1",
        "search_form": form,
        "is_search": is_search,
    }
    try:
        if not is_search:
            context["text"] = "\n".join(tail())
        elif form.is_valid():
            found = search(form.search)
            context |= {"found": found, "text": "\n".join(found.lines)}
    except ApplicationError as error:
        context["fault"] = error.message
    except PermissionDenied as error:  # keep the page, so that another log can be chosen
        context["fault"] = str(error)
    return context
