"""Import of the agent's modules on a host with the Python version for which they were compiled.

panel/remote/bundle.py appends their code to the archive, after this module. No folder is searched and no archive
directory is read, which would take as long as running the modules. The file stays open, so later imports work even if
another file has taken its name.
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
    """Importer of `modules` (PEP 451): whether each is a package, its offset after the first `size` bytes of the open
    file `archive`, and its length.
    """

    def __init__(self, archive: int, size: int, modules: dict[str, tuple[bool, int, int]]) -> None:
        self._archive = archive
        self._size = size
        self._modules = modules

    def find_spec(self, name: str, path: Any = None, target: Any = None) -> Any:
        known = self._modules.get(name)
        return None if known is None else type(sys.__spec__)(name, self, is_package=known[0])  # type: ignore[arg-type]

    def create_module(self, spec: Any) -> None:
        """Create a module in the default way."""

    def exec_module(self, module: ModuleType) -> None:
        _package, at, length = self._modules[module.__name__]
        code = posix.pread(self._archive, length, self._size + at)
        exec(marshal.loads(code), module.__dict__)  # noqa: S102, S302 - the agent's own


def begin(archive: int, size: int, modules: dict[str, tuple[bool, int, int]]) -> None:
    """Serve until the input ends; the arguments are Importer's."""
    sys.meta_path.insert(0, Importer(archive, size, modules))
    from agents.host.main import main

    main()
