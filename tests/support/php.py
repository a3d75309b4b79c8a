"""A private php-fpm pool on a Unix socket."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Self

from tests.support.process import ServerProcess, tool

CONFIG = """\
[global]
error_log = {root}/fpm.log
daemonize = no
[www]
listen = {root}/fpm.sock
listen.mode = 0666
{user}
pm = static
pm.max_children = 2
clear_env = yes
security.limit_extensions = {extensions}
"""


class PhpFpm:
    def __init__(self, root: Path, *, extensions: str = ".php") -> None:
        root.mkdir(parents=True, exist_ok=True)
        self.root = root
        self.socket = root / "fpm.sock"
        user = "user = www-data\ngroup = www-data" if os.geteuid() == 0 else ""
        (root / "fpm.conf").write_text(CONFIG.format(root=root, user=user, extensions=extensions))
        binary = tool("php-fpm8.2", "php-fpm8.4", "php-fpm8.3", "php-fpm")
        self.process = ServerProcess([binary, "-F", "-y", str(root / "fpm.conf")], root / "fpm.out")

    @property
    def address(self) -> str:
        """As a PhpPool's address."""
        return f"unix:{self.socket}"

    def start(self) -> Self:
        self.process.start()
        for _ in range(500):
            if self.socket.exists():
                return self
            time.sleep(0.02)
        raise AssertionError(f"php-fpm does not listen:\n{self.process.said()}")

    def stop(self) -> None:
        self.process.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()
