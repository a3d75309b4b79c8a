"""The servers that are compared: their configurations, on ports of their own, one worker on one core each."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import time
from dataclasses import dataclass, field
from pathlib import Path

from compare import peers
from compare.system import free_port

NATIVE = Path(__file__).resolve().parents[2]
RELEASE = NATIVE / "target" / "release"
#: Servers run on the first core, load tools on the second.
SERVER_CPU, LOAD_CPU = "0", "1"


@dataclass
class Place:
    """Where a server finds its files, and where the others are that it needs."""

    folder: Path
    root: Path
    certificate: Path
    key: Path
    upstream: int
    php: Path
    plain: int = field(default_factory=free_port)
    tls: int = field(default_factory=free_port)
    extra: str = ""
    """More of an http block, for nginx and gallop."""


@dataclass
class Server:
    name: str
    binary: str
    argv: list[str]
    place: Place
    speaks: frozenset[str]
    env: dict[str, str] = field(default_factory=dict)
    process: subprocess.Popen[bytes] | None = None

    def start(self, *, wait: bool = True) -> Server:
        output = (self.place.folder / "output").open("ab")
        argv = ["taskset", "-c", SERVER_CPU, *self.argv]
        env = {**os.environ, **self.env}
        self.process = subprocess.Popen(argv, stdout=output, stderr=output, env=env, start_new_session=True)
        if wait:
            wait_for(self.place.plain, self)
        return self

    @property
    def pid(self) -> int:
        assert self.process is not None, f"{self.name} is not started"
        return self.process.pid

    def stop(self) -> None:
        if self.process is None:
            return
        self.process.send_signal(signal.SIGTERM)
        try:
            self.process.wait(10)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        self.process = None

    def said(self) -> str:
        """The end of what it printed and of what it logged."""
        files = (self.place.folder / name for name in ("output", "error.log"))
        return "\n".join(file.read_text(errors="replace")[-2000:] for file in files if file.exists())


def wait_for(port: int, server: Server, seconds: float = 60) -> None:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if server.process is not None and server.process.poll() is not None:
                break
            time.sleep(0.005)
    raise RuntimeError(f"{server.name} does not listen on port {port}:\n{server.said()}")


def _nginx(place: Place, binary: str, http3: bool, new: bool) -> list[str]:
    conf = place.folder / "nginx.conf"
    conf.write_text(peers.nginx(place, http3=http3, http2_directive=new, gallop="gallop" in Path(binary).name))
    return [binary, "-p", str(place.folder), "-c", str(conf), "-e", str(place.folder / "error.log")]


def version(binary: str, *arguments: str) -> str:
    """The first line of what a server says of itself."""
    done = subprocess.run([binary, *arguments], capture_output=True, text=True, check=False)
    lines = (done.stdout + done.stderr).splitlines()
    return lines[0] if lines else binary


BASE = frozenset({"http1", "close", "large", "tls"})


def _newer_nginx() -> str | None:
    return os.environ.get("COMPARE_NGINX")


def _openlitespeed(place: Place) -> Server | None:
    """A copy of the installation that PADDOCK_OPENLITESPEED names: the program's own folder is its server root."""
    installed = os.environ.get("PADDOCK_OPENLITESPEED")
    if not installed:
        return None
    binary = place.folder / "bin" / "openlitespeed"
    if not binary.exists():
        for folder in ("bin", "modules", "lib", "share", "conf"):
            if (Path(installed) / folder).is_dir():
                shutil.copytree(Path(installed) / folder, place.folder / folder, symlinks=True)
        Path("/tmp/lshttpd").mkdir(exist_ok=True)  # Without this folder it takes any configuration for a good one.
        for folder in ("swap", "stat", "logs", "tmp", "cachedata", "admin/tmp"):
            (place.folder / folder).mkdir(parents=True, exist_ok=True)
    (place.folder / "conf" / "httpd_config.conf").write_text(peers.openlitespeed(place))
    (place.folder / "conf" / "vhconf.conf").write_text(peers.openlitespeed_host(place))
    env = {"OLS_PID_FILE": str(place.folder / "lshttpd.pid")}
    return Server("openlitespeed", str(binary), [str(binary), "-d"], place, frozenset({"http1", "http3", "large"}), env)


