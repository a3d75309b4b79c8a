"""What one try happens in: folders of root's and of the attacker's on a file system of its own, and a traced agent."""

from __future__ import annotations

import json
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents import wire
from panel.remote import bundle
from tests.suites.attack.racer.attacker import ACCOUNT, Attacker, Canaries
from tests.suites.attack.racer.ptrace_steps import Stepper, Undo
from tests.support.waiting import is_readable

PLACE = Path("/srv")  # a tmpfs of this process alone (lane.py); a checkout, and so this Python, may lie below /tmp
PATIENCE_S = 120.0


class Hung(Exception):
    """The agent did not answer in time."""


@dataclass(frozen=True)
class Plan:
    """Swaps: from which of the calls on, which kind, which part of the path, and until when. Nothing without a kind."""

    kind: str = ""
    first: int = 0
    outermost: bool = False
    how: str = "once"  # once: for one call | each: for each call from then on | stay: for good

    def __str__(self) -> str:
        return f"{self.kind or 'nothing'} {self.how} at call {self.first}{' outermost' if self.outermost else ''}"


class World:
    """`site` and all in it belong to the attacker; `etc`, `opt` and `state` are root's; `tmp` is as /tmp is."""

    def __init__(self) -> None:
        for old in PLACE.iterdir():
            shutil.rmtree(old) if old.is_dir() and not old.is_symlink() else old.unlink()
        self.home = PLACE / "home"
        self.site, self.etc, self.opt = (self.home / name for name in ("site", "etc", "opt"))
        self.state = PLACE / "state"
        for folder in (self.home, self.site, self.etc, self.opt):
            folder.mkdir(mode=0o755)
        self.state.mkdir(mode=0o700)
        self.canaries = Canaries(PLACE / "canary")
        self.attacker = Attacker(PLACE, self.canaries)
        self.plan = Plan()
        self.events = self.swaps = 0
        self.firsts: dict[tuple[str, str], int] = {}  # call and name -> its number when it was first made
        self.env = {"PATH": os.environ["PATH"], "TMPDIR": str(PLACE), "PADDOCK_AGENT_STATE": str(self.state)}

    def file(self, path: Path, text: str = "", mode: int = 0o644) -> Path:
        """A file, with its folders. Below `site` it is the attacker's once `give` was called."""
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        path.chmod(mode)
        return path

    def give(self, *paths: Path) -> None:
        """These and all in them become the attacker's."""
        for top in paths:
            for path in (top, *top.rglob("*")):
                os.chown(path, ACCOUNT.pw_uid, ACCOUNT.pw_gid, follow_symlinks=False)

    def before(self, pid: int, call: str, paths: list[str]) -> Undo | None:
        """The attacker's turn, before a call of a process of root's."""
        if not _is_root(pid):
            return None
        parts = [part for path in paths for part in self.attacker.swappable(path)]
        if not parts:
            return None
        number, plan = self.events, self.plan
        self.events += 1
        self.firsts.setdefault((call, parts[-1]), number)
        if not plan.kind or number < plan.first or (plan.how != "each" and number > plan.first):
            return None
        self.swaps += 1
        undo = self.attacker.swap(parts[0 if plan.outermost else -1], plan.kind)
        return None if plan.how == "stay" else undo


def _is_root(pid: int) -> bool:
    """By its effective user id; /proc/PID itself is root's also where a process gave its privileges up."""
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as status:
        return next(line for line in status if line.startswith("Uid:")).split()[2] == "0"


class Agent:
    """The agent's two streams; `said` is all that came."""

    def __init__(self, world: World, path: Path, fault: str = "") -> None:
        reading, self._requests = os.pipe()
        self._answers, writing = os.pipe()
        env = dict(world.env, **({"PADDOCK_AGENT_TEST": "1", "PADDOCK_AGENT_FAULT": fault} if fault else {}))
        errors = os.open(os.devnull, os.O_WRONLY)
        os.set_inheritable(errors, True)
        self.said = b""
        self._pending = b""
        self._next = 0
        self.stepper: Stepper | None = None
        ready = threading.Event()

        def trace() -> None:
            try:
                argv = bundle.argv(sys.executable, str(path))
                self.stepper = Stepper(argv, env, (reading, writing, errors), world.before)
            finally:
                for stream in (reading, writing, errors):
                    os.close(stream)
                ready.set()
            self.stepper.run()

        self._thread = threading.Thread(target=trace)
        self._thread.start()
        ready.wait()
        self._deadline = time.monotonic() + PATIENCE_S
        self._receive()

    def start(self, op: str, args: dict[str, Any]) -> str:
        self._next += 1
        message = {"v": wire.VERSION, "id": str(self._next), "op": op, "args": args}
        self._deadline = time.monotonic() + PATIENCE_S
        os.write(self._requests, wire.encode(message))
        return str(self._next)

    def wait(self, ident: str, until: Callable[[dict[str, Any]], bool] = lambda _: False) -> dict[str, Any]:
        """The last message about a request, or the event that it is waited for; Hung, EOFError when the agent died."""
        while True:
            message = self._receive()
            if message["id"] == ident and (message["type"] != "event" or until(message["data"])):
                return message

    def call(self, op: str, args: dict[str, Any]) -> dict[str, Any]:
        return self.wait(self.start(op, args))

    def _receive(self) -> dict[str, Any]:
        while b"\n" not in self._pending:
            left = self._deadline - time.monotonic()
            if left <= 0 or not is_readable(self._answers, left):
                raise Hung
            part = os.read(self._answers, 1 << 16)
            if not part:
                raise EOFError
            self.said += part
            self._pending += part
        line, _, self._pending = self._pending.partition(b"\n")
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> bool:
        """Ends it; whether it ended by itself."""
        os.close(self._requests)
        self._thread.join(PATIENCE_S)
        ended = not self._thread.is_alive()
        if not ended and self.stepper is not None:
            self.stepper.kill()
            self._thread.join()
        os.close(self._answers)
        return ended
