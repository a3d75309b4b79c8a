"""A private OpenLiteSpeed: a copy of an installed one, since the program's own folder is its server root.

The distribution has no package of it, so PADDOCK_OPENLITESPEED names the folder of an installation (usually
/usr/local/lsws). The copy has a configuration, a pid file (OLS_PID_FILE) and a folder for its status of its own, so
that several may run beside each other.
"""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Self

from panel.rendering import render_main
from panel.rendering.spec import WebServerSpec
from tests.support.waiting import end_and_wait, reload_and_wait, wait_until_running

VARIABLE = "PADDOCK_OPENLITESPEED"
# Never taken over from the installation: what it writes itself, and the sockets of one that runs.
OWN = ("conf", "logs", "tmp", "cachedata", "Example", "admin", "autoupdate", "docs")


def source() -> Path | None:
    """The installation to copy, where the environment names one."""
    named = os.environ.get(VARIABLE, "")
    if not named:
        return None
    folder = Path(named)
    assert (folder / "bin" / "openlitespeed").is_file(), f"{VARIABLE}={named} holds no bin/openlitespeed"
    return folder


class OpenLiteSpeedInstance:
    """`root` becomes the server root: bin, modules and so on copied, conf and logs its own."""

    engine = "openlitespeed"

    def __init__(self, root: Path, installed: Path | None = None) -> None:
        installed = installed or source()
        assert installed is not None, f"{VARIABLE} names no OpenLiteSpeed"
        self.root = root
        self.binary = str(root / "bin" / "openlitespeed")
        if not Path(self.binary).exists():
            shutil.copytree(installed, root, symlinks=True, dirs_exist_ok=True, ignore=_own_folders(installed))
        successor = root / "bin" / "litespeed"  # its installer makes this link, `make install` does not
        if not successor.exists():
            successor.symlink_to("openlitespeed")
        for name in ("conf/vhosts", "conf.d", "www", "logs", "log", "tmp", "run"):
            (root / name).mkdir(parents=True, exist_ok=True)
        types = installed / "conf" / "mime.properties"
        if types.exists():
            shutil.copy(types, root / "conf")
        self.main_config = root / "conf" / "httpd_config.conf"
        self.pid_file = root / "run" / "lshttpd.pid"

    @property
    def paths(self) -> dict[str, str]:
        """What an WebServer of this server holds in `paths`."""
        return {
            "binary": self.binary,
            "prefix": str(self.root),
            "main_config": str(self.main_config),
            "config_root": str(self.root / "conf"),
            "log_dir": str(self.root / "log"),
            "pid_file": str(self.pid_file),
        }

    def manage(self, more: str = "") -> Self:
        """The main file as the panel writes it, without any site yet; `more`: lines after it."""
        web_server = WebServerSpec("openlitespeed", "vhosts", f"{self.root}/conf", f"{self.root}/log")
        pid_file, temporary = str(self.pid_file), f"{self.root}/tmp"
        main, *others = render_main(web_server, user="www-data", workers=1, temp_dir=temporary, pid_file=pid_file)
        for made in (main, *others):
            Path(made.path).write_text(made.text)
        with self.main_config.open("a") as file:
            file.write(f"{more}\n" if more else "")
        return self

    @property
    def pid(self) -> int | None:
        """Of the main process; the file stays behind when that ends."""
        try:
            pid = int(self.pid_file.read_text())
        except (OSError, ValueError):
            return None
        return pid if Path(f"/proc/{pid}").exists() else None

    def __enter__(self) -> Self:
        done = self.run()
        assert done.returncode == 0, done.stdout + done.stderr
        wait_until_running(self.engine, self.paths)
        return self

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        """The program itself with `arguments`. Its words go by a file: a server that stays would keep a pipe open."""
        argv, environment = [self.binary, *arguments], {**os.environ, "OLS_PID_FILE": str(self.pid_file)}
        with (self.root / "run" / "said").open("w+") as said:
            done = subprocess.run(
                argv, stdin=subprocess.DEVNULL, stdout=said, stderr=subprocess.STDOUT, timeout=60, env=environment
            )
            said.seek(0)
            return subprocess.CompletedProcess(argv, done.returncode, said.read(), "")

    def start(self) -> Self:
        return self.__enter__()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self.pid is not None:
            end_and_wait(self.pid)

    def reload(self) -> None:
        reload_and_wait(self.engine, self.paths)


def _own_folders(installed: Path) -> Callable[[str, list[str]], set[str]]:
    """Only at the top: a module may have a folder of such a name."""

    def ignored(folder: str, names: list[str]) -> set[str]:
        return set(names) & set(OWN) if Path(folder) == installed else set()

    return ignored
