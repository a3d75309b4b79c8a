"""Targets of a run, each with the data needed to send requests to its web server and to monitor the server's
processes.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from panel.benchmarks.models import Run, RunTarget
from panel.benchmarks.records import ServerFacts
from panel.benchmarks.runs import targets
from panel.benchmarks.tools.commands import Endpoint
from panel.core.errors import ApplicationError
from panel.deployments.models import Revision
from panel.hosts.targets import target_for
from panel.remote.target import Target
from panel.websites.models import Site


@dataclass(frozen=True)
class Aim:
    """One target of a run, with its addresses and processes.

    `allowed` are the listeners to which the agent is allowed to send load. `trees` maps "server" and "application" to
    the roots of the process trees to monitor: pid files or process names. `server()` reads the current state of the web
    server. `testbed` is the id of the target's test bed. `load` is the host of the load generator; None if the web
    server's host generates the load.
    """

    row: RunTarget
    remote: Target
    host: str
    endpoint: Endpoint
    allowed: list[str]
    trees: dict[str, list[str]]
    server: Callable[[], ServerFacts]
    testbed: str = ""
    load: Target | None = None

    @property
    def loaded_from(self) -> Target:
        return self.load or self.remote


def site_aims(run: Run) -> list[Aim]:
    """Return the targets of a run of deployed sites. ApplicationError if one of the sites was deleted in
    the meantime.
    """
    return [_site_aim(row, run) for row in run.targets.select_related("site", "revision__web_server__host")]


def _site_aim(row: RunTarget, run: Run) -> Aim:
    if row.site is None or row.revision is None:
        raise ApplicationError(f"{row.label} was deleted after this run was requested. Start a new run.")
    revision = row.revision
    return Aim(
        row=row,
        remote=target_for(revision.web_server.host),
        host=revision.web_server.host.name,
        endpoint=targets.endpoint_as(revision, run.parameters["arguments"], row.base_url),
        allowed=targets.allowed(revision),
        trees=targets.trees(revision),
        server=lambda: _deployed_there(revision),
    )


def _deployed_there(revision: Revision) -> ServerFacts:
    site = Site.objects.select_related("state__revision").get(pk=revision.site_id)
    current = getattr(getattr(site, "state", None), "revision", None)
    web_server = revision.web_server
    return {
        "engine": web_server.engine,
        "version": web_server.version,
        "workers": web_server.workers,
        "revision": current.number if current else None,
        "digest": current.digest if current else "",
    }
