"""Which files of a host's own say who the default server of a port is: nginx refuses a second one.

The usual places are read (the main file, conf.d, sites-enabled), not every include: it is for a hint, and a server with
many sites shall not be asked for all of its configuration (nginx -T) each time that its host is checked.
"""

from __future__ import annotations

import glob
import os
import re
from typing import Any

from agents.host import processes

MANAGED = "managed by Paddock"  # in the first lines of what the panel writes
_LISTEN = re.compile(r"(?:^|[;{}\s])listen\s+([^\s;]+)\s([^;{}]*);")


def default_servers(engines: list[dict[str, Any]]) -> list[dict[str, str]]:
    """[{"main_config", "path", "listen": as written: 80, [::]:80, 192.0.2.7:80}] of the nginx servers found."""
    return [
        {"main_config": engine["paths"]["main_config"], "path": path, "listen": place}
        for engine in engines
        if engine["engine"] == "nginx"
        for path in _files(engine["paths"]["main_config"])
        for place in _listens(processes.read(path).decode("utf-8", "replace"))
    ]


def _files(main_config: str) -> list[str]:
    folder = os.path.dirname(main_config)
    patterns = (os.path.join("conf.d", "*.conf"), os.path.join("sites-enabled", "*"))
    return [main_config] + [path for pattern in patterns for path in sorted(glob.glob(os.path.join(folder, pattern)))]


def _listens(text: str) -> list[str]:
    if MANAGED in text[:300]:
        return []
    bare = re.sub(r"(?m)(^|[\s;{}])#.*$", r"\1", text)
    return [place for place, words in _LISTEN.findall(bare) if {"default_server", "default"} & set(words.split())]
