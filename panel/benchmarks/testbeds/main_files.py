"""Main configuration files of a test bed's servers: equal in the settings that affect measurements, otherwise with each
server's defaults. Pure functions.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from panel.benchmarks.suites.definitions import Settings, Setup
from panel.rendering.apache.main import MODULES as APACHE_MODULES
from panel.rendering.apache.quoting import line as apache_line
from panel.rendering.nginx.main import TEMP_PATHS
from panel.rendering.nginx.quoting import line as nginx_line
from panel.rendering.nginx.types import FASTCGI_PARAMS, MIME_TYPES
from panel.rendering.openlitespeed.main import file_access
from panel.rendering.openlitespeed.quoting import line as openlitespeed_line
from panel.rendering.tree import Node, block, directive, print_tree

# Placeholders that the agent replaces on its host (agents/host/testbed_files.py).
ROOT = "/PADDOCK-TESTBED"
MODULES = "/PADDOCK-APACHE-MODULES"
DATABASE = "mariadb"
USER, GROUP = "PADDOCK-USER", "PADDOCK-GROUP"
DEFAULT_TYPE = "application/octet-stream"
LSPHP = "lsphp"
SOCKETS = "sockets"


@dataclass(frozen=True)
class Lsphp:
    """PHP processes to which OpenLiteSpeed connects by LSAPI.
    Either lsphp already listens at `address`, or OpenLiteSpeed starts the `program` itself.
    """

    address: str = ""
    program: str = ""


def home(name: str) -> str:
    return f"{ROOT}/{name}"


def main(setup: Setup, settings: Settings, *, as_root: bool, lsphp: Lsphp | None = None) -> dict[str, str]:
    """Return {path below the test bed: text} of the web server's main file and the files that it includes."""
    return BUILDERS[setup.engine](setup, settings, as_root, lsphp)


def config_root(setup: Setup) -> str:
    """Return the configuration folder of a web server; OpenLiteSpeed always reads the folder `conf` in its
    home folder.
    """
    return home(f"{setup.slug}/conf" if setup.engine == "openlitespeed" else setup.slug)


def _nginx(setup: Setup, settings: Settings, as_root: bool, _php: Lsphp | None) -> dict[str, str]:
    place = home(setup.slug)
    http: list[Node] = [
        directive("include", "mime.types"),
        directive("default_type", DEFAULT_TYPE),
        directive("access_log", "off"),
        directive("sendfile", "on"),
        directive("tcp_nopush", "on"),
        directive("keepalive_timeout", "65s"),
        *([directive("keepalive_requests", settings.keepalive_requests)] if settings.keepalive_requests else []),
        directive("types_hash_max_size", 2048),
        *(directive(f"{name}_temp_path", f"{place}/temp/{name}") for name in TEMP_PATHS[setup.engine]),
        directive("include", f"{place}/conf.d/*.conf"),
    ]
    nodes: list[Node] = [
        directive("daemon", "off"),
        *([directive("user", USER, GROUP)] if as_root else []),
        directive("worker_processes", settings.workers or "auto"),
        directive("pid", f"{place}/server.pid"),
        directive("error_log", f"{place}/error.log", "warn"),
        block("events", body=[directive("worker_connections", 4096)]),
        block("http", body=http),
    ]
    types = [block("types", body=[directive(kind, *suffixes) for kind, suffixes in MIME_TYPES.items()], gap=False)]
    params = [directive("fastcgi_param", name, value) for name, value in FASTCGI_PARAMS.items()]
    trees = {"server.conf": nodes, "mime.types": types, "fastcgi_params": params}
    return {
        f"{setup.slug}/{name}": print_tree("nginx", nginx_line, "nginx.conf.j2", nodes=tree)
        for name, tree in trees.items()
    }


def _apache(setup: Setup, settings: Settings, as_root: bool, _php: Lsphp | None) -> dict[str, str]:
    place = home(setup.slug)
    nodes: list[Node] = [
        directive("ServerRoot", place),
        directive("ServerName", "localhost"),
        directive("PidFile", f"{place}/server.pid"),
        directive("DefaultRuntimeDir", place),
        *([directive("User", USER), directive("Group", GROUP)] if as_root else []),
        directive("ErrorLog", f"{place}/error.log"),
        directive("LogLevel", "warn"),
        directive("LoadModule", f"mpm_{setup.mpm}_module", f"{MODULES}/mod_mpm_{setup.mpm}.so"),
        *(_module(name) for name in _modules(setup)),
        *(_one_process() if settings.one_process else []),
        *([directive("MaxKeepAliveRequests", 0)] if settings.keepalive_requests else []),
        directive("TypesConfig", "/etc/mime.types"),
        block("Directory", "/", body=[directive("AllowOverride", "None"), directive("Require", "all", "denied")]),
        directive("IncludeOptional", "conf.d/*.conf"),
    ]
    return {f"{setup.slug}/server.conf": print_tree("apache", apache_line, "httpd.conf.j2", nodes=nodes)}


def _modules(setup: Setup) -> list[str]:
    # mod_http2 does not support prefork.
    left_out = {"http2"} if setup.mpm == "prefork" else set()
    return [name for name in APACHE_MODULES.split() if not name.startswith("mpm_") and name not in left_out]


def _module(name: str) -> Node:
    """Return an Apache LoadModule line that applies only if the module's file exists, because distributions build some
    modules in.
    """
    path = f"{MODULES}/mod_{name}.so"
    return block("IfFile", path, body=[directive("LoadModule", f"{name}_module", path)], gap=False)


