"""Servers of a test bed: private instances of the host's own programs, monitored from start to end.

If the agent is root, each server runs in its own process and IPC namespace. When the namespace's first process ends,
the kernel ends all others and removes semaphores. If the agent is killed, this happens too: the thread that started the
server ends, then unshare(1), which this thread started, and then the namespace's first process.
"""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
from typing import Any, Dict, Iterator, List, Optional, Set

from agents.host import applications, commands, namespace, paths, processes, safe, sample, testbed_files, unix
from agents.host.engines.openlitespeed import TEMPORARY as LITESPEED_RUN
from agents.host.engines.openlitespeed import HeldFolder, accounts
from agents.host.errors import Refusal
from agents.host.netns import Keeper

START_S = 30.0
_END_S = 5.0
_MAX_CHILDREN = 1000
_LOG_TAIL = 16 * 1024
# Programs in a test bed, by kind: possible names, and arguments that keep it in the foreground.
PROGRAMS = {
    "nginx": r"nginx",
    "native": r"(?:gallop|paddock-gallop)[A-Za-z0-9.-]*",
    "apache": r"apache2|httpd",
    "php-fpm": r"php-fpm[0-9.]*",
    "openlitespeed": r"openlitespeed|litespeed|lshttpd",
    "lsphp": r"lsphp[0-9.]*",
    "mariadb": r"mariadbd|mysqld",
}
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - its caches
_FPM = re.compile(r"php-fpm([0-9]+)\.([0-9]+)")


class Server:
    """One server of a test bed. `pid` is its main process as seen by this host; 0 before `await_up`."""

    def __init__(self, name: str, kind: str, argv: List[str], place: str, home: str) -> None:
        self.name, self.kind, self.argv, self.place, self.home = name, kind, argv, place, home
        self.pid = 0
        self.namespaces: Set[str] = set()
        self._said = "%s.out" % name
        self.process: Optional[subprocess.Popen[bytes]] = None

    def start(self, keeper: Optional[Keeper]) -> None:
        prefix: List[str] = []
        if keeper is not None:
            nsenter = shutil.which("nsenter")
            if nsenter is None:
                raise Refusal("missing", "nsenter(1) is not installed on this host (package util-linux)")
            prefix += [nsenter, "--net=" + keeper.path, "--"]
        unshare = shutil.which("unshare") if os.geteuid() == 0 else None
        if unshare is not None:
            prefix += [unshare, "--pid", "--fork", "--kill-child=KILL", "--ipc", "--"]
        with self._at_home() as home:
            safe.remove_tree(self._said, home)
            with os.fdopen(os.open(self._said, safe.NEW, 0o644, dir_fd=home), "wb") as said:
                self.process = subprocess.Popen(
                    commands.ending_with_agent(prefix + self.argv),
                    stdin=subprocess.DEVNULL,
                    stdout=said,
                    stderr=subprocess.STDOUT,
                    env=commands.environment(self._environment()),
                    cwd=self.home,
                    start_new_session=True,
                    preexec_fn=self._prepare(),
                )
        self._own = unshare is not None

    @contextlib.contextmanager
    def _at_home(self) -> Iterator[int]:
        """Context manager that opens the server's folder and yields its descriptor. Raises Refusal if another account
        can write to the folder.
        """
        descriptor = paths.open_folder(self.home)
        try:
            safe.require_own(descriptor, self.home)
            yield descriptor
        finally:
            os.close(descriptor)

    def _environment(self) -> Dict[str, str]:
        return {}

    def _prepare(self) -> Optional[namespace.Prepare]:
        """Return a function that the child process calls before it runs the program; None for no preparation."""
        return None

    def await_up(self, keeper: Optional[Keeper], cancelled: threading.Event) -> None:
        """Wait until the server accepts connections. Raise Refusal with its output if it ends, or takes more than
        START_S seconds.
        """
        assert self.process is not None
        deadline = time.monotonic() + START_S
        while not self._accepts(keeper):
            if self.process.poll() is not None:
                raise Refusal(
                    "failed", "%s did not start:\n%s" % (self.name, self.words() or "the program printed no message")
                )
            if cancelled.wait(0.02):
                raise Refusal("cancelled", "the run was cancelled while %s was starting" % self.name)
            if time.monotonic() > deadline:
                words = self.words() or "the program printed no message"
                raise Refusal(
                    "failed", "%s does not listen at %s after %g s:\n%s" % (self.name, self.place, START_S, words)
                )
        self.pid = self._main()
        self.namespaces = _namespaces(self.pid)

    def _main(self) -> int:
        assert self.process is not None
        inner = processes.children(self.process.pid) if self._own else frozenset()
        return min(inner) if inner else self.process.pid

    def _accepts(self, keeper: Optional[Keeper]) -> bool:
        if self.place.startswith("/"):
            try:
                unix.connected(self.place, 1.0).close()
            except (OSError, Refusal):
                return False
            return True
        answer: List[bool] = []

        def ask() -> None:
            if keeper is not None:
                keeper.enter()
            host, _, port = self.place.rpartition(":")
            answer.append(_connects(host, int(port)))

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        return bool(answer and answer[0])

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def words(self) -> str:
        """Return the last lines of the server's output and of its error log."""
        texts = [_written(path, -_LOG_TAIL).strip() for path in self._logs()]
        return "\n".join(text for text in texts if text)

    def log_sizes(self) -> Dict[str, int]:
        return {path: os.lstat(path).st_size for path in self._logs()}

    def words_since(self, sizes: Dict[str, int]) -> str:
        """Return the text that was added to the server's logs since the logs had the `sizes` {path: bytes}."""
        return "".join(_written(path, sizes.get(path, 0)) for path in self._logs())

    def _logs(self) -> List[str]:
        names = (os.path.join(self.home, name) for name in (self._said, "error.log"))
        return [path for path in names if os.path.lexists(path)]

    def end(self) -> None:
        """Kill all processes of the server at once: a private server has no requests to finish."""
        if self.process is None:
            return
        table = sample.processes()
        own = {process.pid for process in sample.tree({self.process.pid} & set(table), table)}
        # unshare(1) ends when its child has, and reaps it; without unshare, the server is the process itself.
        for pid in own - ({self.process.pid} if self._own else set()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_S)
        self.process.kill()
        self.process.wait()


