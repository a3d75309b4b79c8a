"""Map a complete nginx configuration: servers become sites, everything else stays in the server's files."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

from panel.imports.mapping.common import Draft, free_name, make_site, slug
from panel.imports.mapping.nginx_server import listen_of, server
from panel.imports.reading import Loaded, Node
from panel.imports.report import FoundSite, Item, Part, Report, shown
from panel.rendering.spec import WebServerSpec
from panel.websites.definitions import BlockData, SiteData

KEPT = "the directive is not part of a site; it stays in the web server's own files"


def mapped(loaded: Loaded, web_server: WebServerSpec, prefix: str) -> Report:
    """Map an nginx configuration to a Report of sites. `prefix` is the base of relative document roots."""
    report = Report("nginx", faults=list(loaded.faults), files=len(loaded.files))
    http = tuple(_http(loaded.nodes))
    servers = [node for node in http if node.name == "server" and node.body is not None]
    upstreams = {node.value.lower(): node for node in http if node.name == "upstream"}
    around = [node for node in http if node.body is None]
    taken: set[str] = set()
    for group in _groups(servers):
        draft = Draft(web_server)
        for node in group:
            server(draft, node, around, upstreams, prefix)
        name = free_name(_name(draft.blocks, group[0]), taken)
        taken.add(name)
        site = make_site(draft, name)
        site.parts = [Part(node.file, node.line, node.end) for node in group]
        report.sites.append(site)
    _defaults(servers, report.sites)
    _upstream_parts(http, upstreams, report.sites)
    known = {id(node) for node in servers}
    for node in (*loaded.nodes, *http):
        if id(node) not in known and node.name != "http":
            report.items.append(Item(node.file, node.line, shown(node), "kept", KEPT))
        known.add(id(node))
    return report


def _http(nodes: Sequence[Node]) -> Iterator[Node]:
    """Yield the directives inside of all `http` blocks. Nodes without an `http` block are from a file that `http`
    includes, and are yielded unchanged.
    """
    blocks = [node for node in nodes if node.name == "http"]
    if not blocks:
        yield from nodes
    for block in blocks:
        yield from block.body or ()


def names_of(node: Node) -> set[str]:
    return {name.lower() for item in node.body or () if item.name == "server_name" for name in item.args} - {"_", ""}


def _groups(servers: Sequence[Node]) -> list[list[Node]]:
    """Group servers that form one site: those of one file with a common name, ignoring `www.`, such as its HTTP and
    HTTPS servers.
    """
    groups: list[tuple[str, set[str], list[Node]]] = []
    for node in servers:
        names = {name.removeprefix("www.") for name in names_of(node)}
        for file, known, members in groups:
            if file == node.file and names & known:
                known |= names
                members.append(node)
                break
        else:
            groups.append((node.file, names, [node]))
    return [members for _file, _names, members in groups]


def _name(blocks: Sequence[BlockData], node: Node) -> str:
    names = [name for block in blocks for name in block["names"] if not name.startswith("~")]
    stem = node.file.rsplit("/", 1)[-1].removesuffix(".conf")
    return slug(names[0].strip("*.") if names else stem)


def _defaults(servers: Sequence[Node], sites: Sequence[FoundSite]) -> None:
    """Mark the default server of each socket explicitly. Without this mark, nginx uses the first server in the order of
    files, which can be another one in the files that the panel writes.
    """
    found: dict[tuple[str, int], tuple[bool, Node]] = {}
    for node in servers:
        for item in node.body or ():
            listen, _unknown = listen_of(item) if item.name == "listen" else (None, [])
            if listen is not None:
                key = (listen["address"], listen["port"])
                if key not in found or (listen["default_server"] and not found[key][0]):
                    found[key] = (listen["default_server"], node)
    places = {(part.file, part.first): (site, number) for site in sites for number, part in enumerate(site.parts)}
    for (address, port), (_is_said, node) in found.items():
        site, number = places[node.file, node.line]
        for listen in site.definition["blocks"][number]["listens"]:
            if (listen["address"], listen["port"]) == (address, port):
                listen["default_server"] = True


def _upstream_parts(http: Sequence[Node], upstreams: dict[str, Node], sites: Sequence[FoundSite]) -> None:
    """Add the lines of each upstream to the `parts` of every site that uses the upstream. The `parts` of a site are the
    lines that the site's first deployment removes from the host's own files.

    Lines of an upstream are not added if directives outside of sites, or raw directives of sites, refer to the
    upstream. Such an upstream must stay in the host's own files.
    """
    places = {(part.file, part.first): site for site in sites for part in site.parts}
    for name, block in upstreams.items():
        users: dict[str, FoundSite] = {}
        others = False
        for node in http:
            if node is block or not any(name in arg.lower() for item in node.all() for arg in item.args):
                continue
            site = places.get((node.file, node.line))
            others = others or site is None or name in json.dumps(_raw(site.definition)).lower()
            if site is not None:
                users[site.name] = site
        if not others:
            for site in users.values():
                site.parts.append(Part(block.file, block.line, block.end))


def _raw(definition: SiteData) -> list[Any]:
    """Return the raw directives of all server blocks and locations in a site's definition, each as a dict of texts by
    engine.
    """
    owners = [owner for block in definition["blocks"] for owner in (block, *block["locations"])]
    return [owner["snippets"] for owner in owners if "snippets" in owner]
