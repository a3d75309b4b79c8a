"""Functions that carry out host jobs: check, control a web server, install gallop, prepare an application.
Each takes a HostJob and returns its result for the job's page.
"""

from __future__ import annotations

from collections.abc import Callable

from django.utils import timezone

from agents.protocol import plain
from panel.core.errors import ApplicationError
from panel.hosts import native
from panel.hosts.models import Connection, Host, HostJob, HostStatus, WebServer
from panel.hosts.resources.services import resources_read
from panel.hosts.services.hosts import host_offer_key
from panel.hosts.services.web_servers import running_set, web_servers_found
from panel.hosts.targets import engine_control, target_for
from panel.remote import pool
from panel.remote.errors import HostKeyChanged, OperationRefused, RemoteError
from panel.remote.pool import Session

FACTS_TIMEOUT_S = 60.0
SERVICE_TIMEOUT_S = 60.0
# Other apps register functions that read more from a host at each look (failover: virtual addresses).
OBSERVERS: list[Callable[[Host, Session], None]] = []
# The same, for functions that read more when a host is checked.
CHECKERS: list[Callable[[Host, Session], None]] = []
LOOK_TIMEOUT_S = 8.0  # a host that is slower is tried again on a new connection
PLAN_TIMEOUT_S, INSTALL_TIMEOUT_S = 400.0, 2000.0


def check(job: HostJob) -> dict[str, object]:
    """Connect to the job's host; store its facts and web servers, and return both.

    If the host key is not trusted, or has changed, store and return only the key that the host offers.
    """
    host = job.host
    if host.connection == Connection.SSH and (not host.host_key or host.status == HostStatus.KEY_CHANGED):
        try:
            host_offer_key(actor=None, host=host)
        except RemoteError as error:
            Host.objects.filter(pk=host.pk).update(status_detail=error.message)  # the current status, trusted or not
            raise
        if host.offered_host_key or not host.host_key:
            return {"offered_host_key": host.offered_host_key}
    try:
        with pool.session(target_for(host)) as agent:
            facts = agent.call("facts", timeout=FACTS_TIMEOUT_S)
            engines = facts.pop("engines")
            facts["other_servers"] = web_servers_found(host, engines)
            running = [_observe(agent, web_server) for web_server in host.web_servers.all()]
            for checker in CHECKERS:
                checker(host, agent)
            _observed(host, agent)
    except RemoteError as error:
        lost(host, error)
        raise
    Host.objects.filter(pk=host.pk).update(facts=facts, facts_at=timezone.now())
    _seen(host, HostStatus.READY, "")
    return {"servers": [name for name in running if name], "facts": facts}


def look(host: Host) -> None:
    """Check a host: store its resources, and whether each of its web servers runs. Raises RemoteError if the host does
    not respond; the caller then passes the error to `lost`.
    """
    pool.retry_lost(lambda: _look(host))
    _seen(host, HostStatus.READY, "")


def _look(host: Host) -> None:
    with pool.session(target_for(host)) as agent:
        agent.call("hello", timeout=LOOK_TIMEOUT_S)
        for web_server in host.web_servers.all():
            _observe(agent, web_server)
        _observed(host, agent)


def _observed(host: Host, agent: Session) -> None:
    resources_read(host, agent)
    for observer in OBSERVERS:
        observer(host, agent)


def lost(host: Host, error: RemoteError) -> None:
    """Record that a check of a host failed: set the host's status to key_changed or unreachable, depending on `error`,
    and store the error's message.
    """
    if isinstance(error, HostKeyChanged):
        Host.objects.filter(pk=host.pk).update(offered_host_key=error.offered)
        _seen(host, HostStatus.KEY_CHANGED, error.message)
    else:
        _seen(host, HostStatus.UNREACHABLE, error.message)


def service(job: HostJob) -> dict[str, object]:
    """Start, stop or reload the job's web server; return the agent's result."""
    web_server = WebServer.objects.select_related("host").get(pk=job.params["web_server"])
    return server_told(web_server, job.params["action"])


def server_told(web_server: WebServer, action: str) -> dict[str, object]:
    """Start, stop or reload a web server, or read its status; record whether it runs, and return the agent's result.
    Raises RemoteError. Unless it only reads the status, the caller must hold the host's lock.
    """
    args = {"engine": plain(engine_control(web_server)), "action": action}
    with pool.session(target_for(web_server.host)) as agent:
        result = agent.call("service", args, timeout=SERVICE_TIMEOUT_S)
    running_set(web_server, bool(result["running"]))
    return result


def install_native(job: HostJob) -> dict[str, object]:
    """Install and start gallop with its own main configuration on the job's host; repeated calls change nothing."""
    with pool.session(target_for(job.host)) as agent:
        web_server, result = native.install_gallop(job.host, agent)
        running_set(web_server, True)
    return {"web_server": web_server.pk, "version": web_server.version, "outcome": result["outcome"]}


def prepare(job: HostJob) -> dict[str, object]:
    """List the packages that a benchmark application needs; with `plan` in the parameters, the uuid of a job that
    listed packages, install these packages. Return the agent's result (agents/host/applications.py, run).

    Check the host again if packages were installed, or if no package is missing.
    """
    asked = {"name": job.params["application"], "action": "plan"}
    timeout = PLAN_TIMEOUT_S
    if "plan" in job.params:
        plan = HostJob.objects.get(uuid=job.params["plan"]).result or {}
        asked |= {"action": "install", "plan": {"packages": plan["packages"], "removed": plan["removed"]}}
        timeout = INSTALL_TIMEOUT_S
    with pool.session(target_for(job.host)) as agent:
        found = agent.call("application", asked, timeout=timeout)
    if "plan" in job.params or not found["packages"]:
        check(job)
    return found


def _observe(agent: Session, web_server: WebServer) -> str:
    """Record whether a web server runs; return its name if so, else "". A server that the agent cannot check counts as
    stopped. Raises RemoteError if the host does not respond, because the state of its web servers is unknown then.
    """
    try:
        args = {"engine": plain(engine_control(web_server)), "action": "status"}
        running = bool(agent.call("service", args, timeout=SERVICE_TIMEOUT_S)["running"])
    except ApplicationError as error:
        if isinstance(error, RemoteError) and not isinstance(error, OperationRefused):
            raise
        running = False
    if web_server.is_running != running:  # the row was read a moment ago
        running_set(web_server, running)
    return str(web_server) if running else ""


def _seen(host: Host, status: str, detail: str) -> None:
    values: dict[str, object] = {"status": status, "status_detail": detail}
    if status == HostStatus.READY:
        values["last_seen_at"] = timezone.now()
    Host.objects.filter(pk=host.pk).update(**values)
