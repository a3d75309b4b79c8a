"""OpenLiteSpeed: one configuration below $SERVER_ROOT/conf, a guardian process, zero-downtime restarts.

`openlitespeed -t` always tests the configuration below its own server root, so a copy elsewhere cannot be tested. On
SIGUSR1 the server starts its successor, which writes its own process id into the pid file; the old one finishes.
"""

from __future__ import annotations

import os
import stat

from agents.host import commands, processes, safe
from agents.host.engines.base import Engine, EngineError, Generation
from agents.host.errors import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Callable

PID_FILE = "/tmp/lshttpd/lshttpd.pid"  # noqa: S108 - where this server keeps it unless OLS_PID_FILE says otherwise
PROGRAMS = ("openlitespeed", "litespeed", "lshttpd")
TEMPORARY = os.path.dirname(PID_FILE)
SITES = "paddock.conf"  # listeners and the list of virtual hosts, beside the main file
# What its own installation causes, whatever the configuration says.
HARMLESS = ("Get lsadm passwd failed",)
# Warnings by which it says that it takes no notice of something: a key, a block, a whole virtual host.
FAILURE = "Fatal error in configuration"
LOSSES = ("Not support [", "is NOT keyword", "do not match", "more '}'", "configuration failed!")


class Server(Engine):
    reload_signal = "USR1"
    relocatable = False
    starts_with_errors = True

    def test(self, main_config: str = "", prefix: str = "", prepare: Callable[[], None] | None = None) -> commands.Done:
        """Its test ends with 1 for warnings and with 2 for errors, and with 0 for anything where it cannot write down
        what it finds. What counts are its lines of errors and of what it leaves out, unknown keys among them."""
        with HeldFolder(TEMPORARY, self._accounts()) as folder:
            safe.remove_tree("testconf", folder)  # by a test that broke off
            done = super().test(main_config, prefix, prepare)
        errors = [line for line in done.output.splitlines() if _is_error(line)]
        if done.exit_code not in (0, 1, 2):
            errors = ["the test broke off (%d)" % done.exit_code, *(errors or [done.output])]
        errors += self._left_out() + self._without_successor()
        return commands.Done(done.argv, 2 if errors else 0, "\n".join(errors))

    def new_errors(self, done: commands.Done, before: commands.Done) -> commands.Done:
        """It runs without what its errors are about, so a host may have had some for years."""
        old = [_lasting(line) for line in before.output.splitlines() if _is_error(line)]
        new: list[str] = []
        standing: list[str] = []
        for line in done.output.splitlines():
            known = _is_error(line) and _lasting(line) in old
            if known:
                old.remove(_lasting(line))
            (standing if known else new).append(line)
        if standing:
            standing = ["%s runs with errors that were there before this change:" % self.name, *standing]
        return commands.Done(done.argv, 2 if new else 0, "\n".join(new + standing))

    def _left_out(self) -> list[str]:
        """What is wrong where the main file does not read the sites: its own test would find nothing wrong."""
        if not os.path.exists(os.path.join(self.config_root, SITES)):
            return []
        text = processes.read(self.main_config).decode("utf-8", "replace")
        lines = [line.split(None, 1) for line in text.splitlines() if line.strip().lower().startswith("include")]
        if any(words[-1].strip().endswith(SITES) or "*" in words[-1] for words in lines):
            return []
        return ["%s does not read the panel's sites: add the line “include %s” at its end" % (self.main_config, SITES)]

    def _without_successor(self) -> list[str]:
        """What is wrong where a restart would end the server: it starts its successor by this name."""
        successor = os.path.join(self.prefix, "bin", "litespeed")
        if os.access(successor, os.X_OK):
            return []
        words = "%s is missing, and OpenLiteSpeed starts it at every reload; without it the server ends. On the host: "
        return [(words + "ln -s openlitespeed %s") % (successor, successor)]

    def env(self) -> dict[str, str]:
        return {} if self.pid_file == PID_FILE else {"OLS_PID_FILE": self.pid_file}

    def test_argv(self, main_config: str, prefix: str) -> list[str]:
        return [self.binary, "-t"]

    def start_argv(self) -> list[str]:
        return [self.binary]

    def program(self) -> str:
        """The installed name is a link to the program of the current version; a running one may be another."""
        return "openlitespeed" if "openlitespeed" in os.path.basename(self.binary) else os.path.realpath(self.binary)

    def pid(self) -> int:
        """The main process. The workers' account owns the folder of the usual pid file and can name any process there,
        so a number from that file counts only for a trusted account's process that runs this installation's program."""
        pid = processes.pid_in(self.pid_file)
        if not pid and self.pid_file == PID_FILE:
            pid = processes.pid_in(self.pid_file, believed=False)
            pid = pid if pid and self._is_own(pid) else 0
        if not pid:
            return 0
        name = processes.program(pid)
        return pid if name.startswith(PROGRAMS) and processes.exists(pid) else 0

    def _is_own(self, pid: int) -> bool:
        """A main process of this installation. An upgrade replaces the program, and leaves it in the same folder."""
        try:
            own = os.stat("/proc/%d" % pid).st_uid
            program = os.readlink("/proc/%d/exe" % pid)
        except OSError:
            return False
        is_worker = processes.program(processes.parent(pid)).startswith(PROGRAMS)
        same = os.path.dirname(program) == os.path.dirname(os.path.realpath(self.binary))
        return safe.is_trusted(own) and same and not is_worker

    def _accounts(self) -> frozenset[int]:
        return accounts(self.main_config)

    def _look_for_failure(self, before: Generation) -> None:
        """Between the old process and its successor there is no pid file, so only its own words tell of a failure."""
        failure = self._failure(before)
        if failure:
            raise EngineError("the server did not start with its new configuration", commands.Done([], 1, failure))

    def is_failure(self, line: str, pid: int) -> bool:
        """2026-11-23 08:35:13.123456 [ERROR] [1234] [T0] what happened, with other brackets between. Which process says
        it differs: the successor that did not start does."""
        words = line.split(" ", 2)
        if len(words) < 3 or len(words[0].split("-")) != 3 or not words[0].replace("-", "").isdigit():
            return False
        rest = words[2]
        while rest.startswith("["):
            rest = rest.partition("]")[2].lstrip(" \t")
        return rest.startswith(FAILURE)

    def has_workers(self) -> bool:
        return bool(processes.children(self.pid()))

    def is_replaced(self, before: Generation) -> bool:
        """The successor takes over all sockets first, and has let go those that it has no use for once it has a worker.
        A new child of the old process says nothing: lscgid comes a second after its start."""
        pid = self.pid()
        return bool(pid) and pid != before.pid and bool(processes.children(pid))

    def listens(self) -> bool:
        """It ends when a restart leaves no listener. Other files that the main one includes may hold some."""
        texts = [processes.read(path) for path in (self.main_config, os.path.join(self.config_root, SITES))]
        lines = [line.split() for text in texts for line in text.decode("utf-8", "replace").lower().splitlines()]
        others = (line for line in lines if line and line[0] == "include" and not line[-1].endswith(SITES))
        return any(line and line[0] == "listener" for line in lines) or any(others)


