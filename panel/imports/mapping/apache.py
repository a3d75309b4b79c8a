"""Map a complete Apache configuration: virtual hosts become sites, everything else stays in the server's files."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from panel.imports.htaccess import HTACCESS
from panel.imports.mapping.apache_host import TLS_ON, host
from panel.imports.mapping.common import Draft, free_name, make_site, slug
from panel.imports.reading import Loaded, Node
from panel.imports.report import FoundSite, Item, Part, Report, shown
from panel.rendering.spec import WebServerSpec

KEPT = "the directive is not part of a site; it stays in the web server's own files"
NOT_NOW = "Paddock leaves out the section because its condition is false on this web server"
CONDITIONS = ("ifmodule", "ifdefine", "ifversion", "iffile", "ifdirective", "ifsection")
ALWAYS_THERE = {"core", "so", "http", "mpm", "log_config", "mime", "alias", "dir", "authz_core", "authz_host"}


class Conditions:
    """Evaluation of `<IfModule>` and `<IfDefine>`. Without a list of modules (an upload), every module counts as
    loaded.
    """

    def __init__(self, modules: frozenset[str], defined: frozenset[str] = frozenset()) -> None:
        self.modules = modules
        self.defined = defined

    def holds(self, node: Node) -> bool:
        value = node.value
        negated, name = value.startswith("!"), value.removeprefix("!")
        if node.low == "ifmodule":
            return self._has_module(name) != negated
        if node.low == "ifdefine":
            return (name in self.defined) != negated
        return True  # true for httpd 2.4, whose version and directives these test

    def _has_module(self, name: str) -> bool:
        if not self.modules:
            return True
        bare = name.removesuffix(".c").removesuffix("_module").removeprefix("mod_")
        return bare in self.modules or bare in ALWAYS_THERE

    def left_out(self, nodes: Sequence[Node]) -> Iterator[Node]:
        """Yield the `<IfModule>` and `<IfDefine>` sections whose condition is false, also those inside of sections
        whose condition is true.
        """
        for node in nodes:
            if node.low in CONDITIONS and node.body is not None:
                if self.holds(node):
                    yield from self.left_out(node.body)
                else:
                    yield node

    def file(self, node: Node) -> Node:
        """Return the node of a .htaccess file with its conditions evaluated; other nodes are returned unchanged."""
        return replace(node, body=tuple(self.flat(node.body or ()))) if node.name == HTACCESS else node

    def flat(self, nodes: Sequence[Node]) -> Iterator[Node]:
        """Yield the directives outside of `<IfModule>` and `<IfDefine>`, and those inside of sections whose condition
        is true.
        """
        for node in nodes:
            if node.low in CONDITIONS and node.body is not None:
                if self.holds(node):
                    yield from self.flat(node.body)
            else:
                yield node


def mapped(loaded: Loaded, web_server: WebServerSpec, prefix: str) -> Report:
    """Map an Apache configuration to a Report of sites. `prefix` is ServerRoot, the base of relative paths."""
    report = Report("apache", faults=list(loaded.faults), files=len(loaded.files))
    conditions = Conditions(web_server.modules)
    nodes = list(conditions.flat(loaded.nodes))
    hosts = [node for node in nodes if node.low == "virtualhost" and node.body is not None]
    bodies = {id(node): tuple(map(conditions.file, conditions.flat(node.body or ()))) for node in hosts}
    closed = [fault.file for fault in loaded.faults]
    taken: set[str] = set()
    first: set[str] = set()
    for group in _groups(hosts, bodies):
        draft = Draft(web_server)
        for node in group:
            host(draft, node, bodies[id(node)], nodes, prefix, first, closed)
            for item in conditions.left_out(node.body or ()):
                draft.note(item, "changed", NOT_NOW, f"blocks/{len(draft.blocks) - 1}")
        name = free_name(_name(group[0], bodies[id(group[0])]), taken)
        taken.add(name)
        site: FoundSite = make_site(draft, name)
        site.parts = [Part(node.file, node.line, node.end) for node in group]
        report.sites.append(site)
    ports = [node.value.rpartition(":")[2] for node in nodes if node.low == "listen"]
    report.ports = sorted({int(port) for port in ports if port.isdigit()})
    for node in nodes:
        if node.low != "virtualhost":
            report.items.append(Item(node.file, node.line, shown(node), "kept", KEPT))
    return report


def _names(body: Sequence[Node]) -> set[str]:
    found = {
        name.lower().partition("://")[2] or name.lower()
        for node in body
        if node.low in ("servername", "serveralias")
        for name in node.args
    }
    return {name.partition(":")[0] for name in found}


def _groups(hosts: Sequence[Node], bodies: dict[int, tuple[Node, ...]]) -> list[list[Node]]:
    """Group virtual hosts that form one site: those in files of one folder with a common name. Debian uses separate
    files for HTTP and HTTPS.
    """
    groups: list[tuple[str, set[str], list[Node]]] = []
    for node in hosts:
        names = {name.removeprefix("www.") for name in _names(bodies[id(node)])}
        folder = node.file.rpartition("/")[0]
        for known_folder, known, members in groups:
            if folder == known_folder and names & known:
                known |= names
                members.append(node)
                break
        else:
            groups.append((folder, names, [node]))
    return [members for _folder, _names_of, members in groups]


def _name(node: Node, body: Sequence[Node]) -> str:
    own = [item.value for item in body if item.low == "servername" and item.value]
    stem = node.file.rsplit("/", 1)[-1].removesuffix(".conf")
    tail = "-ssl" if not own and any(item.low == "sslengine" and item.value.lower() in TLS_ON for item in body) else ""
    return slug(own[0].partition("://")[2] or own[0].partition(":")[0] if own else stem + tail)
