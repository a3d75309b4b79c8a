"""SHA-256 of what is a configuration file's size, without hashlib: that loads OpenSSL, 3 ms at every start.

The modules that hashlib itself falls back to, whichever this Python has.
"""

from __future__ import annotations

try:
    from _sha2 import sha256  # type: ignore[import-not-found]  # Python 3.12 and newer
except ImportError:
    try:
        from _sha256 import sha256  # type: ignore[import-not-found,no-redef,unused-ignore]
    except ImportError:  # a Python built without them
        from hashlib import sha256


def of(content: bytes) -> str:
    """Hexadecimal, 64 digits."""
    made: str = sha256(content).hexdigest()
    return made
