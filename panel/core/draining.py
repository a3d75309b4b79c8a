"""Draining of a machine: its workers finish their jobs and start no others, before a stop or an upgrade.

A file in the data folder, which the processes of one machine share, marks the machine as drained. Workers of other
machines continue.
"""

from __future__ import annotations

from pathlib import Path

from django.conf import settings


def _mark() -> Path:
    return Path(settings.HOME, "draining")


def is_draining() -> bool:
    """Return whether the workers of this machine start no further jobs."""
    return _mark().exists()


def drain_begin() -> None:
    _mark().touch()


def drain_end() -> bool:
    """Let the workers start jobs again; return whether the machine was drained."""
    was = is_draining()
    _mark().unlink(missing_ok=True)
    return was
