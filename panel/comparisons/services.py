"""Services for server comparisons: start, repeat, cancel, delete, and move the site to a compared web server. All
arguments are keyword-only.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import F
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record
from panel.benchmarks.choices import Tool
from panel.benchmarks.models import Scenario
from panel.benchmarks.records import Parameters
from panel.benchmarks.runs import targets
from panel.benchmarks.runs.services import run_cancel, run_delete
from panel.benchmarks.scenarios.frozen import parameters_of
from panel.benchmarks.scenarios.ready_made import BY_SLUG
from panel.benchmarks.selectors import scenarios_visible
from panel.benchmarks.tools.arguments import TOOLS, method_and_path
from panel.comparisons.models import UNDER_WAY, Comparison, Contender, ContenderStatus
from panel.comparisons.replay import Replay, replay_of
from panel.core.errors import ApplicationError, Conflict
from panel.core.jobs import JobStatus
from panel.core.messages import Task, task_send_on_commit
from panel.core.ui import Text
from panel.deployments.models import Deployment, Revision
from panel.deployments.planning import services as deployments
from panel.deployments.planning.selectors import live_revision
from panel.deployments.revisions.rendered import spec_of
from panel.hosts.models import Host, WebServer
from panel.hosts.services import refuse_paused
from panel.hosts.targets import target_for
from panel.remote import pool
from panel.websites.logs import site_log_tail, site_logs
from panel.websites.models import Site

REPLAY = "replay"
REPLAY_LINES = 2000
REPLAY_WARMUP_S = 2
# Tools that request many paths in turn, the one with the lowest CPU usage first. The bundled load generator replaces
# h2load if h2load lacks a method (benchmarks/runs/measuring.py).
REPLAY_TOOLS = (Tool.WRK, Tool.H2LOAD, Tool.SIEGE)
MOST_SERVERS = 8


# --- the load ---


class Chosen(NamedTuple):
    """The load of a comparison, copied from a scenario or made from an access log.
    `is_replay`: whether the load was made from a log. `left_out`: reasons in words why log lines are not replayed.
    """

    load: Parameters
    is_replay: bool
    left_out: list[str]


def load_of(scenario: Scenario) -> Parameters:
    """Return a copy of the scenario's load in the format of Comparison.load. ValidationError if the scenario is
    invalid.
    """
    scenario.full_clean(validate_unique=False)
    return parameters_of(scenario)


def replay_read(*, actor: User, site: Site, queries: bool = False, other_methods: bool = False) -> Replay:
    """Return a replay of the recent requests of visitors in the site's own access log.

    ApplicationError if the site has no access log or no request can be replayed; PermissionDenied and RemoteError as
    for reading a log.
    """
    require(actor, Action.VIEW, site.team)
    log = next((log for log in site_logs(actor, site) if log.key.startswith("access_log")), None)
    if log is None:
        raise ApplicationError(
            _("%s has no access log. Set an access log in its server block, or choose a scenario.") % site,
            field="load",
        )
    lines = site_log_tail(actor, site, log, lines=REPLAY_LINES)
    found = replay_of(lines, queries=queries, other_methods=other_methods)
    if not found.paths:
        words = _("%(log)s contains no requests to replay. %(why)s")
        raise ApplicationError(words % {"log": log.path, "why": " ".join(found.reasons)}, field="load")
    return found


def load_from_log(
    *,
    actor: User,
    site: Site,
    queries: bool = False,
    other_methods: bool = False,
    concurrency: int = 16,
    duration_s: int = 10,
    rounds: int = 3,
) -> Chosen:
    """Return a load that replays the site's access log. Raises the errors of `replay_read`, and ValidationError for
    invalid values.
    """
    found = replay_read(actor=actor, site=site, queries=queries, other_methods=other_methods)
    revision = _live(site)
    tls = any(listen.tls for block in spec_of(revision).blocks for listen in block.listens)
    name = _("Replay of %(requests)d requests to %(site)s") % {"requests": found.requests, "site": site}
    arguments = {"concurrency": concurrency, "duration_s": duration_s, "tls": tls}
    tool = _replay_tool(revision.web_server.host, _methods(found.paths))
    values: dict[str, object] = {"name": name[:120], "tool": tool, "paths": found.paths, "rounds": rounds}
    scenario = Scenario(**values, arguments=arguments, warmup_s=REPLAY_WARMUP_S, timeout_s=duration_s + 60)
    scenario.keeps_methods = True
    return Chosen(load_of(scenario), True, found.reasons)


def load_chosen(*, actor: User, site: Site, choice: str, **replay: Any) -> Chosen:
    """Return the load that `choice` names: "replay" (with the arguments of `load_from_log`), "scenario:ID" or
    "quick:SLUG".

    Raises ApplicationError if `choice` names no load, or if `other_methods` is set without "replay". For "replay",
    raises the errors of `load_from_log`.
    """
    kind, _colon, key = choice.partition(":")
    if choice == REPLAY:
        return load_from_log(actor=actor, site=site, **replay)
    if replay.get("other_methods"):
        words = _("Only replays can send other methods than GET. Omit this field, or choose `replay` as the load.")
        raise ApplicationError(words, field="other_methods")
    scenario = None
    if kind == "quick" and key in BY_SLUG:
        scenario = Scenario(**BY_SLUG[key].values())
    elif kind == "scenario" and key.isascii() and key.isdecimal() and len(key) < 18:
        scenario = scenarios_visible(actor).filter(pk=int(key)).first()
    if scenario is None:
        words = _(
            "The load “%s” does not exist, or you do not have access to it. Use replay, scenario:ID, or quick:SLUG."
        )
        raise ApplicationError(words % choice[:80], field="load")
    try:
        return Chosen(load_of(scenario), False, [])
    except ValidationError as error:
        raise ApplicationError(" ".join(error.messages), field="load") from error


def _methods(paths: Sequence[str]) -> set[str]:
    return {method_and_path(path)[0] for path in paths}


def _replay_tool(host: Host, methods: set[str]) -> Tool:
    """Return the first of REPLAY_TOOLS that is installed on the host and supports all `methods`.

    If no tool qualifies, return H2LOAD for methods other than GET, because the bundled load generator replaces h2load.
    If GET is the only method, raise ApplicationError instead.
    """
    with pool.session(target_for(host)) as agent:
        there = agent.call("fingerprint", {})["tools"]
    for tool in REPLAY_TOOLS:
        if there.get(tool.value) and methods <= set(TOOLS[tool].methods):
            return tool
    if methods != {"GET"}:
        return Tool.H2LOAD
    words = _("%(host)s has no load tool that can replay a log. Install one of %(tools)s.")
    raise ApplicationError(words % {"host": host, "tools": ", ".join(REPLAY_TOOLS)}, field="load")


# --- a comparison ---


def require_comparison(actor: User, site: Site) -> None:
    """Raise PermissionDenied unless `actor` may copy the site, deploy the copies and benchmark them."""
    for action in (Action.CHANGE, Action.DEPLOY, Action.BENCHMARK):
        require(actor, action, site.team)


@transaction.atomic
def comparison_create(
    *,
    actor: User,
    site: Site,
    web_servers: Sequence[WebServer],
    load: Parameters,
    is_replay: bool = False,
    left_out: Sequence[str] = (),
) -> Comparison:
    """Queue a comparison of a live site on its current web server and `web_servers` of the same host. `load`,
    `is_replay` and `left_out` are as in `Chosen`.

    Raises PermissionDenied, ApplicationError if the comparison is not possible, and Conflict if a comparison of the
    site is already running.
    """
    require_comparison(actor, site)
    Site.objects.select_for_update().get(pk=site.pk)  # serializes concurrent requests
    own = _live(site).web_server
    refuse_paused([own.host])
    others = _others(own, web_servers)
    targets.endpoint(_live(site), load["arguments"])
    if Comparison.objects.filter(site=site, status__in=UNDER_WAY).exists():
        raise Conflict(_("A server comparison of %s is already running.") % site)
    comparison = Comparison.objects.create(
        site=site, load=load, is_replay=is_replay, left_out=list(left_out), requested_by=actor
    )
    for position, web_server in enumerate([own, *others]):
        Contender.objects.create(
            comparison=comparison, position=position, web_server=web_server, label=_label(web_server)
        )
    labels = [_label(web_server) for web_server in [own, *others]]
    audit_record(
        actor=actor, action="comparison.create", target=comparison, after={"load": _told(load), "servers": labels}
    )
    task_send_on_commit(Task.COMPARISON_RUN, str(comparison.uuid))
    return comparison


def comparison_repeat(*, actor: User, comparison: Comparison) -> Comparison:
    """Repeat a comparison with the same load, for the site as it is deployed now. Compared web servers that no longer
    exist are left out. Raises the errors of `comparison_create`.
    """
    rows = comparison.contenders.select_related("web_server__host")
    web_servers = [row.web_server for row in rows if row.web_server is not None]
    return comparison_create(
        actor=actor,
        site=comparison.original,
        web_servers=web_servers,
        load=comparison.load,
        is_replay=comparison.is_replay,
        left_out=comparison.left_out,
    )


def _told(load: Parameters) -> dict[str, object]:
    """Return the load for the audit log: with the number of paths and their methods, but without visitors' paths."""
    return {**load, "paths": len(load["paths"]), "methods": sorted(_methods(load["paths"]))}


