"""A stand for the length of a run: private instances of the host's servers, set up by its agent and taken down again.

The agent holds the stand while its request runs, in a thread of this worker; it ends when the run ends, and also when
this worker, the connection or the agent does.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from queue import Empty, SimpleQueue
from typing import Any

from django.conf import settings as django_settings

from panel.benchmarks.models import Run, RunTarget
from panel.benchmarks.runs import lost
from panel.benchmarks.runs.aims import Aim
from panel.benchmarks.suites import SUITES
from panel.benchmarks.suites.definitions import Case, Content, Settings, stored_case
from panel.benchmarks.testbeds import layout as standings
from panel.benchmarks.tools.commands import BUNDLED
from panel.core.errors import ApplicationError
from panel.hosts import programs as programs_of_panel
from panel.hosts.models import EngineInstall, Host
from panel.hosts.targets import target_for
from panel.remote import pool
from panel.remote.errors import OperationRefused, RemoteError
from panel.remote.target import Target

START_S = 300.0
_ATTEMPTS = 4  # ports are chosen here and may be taken there


@dataclass(frozen=True)
class Standing:
    """`network` is what the link was asked to be and what was measured over it, `programs` the SHA-256 of those that
    were brought along, by name. `known`: what each host's agent said of its part, by which it tells what is left."""

    aims: list[Aim]
    network: dict[str, Any] = field(default_factory=dict)
    programs: dict[str, str] = field(default_factory=dict)
    known: dict[str, dict[str, Any]] = field(default_factory=dict)


@contextmanager
def standing(run: Run, check: Callable[[], None], waiting: Callable[[], None]) -> Iterator[Standing]:
    """`check` is called while the stand is set up, `waiting` while a host that was lost is waited for; what either
    raises takes the stand down again."""
    rows = list(run.targets.select_related("install__host"))
    installs = [_install(row) for row in rows]
    host, load_host = installs[0].host, _load_host(run)
    remote, load = target_for(host), target_for(load_host) if load_host else None
    plan, held, ups = _set_up(run, rows, installs, [remote, *([load] if load else [])], check)
    try:
        aims = [
            Aim(
                row=row,
                remote=remote,
                host=host.name,
                endpoint=place.endpoint,
                allowed=plan.request.listeners,
                trees={tree: [_source(ups[0], words)] for tree, words in place.trees.items()},
                server=_described(place, install),
                stand=plan.request.id,
                load=load,
            )
            for row, install, place in zip(rows, installs, plan.places, strict=True)
        ]
        own = plan.load or plan.request
        programs = {name: brought["sha256"] for name, brought in own.programs.items()}
        network = {"asked": own.network, "measured": ups[-1]["network"]} if own.network else {}
        yield Standing(aims, network, programs, {item.name: item.known for item in held})
    except RemoteError as error:
        # What became of the stands says more than that one is not there (any more).
        failed = [item.failure for item in held if isinstance(item.failure, RemoteError)]
        failure = error if lost.is_loss(error) else next(iter(failed), error)
        if not lost.is_loss(failure):
            raise failure from error
        _end(held)
        raise ApplicationError(" ".join(_told(held, failure, waiting))) from error
    finally:
        _end(held)


def _set_up(
    run: Run, rows: list[RunTarget], installs: list[EngineInstall], remotes: list[Target], check: Callable[[], None]
) -> tuple[standings.Plan, list[_Held], list[dict[str, Any]]]:
    """The servers' stand and, where it is another host's, the load's; with what each said when it was up."""
    for attempt in range(1, _ATTEMPTS + 1):
        held: list[_Held] = []
        plan = _plan(run, rows, installs, remotes)
        requests = [plan.request, *([plan.load] if plan.load else [])]
        try:
            ups = []
            for remote, request in zip(remotes, requests, strict=True):
                held.append(_Held(remote, request.id, standings.request_json(request)))
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


def _end(held: list[_Held]) -> None:
    """Takes all down, the load's first. ApplicationError with everything that is left anywhere."""
    remains = []
    for item in reversed(held):
        try:
            item.end()
        except ApplicationError as error:
            remains.append(error.message)
    if remains:
        raise ApplicationError(" ".join(remains))


def _told(held: list[_Held], error: RemoteError, waiting: Callable[[], None]) -> list[str]:
    """What became of each host's part, the lost one's first."""
    away = [item for item in held if item.result is None]
    here = [item for item in held if item.result is not None]
    told = [item.told(error, waiting) for item in away] or [error.message]
    return told + [lost.left_words(item.name, []) for item in here]


def _load_host(run: Run) -> Host | None:
    """The managed host that the load comes from where it is another one than the servers'."""
    pk = run.parameters["stand"].get("load_host")
    if pk is None:
        return None
    found = Host.objects.filter(pk=pk).first()
    if found is None:
        raise ApplicationError("The host selected for the load generator is no longer managed. Start the suite again.")
    return found


def _source(up: dict[str, Any], words: str) -> str:
    """As the agent takes it (agents/host/sample.py): a server's process, or what it started, by name."""
    name, slash, pattern = words.partition("/")
    return f"pid:{up['servers'][name]['pid']}{slash}{pattern}"


