"""Render a frozen SiteSpec into the exact files of one site. The functions access no database, no host, and no clock.

`layout` names the files that belong to a site and those that belong to a web server. `errors.NotExpressible` carries a
JSON pointer to a field that the engine's grammar cannot express. Features that the engine lacks are left out and
reported by `capabilities.differences`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from panel.rendering import apache, challenges, checks, confinement, maintenance, nginx, openlitespeed, streams
from panel.rendering.spec import RenderedFile, SiteSpec, WebServerSpec

__all__ = ["render", "render_main", "render_web_server", "shares_files"]


class Engine(Protocol):
    """Interface of the package that renders configuration for one kind of web server.

    An engine renders three kinds of files: those of one site; those that depend on several sites (all live sites if
    `SHARES_FILES`, otherwise only live sites with stream servers); and the main file with its includes, if the panel
    manages the main file.
    """

    SHARES_FILES: bool

    def site_files(self, spec: SiteSpec, web_server: WebServerSpec) -> list[RenderedFile]: ...
    def web_server_files(self, specs: Sequence[SiteSpec], web_server: WebServerSpec) -> list[RenderedFile]: ...
    def main(
        self, web_server: WebServerSpec, *, user: str, workers: int, pid_file: str, temp_dir: str
    ) -> list[RenderedFile]: ...


ENGINES: dict[str, Engine] = {"nginx": nginx, "native": nginx, "apache": apache, "openlitespeed": openlitespeed}


def render(spec: SiteSpec, web_server: WebServerSpec) -> list[RenderedFile]:
    """Render the files of one site. The result depends only on this site and the web server, not on other sites."""
    _check(spec)
    streams.refuse(spec, web_server)
    return ENGINES[web_server.engine].site_files(challenges.served(spec), web_server)


def _check(spec: SiteSpec) -> None:
    checks.site(spec)
    streams.check(spec)
    confinement.check(spec)
    if spec.maintenance is not None:
        maintenance.check(spec.maintenance)


def shares_files(engine: str) -> bool:
    """Return whether a change of any live site can change the files that `render_web_server` returns. On engines with
    False only a site with stream servers can change these files, so callers skip `render_web_server` for other sites.
    """
    return ENGINES[engine].SHARES_FILES


def render_web_server(specs: Sequence[SiteSpec], web_server: WebServerSpec) -> list[RenderedFile]:
    """Render the files that depend on all live sites of a web server; an empty list for gallop."""
    for spec in specs:
        _check(spec)
    served = sorted((challenges.served(spec) for spec in specs), key=lambda spec: spec.name)
    return ENGINES[web_server.engine].web_server_files(served, web_server)


def render_main(
    web_server: WebServerSpec, *, user: str = "", workers: int = 0, pid_file: str = "", temp_dir: str = ""
) -> list[RenderedFile]:
    """Render the main configuration and its includes, for a web server whose main file the panel manages.

    `workers` 0 means one per CPU; without `temp_dir` the server's built-in folders are used.
    """
    pid = pid_file or f"{web_server.log_dir}/{web_server.engine}.pid"
    return ENGINES[web_server.engine].main(web_server, user=user, workers=workers, pid_file=pid, temp_dir=temp_dir)
