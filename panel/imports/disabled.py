"""Find disabled sites, whose files the web server does not load: conf.d/NAME.conf.disabled, and files in
sites-available without a link.

Their files are read as if they were included, and their sites are marked as disabled.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from panel.imports.mapping import mapped
from panel.imports.mapping.common import free_name
from panel.imports.reading import Loaded, Loader, Node, SourceFile
from panel.imports.report import FoundSite, Report
from panel.rendering.layout import DISABLED, keeps_disabled
from panel.rendering.spec import WebServerSpec
from panel.websites.definitions import ListenData

_HOLDERS = ("server", "virtualhost")
_NO_SITES = (".bak", ".dpkg-dist", ".dpkg-old", ".dpkg-new", ".rpmnew", ".rpmsave", ".orig", ".save", ".swp", "~")


def take(
    report: Report, loader: Loader, web_server: WebServerSpec, root: str, prefix: str, skip: Iterable[str]
) -> None:
    """Add the disabled sites below `root`, the web server's configuration folder, to the import's report, except those
    in `skip`: paths of files that the panel wrote.
    """
    live, seen = loader.loaded, set(skip)
    around = _around(live.nodes)
    taken = {site.name for site in report.sites}
    defaults = {_socket(listen) for site in report.sites for listen in _listens(site) if listen.get("default_server")}
    for file in files_of(loader, root):
        if file.path in seen:
            continue
        read = Loader(web_server.engine, loader.find, loader.prefix, loader.variables).load_file(file)
        found = mapped(Loaded((*around, *read.nodes), read.faults, read.files), web_server, prefix)
        report.faults += read.faults
        report.files += len(read.files)
        live.files.update(read.files)
        for site in found.sites:
            site.name = free_name(site.name, taken)
            site.definition["name"] = site.name
            site.enabled = False
            for listen in _listens(site):  # a disabled site does not become the default server by its position
                listen["default_server"] = listen.get("default_server", False) and _socket(listen) not in defaults
            # Lines shared with live sites, such as an upstream, stay in their files.
            site.parts = [part for part in site.parts if part.file in read.files]
            taken.add(site.name)
            report.sites.append(site)


def files_of(loader: Loader, root: str) -> list[SourceFile]:
    """Return the files of disabled sites below `root`, the web server's configuration folder."""
    if not keeps_disabled(loader.engine):
        return []
    known = {name for file in loader.loaded.files.values() for name in (file.path, file.real) if name}
    root = root.rstrip("/")
    found = [*loader.find(f"{root}/conf.d/*.conf{DISABLED}"), *loader.find(f"{root}/sites-available/*")]
    sites = [file for file in found if not file.path.endswith(_NO_SITES)]
    return [file for file in sites if file.path not in known and (file.real or file.path) not in known]


def _listens(site: FoundSite) -> list[ListenData]:
    return [listen for block in site.definition["blocks"] for listen in block["listens"]]


def _socket(listen: ListenData) -> tuple[str, int]:
    return (str(listen.get("address", "")), int(listen["port"]))


def _around(nodes: Sequence[Node]) -> list[Node]:
    """Return the directives of a configuration that are outside of sites. Disabled sites inherit these directives."""
    http = [child for node in nodes if node.low == "http" for child in node.body or ()]
    return [node for node in (http or nodes) if node.low not in _HOLDERS]
