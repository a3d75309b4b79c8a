"""Advance rollouts step by step. Each step is stored before the next, so that any worker can continue."""

from __future__ import annotations

import datetime as dt
import logging
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from uuid import UUID

from django.db import transaction
from django.db.models import Q, QuerySet
from django.utils import timezone

from panel.audit.services import audit_record
from panel.core import claims
from panel.core.changed_messages import ChangedMessages
from panel.core.claims import Claim
from panel.core.errors import ApplicationError
from panel.deployments.confirmation.holding import held_release, waiting_cancel
from panel.deployments.models import TERMINAL, Deployment, DeploymentStatus
from panel.deployments.windows.selectors import Closed, closed_hosts
from panel.rollouts import gates, undoing
from panel.rollouts.choices import RolloutStatus, WaveStatus, Wish
from panel.rollouts.gates import Finding
from panel.rollouts.models import Rollout, Wave

_messages = ChangedMessages(logging.getLogger(__name__))

SOON_S = 0.5  # seconds until running deployments are checked again
OBSERVE_EVERY_S = 10.0
WINDOW_LOOK_S = 30.0  # seconds until a host outside its change windows is checked again
DEPLOY_WITHIN_S = 900.0  # a wave that takes longer has failed
ENDED = "Not started, because the rollout ended before this wave."


@dataclass(frozen=True)
class Next:
    """State of a rollout after a step, and the seconds until its next step."""

    status: RolloutStatus
    wait_s: float = 0.0


def rollouts_due() -> list[UUID]:
    """Requeue rollouts of dead workers; return the UUIDs of the queued rollouts whose next step is due."""
    waiting = claims.orphans_queue(Rollout, "created_at", "pk")
    due = Rollout.objects.filter(uuid__in=waiting).filter(Q(next_at=None) | Q(next_at__lte=timezone.now()))
    return list(due.values_list("uuid", flat=True))


def rollout_advance(uuid: UUID) -> float | None:
    """Take the next step of a rollout, unless another worker does.
    Return the seconds until the next step, or None if no further step is to be taken.
    """
    claim = Claim(Rollout)
    if not claim.take([uuid]):
        return None
    with claim.heartbeat():
        rollout: Rollout = claim.rows.select_related("requested_by").get()
        try:
            after = _step(rollout)
            _messages.solved(rollout.pk)
        except ApplicationError as error:
            _messages.problem(rollout.pk, f"{rollout} waits: {error.message}")
            after = Next(RolloutStatus.QUEUED, OBSERVE_EVERY_S)
            rollout.progress = error.message[:200]
        except Exception:
            claim.release([rollout.pk], next_at=timezone.now() + dt.timedelta(seconds=OBSERVE_EVERY_S))
            raise
        return _ended(claim, rollout, after)


def _ended(claim: Claim, rollout: Rollout, after: Next) -> float | None:
    values = {"error": rollout.error, "progress": rollout.progress, "is_undoing": rollout.is_undoing}
    rows = claim.rows.filter(pk=rollout.pk)
    if after.status == RolloutStatus.QUEUED:
        claim.release([rollout.pk], next_at=timezone.now() + dt.timedelta(seconds=after.wait_s), **values)
        return after.wait_s
    ended_at = None if after.status in (RolloutStatus.PAUSED, RolloutStatus.WAITING) else timezone.now()
    values |= {"status": after.status, "claimed_by": "", "finished_at": ended_at, "next_at": None}
    if rows.filter(wish=Wish.NONE).update(**values):
        if ended_at is not None:
            audit_record(actor=None, action="rollout.finish", target=rollout, after={"status": after.status})
        return None
    claim.release([rollout.pk], next_at=timezone.now())  # somebody made a request meanwhile
    return 0.0


def _step(rollout: Rollout) -> Next:
    wish = _wish(rollout)
    if rollout.is_undoing:
        return _undo(rollout)
    if wish == Wish.END:
        return _end(rollout)
    if wish == Wish.PAUSE:
        return Next(RolloutStatus.PAUSED)
    wave = rollout.waves.exclude(status=WaveStatus.PASSED).first()
    if wave is None:
        rollout.progress = ""
        return Next(RolloutStatus.SUCCEEDED)
    match wave.status:
        case WaveStatus.WAITING:
            return _begin(rollout, wave)
        case WaveStatus.DEPLOYING:
            return _deploying(rollout, wave)
        case WaveStatus.OBSERVING:
            return _observing(rollout, wave)
        case WaveStatus.APPROVAL:
            return _approval(rollout, wave)
    return _end(rollout)