def _one_process() -> list[Node]:
    threads = 128
    names = {"ServerLimit": 1, "StartServers": 1, "ThreadLimit": threads, "ThreadsPerChild": threads}
    return [directive(name, value) for name, value in {**names, "MaxRequestWorkers": threads}.items()]


def _openlitespeed(setup: Setup, settings: Settings, as_root: bool, lsphp: Lsphp | None) -> dict[str, str]:
    place, root = home(setup.slug), config_root(setup)
    most = 2**31 - 1
    tuning = {
        "maxConnections": 10_000,
        "maxSSLConnections": 10_000,
        "keepAliveTimeout": 65,
        "maxKeepAliveReq": min(settings.keepalive_requests or 1000, most),
        "quicEnable": 1,
        "quicShmDir": f"{place}/temp",
    }
    nodes: list[Node] = [
        directive("serverName", "localhost"),
        *([directive("user", USER), directive("group", GROUP)] if as_root else []),
        *([directive("httpdWorkers", settings.workers)] if settings.workers else []),
        directive("swappingDir", f"{place}/temp"),
        directive("statDir", f"{place}/temp"),
        directive("mime", f"{root}/mime.properties"),
        directive("disableWebAdmin", 1),
        directive("autoLoadHtaccess", 0),
        block("errorlog", f"{place}/error.log", body=[directive("logLevel", "WARN")]),
        block("tuning", body=[directive(name, value) for name, value in tuning.items()]),
        file_access(),
        *(_lsphp(setup, lsphp) if lsphp else []),
        directive("include", "paddock.conf", gap=True),
    ]
    types = [f"{', '.join(suffixes)} = {kind}\n" for kind, suffixes in MIME_TYPES.items()]
    main_file = print_tree("openlitespeed", openlitespeed_line, "httpd_config.conf.j2", nodes=nodes)
    return {
        f"{setup.slug}/conf/httpd_config.conf": main_file,
        f"{setup.slug}/conf/mime.properties": "".join([f"default = {DEFAULT_TYPE}\n", *types]),
    }


def _lsphp(setup: Setup, lsphp: Lsphp) -> list[Node]:
    """Return the nodes of OpenLiteSpeed's configuration that send PHP files of all virtual hosts to lsphp.
    A persistent connection occupies one lsphp child, so as many connections are allowed as there are children.
    """
    own = f"uds:/{home(setup.slug)}/{SOCKETS}/{LSPHP}.sock"
    started: dict[str, str | int] = {
        "env": f"PHP_LSAPI_CHILDREN={setup.php_children}",
        "autoStart": 2,
        "path": lsphp.program,
        "backlog": 100,
        "instances": 1,
        "runOnStartUp": 2,
    }
    values: dict[str, str | int] = {
        "type": "lsapi",
        "address": lsphp.address or own,
        "maxConns": setup.php_children,
        "initTimeout": 60,
        "retryTimeout": 0,
        "persistConn": 1,
        "respBuffer": 0,
        **(started if lsphp.program else {"autoStart": 0}),
    }
    return [
        # This block sets the minimum ids for started programs; the accounts of web servers have low numbers.
        block("CGIRLimit", body=[directive("minUID", 11), directive("minGID", 10)]),
        block("extprocessor", LSPHP, body=[directive(name, value) for name, value in values.items()]),
        block("scripthandler", body=[directive("add", f"lsapi:{LSPHP} php")]),
    ]


BUILDERS: dict[str, Callable[[Setup, Settings, bool, Lsphp | None], dict[str, str]]] = {
    "nginx": _nginx,
    "native": _nginx,
    "apache": _apache,
    "openlitespeed": _openlitespeed,
}


def php_fpm(setup: Setup, *, as_root: bool) -> dict[str, str]:
    """Return the php-fpm configuration of one web server. Each web server has its own pool, so that its PHP usage is
    measured separately.
    """
    name = pool(setup)
    lines = [
        "[global]",
        "daemonize = no",
        f"error_log = {home(name)}/error.log",
        "log_level = notice",
        "[www]",
        f"listen = {home(name)}/php.sock",
        "listen.mode = 0666",
        *([f"user = {USER}", f"group = {GROUP}"] if as_root else []),
        "pm = dynamic",
        f"pm.max_children = {setup.php_children}",
        "pm.start_servers = 2",
        "pm.min_spare_servers = 1",
        f"pm.max_spare_servers = {setup.php_children}",
        "php_admin_value[expose_php] = off",
    ]
    return {f"{name}/server.conf": "".join(f"{text}\n" for text in lines)}


def mariadb() -> dict[str, str]:
    """Return the configuration of the test bed's database: no network, and a small log file, whose size has no effect
    on the measurements.
    The agent creates the data and starts MariaDB as the servers' account, which owns `data`, `temp` and `run`. MariaDB
    writes its errors to stderr, not to a file.
    """
    place = home(DATABASE)
    lines = [
        "[mariadbd]",
        f"datadir = {place}/data",
        f"tmpdir = {place}/temp",
        f"socket = {place}/run/{DATABASE}.sock",
        f"pid-file = {place}/run/server.pid",
        f"init-file = {place}/init.sql",
        "skip-networking",
        "innodb_log_file_size = 16M",
    ]
    return {f"{DATABASE}/server.conf": "".join(f"{text}\n" for text in lines)}


def pool(setup: Setup) -> str:
    return f"{setup.slug}-php"
