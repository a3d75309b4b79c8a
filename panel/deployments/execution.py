"""Carrying out a confirmed deployment: claim it, hand it to the host's agent, write down what happened.

The row is the truth (hosts/claims.py); the transaction id on the host is the deployment's uuid, so that whoever asks
again gets the first outcome instead of a second attempt.
"""

from __future__ import annotations

import datetime
import logging
import time
from dataclasses import asdict
from typing import Any
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from agents.protocol import ApplyRequest, ApplyResult, FileChange
from panel.core.errors import ApplicationError
from panel.deployments import host_agent, outcomes
from panel.deployments.models import Deployment, DeploymentStatus
from panel.deployments.planning import Change, install_entries, live_states, roots_of
from panel.deployments.probes import guards_of, probes_of
from panel.deployments.rendered import contents, spec_of
from panel.deployments.steps import Recorder
from panel.hosts import claims
from panel.hosts.claims import Attempt, Claim
from panel.hosts.locks import HostBusy, host_lock
from panel.hosts.models import EngineInstall, Host
from panel.remote.errors import CallTimeout, ConnectionLost, OperationRefused

logger = logging.getLogger(__name__)

ASK_EVERY_S = 2.0
# A host that was cut off in the middle is asked this long; its agent finishes or undoes meanwhile.
ASK_FOR_S = 600.0


def deployment_execute(uuid: UUID) -> Attempt:
    """Claim and carry out one queued deployment."""
    claim = Claim(Deployment)
    if not claim.take([uuid]):
        return Attempt.NOTHING
    deployment = Deployment.objects.select_related("host", "requested_by").get(uuid=uuid)
    try:
        with host_lock(deployment.host, f"deployment {uuid}") as locks, claim.heartbeat(locks):
            _carry_out(deployment, claim.token)
    except HostBusy as error:
        _release(deployment, claim.token, error.message)
        return Attempt.BUSY
    except Exception as error:
        _broke(deployment, claim.token, error)
        raise
    return Attempt.DONE


def _release(deployment: Deployment, token: str, reason: str) -> None:
    """Back into the queue: another try comes with the next sweep."""
    logger.info("deployment %s waits: %s", deployment.uuid, reason)
    rows = Deployment.objects.filter(pk=deployment.pk, claimed_by=token, status=DeploymentStatus.RUNNING)
    rows.update(status=DeploymentStatus.QUEUED, claimed_by="", heartbeat_at=None)


def _broke(deployment: Deployment, token: str, error: Exception) -> None:
    """A fault of the panel itself. What may have reached the host is asked about; what did not has failed."""
    if deployment.started_at is None:
        words = f"The panel failed before it sent anything: {type(error).__name__}. Its log tells more. Plan again."
        outcomes.failure_record(deployment, token, words)
    else:
        _release(deployment, token, f"the panel failed: {error!r}")


def orphans_queue() -> list[UUID]:
    """Put deployments whose worker is gone back into the queue; all that wait to be carried out, oldest first."""
    return claims.orphans_queue(Deployment, "confirmed_at", "pk")


# --- carrying out ---


def _carry_out(deployment: Deployment, token: str) -> None:
    """`started_at` is set right before anything is sent: with it, an earlier attempt may have reached the host."""
    attempted = deployment.started_at is not None
    try:
        known = host_agent.outcome(deployment.host, str(deployment.uuid)) if attempted else None
    except ApplicationError as error:
        _ask_later(deployment, token, error)
        return
    installs, files = _install_files(deployment)
    if known is None:
        known = _send(deployment, token, _request(deployment, installs, files))
    if known is not None:
        outcomes.result_record(deployment, token, known, {pk: records for pk, (records, _) in files.items()})


def _send(deployment: Deployment, token: str, request: ApplyRequest) -> ApplyResult | None:
    """The agent's outcome; None when the row was ended or released here."""
    rows = Deployment.objects.filter(pk=deployment.pk, claimed_by=token, status=DeploymentStatus.RUNNING)
    if not rows.update(started_at=deployment.started_at or timezone.now()):
        return None
    deployment.refresh_from_db(fields=["started_at"])
    try:
        return host_agent.apply(deployment.host, request, Recorder(deployment))
    except (ConnectionLost, CallTimeout) as error:
        return _ask_again(deployment, token, error)
    except OperationRefused as error:
        if error.retry:
            _release(deployment, token, error.message)
            return None
        outcomes.failure_record(deployment, token, f"{error.message} Nothing was changed on the host.")
        if error.code == "drift":
            look_for_drift(deployment.host)
    except ApplicationError as error:
        outcomes.failure_record(deployment, token, f"{error.message} Nothing was changed on the host.")
    return None


