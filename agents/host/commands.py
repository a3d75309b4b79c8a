"""Run a program of the host: an argument list, no shell, empty standard input.

Programs run in the folder /, like the agent (main.py).
"""

from __future__ import annotations

import os
import select
import shutil
import subprocess
import time
from typing import Callable

from agents.host import safe

MAX_OUTPUT = 64 * 1024
TIMEOUT_S = 60.0
# Start of a command line that runs the rest of it if the parent process is the one with the id given as $0.
_IF_PARENT_LIVES = ["/bin/sh", "-c", '[ "$PPID" = "$0" ] && exec "$@"']
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Done:
    """Result of a program: argv, exit code, and output with both streams merged."""

    def __init__(self, argv: list[str], exit_code: int, output: str) -> None:
        self.argv = argv
        self.exit_code = exit_code
        self.output = output


def environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """Return the environment variables for a program: the same for every account and panel, so that servers always
    start in the same way, and those in `extra`.
    """
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    return dict({"PATH": PATH, "LANG": "C"}, **kept, **(extra or {}))


def ending_with_agent(argv: list[str]) -> list[str]:
    """Return `argv` after a call of setpriv(1), so that the kernel kills the process when the thread that started it
    ends. Return `argv` unchanged if the host lacks setpriv.

    The kernel sends no signal for a parent that ended before setpriv asked for it, so the program only runs if the
    agent is still the parent process afterwards.
    """
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        return argv
    return [setpriv, "--pdeathsig=KILL", "--", *_IF_PARENT_LIVES, str(os.getpid()), *argv]


def start(
    argv: list[str],
    env: dict[str, str] | None,
    output: int,
    prepare: Callable[[], None] | None = None,
    session: bool = False,
) -> subprocess.Popen[bytes]:
    """Start a program whose output and errors go to the descriptor `output`.

    `prepare` runs in the child process before the program. With `session`, the program has a session of its own and
    runs on after the agent's channel closes. Raises OSError if the program cannot start, and Refusal if an account
    other than root and the agent's could replace the program's file.
    """
    path = argv[0] if "/" in argv[0] else find(argv[0])
    if not path:
        raise FileNotFoundError(argv[0])
    safe.true_path(path)
    return subprocess.Popen(
        argv,
        executable=path,
        env=environment(env),
        stdin=subprocess.DEVNULL,
        stdout=output,
        stderr=subprocess.STDOUT,
        preexec_fn=_with_reported_error(argv[0], prepare) if prepare else None,
        start_new_session=session,
    )


def _with_reported_error(program: str, prepare: Callable[[], None]) -> Callable[[], None]:
    """Wrap `prepare`, a function for the child process: if it fails, print the exception's text and end the child.
    `subprocess` would only report that the function failed.
    """

    def run() -> None:
        try:
            prepare()
        except BaseException as error:  # noqa: BLE001 - the child's last words, whatever they are
            os.write(2, ("%s cannot be run: %s" % (program, error)).encode("utf-8", "replace"))
            os._exit(126)

    return run


def run(
    argv: list[str],
    env: dict[str, str] | None = None,
    prepare: Callable[[], None] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Done:
    """Run a program to its end; return its arguments, exit code and output.

    `prepare` runs in the child process before the program. The exit code is 127 for a missing program, 126 if the
    program cannot be run, and -1 if it exceeds the time limit, after which it is killed.
    """
    reading, writing = os.pipe()
    try:
        try:
            child = start(argv, env, writing, prepare)
        except FileNotFoundError:
            return Done(argv, 127, "the program %s does not exist" % argv[0])
        except OSError as error:
            return Done(argv, 126, "%s cannot be run: %s" % (argv[0], error.strerror))
        finally:
            os.close(writing)
        said = bytearray()
        if _read(reading, said, timeout_s):
            return Done(argv, child.wait(), _words(said))
        child.kill()
        child.wait()
        return Done(argv, -1, "%s\n%s did not end within %g s" % (_words(said), argv[0], timeout_s))
    finally:
        os.close(reading)


def _read(descriptor: int, said: bytearray, timeout_s: float) -> bool:
    """Append a program's output to `said`, and keep only its last MAX_OUTPUT bytes. Return True if the output ended
    within `timeout_s`.
    """
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
    """Return the path of the program `name` in the folders of PATH; "" if the host does not have the program."""
    for folder in PATH.split(":"):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""
