"""Render Apache's main configuration, for web servers whose main file the panel manages."""

from __future__ import annotations

from panel.rendering.apache.modules import mpm
from panel.rendering.apache.quoting import line, plain
from panel.rendering.spec import RenderedFile, WebServerSpec
from panel.rendering.tree import Node, block, directive, print_tree

MODULES = (
    "allowmethods authn_core authn_file authz_core authz_host authz_user auth_basic alias autoindex brotli cache "
    "cache_disk dir env "
    "expires filter deflate headers http2 log_config mime negotiation proxy proxy_http proxy_http2 proxy_fcgi "
    "proxy_uwsgi proxy_balancer lbmethod_byrequests lbmethod_bybusyness slotmem_shm socache_shmcb reqtimeout "
    "rewrite setenvif ssl unixd"
)
MODULE_DIRS = {"sites": "/usr/lib/apache2/modules", "conf_d": "/usr/lib64/httpd/modules"}  # Debian, RHEL
STATIC = frozenset({"log_config", "unixd"})  # built into Debian's binary


def main(web_server: WebServerSpec, *, user: str, workers: int, pid_file: str, temp_dir: str) -> list[RenderedFile]:
    """Return httpd.conf, Apache's main file, as the only item of a list.

    `user`: account of the server processes ("": no User directive). `workers`: number of server processes (0: httpd's
    default).
    """
    root, folder = web_server.config_root, MODULE_DIRS[web_server.layout]
    skipped = STATIC if web_server.layout == "sites" else frozenset()
    nodes: list[Node] = [
        directive("ServerRoot", plain(root, "/config_root")),
        directive("ServerName", "localhost"),
        directive("PidFile", plain(pid_file, "/pid_file")),
        directive("DefaultRuntimeDir", plain(temp_dir or web_server.log_dir, "/temp_dir")),
        *([directive("User", user), directive("Group", user)] if user else []),
        *([directive("ServerLimit", workers), directive("StartServers", workers)] if workers else []),
        directive("ErrorLog", f"{web_server.log_dir}/error.log"),
        directive("ServerTokens", "Prod"),
        directive("ServerSignature", "Off"),
    ]
    chosen = mpm(web_server)
    for name in [chosen, *MODULES.split()]:
        if name not in skipped and not (name in ("http2", "proxy_http2") and chosen == "mpm_prefork"):
            nodes.append(directive("LoadModule", f"{name}_module", f"{folder}/mod_{name}.so", gap=name == chosen))
    form = '%h %l %u %t "%r" %>s %O "%{Referer}i" "%{User-Agent}i"'
    nodes += [
        directive("TypesConfig", "/etc/mime.types", gap=True),
        directive("LogFormat", form, "combined"),
        directive("CustomLog", f"{web_server.log_dir}/access.log", "combined"),
        block("Directory", "/", body=[directive("AllowOverride", "None"), directive("Require", "all", "denied")]),
    ]
    pattern = "sites-enabled/*.conf" if web_server.layout == "sites" else "conf.d/*.conf"
    nodes.append(directive("IncludeOptional", pattern, gap=True))
    return [RenderedFile(f"{root}/httpd.conf", print_tree("apache", line, "httpd.conf.j2", nodes=nodes))]
