"""Digests under which the secrets of tokens and one-time links are stored."""

from __future__ import annotations

import hashlib


def secret_digest(secret: str) -> str:
    """Return the SHA-256 of a secret, in hex.
    Secrets with 256 random bits need no key stretching. Any text is accepted, also with lone surrogates from a request.
    """
    return hashlib.sha256(secret.encode("utf-8", "surrogatepass")).hexdigest()