def _install(row: RunTarget) -> EngineInstall:
    if row.install is None:
        raise ApplicationError(
            f"The web server of {row.label} was deleted after this run was requested. Start a new run."
        )
    return row.install


def _described(place: standings.Place, install: EngineInstall) -> Callable[[], dict[str, Any]]:
    words = {"engine": install.engine, "version": install.version, "workers": 0, "revision": None}
    return lambda: {**words, "digest": place.digest, "setup": place.setup.slug}


def _plan(run: Run, rows: list[RunTarget], installs: list[EngineInstall], remotes: list[Target]) -> standings.Plan:
    """`remotes`: the servers' host and, where the load comes from another, that one."""
    stand = run.parameters["stand"]
    suite = SUITES[stand["suite"]]
    case: Case = stored_case(stand["case"])
    application = suite.application(stand["application"]) if stand.get("application") else None
    content: Content = application.content if application else suite.content
    settings: Settings = suite.settings
    load_host = _load_host(run)
    with pool.session(remotes[0]) as agent:
        as_root = agent.identity["uid"] == 0
    with pool.session(remotes[-1]) as agent:
        place, uploads = load_host or installs[0].host, {}
        if case.network:
            emulator = programs_of_panel.upload(
                place, agent, django_settings.NETEM_BINARY, "paddock-netem", "PADDOCK_NETEM"
            )
            uploads["paddock-netem"] = emulator
        if case.protocol == "h3":
            uploads[BUNDLED] = programs_of_panel.upload(
                place, agent, django_settings.LOAD_BINARY, BUNDLED, "PADDOCK_LOAD"
            )
    programs = {install.engine: program(install) for install in installs}
    setups = [standings.able(suite.setup(row.setup), programs[row.engine]) for row in rows]
    return standings.plan(
        f"{run.uuid}",
        case,
        setups,
        content,
        settings,
        programs,
        as_root=as_root,
        # Who reaches an lsphp makes it run any script: nobody on the host but its server may.
        isolated=case.parser or any(setup.php == "lsphp-tcp" for setup in setups),
        ready_made=application.ready_made if application else "",
        uploads=uploads,
        link=stand.get("link", ""),
        peers=standings.new_peers(*(_address(remote) for remote in remotes)) if load_host else None,
    )


def _address(remote: Target) -> str:
    """Where the other host finds it: where the panel does."""
    try:
        return str(socket.getaddrinfo(remote.address, None, type=socket.SOCK_DGRAM)[0][4][0])
    except OSError as error:
        raise ApplicationError(
            f"The address “{remote.address}” of {remote.name} cannot be resolved: {error.strerror}."
        ) from error


def program(install: EngineInstall) -> standings.Program:
    """What a stand needs to know of it."""
    lsphp = str(install.host.facts.get("lsphp", ""))
    return standings.Program(install.paths.get("binary", ""), install.version, frozenset(install.modules), lsphp)


class _Held:
    """The agent's `stand` request, waited for in a thread of its own."""

    def __init__(self, remote: Target, ident: str, request: dict[str, Any]) -> None:
        self._remote, self._ident, self.name = remote, ident, remote.name
        self._events: SimpleQueue[dict[str, Any]] = SimpleQueue()
        self.failure: BaseException | None = None
        self.result: dict[str, Any] | None = None
        self.known: dict[str, Any] = {}
        self._thread = threading.Thread(target=self._hold, args=(request,), name=f"test bed {ident}", daemon=True)
        self._thread.start()

    def _hold(self, request: dict[str, Any]) -> None:
        try:
            with pool.session(self._remote) as agent:
                self.result = agent.call("stand", request, on_event=self._events.put)
        except BaseException as error:  # noqa: BLE001 - handed to the thread that waits
            self.failure = error
        self._events.put({"state": "ended"})

    def up(self, check: Callable[[], None]) -> dict[str, Any]:
        """What the agent says when everything answers. Raises what went wrong, and what `check` raises."""
        try:
            while True:
                try:
                    event = self._events.get(timeout=1.0)
                except Empty:
                    check()
                    continue
                if event["state"] == "up":
                    self.known = {name: event[name] for name in ("namespaces", "tick", "boot")}
                    return event
                if event["state"] == "ended":
                    raise self.failure or ApplicationError(
                        "The host's agent stopped the test bed. Start the run again."
                    )
                check()
        except BaseException:
            self.end()
            raise

    def end(self) -> None:
        """Takes it down and waits for it. ApplicationError when something of it stayed, or had died meanwhile."""
        if self._thread.is_alive():
            # Where the host is gone, its agent has noticed as well, and takes the stand down by itself.
            with suppress(RemoteError), pool.session(self._remote) as agent:
                agent.call("stand", {"action": "end", "id": self._ident}, timeout=30.0)
        self._thread.join(60.0)
        if self.result and self.result["left"]:
            remains = "; ".join(self.result["left"])
            raise ApplicationError(f"Leftovers of the run on {self._remote.name}: {remains}.")

    def told(self, error: RemoteError, waiting: Callable[[], None]) -> str:
        """In words, what became of the stand after the connection to its agent was lost."""
        if self.result is not None:
            return f"{error.message} {lost.left_words(self._remote.name, [])}"
        return lost.told(error, self._remote, self.known, waiting)