def look_for_drift(host: Host) -> None:
    """Have what was found in the way of a deployment shown as drift, soon."""
    from panel.deployments.tasks import check_host_drift  # tasks import this module

    transaction.on_commit(lambda: check_host_drift.delay(host.pk), robust=True)


def _ask_again(deployment: Deployment, token: str, cause: ApplicationError) -> ApplyResult | None:
    """The answer was lost, not the work: ask until the host says what became of it. None: it never began, or the row
    was ended here."""
    error = cause
    deadline = time.monotonic() + ASK_EVERY_S * 5
    while time.monotonic() < deadline:
        time.sleep(ASK_EVERY_S)
        try:
            known = host_agent.outcome(deployment.host, str(deployment.uuid))
        except ApplicationError as again:
            error = again
            continue
        if known is None:
            _release(deployment, token, f"{cause.message} The host had not begun.")
        return known
    _ask_later(deployment, token, error)
    return None


def _ask_later(deployment: Deployment, token: str, error: ApplicationError) -> None:
    """Leave the question to the next sweep, or say after ASK_FOR_S that nobody answers."""
    assert deployment.started_at is not None
    if timezone.now() - deployment.started_at < datetime.timedelta(seconds=ASK_FOR_S):
        _release(deployment, token, error.message)
        return
    outcomes.failure_record(
        deployment,
        token,
        f"The connection broke while the host was at work, and it has not answered since: {error.message} "
        "Its agent finishes or undoes by itself; once the host answers, check it for drift to see what stands there.",
    )


# --- what is sent ---

_InstallFiles = dict[int, tuple[list[dict[str, Any]], list[dict[str, Any]]]]


def _install_files(deployment: Deployment) -> tuple[list[EngineInstall], _InstallFiles]:
    """For each server: its own files as they will stand, and as planned changes. They follow from the sites that are
    live now, under the lock; another deployment may have ended since the plan was shown."""
    rows = EngineInstall.objects.select_related("host").in_bulk(deployment.plan["installs"])
    installs = [rows[pk] for pk in deployment.plan["installs"]]
    items = deployment.items.select_related("site", "revision__install", "previous__install")
    changes = [Change(item.site, item.previous, item.revision) for item in items]
    shown = {file["path"]: file for file in deployment.plan["files"] if not file["site"]}
    found: _InstallFiles = {}
    for install in installs:
        entries = install_entries(install, changes)
        stand = [asdict(entry.new) for entry in entries if entry.new]
        found[install.pk] = (stand, [entry.as_change(shown.get(entry.path)) for entry in entries])
    return installs, found


def _request(deployment: Deployment, installs: list[EngineInstall], files: _InstallFiles) -> ApplyRequest:
    wanted = [file for file in deployment.plan["files"] if file["site"]]
    for _stand, changes in files.values():
        wanted += changes
    texts = contents(file["sha256"] for file in wanted)
    items = list(deployment.items.select_related("site", "revision"))
    probes = [
        probe for item in items if item.revision for probe in probes_of(spec_of(item.revision), item.site.health_path)
    ]
    changed = [item.site for item in items]
    others = [state for install in installs for state in live_states(install, without=changed)]
    return ApplyRequest(
        transaction=str(deployment.uuid),
        roots=roots_of(installs),
        files=[_change(file, texts) for file in wanted if not _is_done(file)],
        engines=host_agent.controls(installs),
        probes=list(dict.fromkeys(probes)),
        guards=guards_of((spec_of(state.revision), state.site.health_path) for state in others if state.revision),
    )


def _is_done(file: dict[str, Any]) -> bool:
    """A file to be removed that was found to be gone."""
    return bool(file["action"] == "remove" and file["found_sha256"] == "")


def _change(file: dict[str, Any], texts: dict[str, str]) -> FileChange:
    if file["action"] == "remove":
        return FileChange(file["path"], "remove", expect=file["expect"], secret=file["secret"])
    if file["link"]:
        return FileChange(file["path"], "link", target=file["link"], expect=file["expect"])
    return FileChange(
        file["path"],
        "put",
        content=texts[file["sha256"]],
        mode=file["mode"],
        expect=file["expect"],
        secret=file["secret"],
    )
