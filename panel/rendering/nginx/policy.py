"""What raw nginx directives a site may not hold."""

from __future__ import annotations

from panel.rendering.policy import Policy
from panel.rendering.readers import Read
from panel.rendering.readers.nginx import read

LOADS = "it loads code into the server"
READS = "it reads configuration that nobody checked"
GLOBAL = "it changes the whole server, not this site"

REFUSED = {
    "include": READS,
    "load_module": LOADS,
    "perl*": LOADS,
    "js_*": LOADS,
    "lua_*": LOADS,
    "passenger*": LOADS,
    "wasm*": LOADS,
    "ssi": "it can run commands and read other sites' answers",
    "ssi_*": "it can run commands and read other sites' answers",
    "dav_methods": "it lets visitors write files",
    "create_full_put_path": "it lets visitors write files",
    "user": GLOBAL,
    "env": GLOBAL,
    "pid": GLOBAL,
    "daemon": GLOBAL,
    "master_process": GLOBAL,
    "worker_*": GLOBAL,
    "working_directory": GLOBAL,
    "lock_file": GLOBAL,
    "ssl_engine": LOADS,
    "stream": GLOBAL,
    "mail": GLOBAL,
    "http": GLOBAL,
    "server": "it opens another server block; add one to the site instead",
    "listen": "ports belong to the server block; change them there",
    "server_name": "names belong to the server block; change them there",
}
PATH_NAMES = frozenset(
    [
        "root",
        "alias",
        "access_log",
        "error_log",
        "auth_basic_user_file",
        "proxy_store",
        "fastcgi_store",
        "uwsgi_store",
        "scgi_store",
        "ssl_dhparam",
        "ssl_crl",
        "xslt_stylesheet",
        "xml_entities",
        "ssl_stapling_file",
    ]
)
PATH_ENDINGS = ("_path", "_certificate", "_certificate_key", "_password_file", "_ticket_key", "_crl", "_log")
NOT_FILES = ("proxy_cookie_path", "userid_path", "rewrite_log")
PASSES = ("proxy_pass", "fastcgi_pass", "uwsgi_pass", "scgi_pass", "grpc_pass", "memcached_pass", "tunnel_pass")


def _judge(item: Read) -> str:
    name = item.name.lower()
    if "_by_lua" in name:
        return f"is not allowed in a site: {LOADS}"
    joined = " ".join(item.args).lower()
    if name in PASSES and "unix:" in joined:
        return "names a Unix socket; use one of the site's upstreams or PHP pools"
    if name == "fastcgi_param" and item.args and item.args[0] in ("SCRIPT_FILENAME", "PHP_VALUE", "PHP_ADMIN_VALUE"):
        return f"sets {item.args[0]}, which decides what code runs; use the site's PHP pool"
    return ""


def _takes_path(name: str) -> bool:
    return name in PATH_NAMES or (name.endswith(PATH_ENDINGS) and name not in NOT_FILES)


def _paths(item: Read) -> tuple[str, ...]:
    """The first argument; `off` and data that is no file are left alone."""
    value = item.args[0] if item.args else ""
    return () if value in ("", "off", "on") else (value,)


POLICY = Policy(read, REFUSED, _judge, _takes_path, _paths, frozenset({"auth_basic_user_file"}))