def _written(path: str, begin: int) -> str:
    """Return at most _LOG_TAIL bytes of a log: from the offset `begin` or, if negative, that many bytes before the end.

    "" if the log is missing or is not a regular file, for example a link.
    """
    try:
        descriptor = paths.open_file(path)
    except (OSError, Refusal):
        return ""
    try:
        at = begin if begin >= 0 else max(0, os.fstat(descriptor).st_size + begin)
        return os.pread(descriptor, _LOG_TAIL, at).decode("utf-8", "replace")
    finally:
        os.close(descriptor)


class OpenLiteSpeed(Server):
    """OpenLiteSpeed instance of a test bed.

    OpenLiteSpeed's server root is the folder above the folder of its program, so the test bed has a link to the
    program. Bind mounts hide folders whose paths are fixed in the program, so that an OpenLiteSpeed of the host keeps
    its own pid file and status.
    """

    def __init__(self, name: str, binary: str, place: str, home: str) -> None:
        own = os.path.join(home, "bin", "openlitespeed")
        # In the foreground with the configured workers; with -d it would always serve from one process.
        super().__init__(name, "openlitespeed", [own, "-n"], place, home)
        self._binary, self._made = os.path.realpath(binary), False

    def _logs(self) -> List[str]:
        """Return the paths of the server's logs, including the error output of processes that it started."""
        said = os.path.join(self.home, "stderr.log")
        return super()._logs() + ([said] if os.path.exists(said) else [])

    def start(self, keeper: Optional[Keeper]) -> None:
        with self._at_home() as home:
            for folder in ("bin", "run", "shm", "logs", "tmp", "cgid", "sockets"):
                # Its workers create the sockets of their child processes.
                owner = testbed_files.owner() if folder == "sockets" else None
                with contextlib.suppress(FileExistsError):
                    os.close(safe.new_folder(folder, home, 0o755, owner))
            os.symlink(self._binary, "bin/openlitespeed", dir_fd=home)
        self._made = not os.path.lexists(LITESPEED_RUN)
        # The server takes over the folder as soon as it runs.
        with HeldFolder(LITESPEED_RUN, accounts(os.path.join(self.home, "conf", "httpd_config.conf"))):
            pass
        super().start(keeper)

    def _environment(self) -> Dict[str, str]:
        # It calls usermod(8) to add its administrator to a group, which a test bed must not do, so the program is
        # hidden.
        return {"OLS_PID_FILE": os.path.join(self.home, "server.pid"), "PATH": os.path.dirname(self.argv[0])}

    def _prepare(self) -> Optional[namespace.Prepare]:
        if os.geteuid() != 0 or not namespace.is_supported():
            return None
        shown = ((os.path.join(self.home, "run"), LITESPEED_RUN), (os.path.join(self.home, "shm"), _SHARED_MEMORY))
        return namespace.entering([pair for pair in shown if os.path.isdir(pair[1])])

    def end(self) -> None:
        super().end()
        if self._made:
            with contextlib.suppress(OSError):  # a server of the host was started meanwhile
                os.rmdir(LITESPEED_RUN)


class Lsphp(Server):
    """PHP in a test bed. It listens for LSAPI requests at its own address and has no configuration file. If the agent
    is root, PHP runs as testbed_files.account.
    """

    def __init__(self, name: str, binary: str, place: str, home: str, children: int) -> None:
        super().__init__(name, "lsphp", [*_as_account(), binary, "-b", place], place, home)
        self._children = children

    def _environment(self) -> Dict[str, str]:
        return {"PHP_LSAPI_CHILDREN": "%d" % self._children}


class MariaDB(Server):
    """Database of a test bed, which never runs as root.

    If the agent is root, the database runs as testbed_files.account, which owns the subfolders `data`, `temp` and
    `run`. The agent owns the database's folder itself, its configuration and its output.
    """

    FOLDERS = ("data", "temp", "run")

    def __init__(self, name: str, binary: str, place: str, home: str) -> None:
        argv = [*_as_account(), binary, "--defaults-file=" + os.path.join(home, "server.conf")]
        super().__init__(name, "mariadb", argv, os.path.join(home, "run", os.path.basename(place)), home)


