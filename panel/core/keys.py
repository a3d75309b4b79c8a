"""Secrets that an installation makes for itself on first use."""

from __future__ import annotations

import os
import secrets
from pathlib import Path

from cryptography.fernet import Fernet


def read_or_create_secret(path: Path, *, fernet: bool = False) -> str:
    """The secret in `path`; on first use a new one, written 0600 so that only this account can read it.

    Two processes that start together agree: the file appears whole by link(2), and the loser reads the winner's.
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
