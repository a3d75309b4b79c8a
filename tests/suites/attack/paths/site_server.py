"""Many sites in one real server at a time; those that the engine or the server itself refuses are left out."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from agents.host import install
from panel.rendering import render, render_main, render_web_server
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import SiteSpec, WebServerSpec
from tests.rendering.servers import write_files
from tests.suites.attack.paths.folders import Folders
from tests.suites.conformance.servers import Engine, Server, _ended, _wait


class Serving:
    """One engine's server below `home`/NAME, given one batch of sites after the other on `port`."""

    def __init__(self, engine: Engine, home: Path, folders: Folders, port: int) -> None:
        self.engine, self.home, self.folders, self.port = engine, home / engine.name, folders, port
        self.server: Server = engine.server(self.home)
        self.web_server: WebServerSpec = engine.web_server(folders.root, self.home, self.server.binary)
        if engine.engine == "native":  # as the agent tells the panel
            self.web_server = replace(self.web_server, modules=frozenset(install.modules(self.server.binary)))

    def expressible(self, specs: Sequence[SiteSpec]) -> list[SiteSpec]:
        found = []
        for spec in specs:
            try:
                render(spec, self.web_server)
            except NotExpressible:
                continue
            found.append(spec)
        return found

    def taken(self, specs: list[SiteSpec]) -> list[SiteSpec]:
        """Those with which the server's own test of its configuration succeeds."""
        self._write(specs)
        # OpenLiteSpeed leaves out what it does not understand, and its test wants the configuration of its own console.
        if self.engine.engine == "openlitespeed" or self.server.run("-t").returncode == 0:
            return specs
        if len(specs) == 1:
            return []
        half = len(specs) // 2
        return [*self.taken(specs[:half]), *self.taken(specs[half:])]

    @contextmanager
    def running(self, specs: list[SiteSpec]) -> Iterator[None]:
        self._write(specs)
        with self.server:
            _wait(self.port, self.home)
            yield
        _ended(self.server)

    def workers(self) -> list[int]:
        """The user ids of the processes that answer requests."""
        found = []
        for status in Path("/proc").glob("[0-9]*/status"):
            try:
                lines = dict(line.split(":\t", 1) for line in status.read_text().splitlines() if ":\t" in line)
            except OSError:
                continue
            is_child = lines.get("PPid", "").strip() == str(self.server.pid)
            if is_child and b"lscgid" not in status.with_name("cmdline").read_bytes():  # which serves no files
                found.append(int(lines["Uid"].split()[0]))
        return found

    def _write(self, specs: list[SiteSpec]) -> None:
        for pattern in ("sites-*/*.conf", "conf.d/*.conf", "conf/vhosts/*/vhconf.conf"):
            for old in self.home.glob(pattern):
                old.unlink()
        main, *more = render_main(
            self.web_server, user="www-data", workers=1, pid_file=self.server.paths["pid_file"],
            temp_dir=str(self.home / "tmp"),
        )  # fmt: skip
        files = [file for spec in specs for file in render(spec, self.web_server)]
        write_files([*more, *files, *render_web_server(specs, self.web_server)], self.home)
        for folder in ("tmp", "cache"):
            shutil.rmtree(self.home / folder, ignore_errors=True)
            (self.home / folder).mkdir()
            if os.geteuid() == 0:
                shutil.chown(self.home / folder, "www-data", "www-data")
        self.server.main_config.write_text(main.text + self._granted())

    def _granted(self) -> str:
        """As Debian's apache2.conf grants all below /var/www, whichever site it is."""
        if self.engine.engine != "apache":
            return ""
        return f"\n<Directory {self.folders.root.parent}>\nRequire all granted\n</Directory>\n"
