"""The programs that the panel brings to hosts beside gallop: the link emulator and the load generator."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.gallop import gallop_binary


def netem_binary() -> Path:
    """The release build of native/netem; PADDOCK_NETEM names another one."""
    return _built("PADDOCK_NETEM", "paddock-netem")


def load_binary() -> Path:
    """The release build of native/load; PADDOCK_LOAD names another one."""
    return _built("PADDOCK_LOAD", "gallop-load")


def _built(variable: str, name: str) -> Path:
    """Without it the tests that need it fail."""
    path = Path(os.environ.get(variable, Path(gallop_binary()).with_name(name)))
    assert path.is_file(), f"{path} is not built; `make native` builds it"
    return path
