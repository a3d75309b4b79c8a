"""Running a server's own program: an argument list, never a shell, nothing on its standard input."""

from __future__ import annotations

import os
import subprocess

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

MAX_OUTPUT = 64 * 1024
TIMEOUT_S = 60.0
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


class Done:
    """How a program ended: its exit code and what it said, both streams together as they came."""

    def __init__(self, argv: list[str], exit_code: int, output: str) -> None:
        self.argv = argv
        self.exit_code = exit_code
        self.output = output


def environment(extra: dict[str, str] | None = None) -> dict[str, str]:
    """The same for every login and every panel, so that a server is always started alike."""
    kept = {name: os.environ[name] for name in ("HOME", "TMPDIR") if name in os.environ}
    return dict({"PATH": PATH, "LANG": "C"}, **kept, **(extra or {}))


def run(
    argv: list[str],
    env: dict[str, str] | None = None,
    prepare: Callable[[], None] | None = None,
    timeout_s: float = TIMEOUT_S,
) -> Done:
    """Runs a program to its end. `prepare` runs in the child before the program does.

    A program that is not there, or does not end in time, is reported like one that failed.
    """
    try:
        done = subprocess.run(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=environment(env),
            cwd="/",
            timeout=timeout_s,
            preexec_fn=prepare,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        said = (error.stdout or b"").decode("utf-8", "replace")
        return Done(argv, -1, "%s\n%s did not end in %g s" % (said, argv[0], timeout_s))
    except FileNotFoundError:
        return Done(argv, 127, "%s is not there" % argv[0])
    except OSError as error:
        return Done(argv, 126, "%s cannot be run: %s" % (argv[0], error.strerror))
    return Done(argv, done.returncode, done.stdout[-MAX_OUTPUT:].decode("utf-8", "replace").strip())


def find(name: str) -> str:
    """The path of a program, "" when the machine has none of that name."""
    for folder in PATH.split(":"):
        path = os.path.join(folder, name)
        if os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return ""
