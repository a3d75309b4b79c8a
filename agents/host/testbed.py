"""Test bed: private instances of the host's web servers for one run, all with the settings of a comparison.

The live servers are neither reconfigured nor restarted: the test bed has its own folder, processes, ports and, with a
network profile, its own network. It exists while its request runs. It ends by the action `end`, a closed channel, or a
kill of the agent. Afterwards nothing remains, and the action `left` verifies this from the kernel's data.
"""

from __future__ import annotations

import contextlib
import os
import re
import socket
import threading
import time
from typing import Any, Dict, List, Optional, Set

from agents.host import link, peers, processes, sample, testbed_files, testbed_servers, wordpress
from agents.host.errors import Refusal
from agents.host.operations import Emit

_ID = re.compile(r"[a-z0-9-]{8,64}\Z")
_NAMESPACE = re.compile(r"(?:pid|net|ipc):\[[0-9]+\]\Z")
_ENDING_S = 10.0
_live: Dict[str, Testbed] = {}
_lock = threading.Lock()


def run(args: Dict[str, Any], emit: Emit, cancelled: threading.Event) -> Dict[str, Any]:
    """Carry out a TestbedRequest (agents/protocol.py). The action `start` runs until `end` is requested; its result
    lists the parts of the test bed that could not be removed.
    """
    action = args.get("action")
    if action == "left":
        removed: List[str] = []
        return {"left": _left_after(args, cancelled, removed), "removed": removed, "boot": processes.boot()}
    ident = str(args.get("id"))
    if not _ID.match(ident):
        raise Refusal("invalid", "a test bed's id is 8 to 64 of a-z, 0-9 and -")
    if action == "end":
        testbed = _live.get(ident)
        if testbed is not None:
            testbed.finished.set()
        return {"ended": testbed is not None}
    if action == "watch":
        return find(ident).watch(args, cancelled)
    if action == "watched":
        find(ident).seen.set()
        return {}
    if action != "start":
        raise Refusal("invalid", "action is one of start, watch, watched, end, left")
    return _start(ident, args, emit, cancelled)


def find(ident: str) -> Testbed:
    """Return the running test bed with the id `ident`; raise Refusal if there is none."""
    testbed = _live.get(ident)
    if testbed is None:
        raise Refusal("missing", "the test bed %s is not running on this host; start the benchmark again" % ident)
    return testbed


class Testbed:
    def __init__(self, ident: str, args: Dict[str, Any]) -> None:
        testbed_files.check(args)
        self.ident = ident
        self.finished = threading.Event()
        self.seen = threading.Event()
        self.listeners: List[str] = [str(item) for item in args.get("listeners", [])]
        self.folder = testbed_files.Folder()
        self.servers: List[testbed_servers.Server] = []
        self.link: Optional[link.Link] = None
        self.namespaces: Set[str] = set()
        self._heard: Dict[str, int] = {}

    def build(self, args: Dict[str, Any], emit: Emit, cancelled: threading.Event) -> Dict[str, Any]:
        emit({"state": "files"})
        self.folder.write(args.get("files", []), args.get("fill", []), args.get("folders", []))
        self.folder.programs(args.get("programs", {}))
        application = self._application(str(args.get("application") or ""))
        if application is not None:
            emit({"state": "application"})
            application.lay()
        self.servers = [testbed_servers.made(item, self.folder.path) for item in args.get("servers", [])]
        peer = peers.Peer(args["peer"]) if args.get("peer") else None
        joined = self._connect(args, peer, emit)
        keeper = self.link.far if self.link else None
        for server in self.servers:
            emit({"state": "server", "name": server.name})
            server.start(keeper)
            server.await_up(keeper, cancelled)
            self.namespaces |= server.namespaces
            if application is not None and server.kind == "mariadb":
                application.fill(cancelled)
        precision = self.link.measure() if self.link else {}
        return {
            "state": "up",
            "folder": self.folder.path,
            "servers": {server.name: {"pid": server.pid} for server in self.servers},
            "network": dict(precision, **joined),
            "namespaces": sorted(self.namespaces),
            "tick": processes.now(),
            "boot": processes.boot(),
        }

    def _connect(self, args: Dict[str, Any], peer: Optional[peers.Peer], emit: Emit) -> Dict[str, Any]:
        """Create the test bed's network link if the request has a network or a peer (the other host of a run on two
        hosts).

        On the load host of a run on two hosts, return the measurements of peers.join; {} otherwise.
        """
        if peer is not None and peer.role == "servers":
            self.link = peers.Servers(peer)
        elif args.get("network") is not None:
            emit({"state": "network"})
            by = str(args.get("link") or "")
            self.link = link.made(args["network"], self.folder.program("paddock-netem"), by)
        else:
            _require_free(self.listeners)
            return {}
        self.namespaces |= self.link.namespaces()
        if peer is None or peer.role == "servers":
            return {}
        peers.check_listeners(self.listeners)
        emit({"state": "peer"})
        return peers.join(self.link, peer)

    def _application(self, name: str) -> Optional[wordpress.WordPress]:
        if name not in ("", "wordpress"):
            raise Refusal("invalid", "%r is no application of a test bed; there is wordpress" % name)
        return wordpress.WordPress(self.folder) if name else None

    def enter(self, far: bool = False) -> None:
        """Move the calling thread into the network namespace of the load generator, or with `far`, of the servers."""
        if self.link is not None:
            (self.link.far if far else self.link.near).enter()

    def dead(self) -> List[str]:
        return [server.name for server in self.servers if not server.is_alive()]

    def said(self, sources: List[str]) -> str:
        """Return the log lines that some servers wrote since the last call. `sources` selects the servers by "pid:N",
        where N is the main process.
        """
        texts = []
        for server in self.servers:
            if "pid:%d" % server.pid in sources:
                sizes = server.log_sizes()
                texts.append(server.words_since(self._heard))
                self._heard.update(sizes)
        return "".join(texts)

    def watch(self, args: Dict[str, Any], cancelled: threading.Event) -> Dict[str, Any]:
        """Sample the servers' process trees until the action `watched` is requested, while the load comes from another
        host.

        Returns {"samples", "cpu_s"} as in agents/host/sample.py, and "server_log", the servers' new log lines.
        """
        trees = {str(name): [str(source) for source in sources] for name, sources in args.get("trees", {}).items()}
        self.seen.clear()
        sampler = sample.Sampler(trees, float(args.get("hz", 5.0)))
        while not (self.seen.is_set() or self.finished.is_set() or cancelled.is_set()):
            self.seen.wait(sampler.tick())
        sampler.tick()
        log = self.said([source for sources in trees.values() for source in sources])
        return {"samples": sampler.samples, "cpu_s": sampler.cpu_s, "server_log": log}

    def close(self) -> List[str]:
        """Stop the servers, and remove the link and the folder of the test bed; return what remains, as phrases."""
        tick = processes.now()
        for server in reversed(self.servers):
            server.end()
        if self.link is not None:
            self.link.close()
        self.folder.remove()
        stayed = testbed_servers.inside_since_before(self.namespaces, tick)
        return left(stayed, self.folder.path)


