"""Render the configuration of a PHP-FPM pool: one file for each pool. The functions access no database and no host."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass

from panel.rendering.errors import NotExpressible
from panel.rendering.tree import Directive, directive, print_tree

SOCKETS = "/run/php"  # agents/host/fpm.py
TEMPORARY = "/var/lib/php/paddock"  # agents/host/fpm_temporary.py
IDLE_S, MAX_REQUESTS = 10, 500
VERSION = re.compile(r"[0-9]{1,2}\.[0-9]{1,2}")
NAME = re.compile(r"paddock-[a-z0-9](?:[a-z0-9-]{0,61}[a-z0-9])?")
ACCOUNT = re.compile(r"[a-z_][a-z0-9_-]{0,31}")
FOLDER = re.compile(r"(?:/[A-Za-z0-9_][A-Za-z0-9._-]*)+")
_QUOTED = frozenset({"php_admin_value[open_basedir]"})


@dataclass(frozen=True)
class PoolSpec:
    """PHP-FPM pool that runs as `account` and reads files below `folder`.

    `owner` and `group` are those of the web server, which connects to the socket.
    """

    name: str
    account: str
    owner: str
    group: str
    folder: str
    max_children: int
    memory_mb: int
    upload_mb: int


def socket_of(name: str) -> str:
    """Return the path of a pool's socket."""
    return f"{SOCKETS}/{name}.sock"


def pool_file(pool: PoolSpec) -> str:
    """Return the content of the pool's file. Raise NotExpressible for a value that could be read as another
    directive.
    """
    for field, pattern in (("name", NAME), ("account", ACCOUNT), ("folder", FOLDER)):
        _require(pattern, pool, field)
    for field in ("owner", "group"):
        _require(ACCOUNT, pool, field)
    temporary = f"{TEMPORARY}/{pool.name}"
    nodes = [
        directive("user", pool.account),
        directive("listen", socket_of(pool.name)),
        directive("listen.owner", pool.owner),
        directive("listen.group", pool.group),
        directive("listen.mode", "0660"),
        directive("pm", "ondemand"),
        directive("pm.max_children", int(pool.max_children)),
        directive("pm.process_idle_timeout", f"{IDLE_S}s"),
        directive("pm.max_requests", MAX_REQUESTS),
        directive("php_admin_value[open_basedir]", f"{pool.folder}/:{temporary}/"),
        directive("php_admin_value[sys_temp_dir]", temporary),
        directive("php_admin_value[upload_tmp_dir]", temporary),
        directive("php_admin_value[memory_limit]", f"{int(pool.memory_mb)}M"),
        directive("php_admin_value[upload_max_filesize]", f"{int(pool.upload_mb)}M"),
        # The form's other fields need room beside a file of the full size.
        directive("php_admin_value[post_max_size]", f"{int(pool.upload_mb) + 1}M"),
    ]
    # The agent asks the pool for this text, and so knows that php-fpm has read this file.
    digest = hashlib.sha256(repr(nodes).encode()).hexdigest()
    nodes += [directive("ping.path", "/paddock-ping"), directive("ping.response", digest[:32])]
    return print_tree("php-fpm", _line, "pool.conf.j2", name=pool.name, nodes=nodes)


def _require(pattern: re.Pattern[str], pool: PoolSpec, field: str) -> None:
    if not pattern.fullmatch(getattr(pool, field)):
        raise NotExpressible(
            f"/{field}", "php-fpm's configuration file cannot contain this value. Enter another value."
        )


def _line(item: Directive) -> str:
    value = item.args[0]
    return f'{item.name} = "{value}"' if item.name in _QUOTED else f"{item.name} = {value}"
