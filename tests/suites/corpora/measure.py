"""One corpus: which of its files can be read, and what of their sites the model says."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

from panel.imports.mapping import mapped
from panel.imports.reading import Fault, Loaded, Loader, Node, SourceFile
from panel.imports.report import FoundSite, Report
from panel.rendering.spec import WebServerSpec
from tests.suites.corpora.pins import Corpus

# Below these a site's files may lie, so that no path is the reason why a directive has no place.
ROOTS = ("/var", "/srv", "/usr/share", "/usr/lib", "/etc", "/home", "/opt")
LOGS = {"nginx": "/var/log/nginx", "apache": "/var/log/apache2"}
VARIABLES = {"APACHE_LOG_DIR": LOGS["apache"]}  # as Debian's envvars have it
_HOLDERS = {"server", "http", "virtualhost"}


@dataclass
class Figures:
    """`outcomes` counts the directives of sites; `crashes` must stay empty."""

    files: int = 0
    read: int = 0
    sites: int = 0
    refused: list[Fault] = field(default_factory=list)
    crashes: list[str] = field(default_factory=list)
    outcomes: Counter[str] = field(default_factory=Counter)
    reasons: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float | None:
        """Percent of the directives of sites that have a place in the model."""
        total = sum(self.outcomes.values())
        return 100 * (self.outcomes["mapped"] + self.outcomes["changed"]) / total if total else None

    def add(self, other: Figures) -> None:
        self.files += other.files
        self.read += other.read
        self.sites += other.sites
        self.refused += other.refused
        self.crashes += other.crashes
        self.outcomes += other.outcomes
        self.reasons += other.reasons


def measured(corpus: Corpus, root: Path) -> Figures:
    figures = Figures()
    for engine, path in files_of(corpus, root):
        _file(figures, engine, path, corpus.inside)
    return figures


def files_of(corpus: Corpus, root: Path) -> list[tuple[str, Path]]:
    """The corpus's files, each with the web server that reads it."""
    found = {(engine, path) for engine, pattern in corpus.files for path in root.glob(pattern)}
    return sorted((engine, path) for engine, path in found if path.is_file())


def sites_of(engine: str, path: Path, *, inside: bool) -> list[FoundSite]:
    """The sites of one file; none if it cannot be read."""
    loaded = _loaded(engine, path)
    if any(not fault.message.endswith("is not there") for fault in loaded.faults):
        return []
    return _report(engine, _within(loaded, engine) if inside else loaded).sites


def _loaded(engine: str, path: Path) -> Loaded:
    source = SourceFile(str(path), path.read_bytes().decode("utf-8", "replace"))
    # What it includes is a file of its own here, or none of the corpus.
    return Loader(engine, lambda _pattern: [], "/etc", VARIABLES).load_file(source)


def _file(figures: Figures, engine: str, path: Path, inside: bool) -> None:
    figures.files += 1
    try:
        loaded = _loaded(engine, path)
        unreadable = [fault for fault in loaded.faults if not fault.message.endswith("is not there")]
        if unreadable:
            figures.refused += unreadable
            return
        figures.read += 1
        whole = _within(loaded, engine) if inside else loaded
        _count(figures, engine, whole)
        figures.outcomes["mapped"] -= whole is not loaded  # the holder that was put around it
    except Exception as error:
        figures.crashes.append(f"{path}: {type(error).__name__}: {error}")


def _within(loaded: Loaded, engine: str) -> Loaded:
    """What stands in no virtual host, in one; what only a main file may say stays outside."""
    if any(node.low in _HOLDERS for node in loaded.nodes) or not loaded.nodes:
        return loaded
    outside = [node for node in loaded.nodes if engine == "nginx" and node.low in ("upstream", "map")]
    body = tuple(node for node in loaded.nodes if node not in outside)
    first, last = loaded.nodes[0], loaded.nodes[-1]
    name, args = ("server", ()) if engine == "nginx" else ("VirtualHost", ("*:80",))
    holder = Node(name, args, first.file, first.line, last.end, body)
    return Loaded((*outside, holder), loaded.faults, loaded.files)


def _report(engine: str, loaded: Loaded) -> Report:
    web_server = WebServerSpec(
        engine=engine,  # type: ignore[arg-type]
        config_root=f"/etc/{engine}",
        log_dir=LOGS[engine],
        layout="sites",
        site_roots=ROOTS,
    )
    return mapped(loaded, web_server, "/etc")


def _count(figures: Figures, engine: str, loaded: Loaded) -> None:
    report = _report(engine, loaded)
    figures.sites += len(report.sites)
    for site in report.sites:
        for item in site.items:
            figures.outcomes[item.outcome] += 1
            if item.outcome in ("snippet", "refused"):
                figures.reasons[f"{item.outcome}: {item.text.split()[0].lower()}"] += 1
