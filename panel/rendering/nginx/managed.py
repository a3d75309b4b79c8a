"""Merge the panel's settings into a distribution's nginx.conf, so that the panel manages the file.

Everything that the distribution's packages need is kept (user, modules, includes, log formats, maps, its own server);
the panel's settings replace the existing ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from panel.rendering.errors import NotExpressible
from panel.rendering.nginx.quoting import line
from panel.rendering.readers import Read, Unreadable
from panel.rendering.readers.nginx import read
from panel.rendering.spec import WebServerSpec
from panel.rendering.tree import Directive, Node, block, directive, print_tree

CONNECTIONS = 4096


@dataclass(frozen=True)
class Managed:
    """Merged nginx.conf. `lost` lists replaced directives of the original file: (line number, directive, panel's
    directive).
    """

    text: str
    lost: tuple[tuple[int, str, str], ...]


def managed(original: str, web_server: WebServerSpec, *, workers: int) -> Managed:
    """Merge the panel's settings into `original`, the text of an nginx.conf; `workers` is the number of workers (0: one
    per CPU).

    Raises NotExpressible if Paddock cannot parse the file, or if the file has no http block.
    """
    try:
        nodes = read(original)
    except Unreadable as error:
        raise NotExpressible("/main_config", f"Paddock cannot parse the main file: {error}") from error
    if not any(node.name == "http" and node.body is not None for node in nodes):
        raise NotExpressible("/main_config", "the main file has no http block, so Paddock cannot manage the file")
    lost: list[tuple[int, str, str]] = []
    main = [directive("worker_processes", workers or "auto")]
    tree = _merged([node for node in nodes if node.name not in ("events", "http")], main, lost)
    inner = {node.name: node.body or () for node in nodes if node.name in ("events", "http")}
    tree.append(block("events", body=_merged(inner.get("events", ()), _events(), lost)))
    tree.append(block("http", body=_merged(inner["http"], _http(), lost)))
    return Managed(print_tree("nginx", line, "nginx.conf.j2", nodes=tree), tuple(lost))


def _events() -> list[Directive]:
    return [directive("worker_connections", CONNECTIONS)]


def _http() -> list[Directive]:
    return [
        directive("server_tokens", "off"),
        directive("sendfile", "on"),
        directive("tcp_nopush", "on"),
        directive("keepalive_timeout", "65s"),
        directive("types_hash_max_size", 2048),
        directive("server_names_hash_bucket_size", 128),
        directive("ssl_protocols", "TLSv1.2", "TLSv1.3"),
    ]


def _merged(own: Iterable[Read], ours: Sequence[Directive], lost: list[tuple[int, str, str]]) -> list[Node]:
    """Merge the directives of a block with the panel's, which replace directives of the same name.

    The panel's directives come first, so that they precede the includes of the original file. The function appends
    replaced directives with other arguments to `lost`, in the shape of `Managed.lost`.
    """
    named = {item.name: item for item in ours}
    kept: list[Node] = []
    for node in own:
        winner = named.get(node.name)
        if winner is None:
            kept.append(_node(node))
        elif winner.args != node.args:
            lost.append((node.line, line(Directive(node.name, node.args)), line(winner)))
    return [*ours, *kept]


def _node(node: Read) -> Directive:
    if node.body is None:
        return directive(node.name, *node.args)
    return block(node.name, *node.args, body=[_node(child) for child in node.body])