def _as_account() -> List[str]:
    """Return the start of a command line, setpriv(1) with options, that runs a program as testbed_files.account; [] if
    the agent is not root.

    A change of account clears the parent-death signal, so setpriv sets the signal again. Raises Refusal if setpriv is
    missing.
    """
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise Refusal("missing", "setpriv(1) is not installed on this host (package util-linux)")
    account, dies = testbed_files.account(), ["--pdeathsig=KILL"]
    return [setpriv, "--reuid=%d" % account.pw_uid, "--regid=%d" % account.pw_gid, "--clear-groups", *dies, "--"]


def _connects(host: str, port: int) -> bool:
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect((host, port))
        except OSError:
            return False
        return True


def _namespaces(pid: int) -> Set[str]:
    """Return the names of the process's PID, network and IPC namespaces that are not the agent's, such as
    net:[4026531840].
    """
    found = set()
    for kind in ("pid", "net", "ipc"):
        with contextlib.suppress(OSError):
            name = os.readlink("/proc/%d/ns/%s" % (pid, kind))
            if name != os.readlink("/proc/self/ns/%s" % kind):
                found.add(name)
    return found


def inside(namespaces: Set[str]) -> List[int]:
    """Return the ids of the processes that are in any of the namespaces, sorted."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and namespaces & _namespaces(int(entry)) and processes.exists(int(entry)):
            found.append(int(entry))
    return sorted(found)


def inside_since_before(namespaces: Set[str], tick: int) -> List[int]:
    """Return the ids of the processes in the given namespaces that started before `tick` (processes.now).

    The kernel reuses numbers of namespaces, so a later process may belong to another test bed.
    """
    return [pid for pid in inside(namespaces) if 0 < processes.started(pid) < tick]


def made(item: Dict[str, Any], folder: str) -> Server:
    """Return the Server for the panel's data {"name", "kind", "binary", "listen", "children"}; its files are in the
    folder `name` below `folder`.

    Raises Refusal if the program does not suit the kind, or if other accounts can change it.
    """
    name, kind = str(item.get("name")), str(item.get("kind"))
    if kind not in PROGRAMS or not re.match(r"[a-z][a-z0-9-]{0,39}\Z", name):
        raise Refusal("invalid", "a test bed's server has a plain name and is one of %s" % ", ".join(sorted(PROGRAMS)))
    binary = str(item.get("binary") or "") or (applications.database() if kind == "mariadb" else newest_fpm())
    paths.check_shape(binary)
    if not re.match(r"(?:%s)\Z" % PROGRAMS[kind], os.path.basename(binary)):
        raise Refusal("refused", "%s is no program of the kind %s" % (binary, kind))
    if not os.access(binary, os.X_OK):
        raise Refusal("missing", "the program %s does not exist or is not executable" % binary)
    safe.true_path(binary)
    home = os.path.join(folder, name)
    place = _listen(str(item.get("listen")), home)
    if kind == "openlitespeed":
        return OpenLiteSpeed(name, binary, place, home)
    if kind == "lsphp":
        return Lsphp(name, binary, place, home, _children(item.get("children")))
    if kind == "mariadb":
        return MariaDB(name, binary, place, home)
    return Server(name, kind, _argv(kind, binary, home), place, home)


def _children(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MAX_CHILDREN:
        raise Refusal("invalid", "children is %r; it must be a whole number from 1 to %d" % (value, _MAX_CHILDREN))
    return value


def _listen(text: str, home: str) -> str:
    """Return the address at which a server listens: "IPv4:port" unchanged, a socket's name as a path in the folder
    `home`. Raise Refusal for any other text.
    """
    if re.match(r"[a-z]+\.sock\Z", text):
        return os.path.join(home, text)
    if not re.match(r"[0-9]{1,3}(?:\.[0-9]{1,3}){3}:[0-9]{1,5}\Z", text):
        raise Refusal("invalid", "%r is neither an IPv4 address with its port nor a socket's name" % text)
    return text


def _argv(kind: str, binary: str, home: str) -> List[str]:
    config = os.path.join(home, "server.conf")
    if kind in ("nginx", "native"):
        return [binary, "-p", home, "-c", config]
    if kind == "apache":
        return [binary, "-d", home, "-f", config, "-DFOREGROUND"]
    return [binary, "-F", "-y", config] + (["-R"] if os.geteuid() == 0 else [])


def newest_fpm() -> str:
    """Return the path of the host's newest php-fpm; raise Refusal if it has none."""
    found = []
    for folder in commands.PATH.split(":"):
        names = os.listdir(folder) if os.path.isdir(folder) else []
        for name in names:
            match = _FPM.fullmatch(name)
            if match or name == "php-fpm":
                version = (int(match.group(1)), int(match.group(2))) if match else (0, 0)
                found.append((version, os.path.join(folder, name)))
    if not found:
        raise Refusal("missing", "php-fpm is not installed on this host; install it, then run again")
    return max(found)[1]
