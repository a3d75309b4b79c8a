"""Pages of deployments: list, plan, and progress; context of a part of a site's history page."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import ValidationError
from django.db.models import QuerySet
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_POST, require_safe

from panel.accounts.permissions import Action, may, require, teams_read
from panel.core.errors import ApplicationError
from panel.core.http import Request
from panel.core.pages import MOST, page_of
from panel.core.ui import Crumb
from panel.core.views.jobs import job_context
from panel.deployments import selectors
from panel.deployments.caches import services as caches
from panel.deployments.confirmation.services import IN_WINDOWS
from panel.deployments.forms import FilterForm
from panel.deployments.job_kinds import JOB
from panel.deployments.main_file.services import main_plan
from panel.deployments.models import (
    Deployment,
    DeploymentKind,
    DeploymentStatus,
    Drift,
    Revision,
)
from panel.deployments.planning import services
from panel.deployments.planning.selectors import live_revision
from panel.deployments.retry import services as retry
from panel.deployments.revisions.rendered import spec_of
from panel.deployments.rollback.services import is_said
from panel.deployments.windows.selectors import closed_hosts
from panel.hosts.selectors import hosts_visible, web_servers_visible
from panel.previews.selectors import latest_previews, may_preview
from panel.publishing.selectors import moves_of
from panel.rendering.urls import open_url
from panel.websites.models import Site
from panel.websites.selectors import sites_visible
from panel.websites.views.linting import lines_of

PAGE = 50
MOST_OPEN_URLS = 8


def crumbs(*more: Crumb) -> list[Crumb]:
    return [Crumb(_("Deployments"), reverse("deployments:list")), *more]


def site_or_404(request: Request, name: str) -> Site:
    return get_object_or_404(sites_visible(request.user), name=name)


def place_words(place: str) -> str:
    """Return the place of an error, shop/blocks/0/locations/1/root, in words: "shop, server block 1, location 2"."""
    parts = {"blocks": _("server block"), "locations": _("location"), "upstreams": _("upstream")}
    parts |= {"php_pools": _("PHP pool"), "stream_servers": _("stream server")}
    words: list[str] = []
    names = place.split("/") if "/" in place else []
    for name, number in zip(names, [*names[1:], ""], strict=True):
        if name in parts and number.isdecimal():
            words.append(f"{parts[name]} {int(number) + 1}")
    if names and names[0] not in parts:
        words.insert(0, names[0])
    return ", ".join(words)


def refused(request: Request, error: Exception, back: str) -> HttpResponse:
    """Show the errors of a service as messages, and redirect to the page `back`."""
    if isinstance(error, ValidationError):
        words = error.message_dict if hasattr(error, "error_dict") else {"": error.messages}
        for place, texts in words.items():
            for text in texts:
                named = place_words(place)
                messages.error(request, f"{named}: {text}" if named else text)
    else:
        messages.error(request, error.message if isinstance(error, ApplicationError) else str(error))
    return redirect(back)


def planned(
    request: Request, work: Callable[[], list[Deployment]], back: str, nothing: str = "", then: str = ""
) -> HttpResponse:
    """Call `work`, which returns plans, and redirect to the page of the first plan.

    If `work` raises an error, show the error on the page `back`. If `work` returns no plan, show the message `nothing`
    on the page `then`.
    """
    try:
        found = work()
    except (ApplicationError, ValidationError) as error:
        return refused(request, error, back)
    if not found:
        messages.success(request, nothing)
        return redirect(then or back)
    return redirect("deployments:detail", found[0].uuid)


# --- reading ---


def _filtered(rows: QuerySet[Deployment], form: FilterForm) -> QuerySet[Deployment]:
    if not form.is_valid():
        return rows.none()
    data = form.cleaned_data
    for name in ("status", "kind", "host"):
        if data[name]:
            rows = rows.filter(**{name: data[name]})
    return rows


@require_safe
def deployment_list(request: Request) -> HttpResponse:
    teams_read(request.user)
    form = FilterForm(request.GET or None, user=request.user)
    rows = selectors.deployments_on_page(request.user)
    rows = _filtered(rows, form) if form.is_bound else rows
    words = form.cleaned_data.get("q") if form.is_bound else ""
    keys = selectors.newest_named(request.user, rows, words, MOST + 1) if words else None
    page = page_of(rows, PAGE, request.GET.get("page"), most=MOST, keys=keys)
    page.object_list = selectors.with_own_sites(request.user, page.object_list)
    return render(request, "deployments/list.html", {"page": page, "filters": form})


def _visible(request: Request, uuid: UUID) -> Deployment:
    rows = selectors.with_items(selectors.deployments_visible(request.user))
    deployment = get_object_or_404(rows, uuid=uuid)
    if not selectors.is_whole_visible(request.user, deployment):
        raise Http404
    return deployment


def _batch(request: Request, deployment: Deployment) -> list[Deployment]:
    rows = selectors.deployments_visible(request.user).filter(batch=deployment.batch)
    return list(selectors.with_items(rows).order_by("pk"))


@require_safe
def detail(request: Request, uuid: UUID) -> HttpResponse:
    """Page of a deployment: the plan while it waits for confirmation, then progress and result."""
    deployment = _visible(request, uuid)
    batch = _batch(request, deployment)
    sites = [item.site for item in deployment.items.all()]  # without sites deleted since
    is_plan = deployment.status == DeploymentStatus.PLANNED and deployment.confirmed_at is None
    context = {
        "deployment": deployment,
        "batch": batch,
        "crumbs": crumbs(),
        "deploys": any(line.number for row in batch for line in row.plan.sites),
        "drifted": [path for row in batch for path in row.plan.drifted],
        "changed": sum(len(row.plan.changed_files) for row in batch),
        "main_returns": not deployment.plan.main_files,
        "row_stays_disabled": any(line.disabled_after for row in batch for line in row.plan.sites),
        **job_context(JOB, deployment, request.user),
        "sites": sites,
        "open_urls": _open_urls(deployment),
        "newer": _newer(request, deployment),
        "joined": _joined(request, deployment),
        "draft_stays": _draft_stays(deployment),
        "is_rollback": deployment.kind == DeploymentKind.ROLLBACK,
        "may_replan": retry.may_replan(request.user, deployment),
    }
    if is_plan:
        items = [item for row in batch for item in row.items.all()]
        rising = {item.site_id: (item.site, item.revision.web_server) for item in items if item.revision}
        if deployment.kind in (DeploymentKind.DEPLOY, DeploymentKind.MOVE):  # other kinds deploy no draft
            context["findings"] = lines_of(request.user, rising.values())
        context["also_edited"] = _also_edited(request, batch)
        context["closed"] = closed_hosts(row.host for row in batch if row.kind in IN_WINDOWS)
        context["may_administer"] = may(request.user, Action.ADMINISTER)
        context["previews"] = latest_previews(request.user, batch)
        context["moves"] = moves_of(request.user, batch)
        context["may_preview"] = may_preview(request.user, deployment)
    return render(request, "deployments/plan.html" if is_plan else "deployments/detail.html", context)


def _open_urls(deployment: Deployment) -> list[tuple[str, str]]:
    """Return [(site name, URL)] for sites that a successful deployment put on the host; at most MOST_OPEN_URLS. [] if
    the deployment did not succeed.
    """
    if deployment.status != DeploymentStatus.SUCCEEDED:
        return []
    placed = [(item.site.name, item.revision) for item in deployment.items.all() if item.revision][:MOST_OPEN_URLS]
    return [(name, url) for name, revision in placed if (url := open_url(spec_of(revision)))]


def _joined(request: Request, deployment: Deployment) -> list[Deployment]:
    """Return the other deployments that were carried out in the same transaction and that the user may see."""
    if deployment.joined_as is None:
        return []
    rows = selectors.deployments_visible(request.user).select_related("host").filter(joined_as=deployment.joined_as)
    return list(rows.exclude(pk=deployment.pk))


def _draft_stays(deployment: Deployment) -> tuple[Site, Revision] | None:
    """Return (site, live revision) if the draft still has the change that a rollback reversed, otherwise None."""
    by_hand = deployment.kind == DeploymentKind.ROLLBACK and deployment.status == DeploymentStatus.SUCCEEDED
    by_itself = deployment.kind == DeploymentKind.DEPLOY and deployment.status == DeploymentStatus.ROLLED_BACK
    if not by_hand and not by_itself:
        return None
    for item in deployment.items.all():
        live, tried = live_revision(item.site), item.revision
        if live is None or tried is None or (live.pk != tried.pk if by_hand else not is_said(item.site, tried)):
            continue
        if not is_said(item.site, live):
            return item.site, live
    return None


def _newer(request: Request, deployment: Deployment) -> Deployment | None:
    """Return the newer plan that replaced `deployment`, if the user has access to all of its sites, or None."""
    newer = deployment.superseded_by
    return newer if newer and selectors.is_whole_visible(request.user, newer) else None


def _also_edited(request: Request, batch: list[Deployment]) -> list[Drift]:
    """Return the open drift of the web servers of a batch in files that its plans do not contain.

    The reload activates the edits in these files. If a site then responds differently, the deployment stops.
    """
    web_servers = {item.site.web_server_id for row in batch for item in row.items.all()}
    planned = {(row.host_id, file.path) for row in batch for file in row.plan.files}
    found = selectors.drifts_visible(request.user).filter(web_server__in=web_servers)
    return [drift for drift in found if (drift.web_server.host_id, drift.path) not in planned]


def history_context(site: Site) -> dict[str, object]:
    """Return the context of templates/deployments/history_part.html, a part of the site's history page (websites)."""
    state = selectors.state_of(site)
    return {
        "site": site,
        "state": state,
        "live_revision": live_revision(site),
        "history": selectors.history_of(site),
        "revisions": selectors.revisions_of(site)[:50],
    }


