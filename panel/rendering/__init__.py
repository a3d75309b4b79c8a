"""Frozen SiteSpecs in, exact files out. Pure: no database, no host, no clock.

`layout` says which files are a site's and which an install's. A SiteSpec that the engine's grammar cannot carry
raises `errors.NotExpressible` with a JSON pointer to the field; what the engine merely lacks is left out and named by
`capabilities.differences`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from panel.rendering import apache, checks, confinement, nginx, openlitespeed
from panel.rendering.spec import InstallSpec, RenderedFile, SiteSpec

__all__ = ["has_install_files", "render", "render_install", "render_main"]


class Engine(Protocol):
    def site_files(self, spec: SiteSpec, install: InstallSpec) -> list[RenderedFile]: ...
    def install_files(self, specs: Sequence[SiteSpec], install: InstallSpec) -> list[RenderedFile]: ...
    def main(
        self, install: InstallSpec, *, user: str, workers: int, pid_file: str, temp_dir: str
    ) -> list[RenderedFile]: ...


ENGINES: dict[str, Engine] = {"nginx": nginx, "native": nginx, "apache": apache, "openlitespeed": openlitespeed}


def render(spec: SiteSpec, install: InstallSpec) -> list[RenderedFile]:
    """The files of one site: they change only when it does."""
    _check(spec)
    return ENGINES[install.engine].site_files(spec, install)


def _check(spec: SiteSpec) -> None:
    checks.site(spec)
    confinement.check(spec)


def has_install_files(engine: str) -> bool:
    """Whether this engine has files that follow from all live sites; else `render_install` need not be called."""
    return engine not in ("nginx", "native")


def render_install(specs: Sequence[SiteSpec], install: InstallSpec) -> list[RenderedFile]:
    """The files that follow from all live sites of an install; nothing for nginx and gallop."""
    for spec in specs:
        _check(spec)
    return ENGINES[install.engine].install_files(sorted(specs, key=lambda spec: spec.name), install)


def render_main(
    install: InstallSpec, *, user: str = "", workers: int = 0, pid_file: str = "", temp_dir: str = ""
) -> list[RenderedFile]:
    """The main configuration and what it includes, for an install whose main file the panel manages.

    `workers` 0 means one per CPU; without `temp_dir` the server's built-in folders are used.
    """
    pid = pid_file or f"{install.log_dir}/{install.engine}.pid"
    return ENGINES[install.engine].main(install, user=user, workers=workers, pid_file=pid, temp_dir=temp_dir)
