"""Secrets that an installation generates on first use and keeps in files."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from cryptography.fernet import Fernet


def read_or_create_secret(path: Path, *, fernet: bool = False) -> str:
    """Return the secret in the file `path`; create the file on first use, with mode 0600.

    If two processes start at the same time, both use the same secret: link(2) creates the complete file, and the second
    process reads it.
    """
    if not path.exists():
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        value = Fernet.generate_key().decode() if fernet else secrets.token_urlsafe(48)
        draft = path.with_name(f".{path.name}.{os.getpid()}")
        descriptor = os.open(draft, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(value + "\n")
        try:
            os.link(draft, path)
        except FileExistsError:
            pass
        finally:
            draft.unlink()
    return path.read_text(encoding="ascii").strip()
