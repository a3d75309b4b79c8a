"""What the private nginx and the private Apache share: they become daemons by themselves and leave a pid file."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Self

from tests.support.waiting import end_and_wait, reload_and_wait, wait_until_running


class Daemon:
    """A server below `root`, asked to do things by its own binary: `run` calls it with its folder and main file."""

    engine: str
    binary: str
    root: Path
    main_config: Path
    pid_name: str  # of the file in `root`/run
    to_start: tuple[str, ...] = ()

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        raise NotImplementedError

    @property
    def paths(self) -> dict[str, str]:
        """What an WebServer of this server holds in `paths`."""
        return {
            "binary": self.binary,
            "prefix": str(self.root),
            "main_config": str(self.main_config),
            "config_root": str(self.root),
            "log_dir": str(self.root / "log"),
            "pid_file": str(self.root / "run" / self.pid_name),
        }

    def test(self) -> subprocess.CompletedProcess[str]:
        return self.run("-t")

    def start(self) -> Self:
        """Apache needs at least one `Listen` in the included files."""
        done = self.run(*self.to_start)
        assert done.returncode == 0, done.stderr
        wait_until_running(self.engine, self.paths)
        return self

    def reload(self) -> None:
        reload_and_wait(self.engine, self.paths)

    def stop(self) -> None:
        if self.pid is not None:
            end_and_wait(self.pid)

    @property
    def pid(self) -> int | None:
        try:
            return int((self.root / "run" / self.pid_name).read_text())
        except (OSError, ValueError):
            return None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
