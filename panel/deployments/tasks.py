"""Celery tasks of deployments; each only calls a service."""

from __future__ import annotations

from uuid import UUID

from celery import shared_task

from panel.core.claims import Attempt
from panel.core.messages import busy_retry
from panel.deployments.domain_names import watching as name_watching
from panel.deployments.drift import sweep as drift
from panel.deployments.execution import services as execution
from panel.deployments.maintenance import services as maintenance
from panel.deployments.retention import services as retention
from panel.deployments.waking import deployments_wake
from panel.deployments.watching import services as watching
from panel.websites.services import upstreams_follow


@shared_task
def run(*uuids: str) -> None:
    """Run queued deployments together, then wake workers for the next ones of the same hosts. Deployments that another
    worker owns are skipped.
    """
    attempts = execution.deployments_execute([UUID(uuid) for uuid in uuids])
    done = [uuid for uuid, attempt in attempts.items() if attempt == Attempt.DONE]
    deployments_wake(execution.next_in_line(done))
    busy = [str(uuid) for uuid, attempt in attempts.items() if attempt == Attempt.BUSY]
    if busy:
        busy_retry(run, busy)


@shared_task
def sweep() -> None:
    """Wake workers for all queued deployments, including those of dead workers, and end maintenances that are due."""
    deployments_wake(execution.orphans_queue())
    maintenance.maintenance_due_end()


@shared_task
def forget() -> None:
    """Delete old deployments and revisions."""
    retention.old_forget()


@shared_task
def watch() -> None:
    watching.round_run()


@shared_task
def follow_hosts() -> None:
    """Update the servers of upstreams with host tags, after hosts or their tags have changed."""
    upstreams_follow()


@shared_task
def watch_names() -> None:
    """Look up the domain names of live sites in DNS."""
    name_watching.look()


@shared_task
def check_drift() -> None:
    drift.hosts_check()


@shared_task
def check_host_drift(host: int) -> None:
    drift.host_check(host)
