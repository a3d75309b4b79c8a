"""Render httpd_config.conf, for web servers whose main file the panel manages. One include line adds the sites."""

from __future__ import annotations

from panel.rendering.openlitespeed.quoting import line
from panel.rendering.spec import RenderedFile, WebServerSpec
from panel.rendering.tree import Node, block, directive, print_tree


def main(web_server: WebServerSpec, *, user: str, workers: int, pid_file: str, temp_dir: str) -> list[RenderedFile]:
    """Return httpd_config.conf, the main file, as the only item of a list.

    OpenLiteSpeed takes the pid file from the environment variable OLS_PID_FILE, so `pid_file` has no effect. Two web
    servers on one host would write the same status files, so `temp_dir` gives each its own folder.
    """
    root = web_server.config_root
    nodes: list[Node] = [
        directive("serverName", "localhost"),
        directive("user", user or "nobody"),
        directive("group", user or "nogroup"),
        *([directive("httpdWorkers", workers)] if workers else []),
        *_temporary(temp_dir),
        directive("mime", f"{root}/mime.properties"),
        directive("showVersionNumber", 0),
        directive("disableWebAdmin", 1),
        directive("autoLoadHtaccess", 0),
        directive("useIpInProxyHeader", 0, comment="The client address is the connection's address, not a header"),
        block("errorlog", f"{web_server.log_dir}/error.log", body=[directive("logLevel", "NOTICE")]),
        block("accesslog", f"{web_server.log_dir}/access.log", body=[directive("keepDays", 30)]),
        block("tuning", body=_tuning()),
        file_access(),
        block("accessDenyDir", body=[directive("dir", "/"), directive("dir", "/etc/*"), directive("dir", "/dev/*")]),
        directive("include", "paddock.conf", gap=True),
    ]
    return [
        RenderedFile(
            f"{root}/httpd_config.conf", print_tree("openlitespeed", line, "httpd_config.conf.j2", nodes=nodes)
        )
    ]


def _temporary(folder: str) -> list[Node]:
    if not folder:
        return []
    return [directive("swappingDir", f"{folder}/swap"), directive("statDir", f"{folder}/status")]


def file_access() -> Node:
    """Return the block that sets the file access masks to 000.

    Without this setting, OpenLiteSpeed 1.9 wrongly rejects files (403) on all but the first of concurrent connections.
    """
    masks = ("requiredPermissionMask", "restrictedPermissionMask")
    links = [directive("followSymbolLink", 1), directive("checkSymbolLink", 0)]
    return block("fileAccessControl", body=[*links, *(directive(name, "000") for name in masks)])


def _tuning() -> list[Node]:
    return [
        directive("maxConnections", 10000),
        directive("maxSSLConnections", 10000),
        directive("connTimeout", 300),
        directive("maxKeepAliveReq", 10000),
        directive("keepAliveTimeout", 65),
        directive("enableGzipCompress", 1),
        directive("enableDynGzipCompress", 1),
        directive("gzipAutoUpdateStatic", 1, comment="compress files too, and only with Brotli"),
        directive("quicEnable", 1),
    ]
