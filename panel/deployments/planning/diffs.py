"""Text diff between the file on a host and the planned file. Pure function."""

from __future__ import annotations

import difflib


def unified(old: str, new: str, path: str, *, old_label: str = "on the host", new_label: str = "planned") -> str:
    """Return the unified diff of two texts of one file; "" if they are equal."""
    lines = difflib.unified_diff(
        old.splitlines(), new.splitlines(), f"{path} ({old_label})", f"{path} ({new_label})", lineterm=""
    )
    return "\n".join(lines).replace("\0", "\ufffd")  # PostgreSQL cannot store NUL
