"""How the agent imports its modules where the host has the Python that they were compiled for.

panel/remote/bundle.py puts their code one after the other into the archive, behind this module's. No folder is
searched and no directory of the archive is read, which takes as long as running the modules does. The file stays open:
what is imported late is there though another file has taken its name.
"""

from __future__ import annotations

import marshal
import posix
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    from types import ModuleType
    from typing import Any


class Importer:
    """Finds and runs what `modules` names (PEP 451): whether it is a package, where behind the first `size` bytes of
    the open file `archive` its code is, and how long that is."""

    def __init__(self, archive: int, size: int, modules: dict[str, tuple[bool, int, int]]) -> None:
        self._archive = archive
        self._size = size
        self._modules = modules

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        known = self._modules.get(name)
        return None if known is None else type(sys.__spec__)(name, self, is_package=known[0])  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> None:
        """A usual one."""

    def exec_module(self, module: ModuleType) -> None:
        _package, at, length = self._modules[module.__name__]
        code = posix.pread(self._archive, length, self._size + at)
        exec(marshal.loads(code), module.__dict__)  # noqa: S102, S302 - the agent's own


def begin(archive: int, size: int, modules: dict[str, tuple[bool, int, int]]) -> None:
    """Serves until the input ends; the arguments are Importer's."""
    sys.meta_path.insert(0, Importer(archive, size, modules))
    from agents.host.main import main

    main()
