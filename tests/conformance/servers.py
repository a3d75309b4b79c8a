"""The same site on every real server: rendered, started under a main file that the panel wrote, asked."""

from __future__ import annotations

import re
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from panel.rendering import render, render_install, render_main
from panel.rendering.spec import InstallSpec, SiteSpec
from tests.rendering.servers import write_certificates, write_files
from tests.support.apache import ApacheInstance
from tests.support.gallop import GallopInstance
from tests.support.http import ask
from tests.support.nginx import NginxInstance

ENGINES = ("nginx", "apache", "native")


@contextmanager
def serving(engine: str, spec: SiteSpec, root: Path, port: int) -> Iterator[None]:
    """`spec` answers on `port` while the block runs; logs and configuration lie below `root`."""
    server: NginxInstance | ApacheInstance
    kinds = {"nginx": NginxInstance, "native": GallopInstance, "apache": ApacheInstance}
    home = root / engine
    server = kinds[engine](home)
    install = InstallSpec(
        engine,  # type: ignore[arg-type]
        "sites",
        str(home),
        str(home / "log"),
        _version(server.binary),
        site_roots=(str(root),),
        own_ports=frozenset(),
    )
    main, *more = render_main(
        install, user="www-data", workers=1, pid_file=server.paths["pid_file"], temp_dir=str(home / "tmp")
    )
    write_files([*more, *render(spec, install), *render_install([spec], install)], root)
    (home / "tmp").mkdir(exist_ok=True)
    server.main_config.write_text(main.text)
    write_certificates(spec)
    with server:
        _wait(port, home)
        yield


def _version(binary: str) -> str:
    done = subprocess.run([binary, "-v"], capture_output=True, text=True)
    found = re.search(r"\d+\.\d+\.\d+", done.stdout + done.stderr)
    assert found, f"{binary} -v names no version: {done.stdout}{done.stderr}"
    return found[0]


def _wait(port: int, home: Path) -> None:
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            ask(port, "/", host="nobody.invalid", timeout_s=2)
        except OSError:
            time.sleep(0.02)
        else:
            return
    logs = "\n".join(path.read_text(errors="replace") for path in (home / "log").glob("*"))
    raise AssertionError(f"nothing listens on {port}:\n{logs}")