# --- planning ---


@require_POST
def plan(request: Request) -> HttpResponse:
    """Plan the deployment of sites (names in `site`), or of all changed sites on hosts (names in `host`)."""
    if "host" in request.POST:
        return _plan_hosts(request, request.POST.getlist("host"))
    names = request.POST.getlist("site")
    sites = list(sites_visible(request.user).filter(name__in=names))
    back = reverse("websites:detail", args=[names[0]]) if len(names) == 1 else reverse("websites:list")
    missing = set(names) - {site.name for site in sites}
    if missing or not names:
        text = _("These sites do not exist: %s. Nothing was planned.") % ", ".join(sorted(missing))
        messages.error(request, text if missing else _("Choose at least one site."))
        return redirect("websites:list")
    return planned(request, lambda: services.deployment_plan(actor=request.user, sites=sites), back)


def _plan_hosts(request: Request, names: list[str]) -> HttpResponse:
    hosts = list(hosts_visible(request.user).filter(name__in=names))
    missing = set(names) - {host.name for host in hosts}
    if missing:
        messages.error(request, _("These hosts do not exist: %s. Nothing was planned.") % ", ".join(sorted(missing)))
        return redirect("hosts:list")
    back = reverse("hosts:detail", args=[names[0]]) if len(names) == 1 else reverse("hosts:list")
    return planned(request, lambda: services.hosts_plan(actor=request.user, hosts=hosts), back)


