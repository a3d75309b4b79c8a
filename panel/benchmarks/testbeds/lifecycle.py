"""A test bed for the duration of a run: private instances of the host's web servers, started and stopped by the host's
agent.
The agent keeps the test bed while it executes a `testbed` request of the panel. A thread of this worker waits for the
end of this request. The test bed ends with the run, and also when this worker, the connection or the agent ends.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import cast

from django.conf import settings as django_settings

from panel.benchmarks.models import Run, RunTarget
from panel.benchmarks.records import Link, ServerFacts, TestbedFacts, TestbedUp
from panel.benchmarks.runs import connection_loss
from panel.benchmarks.runs.aims import Aim
from panel.benchmarks.suites import SUITES
from panel.benchmarks.suites.definitions import Case, Content, Settings, stored_case
from panel.benchmarks.testbeds import layout as standings
from panel.benchmarks.tools.commands import BUNDLED
from panel.core.errors import ApplicationError
from panel.hosts import programs as programs_of_panel
from panel.hosts.models import Host, WebServer
from panel.hosts.targets import target_for
from panel.remote import pool
from panel.remote.client import Message
from panel.remote.errors import OperationRefused, RemoteError
from panel.remote.target import Target

START_S = 300.0
_ATTEMPTS = 4  # ports are chosen here and may be in use there


@dataclass(frozen=True)
class OpenTestbed:
    """A running test bed: private instances of web servers, which end with a run.

    `aims` are the targets of the run. `network` is the requested link and its measurements, `programs` the SHA-256 of
    uploaded programs by name. `known` maps each host to its agent's report, needed to find leftovers after a failure.
    """

    aims: list[Aim]
    network: Link | None = None
    programs: dict[str, str] = field(default_factory=dict)
    known: dict[str, TestbedFacts] = field(default_factory=dict)


@contextmanager
def testbed_open(run: Run, check: Callable[[], None], waiting: Callable[[], None]) -> Iterator[OpenTestbed]:
    """Context manager that starts a test bed for a run, and stops the test bed at the end.

    `check` is called during the start, `waiting` during the wait for a lost host. An exception of `check` or `waiting`
    stops the test bed.
    """
    rows = list(run.targets.select_related("web_server__host"))
    web_servers = [_web_server(row) for row in rows]
    host, load_host = web_servers[0].host, _load_host(run)
    remote, load = target_for(host), target_for(load_host) if load_host else None
    plan, held, ups = _set_up(run, rows, web_servers, [remote, *([load] if load else [])], check)
    try:
        aims = [
            Aim(
                row=row,
                remote=remote,
                host=host.name,
                endpoint=place.endpoint,
                allowed=plan.request.listeners,
                trees={tree: [_source(ups[0], words)] for tree, words in place.trees.items()},
                server=_described(place, web_server),
                testbed=plan.request.id,
                load=load,
            )
            for row, web_server, place in zip(rows, web_servers, plan.places, strict=True)
        ]
        own = plan.load or plan.request
        programs = {name: brought["sha256"] for name, brought in own.programs.items()}
        network: Link | None = {"asked": own.network, "measured": ups[-1]["network"]} if own.network else None
        yield OpenTestbed(aims, network, programs, {item.name: item.known for item in held})
    except RemoteError as error:
        # The end of a test bed explains more than its absence.
        failed = [item.failure for item in held if isinstance(item.failure, RemoteError)]
        failure = error if connection_loss.is_connection_loss(error) else next(iter(failed), error)
        if not connection_loss.is_connection_loss(failure):
            raise failure from error
        _end(held)
        raise ApplicationError(" ".join(_told(held, failure, waiting))) from error
    finally:
        _end(held)


def _set_up(
    run: Run, rows: list[RunTarget], web_servers: list[WebServer], remotes: list[Target], check: Callable[[], None]
) -> tuple[standings.Plan, list[HeldTestbed], list[TestbedUp]]:
    """Start the test bed on the web servers' host, and on the load generator's host if that is a different host. Return
    the plan, the running requests, and each agent's report. If ports are in use, new ports are tried.
    """
    for attempt in range(1, _ATTEMPTS + 1):
        held: list[HeldTestbed] = []
        plan = _plan(run, rows, web_servers, remotes)
        requests = [plan.request, *([plan.load] if plan.load else [])]
        try:
            ups = []
            for remote, request in zip(remotes, requests, strict=True):
                held.append(HeldTestbed(remote, request.id, standings.request_json(request)))
                ups.append(held[-1].up(check))
            return plan, held, ups
        except OperationRefused as error:
            _end(held)
            if error.code != "busy" or attempt == _ATTEMPTS:
                raise
        except BaseException:
            _end(held)
            raise
    raise AssertionError("the last attempt returns or raises")


def _end(held: list[HeldTestbed]) -> None:
    """Stop all parts of a test bed, beginning with the part on the load generator's host. If any part left something on
    its host, raise one ApplicationError that lists everything.
    """
    remains = []
    for item in reversed(held):
        try:
            item.end()
        except ApplicationError as error:
            remains.append(error.message)
    if remains:
        raise ApplicationError(" ".join(remains))


def _told(held: list[HeldTestbed], error: RemoteError, waiting: Callable[[], None]) -> list[str]:
    """Describe in sentences what a test bed left on each host after `error`, beginning with disconnected hosts."""
    away = [item for item in held if item.result is None]
    here = [item for item in held if item.result is not None]
    told = [item.told(error, waiting) for item in away] or [error.message]
    return told + [connection_loss.leftovers_text(item.name, []) for item in here]


def _load_host(run: Run) -> Host | None:
    """Return the host of the load generator; None if the web servers' host generates the load."""
    pk = run.parameters["testbed"].get("load_host")
    if pk is None:
        return None
    found = Host.objects.filter(pk=pk).first()
    if found is None:
        raise ApplicationError("The host selected for the load generator is no longer managed. Start the suite again.")
    return found


