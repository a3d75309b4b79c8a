"""The link emulator: the release build of native/netem."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.gallop import gallop_binary


def netem_binary() -> Path:
    """The built binary; PADDOCK_NETEM names another one. Without it the tests that need it fail."""
    path = Path(os.environ.get("PADDOCK_NETEM", Path(gallop_binary()).with_name("paddock-netem")))
    assert path.is_file(), f"{path} is not built; `make native` builds it"
    return path