@require_POST
def main_file(request: Request, pk: int) -> HttpResponse:
    """Plan to manage a web server's main file (`managed` on), or to restore the distribution's file."""
    require(request.user, Action.ADMINISTER)
    web_server = get_object_or_404(web_servers_visible(request.user), pk=pk)
    wanted = request.POST.get("managed") == "on"
    back = reverse("hosts:detail", args=[web_server.host.name])
    return planned(request, lambda: [main_plan(actor=request.user, web_server=web_server, managed=wanted)], back)


@require_POST
def rollback(request: Request, name: str, number: int) -> HttpResponse:
    site = site_or_404(request, name)
    revision = get_object_or_404(selectors.revisions_of(site), number=number)
    back = reverse("websites:history", args=[name])
    return planned(request, lambda: [services.site_rollback(actor=request.user, site=site, revision=revision)], back)


@require_POST
def disable(request: Request, name: str) -> HttpResponse:
    site = site_or_404(request, name)

    def work() -> list[Deployment]:
        deployment = services.site_disable(actor=request.user, site=site)
        return [deployment] if deployment else []

    done = _("The site %s is disabled. No deployment was needed because the site is not on a host.") % site
    return planned(request, work, reverse("websites:history", args=[name]), done)


@require_POST
def empty_cache(request: Request, name: str) -> HttpResponse:
    site = site_or_404(request, name)
    back = reverse("websites:detail", args=[name])
    try:
        found = caches.site_cache_empty(actor=request.user, site=site)
    except ApplicationError as error:
        return refused(request, error, back)
    count = found["files"]
    text = ngettext("Deleted %(count)s cached response.", "Deleted %(count)s cached responses.", count)
    messages.success(request, text % {"count": count})
    return redirect(back)


# --- deciding ---


@require_POST
def confirm(request: Request, uuid: UUID) -> HttpResponse:
    deployment = _visible(request, uuid)
    names = ("accept_drift", "deploy_anyway", "despite_windows")
    is_ticked = {name: request.POST.get(name) == "on" for name in names}
    try:
        services.deployment_confirm(
            actor=request.user,
            deployment=deployment,
            accept_drift=is_ticked["accept_drift"],
            deploy_anyway=is_ticked["deploy_anyway"],
            despite_windows=is_ticked["despite_windows"],
        )
    except (ApplicationError, ValidationError) as error:
        return refused(request, error, reverse("deployments:detail", args=[uuid]))
    return redirect("deployments:detail", uuid)


@require_POST
def plan_again(request: Request, uuid: UUID) -> HttpResponse:
    deployment = _visible(request, uuid)
    back = reverse("deployments:detail", args=[uuid])
    done = _("Done. The change needed no deployment.")
    work = lambda: retry.deployment_replan(actor=request.user, deployment=deployment)  # noqa: E731
    return planned(request, work, back, done, reverse("deployments:list"))


@require_POST
def cancel(request: Request, uuid: UUID) -> HttpResponse:
    deployment = _visible(request, uuid)
    try:
        services.deployment_cancel(actor=request.user, deployment=deployment)
    except ApplicationError as error:
        return refused(request, error, reverse("deployments:detail", args=[uuid]))
    messages.success(request, _("The plan is discarded. The host was not changed."))
    return redirect("deployments:list")
