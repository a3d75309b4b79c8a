"""Find default servers in a host's own nginx and Apache files, which compete with a default site of the panel.

nginx rejects a second default server for a port. For Apache, the default server is the first virtual host that it
reads, such as Debian's 000-default.conf. Only the usual files are read (the main file, conf.d, sites-enabled), not
every include: the result is only a hint, and `nginx -T` would be slow for many sites.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable
from typing import Any

from agents.host import processes

MANAGED = "managed by Paddock"  # in the first lines of files written by the panel
_FOLDERS = ("conf.d", "sites-enabled")
_VIRTUAL_HOST = re.compile(r"(?im)^\s*<VirtualHost\s+([^>]+)>")
_LISTEN = re.compile(r"(?:^|[;{}\s])listen\s+([^\s;]+)\s([^;{}]*);")


def default_servers(engines: list[dict[str, Any]]) -> list[dict[str, str]]:
    """Return the default servers of nginx and Apache as [{"main_config", "path", "listen"}], without those of the
    panel.

    `engines` is the result of detect.engines. "listen" is 80, [::]:80 or 192.0.2.7:80 for Apache; for nginx, it is the
    text in the file.
    """
    readers = {"nginx": _listens, "apache": _hosts}
    return [
        {"main_config": engine["paths"]["main_config"], "path": path, "listen": place}
        for engine in engines
        if engine["engine"] in readers
        for path in _files(engine["paths"]["main_config"])
        if engine["engine"] == "nginx" or _is_read_first(path)
        for place in _own(readers[engine["engine"]], processes.read(path).decode("utf-8", "replace"))
    ]


def _own(read: Callable[[str], list[str]], text: str) -> list[str]:
    if MANAGED in text[:300]:
        return []
    return read(re.sub(r"(?m)(^|[\s;{}])#.*$", r"\1", text))


def _is_read_first(path: str) -> bool:
    """Return whether Apache reads a virtual host's file before the files of the panel's sites, except its default
    sites, whose names come early (rendering.apache).

    Apache reads the files of a folder in order of their names, and the main file includes the folders last.
    """
    return os.path.basename(os.path.dirname(path)) not in _FOLDERS or os.path.basename(path) < "50-"


def _hosts(text: str) -> list[str]:
    """Return the addresses and ports of Apache's virtual hosts as in `default_servers`; a * becomes two, for IPv4 and
    IPv6.

    Addresses without a port, or with a variable, are left out, because the result is only a hint.
    """
    places = [place for words in _VIRTUAL_HOST.findall(text) for place in words.split()]
    found = []
    for place in places:
        address, _colon, port = place.rpartition(":")
        if port.isdecimal() and address:
            found += [port, f"[::]:{port}"] if address in ("*", "_default_") else [place]
    return found


def _files(main_config: str) -> list[str]:
    folder = os.path.dirname(main_config)
    patterns = (os.path.join("conf.d", "*.conf"), os.path.join("sites-enabled", "*"))
    return [main_config] + [path for pattern in patterns for path in sorted(glob.glob(os.path.join(folder, pattern)))]


def _listens(text: str) -> list[str]:
    return [place for place, words in _LISTEN.findall(text) if {"default_server", "default"} & set(words.split())]
