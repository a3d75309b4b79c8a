"""Undo of a rollout: cancel deployments that have not started, and roll back the others, newest wave first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby

from panel.core.errors import ApplicationError
from panel.deployments.confirmation.holding import waiting_cancel
from panel.deployments.confirmation.services import deployments_confirm_themselves
from panel.deployments.models import TERMINAL, Deployment, DeploymentStatus
from panel.deployments.rollback.undoing import undo_plan
from panel.rollouts.choices import WaveStatus
from panel.rollouts.models import Part, Rollout

NOT_STARTED = "Not started, because the rollout is being undone."
_BAD = TERMINAL - {DeploymentStatus.SUCCEEDED}


def begin(rollout: Rollout) -> None:
    """Mark the rollout as being undone, and clear failed rollbacks, so that they are tried again."""
    rollout.is_undoing = True
    parts = _parts(rollout)
    Part.objects.filter(pk__in=[part.pk for part in parts if part.undo and part.undo.status in _BAD]).update(undo=None)
    Part.objects.filter(pk__in=[part.pk for part in parts]).update(kept="")


def _parts(rollout: Rollout) -> list[Part]:
    rows = Part.objects.filter(wave__rollout=rollout).select_related("wave", "deployment__host", "undo__host")
    return list(rows.order_by("-wave__position", "pk"))


def step(rollout: Rollout) -> bool | None:
    """Take the next step of the undo of a rollout.
    Return None if more steps follow. At the end, return whether every host was rolled back.
    """
    _cancel_waiting(rollout)
    parts = _parts(rollout)
    to_undo = [
        part
        for part in parts
        if part.deployment.status == DeploymentStatus.SUCCEEDED and part.undo is None and not part.kept
    ]
    if to_undo:
        _plan(to_undo)
        return None
    to_confirm = [part for part in parts if part.undo is not None and _is_plan(part.undo)]
    if to_confirm:
        for _wave, of_wave in groupby(to_confirm, key=lambda part: part.wave_id):
            _confirm(list(of_wave))
        return None
    waits = [part for part in parts if _waits(part)]
    if waits:
        rollout.progress = _progress(parts, waits)
        return None
    return _finish(rollout, parts)


def _cancel_waiting(rollout: Rollout) -> None:
    pks = list(Deployment.objects.filter(rollout_part__wave__rollout=rollout).values_list("pk", flat=True))
    waiting_cancel(pks, NOT_STARTED)
    rollout.waves.filter(status=WaveStatus.WAITING).update(status=WaveStatus.CANCELLED)


def _plan(parts: Sequence[Part]) -> None:
    """Plan the rollback of several hosts of a rollout together.
    A host that cannot be rolled back gets no plan; `kept` of its Part stores the reason.
    """
    try:
        undo = undo_plan([part.deployment for part in parts])
    except ApplicationError as error:
        _alone_or_kept(parts, _plan, error)
        return
    plans = {plan.host_id: plan for plan in undo.plans}
    for part in parts:
        part.undo = plans.get(part.deployment.host_id)
        part.kept = " ".join(undo.kept.get(part.deployment_id, ()))
        if part.undo is None and not part.kept:
            part.kept = "Paddock has nothing to roll back on this host because the deployment has no site left."
    Part.objects.bulk_update(parts, ["undo", "kept"])


def _is_plan(undo: Deployment) -> bool:
    return undo.status == DeploymentStatus.PLANNED and undo.confirmed_at is None


def _confirm(parts: Sequence[Part]) -> None:
    try:
        deployments_confirm_themselves([part.undo for part in parts if part.undo is not None])
    except ApplicationError as error:
        _alone_or_kept(parts, _confirm, error)


def _alone_or_kept(parts: Sequence[Part], work: Callable[[Sequence[Part]], None], error: ApplicationError) -> None:
    """Run `work` again for each host alone, after `work` failed with `error` for all of `parts` together: one host must
    not block the others.

    If `parts` is only one host, the host gets no rollback; `kept` of its Part stores the message of `error`.
    """
    if len(parts) > 1:
        for part in parts:
            work([part])
        return
    for part in parts:
        part.undo, part.kept = None, error.message
        part.save(update_fields=["undo", "kept"])


def _waits(part: Part) -> bool:
    if part.undo is not None:
        return part.undo.status not in TERMINAL
    return part.deployment.status not in TERMINAL


def _progress(parts: Sequence[Part], waits: Sequence[Part]) -> str:
    undos = [part.undo for part in parts if part.undo is not None]
    done = sum(undo.status == DeploymentStatus.SUCCEEDED for undo in undos)
    last = waits[0].undo or waits[0].deployment
    reason = f" {last.host}: {last.progress}" if last.progress else ""
    return f"Undoing the rollout: {done} of {len(undos)} hosts are rolled back.{reason}"[:200]


def left(part: Part) -> str:
    """Return the reason why the host of `part` may still have the new configuration; "" if the host has its former
    configuration.
    """
    host = part.deployment.host.name
    if part.undo is not None and part.undo.status in _BAD:
        return f"{host}: {part.undo.error or part.undo.status_words}"
    if part.deployment.status == DeploymentStatus.CANCELLED and part.deployment.started_at is not None:
        return f"{host}: {part.deployment.error}"
    if part.deployment.status == DeploymentStatus.FAILED:
        return f"{host}: {part.deployment.error}"
    return f"{host}: {part.kept}" if part.kept else ""


def _finish(rollout: Rollout, parts: Sequence[Part]) -> bool:
    remains = [words for part in parts if (words := left(part))]
    rollout.progress = ""
    for wave in rollout.waves.all():
        of_wave = [part for part in parts if part.wave_id == wave.pk]
        if any(part.undo is not None for part in of_wave) and not any(left(part) for part in of_wave):
            wave.status = WaveStatus.UNDONE
            wave.save(update_fields=["status"])
    if remains:
        said = rollout.error.split(" Not undone: ")[0]
        rollout.error = f"{said} Not undone: {'; '.join(remains)}".strip()
    return not remains
