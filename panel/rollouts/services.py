"""Services of rollouts: start, pause, resume, approve, end, and undo."""

from __future__ import annotations

import datetime as dt
from collections.abc import Sequence
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from panel.accounts.models import User
from panel.accounts.permissions import Action, require_each
from panel.audit.services import audit_record
from panel.core.errors import ApplicationError, Conflict
from panel.core.messages import Task, task_send_on_commit
from panel.deployments.confirmation.services import deployment_confirm
from panel.deployments.models import Deployment, DeploymentItem, DeploymentKind
from panel.rollouts.choices import UNDER_WAY, RolloutStatus, WaveStatus, Wish
from panel.rollouts.models import Part, Rollout, Wave
from panel.rollouts.waves import waves_of
from panel.websites.models import Site

MOST_AHEAD = dt.timedelta(days=90)


@dataclass(frozen=True)
class Rules:
    """Rules of a rollout: the sizes of the first two waves, and the limits of the gates (checks of a wave).

    The fields are named as in `Rollout`.
    """

    first: int = 1
    percent: int = 10
    soak_s: int = 300
    most_errors: float = 1.0
    most_slower: int = 100
    hook_url: str = ""
    needs_approval: bool = False
    needs_other_person: bool = False
    start_at: dt.datetime | None = None


def rollout_start(
    *, actor: User, deployment: Deployment, rules: Rules, accept_drift: bool = False, deploy_anyway: bool = False
) -> Rollout:
    """Confirm the plan and deploy its first wave, at once or at `start_at`; the other hosts wait.

    Raises the errors of `deployment_confirm`. Raises Conflict if a site is in another rollout. Raises ApplicationError
    if the plan does not only deploy sites, is for one host and has no `start_at`, or if a rule or the time is invalid.
    """
    rows = Deployment.objects.filter(batch=deployment.batch).defer("plan")
    batch = list(rows.select_related("host").order_by("host__name", "pk"))
    _refuse_batch(batch, rules)
    waves = waves_of(batch, rules.first, rules.percent)
    with transaction.atomic():
        rollout = Rollout(
            batch=deployment.batch,
            requested_by=actor,
            soak_s=rules.soak_s,
            most_errors=rules.most_errors,
            most_slower=rules.most_slower,
            hook_url=rules.hook_url,
            needs_approval=rules.needs_approval or rules.needs_other_person,
            needs_other_person=rules.needs_other_person,
            start_at=rules.start_at,
            next_at=rules.start_at,
            started_at=None if rules.start_at else timezone.now(),
        )
        rollout.clean_fields(exclude={"heartbeat_at", "started_at", "finished_at", "next_at"})
        held = {row.pk for wave in (waves if rules.start_at else waves[1:]) for row in wave}
        confirmed = {"accept_drift": accept_drift, "deploy_anyway": deploy_anyway}
        deployment_confirm(actor=actor, deployment=deployment, held=held, **confirmed)
        _refuse_overlap(batch)
        rollout.save()
        _waves_create(rollout, waves)
        audit_record(
            actor=actor, action="rollout.start", target=rollout, after={"hosts": [len(wave) for wave in waves]}
        )
    return rollout


def _refuse_batch(batch: Sequence[Deployment], rules: Rules) -> None:
    if any(row.kind != DeploymentKind.DEPLOY for row in batch):
        raise ApplicationError("Only a plan that deploys sites can be rolled out.", field="deployment")
    if len(batch) < 2 and rules.start_at is None:
        raise ApplicationError(
            "A rollout in waves needs a plan for at least two hosts. Confirm this plan without a rollout.",
            field="deployment",
        )
    if rules.first < 1 or not 1 <= rules.percent <= 100:
        raise ApplicationError(
            "The first wave needs at least one host, and the second 1 to 100 percent of the hosts.", field="first"
        )
    if rules.start_at is not None and not timezone.now() < rules.start_at < timezone.now() + MOST_AHEAD:
        raise ApplicationError("Enter a start time in the next 90 days.", field="start_at")


def _refuse_overlap(batch: Sequence[Deployment]) -> None:
    sites = DeploymentItem.objects.filter(deployment__in=batch).values("site")
    others = Site.objects.filter(pk__in=sites, deployment_items__deployment__rollout_part__wave__rollout__in=_open())
    for site in others:
        raise Conflict(f"{site} is part of another rollout. End or undo the other rollout first.")


def _open() -> list[int]:
    return list(Rollout.objects.filter(status__in=UNDER_WAY).values_list("pk", flat=True))


