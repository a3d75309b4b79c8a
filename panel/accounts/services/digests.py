"""The stored form of secrets with 256 random bits: tokens and one-time links."""

from __future__ import annotations

import hashlib


def secret_digest(secret: str) -> str:
    """Plain SHA-256: such a secret needs no key stretching. Any text is accepted, as it comes from requests."""
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
