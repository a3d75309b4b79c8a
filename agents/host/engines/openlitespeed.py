"""Control OpenLiteSpeed: one configuration below $SERVER_ROOT/conf, a guardian process, zero-downtime restarts.

`openlitespeed -t` always tests the configuration below its own server root, so a copy elsewhere cannot be tested. On
SIGUSR1 the server starts its successor, a new process that writes its own process id into the pid file; the old process
finishes its requests.
"""

from __future__ import annotations

import os
import pwd
import stat
from typing import Callable

from agents.host import commands, processes, safe
from agents.host.engines.base import Engine, EngineError, Generation
from agents.host.errors import Refusal

PID_FILE = "/tmp/lshttpd/lshttpd.pid"  # noqa: S108 - where this server keeps it unless OLS_PID_FILE says otherwise
PROGRAMS = ("openlitespeed", "litespeed", "lshttpd")
TEMPORARY = os.path.dirname(PID_FILE)
SITES = "paddock.conf"  # listeners and the list of virtual hosts, next to the main file
# Messages caused by its own installation, independent of the configuration.
HARMLESS = ("Get lsadm passwd failed",)
# Warnings about ignored parts: a key, a block, a whole virtual host.
FAILURE = "Fatal error in configuration"
LOSSES = ("Not support [", "is NOT keyword", "do not match", "more '}'", "configuration failed!")


