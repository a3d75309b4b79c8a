"""Render the main configuration of nginx or gallop, for web servers whose main file the panel manages."""

from __future__ import annotations

from pathlib import PurePosixPath

from panel.rendering import streams
from panel.rendering.nginx.quoting import line, no_variables
from panel.rendering.nginx.types import FASTCGI_PARAMS, MIME_TYPES
from panel.rendering.spec import RenderedFile, WebServerSpec
from panel.rendering.tree import Node, block, directive, print_tree

# gallop makes the folders of uwsgi and SCGI below its prefix; nginx would use those it was built with.
TEMP_PATHS = {
    "nginx": ("client_body", "proxy", "fastcgi", "uwsgi", "scgi"),
    "native": ("client_body", "proxy", "fastcgi"),
}
LONGEST_SOCKET = 107  # unix(7)
FILE_NAMES = {"nginx": "nginx.conf", "native": "gallop.conf"}


def status_socket(pid_file: str) -> str:
    """Return the path of the private socket on which gallop publishes its counters, next to its pid file.

    "" if the path would be too long for a socket.
    """
    place = PurePosixPath(pid_file)
    path = str(place.with_name(f"{place.stem}-status.sock"))
    return path if len(path.encode()) <= LONGEST_SOCKET else ""


def main(web_server: WebServerSpec, *, user: str, workers: int, pid_file: str, temp_dir: str) -> list[RenderedFile]:
    root = web_server.config_root
    nodes: list[Node] = [directive("user", user)] if user else []
    nodes += [
        directive("worker_processes", workers or "auto"),
        directive("pid", no_variables(pid_file, "/pid_file")),
        directive("error_log", f"{web_server.log_dir}/error.log", "notice"),
        block("events", body=[directive("worker_connections", 4096)]),
        block("http", body=_http(web_server, temp_dir, status_socket(pid_file))),
    ]
    if web_server.engine == "native":  # the stream block of nginx needs a module
        nodes.append(block("stream", body=[directive("include", f"{streams.folder(web_server)}/*.conf")]))
    text = print_tree("nginx", line, "nginx.conf.j2", nodes=nodes)
    types = [block("types", body=[directive(kind, *suffixes) for kind, suffixes in MIME_TYPES.items()], gap=False)]
    params = [directive("fastcgi_param", name, value) for name, value in FASTCGI_PARAMS.items()]
    return [
        RenderedFile(f"{root}/{FILE_NAMES[web_server.engine]}", text),
        RenderedFile(f"{root}/mime.types", print_tree("nginx", line, "nginx.conf.j2", nodes=types)),
        RenderedFile(f"{root}/fastcgi_params", print_tree("nginx", line, "nginx.conf.j2", nodes=params)),
    ]


def _http(web_server: WebServerSpec, temp_dir: str, socket: str) -> list[Node]:
    nodes: list[Node] = [
        directive("include", "mime.types"),
        directive("default_type", "application/octet-stream"),
        directive("access_log", f"{web_server.log_dir}/access.log"),
        directive("server_tokens", "off"),
        directive("sendfile", "on", gap=True),
        directive("tcp_nopush", "on"),
        directive("keepalive_timeout", "65s"),
        directive("types_hash_max_size", 2048),
        directive("server_names_hash_bucket_size", 128),
    ]
    if socket and web_server.engine == "native":
        nodes.append(directive("status_socket", no_variables(socket, "/pid_file"), gap=True))
    if temp_dir:
        for name in TEMP_PATHS[web_server.engine]:
            nodes.append(directive(f"{name}_temp_path", f"{temp_dir}/{name}", gap=name == "client_body"))
    pattern = "sites-enabled/*.conf" if web_server.layout == "sites" else "conf.d/*.conf"
    return [*nodes, directive("include", f"{web_server.config_root}/{pattern}", gap=True)]
