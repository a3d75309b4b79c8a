"""A private nginx: Debian's binary with its own prefix, configuration, logs and pid file."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.support.daemon import Daemon
from tests.support.process import tool

MAIN = """\
user root;
worker_processes 1;
pid {root}/run/nginx.pid;
error_log {root}/log/error.log notice;
events {{ worker_connections 256; }}
http {{
    include /etc/nginx/mime.types;
    default_type application/octet-stream;
    access_log {root}/log/access.log;
    client_body_temp_path {root}/tmp/body;
    proxy_temp_path {root}/tmp/proxy;
    fastcgi_temp_path {root}/tmp/fastcgi;
    include {root}/conf.d/*.conf;
    include {root}/sites-enabled/*;
{extra}}}
"""
# gallop makes the folders that are not named below its prefix; nginx would write below its built-in folders.
NGINX_ONLY = "    uwsgi_temp_path {root}/tmp/uwsgi;\n    scgi_temp_path {root}/tmp/scgi;\n"


class NginxInstance(Daemon):
    """`root` holds everything: nginx.conf, conf.d, sites-available, sites-enabled, www, log, run, tmp.

    The server runs as a daemon, as a distribution's does, and is asked to do things by its own `-s`.
    """

    engine = "nginx"
    pid_name = "nginx.pid"
    extra = NGINX_ONLY

    def __init__(self, root: Path) -> None:
        self.root = root
        self.binary = tool("nginx")
        for folder in ("conf.d", "sites-available", "sites-enabled", "www", "log", "run", "tmp"):
            (root / folder).mkdir(parents=True, exist_ok=True)
        self.main_config = root / "nginx.conf"
        self.main_config.write_text(MAIN.format(root=root, extra=self.extra.format(root=root)))

    def reloads(self) -> int:
        """Reloads that the server itself logged."""
        return (self.root / "log" / "error.log").read_text().count("(SIGHUP) received")

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        argv = [self.binary, "-p", str(self.root), "-c", str(self.main_config), *arguments]
        return subprocess.run(argv, capture_output=True, text=True, timeout=20, stdin=subprocess.DEVNULL)
