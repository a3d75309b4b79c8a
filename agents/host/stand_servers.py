"""The servers of a stand: private instances of the host's own programs, watched from their start to their end.

Each runs in a process namespace and an IPC namespace of its own where the agent is root: ending its first process
ends them all, semaphores included, also when the agent is killed (the keeper dies with the thread that started it).
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

from agents.host import applications, commands, namespace, netns, paths, processes, sample, stand_files
from agents.host.errors import Refusal

TYPE_CHECKING = False
if TYPE_CHECKING:
    from typing import Any, Dict, List, Optional, Set

    from agents.host import lean
    from agents.host.netns import Keeper

START_S = 30.0
_END_S = 5.0
_MAX_CHILDREN = 1000
_LOG_TAIL = 16 * 1024
# What runs in a stand, by kind: the names its program may have, and how it is started so that it stays in front.
_PROGRAMS = {
    "nginx": r"nginx",
    "native": r"(?:gallop|paddock-gallop)[A-Za-z0-9.-]*",
    "apache": r"apache2|httpd",
    "php-fpm": r"php-fpm[0-9.]*",
    "openlitespeed": r"openlitespeed|litespeed|lshttpd",
    "lsphp": r"lsphp[0-9.]*",
    "mariadb": r"mariadbd|mysqld",
}
_LITESPEED_RUN = "/tmp/lshttpd"  # noqa: S108 - where every OpenLiteSpeed keeps its process number
_SHARED_MEMORY = "/dev/shm"  # noqa: S108 - its caches
_FPM = re.compile(r"php-fpm([0-9]+)\.([0-9]+)")


class Server:
    """One running instance. `pid` is its main process as this host sees it."""

    def __init__(self, name: str, kind: str, argv: List[str], place: str, home: str) -> None:
        self.name, self.kind, self.argv, self.place, self.home = name, kind, argv, place, home
        self.pid = 0
        self.namespaces: Set[str] = set()
        self._said = os.path.join(home, "%s.out" % name)
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
        with open(self._said, "wb") as said:
            self.process = subprocess.Popen(
                netns.die_with_us(prefix + self.argv),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                env=commands.environment(self._environment()),
                cwd=self.home,
                start_new_session=True,
                preexec_fn=self._prepare(),
            )
        self._own = unshare is not None

    def _environment(self) -> Dict[str, str]:
        return {}

    def _prepare(self) -> Optional[namespace.Prepare]:
        """What the child does before it becomes the program."""
        return None

    def await_up(self, keeper: Optional[Keeper], cancelled: lean.Event) -> None:
        """Until it accepts connections; Refusal with its own words when it ends, or takes too long."""
        assert self.process is not None
        deadline = time.monotonic() + START_S
        while not self._accepts(keeper):
            if self.process.poll() is not None:
                raise Refusal("failed", "%s did not start:\n%s" % (self.name, self.words() or "it said nothing"))
            if cancelled.wait(0.02):
                raise Refusal("cancelled", "cancelled while %s was starting" % self.name)
            if time.monotonic() > deadline:
                words = self.words() or "it said nothing"
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
            return _connects(socket.AF_UNIX, self.place)
        answer: List[bool] = []

        def ask() -> None:
            if keeper is not None:
                keeper.enter()
            host, _, port = self.place.rpartition(":")
            answer.append(_connects(socket.AF_INET, (host, int(port))))

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        return bool(answer and answer[0])

    def is_alive(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def words(self) -> str:
        """What it said on its output and in its error log."""
        texts = []
        for path in (self._said, os.path.join(self.home, "error.log")):
            with contextlib.suppress(OSError), open(path, "rb") as file:
                file.seek(max(0, os.path.getsize(path) - _LOG_TAIL))
                texts.append(file.read().decode("utf-8", "replace").strip())
        return "\n".join(text for text in texts if text)

    def log_sizes(self) -> Dict[str, int]:
        return {path: os.path.getsize(path) for path in self._logs()}

    def _logs(self) -> List[str]:
        names = (os.path.join(self.home, name) for name in ("error.log", "%s.out" % self.name))
        return [path for path in names if os.path.exists(path)]

    def end(self) -> None:
        """Everything of it, at once: a stand has nothing that needs to be finished."""
        if self.process is None:
            return
        table = sample.processes()
        own = {process.pid for process in sample.tree({self.process.pid} & set(table), table)}
        # unshare(1) ends by itself when what it started has, and reaps it; without it, the server is the process.
        for pid in own - ({self.process.pid} if self._own else set()):
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(_END_S)
        self.process.kill()
        self.process.wait()


class OpenLiteSpeed(Server):
    """Its program's folder is its server root, so the stand's has a link to the program. What it keeps at fixed places,
    for one instance on a machine, it is shown elsewhere: the running one's process number and status stay its own."""

    def __init__(self, name: str, binary: str, place: str, home: str) -> None:
        own = os.path.join(home, "bin", "openlitespeed")
        # In front, with as many workers as are configured; with -d it serves from one process whatever is.
        super().__init__(name, "openlitespeed", [own, "-n"], place, home)
        self._binary, self._made = os.path.realpath(binary), False

    def _logs(self) -> List[str]:
        """What it started writes its errors there."""
        said = os.path.join(self.home, "stderr.log")
        return super()._logs() + ([said] if os.path.exists(said) else [])

    def start(self, keeper: Optional[Keeper]) -> None:
        for folder in ("bin", "run", "shm", "logs", "tmp", "cgid", "sockets"):
            os.makedirs(os.path.join(self.home, folder), exist_ok=True)
        if os.geteuid() == 0:
            # Its workers make the sockets of what they start.
            account = stand_files.account()
            os.chown(os.path.join(self.home, "sockets"), account.pw_uid, account.pw_gid)
        os.symlink(self._binary, self.argv[0])
        with contextlib.suppress(FileExistsError):
            os.mkdir(_LITESPEED_RUN)
            self._made = True
        super().start(keeper)

    def _environment(self) -> Dict[str, str]:
        # It calls usermod(8) to add its administrator to the group it runs as: no business of a stand's, so not found.
        return {"OLS_PID_FILE": os.path.join(self.home, "server.pid"), "PATH": os.path.dirname(self.argv[0])}

    def _prepare(self) -> Optional[namespace.Prepare]:
        if os.geteuid() != 0 or not namespace.is_supported():
            return None
        shown = ((os.path.join(self.home, "run"), _LITESPEED_RUN), (os.path.join(self.home, "shm"), _SHARED_MEMORY))
        return namespace.entering([pair for pair in shown if os.path.isdir(pair[1])])

    def end(self) -> None:
        super().end()
        if self._made:
            with contextlib.suppress(OSError):  # one of the host's own came meanwhile
                os.rmdir(_LITESPEED_RUN)


