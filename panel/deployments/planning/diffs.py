"""The difference between what stands on a host and what is planned, as text. Pure."""

from __future__ import annotations

import difflib


def unified(old: str, new: str, path: str, *, old_label: str = "on the host", new_label: str = "planned") -> str:
    """A unified diff of one file, empty when nothing differs."""
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"{path} ({old_label})", f"{path} ({new_label})", lineterm=""
    )
    return "\n".join(lines).replace("\0", "\ufffd")  # PostgreSQL keeps no NUL