def _live(site: Site) -> Revision:
    revision = live_revision(site)
    if revision is None:
        raise ApplicationError(
            _("%s is not deployed. Deploy the site before you compare web servers.") % site, field="site"
        )
    return revision


def _others(own: WebServer, web_servers: Sequence[WebServer]) -> list[WebServer]:
    others = [web_server for web_server in dict.fromkeys(web_servers) if web_server != own]
    if not others:
        raise ApplicationError(_("Choose at least one other web server."), field="web_servers")
    if len(others) >= MOST_SERVERS:
        raise ApplicationError(_("Choose at most %d web servers.") % MOST_SERVERS, field="web_servers")
    for web_server in others:
        if web_server.host_id != own.host_id:
            words = _("%(web_server)s is on another host. Choose web servers on %(host)s.")
            raise ApplicationError(words % {"web_server": web_server, "host": own.host}, field="web_servers")
    return others


def _label(web_server: WebServer) -> str:
    """Return the label of a web server without its host's name. All compared web servers are on the same host."""
    return str(web_server).removesuffix(f" on {web_server.host.name}")


@transaction.atomic
def comparison_cancel(*, actor: User, comparison: Comparison) -> Comparison:
    """Cancel a comparison. A queued comparison ends immediately; a running comparison ends after its copies were
    removed. Conflict if the comparison has ended.
    """
    require(actor, Action.BENCHMARK, comparison.original.team)
    rows = Comparison.objects.filter(pk=comparison.pk)
    ended = rows.filter(status=JobStatus.QUEUED, started_at=None).update(
        status=JobStatus.CANCELLED, finished_at=timezone.now(), row_version=F("row_version") + 1
    )
    if not ended and not rows.filter(status__in=UNDER_WAY, outcome="").update(
        cancel_requested=True, row_version=F("row_version") + 1
    ):
        raise Conflict(_("This server comparison has already ended and cannot be cancelled."))
    comparison.refresh_from_db()
    if comparison.run is not None and not comparison.run.is_ended:
        run_cancel(actor=actor, run=comparison.run)
    audit_record(actor=actor, action="comparison.cancel", target=comparison)
    return comparison


