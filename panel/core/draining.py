"""Draining: the workers of this machine finish their jobs and begin no other, so that it can be stopped or upgraded.

The mark is a file in the data folder, which the processes of one machine share. Workers of other machines go on.
"""

from __future__ import annotations

from pathlib import Path

from django.conf import settings


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