def _waves_create(rollout: Rollout, waves: Sequence[Sequence[Deployment]]) -> None:
    now = timezone.now()
    for position, deployments in enumerate(waves, start=1):
        wave = Wave(rollout=rollout, position=position)
        if position == 1 and rollout.start_at is None:  # queued by the confirmation
            wave.status, wave.started_at = WaveStatus.DEPLOYING, now
        wave.save()
        Part.objects.bulk_create(Part(wave=wave, deployment=row) for row in deployments)


def sites_of(rollout: Rollout) -> list[Site]:
    rows = Site.objects.filter(deployment_items__deployment__rollout_part__wave__rollout=rollout)
    return list(rows.select_related("team").distinct().order_by("name"))


def _require(actor: User, rollout: Rollout) -> None:
    require_each(actor, Action.DEPLOY, (site.team for site in sites_of(rollout)))


def rollout_pause(*, actor: User, rollout: Rollout) -> Rollout:
    """Pause a rollout: no further wave starts, and no wave is judged. Running deployments continue to their end."""
    return _wish(actor, rollout, Wish.PAUSE, UNDER_WAY, action="rollout.pause")


def rollout_end(*, actor: User, rollout: Rollout) -> Rollout:
    """End the rollout and keep its deployed waves; the waiting hosts are not changed."""
    return _wish(actor, rollout, Wish.END, UNDER_WAY, action="rollout.end")


def rollout_undo(*, actor: User, rollout: Rollout) -> Rollout:
    """Restore the previous configuration on every host, also after the rollout has ended, or after a failed undo."""
    when = tuple(set(RolloutStatus) - {RolloutStatus.UNDONE})
    return _wish(actor, rollout, Wish.UNDO, when, action="rollout.undo")


@transaction.atomic
def _wish(actor: User, rollout: Rollout, wish: Wish, when: Sequence[str], *, action: str) -> Rollout:
    _require(actor, rollout)
    rows = Rollout.objects.filter(pk=rollout.pk, status__in=when)
    if wish != Wish.UNDO:
        rows = rows.filter(is_undoing=False)
    if not rows.update(wish=wish):
        raise Conflict(f"The rollout has ended or is being undone, so “{wish.label}” is not possible.")
    # Queue the rollout again unless a worker is on it, so that the request is followed.
    Rollout.objects.filter(pk=rollout.pk).exclude(status=RolloutStatus.RUNNING).update(
        status=RolloutStatus.QUEUED, next_at=None, finished_at=None
    )
    audit_record(actor=actor, action=action, target=rollout)
    return _woken(rollout)


@transaction.atomic
def rollout_resume(*, actor: User, rollout: Rollout) -> Rollout:
    """Resume a paused rollout. Raises Conflict if the rollout is not paused."""
    _require(actor, rollout)
    paused = Rollout.objects.filter(pk=rollout.pk, status=RolloutStatus.PAUSED)
    if not paused.update(status=RolloutStatus.QUEUED, wish=Wish.NONE, error="", next_at=None):
        raise Conflict("The rollout is not paused, so it cannot be resumed.")
    audit_record(actor=actor, action="rollout.resume", target=rollout)
    return _woken(rollout)


@transaction.atomic
def wave_approve(*, actor: User, rollout: Rollout) -> Rollout:
    """Approve the wave that waits for approval, so that the next wave starts.

    Raises Conflict if no wave waits for approval, ApplicationError if another person has to approve.
    """
    _require(actor, rollout)
    if rollout.needs_other_person and rollout.requested_by_id == actor.pk:
        raise ApplicationError(
            "The person who started this rollout cannot approve its waves. Ask another person for approval.",
            code="forbidden",
        )
    waiting = Wave.objects.filter(rollout=rollout, status=WaveStatus.APPROVAL, approved_at=None)
    if not waiting.update(approved_by=actor, approved_at=timezone.now()):
        raise Conflict("No wave of this rollout waits for approval.")
    Rollout.objects.filter(pk=rollout.pk, status=RolloutStatus.WAITING).update(
        status=RolloutStatus.QUEUED, next_at=None
    )
    audit_record(actor=actor, action="rollout.approve", target=rollout)
    return _woken(rollout)


def _woken(rollout: Rollout) -> Rollout:
    task_send_on_commit(Task.ROLLOUT_ADVANCE, str(rollout.uuid))
    rollout.refresh_from_db()
    return rollout
