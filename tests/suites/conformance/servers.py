"""The same sites on every real server: rendered, started under a main file that the panel wrote."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

from panel.rendering import render, render_main, render_web_server
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import SiteSpec, WebServerSpec
from tests.rendering.servers import write_certificates, write_files
from tests.suites.conformance.wire import Connection, Request
from tests.support.apache import ApacheInstance
from tests.support.gallop import GallopInstance
from tests.support.nginx import NginxInstance
from tests.support.openlitespeed import OpenLiteSpeedInstance
from tests.support.openlitespeed import source as openlitespeed_source

Server = NginxInstance | ApacheInstance | OpenLiteSpeedInstance
KINDS: dict[str, Callable[[Path], Server]] = {
    "nginx": NginxInstance,
    "native": GallopInstance,
    "apache": ApacheInstance,
    "openlitespeed": OpenLiteSpeedInstance,
}


@dataclass(frozen=True)
class Engine:
    """One way to run the sites. `name` is the engine's in the table that a run prints."""

    name: str
    engine: str
    modules: frozenset[str] = frozenset()

    def server(self, home: Path) -> Server:
        return KINDS[self.engine](home)

    def web_server(self, root: Path, home: Path, binary: str) -> WebServerSpec:
        return WebServerSpec(
            self.engine,  # type: ignore[arg-type]
            "vhosts" if self.engine == "openlitespeed" else "sites",
            str(home / "conf") if self.engine == "openlitespeed" else str(home),
            str(home / "log"),
            _version(binary) if binary else "",
            modules=self.modules,
            site_roots=(str(root),),
            own_ports=frozenset(),
            cache_dir=str(home / "cache"),
        )


NGINX = Engine("nginx", "nginx")
ENGINES = (
    NGINX,
    Engine("apache-event", "apache"),
    Engine("apache-prefork", "apache", frozenset({"mpm_prefork"})),
    Engine("gallop", "native"),
)
OPENLITESPEED = Engine("openlitespeed", "openlitespeed")
# Debian's libnginx-mod-http-brotli-filter, where it is installed.
BROTLI_MODULE = Path("/usr/lib/nginx/modules/ngx_http_brotli_filter_module.so")
NGINX_WITH_BROTLI = Engine("nginx with ngx_brotli", "nginx", frozenset({BROTLI_MODULE.stem}))


def engines() -> list[Engine]:
    """nginx first; OpenLiteSpeed where the environment names one."""
    return [*ENGINES, OPENLITESPEED] if openlitespeed_source() else list(ENGINES)


@contextmanager
def serving(engine: Engine, specs: Sequence[SiteSpec], root: Path, port: int) -> Iterator[WebServerSpec]:
    """`specs` answer on `port` while the block runs; logs and configuration lie below `root`."""
    home = root / engine.name
    server = engine.server(home)
    web_server = engine.web_server(root, home, server.binary)
    main, *more = render_main(
        web_server, user="www-data", workers=1, pid_file=server.paths["pid_file"], temp_dir=str(home / "tmp")
    )
    for old in [*home.glob("sites-*/*.conf"), *home.glob("conf.d/*.conf"), *home.glob("conf/vhosts/*/vhconf.conf")]:
        old.unlink()
    files = [file for spec in specs for file in render(spec, web_server)]
    write_files([*more, *files, *render_web_server(specs, web_server)], root)
    (home / "tmp").mkdir(exist_ok=True)
    shutil.rmtree(home / "cache", ignore_errors=True)  # what other sites of these names kept
    (home / "cache").mkdir()
    if os.geteuid() == 0:  # as the distribution's package leaves Apache's
        shutil.chown(home / "cache", "www-data", "www-data")
    loads = f"load_module {BROTLI_MODULE};\n" if engine == NGINX_WITH_BROTLI else ""
    server.main_config.write_text(loads + main.text)
    for spec in specs:
        write_certificates(spec)
    for answer in home.glob("conf/vhosts/*/answers/*.txt"):
        os.utime(
            answer, (time.time() - 10,) * 2
        )  # OpenLiteSpeed says 412 to ranges of a file that is of this very second
    with server:
        _wait(port, home)
        yield web_server
    _ended(server)


def refusal(engine: Engine, spec: SiteSpec, root: Path) -> str:
    """Why OpenLiteSpeed cannot have the site at all; the editor says that before it is deployed."""
    if engine.engine != "openlitespeed":
        return ""
    try:
        render(spec, engine.web_server(root, root / engine.name, ""))
    except NotExpressible as error:
        return str(error)
    return ""


def version(engine: Engine) -> str:
    """What the engine's own binary says."""
    with TemporaryDirectory() as folder:
        return _version(engine.server(Path(folder)).binary)


@cache
def _version(binary: str) -> str:
    done = subprocess.run([binary, "-v"], capture_output=True, text=True)
    found = re.search(r"\d+\.\d+\.\d+", done.stdout + done.stderr)
    assert found, f"{binary} -v names no version: {done.stdout}{done.stderr}"
    return found[0]


def _wait(port: int, home: Path) -> None:
    deadline = time.monotonic() + 60
    while time.monotonic() < deadline:
        connection = Connection(port, timeout_s=5)
        try:
            if connection.ask(Request("/", host="nobody.invalid")).status:
                return
        except OSError:
            pass
        finally:
            connection.close()
        time.sleep(0.02)
    logs = "\n".join(path.read_text(errors="replace") for path in (home / "log").glob("*"))
    raise AssertionError(f"nothing listens on {port}:\n{logs}")


def _ended(server: Server) -> None:
    """The port is free again for the next server."""
    deadline = time.monotonic() + 60
    while server.pid is not None and time.monotonic() < deadline:
        time.sleep(0.01)
