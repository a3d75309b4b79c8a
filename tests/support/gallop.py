"""A private gallop: the release build of native/, with its own prefix and configuration."""

from __future__ import annotations

import os
from pathlib import Path

from tests.support.nginx import NginxInstance

REPOSITORY = Path(__file__).resolve().parents[2]


def gallop_binary() -> str:
    """The built binary; PADDOCK_GALLOP names another one. Without it the tests that need it fail."""
    path = Path(os.environ.get("PADDOCK_GALLOP", REPOSITORY / "native" / "target" / "release" / "gallop"))
    assert path.is_file(), f"{path} is not built; `make native` builds it"
    return str(path)


class GallopInstance(NginxInstance):
    """Takes the same files and command line as nginx does; that is the point of it."""

    engine = "native"
    extra = ""

    def __init__(self, root: Path) -> None:
        super().__init__(root)
        self.binary = gallop_binary()