class Lsphp(Server):
    """PHP that waits for LSAPI requests at an address of its own. It has no configuration for that, and stays who
    started it."""

    def __init__(self, name: str, binary: str, place: str, home: str, children: int) -> None:
        super().__init__(name, "lsphp", [*_as_account(), binary, "-b", place], place, home)
        self._children = children

    def _environment(self) -> Dict[str, str]:
        return {"PHP_LSAPI_CHILDREN": "%d" % self._children}


def _as_account() -> List[str]:
    """What a program that changes its account by itself does not need. Refusal where root has no way to."""
    if os.geteuid() != 0:
        return []
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        raise Refusal("missing", "setpriv(1) is not installed on this host (package util-linux)")
    account = stand_files.account()
    return [setpriv, "--reuid=%d" % account.pw_uid, "--regid=%d" % account.pw_gid, "--clear-groups", "--"]


def _connects(family: int, place: Any) -> bool:
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.settimeout(1.0)
        try:
            probe.connect(place)
        except OSError:
            return False
        return True


def _namespaces(pid: int) -> Set[str]:
    """Those of the process that are not the agent's own."""
    found = set()
    for kind in ("pid", "net", "ipc"):
        with contextlib.suppress(OSError):
            name = os.readlink("/proc/%d/ns/%s" % (pid, kind))
            if name != os.readlink("/proc/self/ns/%s" % kind):
                found.add(name)
    return found


def inside(namespaces: Set[str]) -> List[int]:
    """The processes in any of these namespaces."""
    found = []
    for entry in os.listdir("/proc"):
        if entry.isdigit() and namespaces & _namespaces(int(entry)) and processes.exists(int(entry)):
            found.append(int(entry))
    return sorted(found)


def inside_since_before(namespaces: Set[str], tick: int) -> List[int]:
    """Those of them that began before that tick (processes.now). The kernel gives the number of a namespace that is
    gone to the next one that is made, which may be another stand's."""
    return [pid for pid in inside(namespaces) if 0 < processes.started(pid) < tick]


def made(item: Dict[str, Any], folder: str) -> Server:
    """A server from the panel's words: {"name", "kind", "binary", "listen"}; its files lie in the folder `name`."""
    name, kind = str(item.get("name")), str(item.get("kind"))
    if kind not in _PROGRAMS or not re.match(r"[a-z][a-z0-9-]{0,39}\Z", name):
        raise Refusal("invalid", "a stand's server has a plain name and is one of %s" % ", ".join(sorted(_PROGRAMS)))
    binary = str(item.get("binary") or "") or (applications.database() if kind == "mariadb" else newest_fpm())
    paths.check_shape(binary)
    if not re.match(r"(?:%s)\Z" % _PROGRAMS[kind], os.path.basename(binary)):
        raise Refusal("refused", "%s is no program of the kind %s" % (binary, kind))
    if not os.access(binary, os.X_OK):
        raise Refusal("missing", "%s is not there, or may not be run" % binary)
    home = os.path.join(folder, name)
    place = _listen(str(item.get("listen")), home)
    if kind == "openlitespeed":
        return OpenLiteSpeed(name, binary, place, home)
    if kind == "lsphp":
        return Lsphp(name, binary, place, home, _children(item.get("children")))
    return Server(name, kind, _argv(kind, binary, home), place, home)


def _children(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 1 <= value <= _MAX_CHILDREN:
        raise Refusal("invalid", "children is %r; it must be a whole number from 1 to %d" % (value, _MAX_CHILDREN))
    return value


def _listen(text: str, home: str) -> str:
    """An address and port, or the name of a socket in the server's folder."""
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
    if kind == "php-fpm":
        return [binary, "-F", "-y", config] + (["-R"] if os.geteuid() == 0 else [])
    return [binary, "--defaults-file=" + config]


def newest_fpm() -> str:
    """The host's php-fpm of the highest version; Refusal when it has none."""
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