def _source(up: TestbedUp, words: str) -> str:
    """Return processes to monitor in the agent's format (agents/host/sample.py), for example `pid:123/lsphp*`.
    `words` is the name of a server in the test bed (`nginx`), or selects child processes of the server by their names
    (`openlitespeed/lsphp*`).
    """
    name, slash, pattern = words.partition("/")
    return f"pid:{up['servers'][name]['pid']}{slash}{pattern}"


def _web_server(row: RunTarget) -> WebServer:
    if row.web_server is None:
        raise ApplicationError(
            f"The web server of {row.label} was deleted after this run was requested. Start a new run."
        )
    return row.web_server


def _described(place: standings.Place, web_server: WebServer) -> Callable[[], ServerFacts]:
    return lambda: {
        "engine": web_server.engine,
        "version": web_server.version,
        "workers": 0,
        "revision": None,
        "digest": place.digest,
        "setup": place.setup.slug,
    }


def _plan(run: Run, rows: list[RunTarget], web_servers: list[WebServer], remotes: list[Target]) -> standings.Plan:
    """Upload a test bed's programs to its hosts `remotes` (web servers, load generator), and return its plan."""
    testbed = run.parameters["testbed"]
    suite = SUITES[testbed["suite"]]
    case: Case = stored_case(testbed["case"])
    application = suite.application(testbed["application"]) if testbed.get("application") else None
    content: Content = application.content if application else suite.content
    settings: Settings = suite.settings
    load_host = _load_host(run)
    with pool.session(remotes[0]) as agent:
        as_root = agent.identity["uid"] == 0
    with pool.session(remotes[-1]) as agent:
        place, uploads = load_host or web_servers[0].host, {}
        if case.network:
            emulator = programs_of_panel.upload(
                place, agent, django_settings.NETEM_BINARY, "paddock-netem", "PADDOCK_NETEM"
            )
            uploads["paddock-netem"] = emulator
        if case.protocol == "h3":
            uploads[BUNDLED] = programs_of_panel.upload(
                place, agent, django_settings.LOAD_BINARY, BUNDLED, "PADDOCK_LOAD"
            )
    programs = {web_server.engine: program(web_server) for web_server in web_servers}
    setups = [standings.able(suite.setup(row.setup), programs[row.engine]) for row in rows]
    return standings.plan(
        f"{run.uuid}",
        case,
        setups,
        content,
        settings,
        programs,
        as_root=as_root,
        # Every client of an lsphp can make it run any script, so only its server may reach it.
        isolated=case.parser or any(setup.php == "lsphp-tcp" for setup in setups),
        ready_made=application.ready_made if application else "",
        uploads=uploads,
        link=testbed.get("link", ""),
        peers=standings.new_peers(*(_address(remote) for remote in remotes)) if load_host else None,
    )


