"""SHA-256 without hashlib, for data of the size of configuration files: hashlib loads OpenSSL, 3 ms at every start.

Uses the modules that hashlib itself falls back to, whichever this Python has.
"""

from __future__ import annotations

try:
    from _sha2 import sha256  # type: ignore[import-not-found]  # Python 3.12 and newer
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found,no-redef,unused-ignore]
    except ImportError:  # Python built without them
        from hashlib import sha256


def of(content: bytes) -> str:
    """Digest as 64 hexadecimal digits."""
    made: str = sha256(content).hexdigest()
    return made
