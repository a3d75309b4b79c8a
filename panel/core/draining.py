"""Draining: the workers of this machine finish their jobs and begin no other, so that it can be stopped or upgraded.

The mark is a file in the data folder, which the processes of one machine share. Workers of other machines go on.
"""

from __future__ import annotations

from pathlib import Path

from django.apps import apps
from django.conf import settings

from panel.core.jobs import Job, JobStatus
from panel.core.owners import is_here


def _mark() -> Path:
    return Path(settings.HOME, "draining")


def is_draining() -> bool:
    """Return whether the workers of this machine begin no jobs."""
    return _mark().exists()


def drain_begin() -> None:
    _mark().touch()


def drain_end() -> bool:
    """Let the workers begin jobs again; return whether they were draining."""
    was = is_draining()
    _mark().unlink(missing_ok=True)
    return was


def jobs_here() -> list[Job]:
    """Running jobs of all kinds whose worker is on this machine."""
    models = [model for model in apps.get_models() if issubclass(model, Job)]
    running = [row for model in models for row in model._default_manager.filter(status=JobStatus.RUNNING)]
    return [row for row in running if is_here(row.claimed_by)]