def _limit(place: Place, needs: str) -> Server:
    """The least that any server does for such cases: answers of its own, or requests passed on unread."""
    kept, closed = f"127.0.0.1:{place.plain}:163", f"127.0.0.1:{place.tls}:163:close"
    argv = {
        "proxy": ["relay", kept, "http", f"127.0.0.1:{place.upstream}"],
        "php": ["relay", f"127.0.0.1:{place.plain}:12", "fastcgi", str(place.php), f"{place.root}/hello.php"],
    }.get(needs, ["limit", kept, closed])
    argv[0] = str(RELEASE / argv[0])
    return Server("limit", argv[0], argv, place, frozenset({"http1", "close", "proxy", "php"}))


def build(name: str, place: Place, needs: str) -> Server | None:
    """The server of this name for a case with these `needs`, or None where it is not installed."""
    place.folder.mkdir(parents=True, exist_ok=True)
    if name == "limit":
        return _limit(place, needs)
    if name == "gallop":
        binary = os.environ.get("COMPARE_GALLOP", str(RELEASE / "gallop"))
        speaks = BASE | {"http2", "http3", "php", "proxy", "site", "blocks"}
        return Server(name, binary, _nginx(place, binary, True, True), place, speaks)
    if name == "nginx-new":
        newer = _newer_nginx()
        if newer is None:
            return None
        speaks = BASE | {"http2", "http3", "php", "proxy", "site", "blocks"}
        return Server(name, newer, _nginx(place, newer, True, True), place, speaks)
    if name == "openlitespeed":
        return _openlitespeed(place)
    binary = shutil.which(name, path=f"{os.environ.get('PATH', '')}:/usr/sbin:/sbin") or ""
    if not binary:
        return None
    if name == "nginx":
        speaks = BASE | {"http2", "php", "proxy", "site", "blocks"}
        return Server(name, binary, _nginx(place, binary, False, False), place, speaks)
    if name == "apache2":
        (place.folder / "httpd.conf").write_text(peers.apache(place))
        argv = [binary, "-f", str(place.folder / "httpd.conf"), "-DFOREGROUND"]
        return Server(name, binary, argv, place, BASE | {"http2", "php", "proxy"})
    if name == "h2o":
        (place.folder / "h2o.yaml").write_text(peers.h2o(place))
        return Server(name, binary, [binary, "-c", str(place.folder / "h2o.yaml")], place, BASE | {"http2", "proxy"})
    if name == "lighttpd":
        (place.folder / "lighttpd.conf").write_text(peers.lighttpd(place))
        argv = [binary, "-D", "-f", str(place.folder / "lighttpd.conf")]
        speaks = BASE | {"http2"} if peers.LIGHTTPD_TLS.exists() else BASE - {"tls"}
        return Server(name, binary, argv, place, speaks)
    if name == "caddy":
        (place.folder / "Caddyfile").write_text(peers.caddy(place))
        argv = [binary, "run", "--config", str(place.folder / "Caddyfile"), "--adapter", "caddyfile"]
        env = {"GOMAXPROCS": "1", "XDG_DATA_HOME": str(place.folder), "XDG_CONFIG_HOME": str(place.folder)}
        return Server(name, binary, argv, place, BASE | {"http2", "http3", "php", "proxy"}, env)
    raise ValueError(f"no server is called {name}")


#: In the order of the tables.
NAMES = ["gallop", "limit", "nginx", "nginx-new", "h2o", "lighttpd", "apache2", "caddy", "openlitespeed"]
VERSION_ARGUMENTS = {"caddy": ["version"], "limit": [], "h2o": ["--version"], "lighttpd": ["-v"]}