class Server(Engine):
    reload_signal = "USR1"
    relocatable = False
    starts_with_errors = True

    def test(self, main_config: str = "", prefix: str = "", prepare: Callable[[], None] | None = None) -> commands.Done:
        """Test the configuration and return a result with exit code 0 (no errors) or 2.

        The server's own test exits with 1 for warnings and 2 for errors, but always with 0 if it cannot write its
        result. So the exit code here depends on the printed errors, and on printed lines about ignored parts such as
        unknown keys.
        """
        with HeldFolder(TEMPORARY, self._accounts()) as folder:
            safe.remove_tree("testconf", folder)  # left by an interrupted test
            done = super().test(main_config, prefix, prepare)
        errors = [line for line in done.output.splitlines() if _is_error(line)]
        if done.exit_code not in (0, 1, 2):
            errors = [
                "OpenLiteSpeed's test of the configuration ended early (exit code %d)" % done.exit_code,
                *(errors or [done.output]),
            ]
        errors += self._left_out() + self._without_successor()
        return commands.Done(done.argv, 2 if errors else 0, "\n".join(errors))

    def new_errors(self, done: commands.Done, before: commands.Done) -> commands.Done:
        """Return the test result `done`, but count only errors as failures that the earlier result `before` does not
        contain.

        OpenLiteSpeed runs despite errors, so the configuration may have had errors before.
        """
        old = [_lasting(line) for line in before.output.splitlines() if _is_error(line)]
        new: list[str] = []
        standing: list[str] = []
        for line in done.output.splitlines():
            known = _is_error(line) and _lasting(line) in old
            if known:
                old.remove(_lasting(line))
            (standing if known else new).append(line)
        if standing:
            standing = ["The configuration of %s already had these errors before the change:" % self.name, *standing]
        return commands.Done(done.argv, 2 if new else 0, "\n".join(new + standing))

    def _left_out(self) -> list[str]:
        """Return a list with an error if the main file does not include the panel's sites; otherwise []. The server's
        own test does not report this.
        """
        if not os.path.exists(os.path.join(self.config_root, SITES)):
            return []
        text = processes.read(self.main_config).decode("utf-8", "replace")
        lines = [line.split(None, 1) for line in text.splitlines() if line.strip().lower().startswith("include")]
        if any(words[-1].strip().endswith(SITES) or "*" in words[-1] for words in lines):
            return []
        return [
            "%s does not include Paddock's sites. Add the line “include %s” at the end of the file"
            % (self.main_config, SITES)
        ]

    def _without_successor(self) -> list[str]:
        """Return a list with an error if the program `litespeed` is missing; otherwise []. In a restart, the server
        starts this program as its successor.
        """
        successor = os.path.join(self.prefix, "bin", "litespeed")
        if os.access(successor, os.X_OK):
            return []
        words = (
            "%s is missing. OpenLiteSpeed starts this program at every reload, and ends if it is missing. On "
            "the host, run: "
        )
        return [(words + "ln -s openlitespeed %s") % (successor, successor)]

    def env(self) -> dict[str, str]:
        return {} if self.pid_file == PID_FILE else {"OLS_PID_FILE": self.pid_file}

    def test_argv(self, main_config: str, prefix: str) -> list[str]:
        return [self.binary, "-t"]

    def start_argv(self) -> list[str]:
        return [self.binary]

    def program(self) -> str:
        """Return the program whose name `pid` compares with the name of a running process.

        The installed program is a link to one version, and the running one may be an older version. So for
        OpenLiteSpeed, the name without a version is returned.
        """
        return "openlitespeed" if "openlitespeed" in os.path.basename(self.binary) else os.path.realpath(self.binary)

    def pid(self) -> int:
        """Return the id of the main process; 0 if the server does not run.

        The workers' account owns the folder of the default pid file, and can write any number to the file. So the
        number counts only if it is the id of a trusted account's process that runs this installation's program.
        """
        pid = processes.pid_in(self.pid_file)
        if not pid and self.pid_file == PID_FILE:
            pid = processes.pid_in(self.pid_file, believed=False)
            pid = pid if pid and self._is_own(pid) else 0
        if not pid:
            return 0
        name = processes.program(pid)
        return pid if name.startswith(PROGRAMS) and processes.exists(pid) else 0

    def _is_own(self, pid: int) -> bool:
        """Return whether the process is a main process of this installation, and belongs to a trusted account.

        Only the folder of its program is compared, because an upgrade replaces the program in the same folder.
        """
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
        """Raise EngineError if the log reports that a restart failed.

        Unlike for the other web servers, a missing pid file does not count as a failure: no pid file exists between the
        end of the old process and the start of its successor.
        """
        failure = self._failure(before)
        if failure:
            raise EngineError("OpenLiteSpeed did not start with the new configuration", commands.Done([], 1, failure))

    def is_failure(self, line: str, pid: int) -> bool:
        """Return whether a line of the log reports a fatal error in the configuration.

        The format is 2026-11-23 08:35:13.123456 [ERROR] [1234] [T0] message; further words in brackets may precede the
        message. `pid` is ignored, because the failed successor writes the line under its own process id.
        """
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
        """Return whether the successor has taken over from the old process. This is the case once the successor has a
        child process.

        The successor first takes over all sockets, and closes unused sockets before it starts a worker. A new child of
        the old process shows nothing, because the old process starts lscgid a second after its own start.
        """
        pid = self.pid()
        return bool(pid) and pid != before.pid and bool(processes.children(pid))

    def listens(self) -> bool:
        """Return whether the configuration has a listener. Without a listener, a restart ends the server.

        Included files other than the panel's are not read; if there is one, the result is True.
        """
        texts = [processes.read(path) for path in (self.main_config, os.path.join(self.config_root, SITES))]
        lines = [line.split() for text in texts for line in text.decode("utf-8", "replace").lower().splitlines()]
        others = (line for line in lines if line and line[0] == "include" and not line[-1].endswith(SITES))
        return any(line and line[0] == "listener" for line in lines) or any(others)


def accounts(main_config: str) -> frozenset[int]:
    """Return the user IDs of the accounts that may own OpenLiteSpeed's folder below /tmp: the workers' account, and the
    account of WebAdmin.
    """
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
    """Context manager that opens the folder below /tmp to which OpenLiteSpeed writes as root, created if missing.

    The server gives this folder to the account of its workers, which could then redirect what root writes. So the agent
    owns the folder as long as the context lasts. Raises Refusal if the folder belongs to an account other than root and
    those in `workers`.
    """

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
                raise Refusal(
                    "refused", "%s was replaced while the agent opened it; try again" % self._path, path=self._path
                )
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
    """Return a line of a test's output without the parts that differ between two tests of equal configurations.

    These are date and time, the process, and line numbers in files, which shift with other changes.
    """
    words = [word for word in line.split()[2:] if not word.strip("[]").isdigit()]
    place, colon, number = words[-1].rpartition(":") if words else ("", "", "")
    return " ".join([*words[:-1], place]) if colon and number.isdigit() else " ".join(words)