def _start(ident: str, args: Dict[str, Any], emit: Emit, cancelled: threading.Event) -> Dict[str, Any]:
    testbed_files.sweep()
    with _lock:
        if _live:
            raise Refusal("busy", "another test bed is running on this host; try again when it has ended")
        testbed = _live[ident] = Testbed(ident, args)
    logs: Dict[str, str] = {}
    try:
        emit(testbed.build(args, emit, cancelled))
        while not (testbed.finished.wait(0.1) or cancelled.is_set()):
            dead = testbed.dead()
            if dead:
                words = "\n".join(server.words() for server in testbed.servers if server.name in dead)
                raise Refusal("failed", "%s ended during the run:\n%s" % (", ".join(dead), words))
        logs = {server.name: server.words() for server in testbed.servers}
    finally:
        try:
            remains = testbed.close()
        finally:
            with _lock:
                _live.pop(ident, None)
    return {"left": remains, "logs": logs}


def _require_free(listeners: List[str]) -> None:
    for listener in listeners:
        host, _, port = listener.rpartition(":")
        with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind((host, int(port)))
            except OSError as error:
                raise Refusal("busy", "%s cannot be used for the test bed: %s" % (listener, error.strerror)) from None


def _left_after(args: Dict[str, Any], cancelled: threading.Event, removed: List[str]) -> List[str]:
    """Return what remains of a test bed whose agent has ended, as phrases. `args` has "namespaces", "tick" and "boot"
    of the event "up".

    Folders that the agent could no longer remove are removed here, and added to `removed`. A process in one of the
    namespaces counts only if it started before "tick": a later process may belong to another test bed whose namespaces
    have the same numbers. This waits up to _ENDING_S seconds for processes that are just ending. After a reboot, the
    names of namespaces are ignored.
    """
    namespaces = {str(name) for name in args.get("namespaces", []) if _NAMESPACE.match(str(name))}
    if args.get("boot", processes.boot()) != processes.boot():
        namespaces = set()
    tick = int(args.get("tick") or processes.now())
    deadline = time.monotonic() + _ENDING_S
    while True:
        removed += testbed_files.sweep()  # a folder is free once its agent has ended
        found = left(testbed_servers.inside_since_before(namespaces, tick + 1))
        if not found or time.monotonic() > deadline or cancelled.wait(0.1):
            return found


def left(pids: List[int], folder: str = "") -> List[str]:
    """Return what remains of test beds, as phrases: the processes `pids`, interfaces of links, and folders that belong
    to no running test bed. With `folder`, only this folder is checked.
    """
    found = ["process %d (%s)" % (pid, processes.title(pid)) for pid in pids]
    with contextlib.suppress(OSError):
        found += ["interface " + name for name in sorted(os.listdir("/sys/class/net")) if name.startswith(link.PREFIX)]
    folders = [folder] if folder else testbed_files.found()
    held = {testbed.folder.path for testbed in _live.values()} - {folder}
    return found + ["folder " + path for path in folders if os.path.exists(path) and path not in held]
