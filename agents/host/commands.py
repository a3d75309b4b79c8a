"""Run a server's own program: an argument list, never a shell, without standard input.

posix_spawn(3) copies nothing of the agent; `subprocess` would take a third of the agent's start-up time to import. The
working folder of agent and programs is / (main.py).
"""

from __future__ import annotations

import os
import select
import time

from agents.host import lean, safe

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

MAX_OUTPUT = 64 * 1024
TIMEOUT_S = 60.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Done:
    """Result of a program: its exit code and its output, both streams merged."""

    def __init__(self, argv: list[str], exit_code: int, output: str) -> None:
        self.argv = argv
        self.exit_code = exit_code
        self.output = output


def environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """Environment for all programs, independent of the account and the panel, so that servers always start in the same
    way.
    """
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    return dict({"PATH": PATH, "LANG": "C"}, **kept, **(extra or {}))


class Child:
    """A started program; both output streams go to the descriptor `output`.

    OSError if it cannot start, Refusal if an account other than root and the agent's could replace it. `prepare` runs
    in the child before the program. With `session` the program survives the agent's channel.
    """

    _left: list[Child] = []  # programs without a waiting caller

    def __init__(
        self,
        argv: list[str],
        env: dict[str, str] | None,
        output: int,
        prepare: Callable[[], None] | None = None,
        session: bool = False,
    ) -> None:
        Child._left = [child for child in Child._left if child.poll() is None]
        self._code: int | None = None
        path = argv[0] if "/" in argv[0] else find(argv[0])
        if not path:
            raise FileNotFoundError(argv[0])
        safe.true_path(path)  # rejects programs that another account could replace
        if prepare is None and not session:
            self.pid = _spawned(path, argv, environment(env), output)
        else:
            self.pid = _forked(path, argv, environment(env), output, prepare, session)

    def poll(self) -> int | None:
        """Exit code, negative for a signal; None while it runs."""
        return self._code if self._code is not None else self._reaped(os.WNOHANG)

    def wait(self) -> int:
        """Wait for the end; return the exit code."""
        code = self.poll()
        return code if code is not None else self._reaped(0) or 0

    def leave(self) -> None:
        """Do not wait for the program; it is reaped when the next one starts."""
        if self.poll() is None:
            Child._left.append(self)

    def kill(self) -> None:
        if self.poll() is None:
            os.kill(self.pid, lean.number("KILL"))

    def _reaped(self, options: int) -> int | None:
        pid, status = os.waitpid(self.pid, options)
        if pid:
            self._code = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
        return self._code


def _spawned(path: str, argv: list[str], env: dict[str, str], output: int) -> int:
    streams = [
        (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
        (os.POSIX_SPAWN_DUP2, output, 1),
        (os.POSIX_SPAWN_DUP2, output, 2),
    ]
    return os.posix_spawn(path, argv, env, file_actions=streams, setsigdef=_python_ignores())


def _forked(
    path: str,
    argv: list[str],
    env: dict[str, str],
    output: int,
    prepare: Callable[[], None] | None,
    session: bool,
) -> int:
    """Start by fork for features that posix_spawn lacks. exec closes all other descriptors, because Python opens them
    so (PEP 446).
    """
    pid = os.fork()
    if pid:
        return pid
    try:
        os.dup2(output, 1)
        os.dup2(output, 2)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        if session:
            os.setsid()
        for number in _python_ignores():
            lean.signals.signal(number, lean.signals.SIG_DFL)
        if prepare is not None:
            prepare()
        os.execve(path, argv, env)  # noqa: S606 - an argument list
    except BaseException as error:  # noqa: BLE001 - the child's last words, whatever they are
        os.write(2, ("%s cannot be run: %s" % (argv[0], error)).encode("utf-8", "replace"))
    finally:
        os._exit(126)


def _python_ignores() -> list[int]:
    """Signals that Python ignores but programs expect with their default action."""
    return [lean.number("PIPE"), lean.number("XFSZ")]


def run(
    argv: list[str],
    env: dict[str, str] | None = None,
    prepare: Callable[[], None] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Done:
    """Run a program to its end. `prepare` runs in the child before the program.

    A missing program, or one that exceeds the time limit, is reported like a failed one.
    """
    reading, writing = os.pipe()
    try:
        try:
            child = Child(argv, env, writing, prepare)
        except FileNotFoundError:
            return Done(argv, 127, "%s is not there" % argv[0])
        except OSError as error:
            return Done(argv, 126, "%s cannot be run: %s" % (argv[0], error.strerror))
        finally:
            os.close(writing)
        said = bytearray()
        if _read(reading, said, timeout_s):
            return Done(argv, child.wait(), _words(said))
        child.kill()
        child.wait()
        return Done(argv, -1, "%s\n%s did not end in %g s" % (_words(said), argv[0], timeout_s))
    finally:
        os.close(reading)


def _read(descriptor: int, said: bytearray, timeout_s: float) -> bool:
    """Append output to `said` until its end; return whether it ended in time."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    deadline = time.monotonic() + timeout_s
    while True:
        if not waiting.poll(max(0.0, deadline - time.monotonic()) * 1000):
            return False
        part = os.read(descriptor, MAX_OUTPUT)
        if not part:
            return True
        said += part
        del said[:-MAX_OUTPUT]


def _words(said: bytearray) -> str:
    return said.decode("utf-8", "replace").strip()


def find(name: str) -> str:
    """Path of a program, "" if the host lacks it."""
    for folder in PATH.split(":"):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""