def accounts(main_config: str) -> frozenset[int]:
    """To which of the accounts the server may have given its folder: those of its workers and of its WebAdmin."""
    import pwd

    names = ["nobody", "lsadm"]
    for line in processes.read(main_config).decode("utf-8", "replace").splitlines():
        words = line.split()
        if len(words) == 2 and words[0].lower() == "user":
            names.append(words[1])
    found = set()
    for name in names:
        try:
            found.add(pwd.getpwnam(name).pw_uid)
        except KeyError:
            continue
    return frozenset(found)


class HeldFolder:
    """A descriptor of the folder below /tmp that OpenLiteSpeed writes to as root, made where it is missing. The server
    gives that folder to its workers' account (`workers`), which could lead elsewhere what root writes there, so the
    folder is the agent's own meanwhile. Refusal where it is any other account's."""

    def __init__(self, path: str, workers: frozenset[int]) -> None:
        self._path, self._workers = path, workers
        self._folder, self._before = -1, (-1, -1, -1)

    def __enter__(self) -> int:
        base = os.open(safe.true_path(os.path.dirname(self._path), for_files=True), safe.FOLDER)
        name = os.path.basename(self._path)
        try:
            try:
                self._folder = safe.new_folder(name, base, 0o755)
            except FileExistsError:
                self._folder = self._opened(name, base)
            self._take(name, base)
        except BaseException:
            self.__exit__()
            raise
        finally:
            os.close(base)
        return self._folder

    def _opened(self, name: str, base: int) -> int:
        try:
            return os.open(name, safe.FOLDER, dir_fd=base)
        except OSError as error:
            raise Refusal("refused", "%s is not a folder: %s" % (self._path, error.strerror), path=self._path) from None

    def _take(self, name: str, base: int) -> None:
        info = os.fstat(self._folder)
        if os.geteuid() == 0 and info.st_uid != 0 and info.st_uid in self._workers:
            self._before = (info.st_uid, info.st_gid, stat.S_IMODE(info.st_mode))
            os.fchown(self._folder, 0, 0)
            os.fchmod(self._folder, 0o755)
            if not os.path.samestat(os.fstat(self._folder), os.stat(name, dir_fd=base, follow_symlinks=False)):
                raise Refusal("refused", "%s was exchanged while it was opened" % self._path, path=self._path)
        safe.require_own(self._folder, self._path)

    def __exit__(self, *_: object) -> None:
        if self._folder < 0:
            return
        user, group, mode = self._before
        if user >= 0:
            os.fchown(self._folder, user, group)
            os.fchmod(self._folder, mode)
        os.close(self._folder)
        self._folder = -1


def _is_error(line: str) -> bool:
    if "[ERROR]" in line:
        return not any(words in line for words in HARMLESS)
    return "[WARN]" in line and any(words in line for words in LOSSES)


def _lasting(line: str) -> str:
    """A line of its log without what differs between two tests of the same lines: date and time, its process, and the
    line in a file, which moves when lines above it come or go."""
    words = [word for word in line.split()[2:] if not word.strip("[]").isdigit()]
    place, colon, number = words[-1].rpartition(":") if words else ("", "", "")
    return " ".join([*words[:-1], place]) if colon and number.isdigit() else " ".join(words)
