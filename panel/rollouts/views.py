"""Pages of rollouts: the list, the start form, and a rollout with its waves and their evidence."""

from __future__ import annotations

from collections.abc import Callable
from uuid import UUID

from django.contrib import messages
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.urls import reverse
from django.utils.translation import gettext as _
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from panel.accounts.models import User
from panel.core.errors import ApplicationError
from panel.core.forms import attempt, field_errors, form_status
from panel.core.http import Request
from panel.core.ui import Crumb
from panel.core.views.jobs import job_context
from panel.deployments.models import Deployment, DeploymentStatus
from panel.deployments.selectors import deployments_visible, is_whole_visible
from panel.deployments.views.deployments import crumbs
from panel.rollouts import services
from panel.rollouts.choices import RolloutStatus, WaveStatus
from panel.rollouts.forms import RolloutForm
from panel.rollouts.job_kinds import JOB
from panel.rollouts.models import Rollout
from panel.rollouts.selectors import rollouts_visible, with_waves

PAGE = 50
form_page = require_http_methods(["GET", "HEAD", "POST"])


@require_safe
def rollout_list(request: Request) -> HttpResponse:
    rows = with_waves(rollouts_visible(request.user))
    page = Paginator(rows, PAGE).get_page(request.GET.get("page"))
    return render(request, "rollouts/list.html", {"page": page, "crumbs": crumbs()})


@form_page
def start(request: Request, uuid: UUID) -> HttpResponse:
    """Show the form with the rules of a rollout of this plan, and start the rollout on POST."""
    plan = get_object_or_404(deployments_visible(request.user), uuid=uuid)
    if not is_whole_visible(request.user, plan):
        raise Http404
    form = RolloutForm(request.POST or None)
    if request.method == "POST":
        if "_field" in request.POST:
            return field_errors(request, form)
        if form.is_valid():
            rollout = attempt(form, lambda: _started(request.user, plan, form))
            if rollout is not None:
                return redirect("rollouts:detail", rollout.uuid)
    batch = list(deployments_visible(request.user).filter(batch=plan.batch).order_by("host__name"))
    context = {
        "form": form,
        "plan": plan,
        "batch": batch,
        "drifted": [path for row in batch for path in row.plan.drifted],
        "is_open": plan.status == DeploymentStatus.PLANNED and plan.confirmed_at is None,
        "crumbs": crumbs(Crumb(_("Plan"), reverse("deployments:detail", args=[uuid]))),
    }
    return render(request, "rollouts/start.html", context, status=form_status(form))


def _started(actor: User, plan: Deployment, form: RolloutForm) -> Rollout:
    return services.rollout_start(
        actor=actor,
        deployment=plan,
        rules=form.rules(),
        accept_drift=form.cleaned_data["accept_drift"],
        deploy_anyway=form.cleaned_data["deploy_anyway"],
    )


@require_safe
def detail(request: Request, uuid: UUID) -> HttpResponse:
    rollout = get_object_or_404(rollouts_visible(request.user), uuid=uuid)
    context = {
        "rollout": rollout,
        "crumbs": crumbs(Crumb(_("Rollouts"), reverse("rollouts:list"))),
        "offers": _offers(rollout),
        **job_context(JOB, rollout, request.user),
    }
    return render(request, "rollouts/detail.html", context)


def _offers(rollout: Rollout) -> list[str]:
    """Return the names of the actions that the user can choose now, in the order of their buttons."""
    is_forward = not rollout.is_finished and not rollout.is_undoing
    offers = []
    if rollout.waves.filter(status=WaveStatus.APPROVAL, approved_at=None).exists() and is_forward:
        offers.append("approve")
    if rollout.status == RolloutStatus.PAUSED:
        offers.append("resume")
    elif is_forward:
        offers.append("pause")
    if is_forward:
        offers.append("end")
    is_busy_undoing = rollout.is_undoing and not rollout.is_finished
    if rollout.status != RolloutStatus.UNDONE and not is_busy_undoing:
        offers.append("undo")
    return offers


def _acting(work: Callable[..., Rollout]) -> Callable[[Request, UUID], HttpResponse]:
    """Build a view that calls a service, such as `rollout_pause`, for a rollout and then shows the rollout."""

    def act(request: Request, uuid: UUID) -> HttpResponse:
        rollout = get_object_or_404(rollouts_visible(request.user), uuid=uuid)
        try:
            work(actor=request.user, rollout=rollout)
        except ApplicationError as error:
            messages.error(request, error.message)
        return redirect("rollouts:detail", uuid)

    return require_POST(act)


pause = _acting(services.rollout_pause)
resume = _acting(services.rollout_resume)
approve = _acting(services.wave_approve)
end = _acting(services.rollout_end)
undo = _acting(services.rollout_undo)
