"""What a run measures: each of its targets with all that is needed to ask it and to watch it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from panel.benchmarks.models import Run, RunTarget
from panel.benchmarks.runs import targets
from panel.benchmarks.tools.commands import Endpoint
from panel.core.errors import ApplicationError
from panel.deployments.models import Revision
from panel.hosts.targets import target_for
from panel.remote.target import Target
from panel.websites.models import Site


@dataclass(frozen=True)
class Aim:
    """`allowed` are the listeners the agent may be aimed at, `trees` where process trees begin, `server()` says what
    stands there now: {"engine", "version", "workers", "revision", "digest"}. `stand` is the id of the stand it is in,
    `load` the host that the load comes from where that is another.
    """

    row: RunTarget
    remote: Target
    host: str
    endpoint: Endpoint
    allowed: list[str]
    trees: dict[str, list[str]]
    server: Callable[[], dict[str, Any]]
    stand: str = ""
    load: Target | None = None

    @property
    def loaded_from(self) -> Target:
        return self.load or self.remote


def site_aims(run: Run) -> list[Aim]:
    """The deployed sites of a run; ApplicationError when one was deleted meanwhile."""
    return [_site_aim(row, run) for row in run.targets.select_related("site", "revision__install__host")]


def _site_aim(row: RunTarget, run: Run) -> Aim:
    if row.site is None or row.revision is None:
        raise ApplicationError(f"{row.label} was deleted after this run was requested. Start a new run.")
    revision = row.revision
    return Aim(
        row=row,
        remote=target_for(revision.install.host),
        host=revision.install.host.name,
        endpoint=targets.endpoint_as(revision, run.parameters["arguments"], row.base_url),
        allowed=targets.allowed(revision),
        trees=targets.trees(revision),
        server=lambda: _standing_there(revision),
    )


def _standing_there(revision: Revision) -> dict[str, Any]:
    site = Site.objects.select_related("state__revision").get(pk=revision.site_id)
    current = getattr(getattr(site, "state", None), "revision", None)
    install = revision.install
    return {
        "engine": install.engine,
        "version": install.version,
        "workers": install.workers,
        "revision": current.number if current else None,
        "digest": current.digest if current else "",
    }