@transaction.atomic
def _wish(rollout: Rollout) -> Wish:
    """Return the action that a user requested for the rollout, and clear the request, so that one worker follows it.

    If the worker dies afterwards, a request to undo is not lost, because it is also stored as the start of the undo.
    The user can repeat other requests.
    """
    wish = Wish(rollout.wish)
    if wish != Wish.NONE:
        Rollout.objects.filter(pk=rollout.pk, wish=wish).update(wish=Wish.NONE)
    if wish == Wish.UNDO:
        undoing.begin(rollout)
        Rollout.objects.filter(pk=rollout.pk).update(is_undoing=True)
    return wish


def deployments_of(wave: Wave) -> QuerySet[Deployment]:
    """Return a wave's deployments with their hosts, bastions and SSH certificate authorities, but without plans, which
    are large.
    """
    rows = Deployment.objects.filter(rollout_part__wave=wave).order_by("pk")
    return rows.select_related("host__authority", "host__bastion__authority").defer("plan", "comparison", "checks")


def _undo(rollout: Rollout) -> Next:
    done = undoing.step(rollout)
    if done is None:
        return Next(RolloutStatus.QUEUED, SOON_S)
    return Next(RolloutStatus.UNDONE if done else RolloutStatus.FAILED)


def _end(rollout: Rollout) -> Next:
    """End the rollout: keep the deployed waves and cancel the waiting ones."""
    waves = rollout.waves.filter(status=WaveStatus.WAITING)
    waiting_cancel(list(Deployment.objects.filter(rollout_part__wave__in=waves).values_list("pk", flat=True)), ENDED)
    waves.update(status=WaveStatus.CANCELLED)
    rollout.progress = ""
    return Next(RolloutStatus.CANCELLED)


def _begin(rollout: Rollout, wave: Wave) -> Next:
    if rollout.start_at is not None and rollout.start_at > timezone.now():
        rollout.progress = f"The rollout starts at {rollout.start_at:%Y-%m-%d %H:%M:%S} UTC."
        return Next(RolloutStatus.QUEUED, (rollout.start_at - timezone.now()).total_seconds())
    deployments = list(deployments_of(wave))
    if closed := closed_hosts(row.host for row in deployments):
        rollout.progress = f"Wave {wave.position} waits for a change window. {closed[0].words}"[:200]
        return Next(RolloutStatus.QUEUED, _until(closed))
    pks = [row.pk for row in deployments]
    queued = Deployment.objects.filter(pk__in=pks).exclude(status=DeploymentStatus.PLANNED)
    try:
        if queued.count() < len(pks):  # otherwise a worker died after it had released these deployments
            held_release(pks)
    except ApplicationError as error:
        rollout.error = f"Paddock did not start wave {wave.position}. {error.message}"
        return Next(RolloutStatus.PAUSED)
    wave.status, wave.started_at = WaveStatus.DEPLOYING, timezone.now()
    wave.save(update_fields=["status", "started_at"])
    Rollout.objects.filter(pk=rollout.pk, started_at=None).update(started_at=wave.started_at)
    rollout.progress = f"Deploying wave {wave.position}."
    return Next(RolloutStatus.QUEUED, SOON_S)


def _until(closed: Sequence[Closed]) -> float:
    """Return the seconds until the change windows of all hosts in `closed` allow changes.

    The result is at most WINDOW_LOOK_S, because users may edit the windows meanwhile.
    """
    opens = [item.opens_at for item in closed]
    known = [moment for moment in opens if moment is not None]
    left_s = max(((moment - timezone.now()).total_seconds() for moment in known), default=WINDOW_LOOK_S)
    return WINDOW_LOOK_S if len(known) < len(opens) else min(max(left_s, SOON_S), WINDOW_LOOK_S)


def _deploying(rollout: Rollout, wave: Wave) -> Next:
    deployments = deployments_of(wave)
    waiting = deployments.exclude(status__in=TERMINAL)
    count, waits = deployments.count(), waiting.count()  # before `bad`, which then misses none when nothing waits
    bad = list(deployments.filter(status__in=TERMINAL - {DeploymentStatus.SUCCEEDED}))
    late = wave.started_at is not None and (timezone.now() - wave.started_at).total_seconds() > DEPLOY_WITHIN_S
    if bad or (waits and late):
        return _fail(rollout, wave, Finding("deployed", False, _failures(bad or list(waiting))))
    if waits:
        known = waiting.exclude(progress="").first()
        reason = f" {known.host}: {known.progress}" if known else ""
        rollout.progress = f"Deploying wave {wave.position}: {count - waits} of {count} hosts are done.{reason}"[:200]
        return Next(RolloutStatus.QUEUED, SOON_S)
    wave.status, wave.deployed_at = WaveStatus.OBSERVING, timezone.now()
    wave.failing = gates.failing_sites(deployments)
    note(wave, Finding("deployed", True, f"{count} of {count} hosts of the wave are deployed."))
    wave.save(update_fields=["status", "deployed_at", "failing", "evidence"])
    return Next(RolloutStatus.QUEUED, 0)