@transaction.atomic
def comparison_delete(*, actor: User, comparison: Comparison) -> None:
    """Delete a comparison with its run, the rounds, and the output of the load tool. Conflict if the comparison is
    running, because its copies still exist.
    """
    require(actor, Action.BENCHMARK, comparison.original.team)
    if not comparison.is_finished:
        raise Conflict(_("This server comparison is running. Cancel the server comparison first, then delete it."))
    audit_record(actor=actor, action="comparison.delete", target=comparison, before={"load": _told(comparison.load)})
    run = comparison.run
    comparison.delete()
    if run is not None:
        run_delete(actor=actor, run=run)


# --- the move ---

# By the status of the web server's copy; `why` is its `detail`.
_REFUSALS: dict[str, Text] = {
    ContenderStatus.REFUSED: gettext_lazy(
        "The site cannot move to %(label)s, where the deployment of its copy failed: %(why)s"
    ),
    ContenderStatus.DIFFERENT: gettext_lazy(
        "The site cannot move to %(label)s, where its copy has different responses: %(why)s"
    ),
}


def switch_plan(*, actor: User, contender: Contender) -> Deployment:
    """Plan to move the site to the web server of `contender`. The user reviews and confirms the plan like any other
    plan.

    Raises the errors of `deployments.services.site_move`, and ApplicationError if the copy's responses differed from
    the original's.
    """
    site = contender.comparison.original
    require(actor, Action.DEPLOY, site.team)
    if not contender.comparison.is_finished:
        raise Conflict(_("The server comparison is still running. Wait for its result, or cancel it."))
    if contender.web_server is None:
        raise ApplicationError(_("%s no longer exists.") % contender.label, field="position")
    if contender.status != ContenderStatus.SAME:
        words = _REFUSALS.get(contender.status, _("The site cannot move to %(label)s, which was not compared."))
        raise ApplicationError(words % {"label": contender.label, "why": contender.detail}, field="position")
    try:
        return deployments.site_move(actor=actor, site=site, web_server=contender.web_server)[0]
    except ValidationError as error:
        raise ApplicationError(" ".join(error.messages), field="position") from error


def comparison_switch(*, actor: User, contender: Contender, accept_drift: bool = False) -> Deployment:
    """Plan and confirm the move of the site to the web server of `contender`. If verification fails, the deployment is
    rolled back. The first contender moves the site back: it is the web server that the site had when the comparison
    started. Raises the errors of `switch_plan` and `deployment_confirm`.
    """
    comparison = contender.comparison
    before = {"server": str(comparison.original.web_server)}
    plan = switch_plan(actor=actor, contender=contender)
    try:
        with transaction.atomic():
            deployments.deployment_confirm(actor=actor, deployment=plan, accept_drift=accept_drift)
            Comparison.objects.filter(pk=comparison.pk).update(switch=plan, row_version=F("row_version") + 1)
            after = {"server": contender.label}
            audit_record(actor=actor, action="comparison.switch", target=comparison, before=before, after=after)
    except ApplicationError:
        deployments.deployment_cancel(actor=actor, deployment=plan)
        raise
    return plan