def _address(remote: Target) -> str:
    """Resolve a host's address to an IP address. The panel and the run's other host both use this IP address to reach
    the host.
    """
    try:
        return str(socket.getaddrinfo(remote.address, None, type=socket.SOCK_DGRAM)[0][4][0])
    except OSError as error:
        raise ApplicationError(
            f"The address “{remote.address}” of {remote.name} cannot be resolved: {error.strerror}."
        ) from error


def program(web_server: WebServer) -> standings.Program:
    """Describe the program of an installed web server; test beds start private instances of this program."""
    lsphp = str(web_server.host.facts.get("lsphp", ""))
    return standings.Program(
        web_server.paths.get("binary", ""), web_server.version, frozenset(web_server.modules), lsphp
    )


class HeldTestbed:
    """A running `testbed` request to an agent: the agent keeps a test bed on its host until the request ends.
    A thread waits for the end of the request. `ident` is the id of the test bed.
    """

    def __init__(self, remote: Target, ident: str, request: Message) -> None:
        self._remote, self._ident, self.name = remote, ident, remote.name
        self._events: SimpleQueue[Message] = SimpleQueue()
        self.failure: BaseException | None = None
        self.result: Message | None = None
        self.known: TestbedFacts = {}
        self._thread = threading.Thread(target=self._hold, args=(request,), name=f"test bed {ident}", daemon=True)
        self._thread.start()

    def _hold(self, request: Message) -> None:
        try:
            with pool.session(self._remote) as agent:
                self.result = agent.call("testbed", request, on_event=self._events.put)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            self.failure = error
        self._events.put({"state": "ended"})

    def up(self, check: Callable[[], None]) -> TestbedUp:
        """Wait until every server of the test bed responds; return the agent's report. Raises errors of the `testbed`
        request and of `check`.
        """
        try:
            while True:
                try:
                    event = self._events.get(timeout=1.0)
                except Empty:
                    check()
                    continue
                if event["state"] == "up":
                    up = cast(TestbedUp, event)
                    self.known = {"namespaces": up["namespaces"], "tick": up["tick"], "boot": up["boot"]}
                    return up
                if event["state"] == "ended":
                    raise self.failure or ApplicationError(
                        "The host's agent stopped the test bed. Start the run again."
                    )
                check()
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Stop the test bed and wait for its end. ApplicationError if the agent reports that the test bed left
        something on the host.
        """
        if self._thread.is_alive():
            # If the host is gone, its agent has noticed and stops the test bed by itself.
            with suppress(RemoteError), pool.session(self._remote) as agent:
                agent.call("testbed", {"action": "end", "id": self._ident}, timeout=30.0)
        self._thread.join(60.0)
        if self.result and self.result["left"]:
            remains = "; ".join(self.result["left"])
            raise ApplicationError(f"Leftovers of the run on {self._remote.name}: {remains}.")

    def told(self, error: RemoteError, waiting: Callable[[], None]) -> str:
        """Describe the loss of the connection to the agent, and leftovers of the test bed on the host, in sentences.
        Waits until the host responds again; calls `waiting` meanwhile.
        """
        if self.result is not None:
            return f"{error.message} {connection_loss.leftovers_text(self._remote.name, [])}"
        return connection_loss.told(error, self._remote, self.known, waiting)