def _failures(deployments: Sequence[Deployment]) -> str:
    def words(row: Deployment) -> str:
        said = (row.error or row.progress).strip().split("\n")[0]
        return f"{row.host.name}: {row.status_words.lower()}. {said}".strip()

    more = f" and {len(deployments) - 3} more hosts" if len(deployments) > 3 else ""
    return "; ".join(words(row) for row in deployments[:3]) + more


def _observing(rollout: Rollout, wave: Wave) -> Next:
    deployments = list(deployments_of(wave))
    rest = Deployment.objects.filter(rollout_part__wave__rollout=rollout, rollout_part__wave__status=WaveStatus.WAITING)
    others = list(rest.select_related("host").defer("plan").order_by("pk")[: gates.OTHERS])
    for found in (gates.answers(wave, deployments), gates.responses(rollout, deployments, others)):
        if found.passed is False:
            return _fail(rollout, wave, found)
        note(wave, found)
    wave.save(update_fields=["evidence"])
    assert wave.deployed_at is not None
    left_s = rollout.soak_s - (timezone.now() - wave.deployed_at).total_seconds()
    if left_s > 0:
        rollout.progress = f"Observing wave {wave.position} until {_clock(wave.deployed_at, rollout.soak_s)} UTC."
        return Next(RolloutStatus.QUEUED, min(OBSERVE_EVERY_S, left_s))
    return _observed(rollout, wave, deployments)


def _clock(start: dt.datetime, seconds: int) -> str:
    return f"{start + dt.timedelta(seconds=seconds):%Y-%m-%d %H:%M:%S}"


def _observed(rollout: Rollout, wave: Wave, deployments: Sequence[Deployment]) -> Next:
    if rollout.hook_url:
        found = gates.hook(rollout, wave, deployments)
        if not found.passed:
            return _fail(rollout, wave, found)
        note(wave, found)
        wave.save(update_fields=["evidence"])
    is_last = not rollout.waves.filter(position__gt=wave.position).exists()
    if rollout.needs_approval and not is_last:
        wave.status = WaveStatus.APPROVAL
        wave.save(update_fields=["status"])
        rollout.progress = f"Wave {wave.position} passed its checks and waits for approval."
        return Next(RolloutStatus.WAITING)
    return _passed(wave)


def _approval(rollout: Rollout, wave: Wave) -> Next:
    if wave.approved_at is None:
        return Next(RolloutStatus.WAITING)
    note(wave, Finding("approval", True, f"The wave was approved by {wave.approved_by or 'a deleted user'}."))
    return _passed(wave)


def _passed(wave: Wave) -> Next:
    wave.status, wave.finished_at = WaveStatus.PASSED, timezone.now()
    wave.save(update_fields=["status", "finished_at", "evidence"])
    return Next(RolloutStatus.QUEUED, 0)


def note(wave: Wave, found: Finding) -> None:
    """Store the result of a gate (a check of the wave) in the wave's evidence; replace the gate's earlier result."""
    kept = [row for row in wave.evidence if row["gate"] != found.gate]
    wave.evidence = [*kept, {**asdict(found), "at": timezone.now().isoformat()}]


@transaction.atomic
def _fail(rollout: Rollout, wave: Wave, found: Finding) -> Next:
    """Record the failed gate (a check of the wave), and start to undo all waves.
    One transaction records both, so that a wave never fails without its undo.
    """
    note(wave, found)
    wave.status, wave.finished_at = WaveStatus.FAILED, timezone.now()
    wave.save(update_fields=["status", "finished_at", "evidence"])
    rollout.error = f"Wave {wave.position} failed. {found.words}"
    undoing.begin(rollout)
    Rollout.objects.filter(pk=rollout.pk).update(error=rollout.error, is_undoing=True)
    after = {"wave": wave.position, "gate": found.gate, "words": found.words[:2000]}
    audit_record(actor=None, action="rollout.fail", target=rollout, after=after)
    return Next(RolloutStatus.QUEUED, 0)
