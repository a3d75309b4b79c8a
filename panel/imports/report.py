"""Data of an import's result: sites, the outcome of every directive, and the lines of files that define sites."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, dataclass, field
from typing import Any, Literal

from panel.imports.reading import Fault, Node
from panel.websites.definitions import SiteData

Outcome = Literal["mapped", "changed", "snippet", "refused", "kept"]
OUTCOMES: tuple[Outcome, ...] = ("mapped", "changed", "snippet", "refused", "kept")


@dataclass(frozen=True)
class Item:
    """One directive of an import and its outcome, one of five.

    `mapped`: the site has an equivalent setting. `changed`: the site differs slightly; `note` explains how. `snippet`:
    kept as a raw directive. `refused`: not allowed in sites; adopting the site drops the directive. `kept`: not part of
    a site; the directive stays in the server's files. `where` is a part of the site's definition, for example blocks/0.
    """

    file: str
    line: int
    text: str
    outcome: Outcome
    note: str = ""
    where: str = ""


@dataclass(frozen=True)
class CertificateFiles:
    """Paths of the certificate files of a server block; `block` is the index of the block in its site."""

    block: int
    certificate: str
    key: str
    chain: str = ""


@dataclass(frozen=True)
class Part:
    """Lines of a file that define a site; the first deployment of the adopted site removes them."""

    file: str
    first: int
    last: int


@dataclass
class FoundSite:
    """A site found in a configuration. `definition` is the input of websites.services.site_define."""

    name: str
    definition: SiteData
    items: list[Item] = field(default_factory=list)
    parts: list[Part] = field(default_factory=list)
    certificates: list[CertificateFiles] = field(default_factory=list)
    folders: list[str] = field(default_factory=list)  # not yet among the host's site folders
    problems: list[str] = field(default_factory=list)  # reasons why the panel cannot store the definition
    enabled: bool = True  # False: the server does not load the file

    @property
    def refused(self) -> list[Item]:
        return [item for item in self.items if item.outcome == "refused"]

    def counts(self) -> dict[str, int]:
        return counted(self.items)


@dataclass
class Report:
    """Result of an import: the found sites and the outcomes of all directives.

    `items`: directives outside of sites. `files`: number of files read. `ports`: ports on which Apache listens because
    of its own files. `listeners`: listeners in OpenLiteSpeed's own files, with the fields of
    rendering.spec.OwnListener.
    """

    engine: str
    sites: list[FoundSite] = field(default_factory=list)
    items: list[Item] = field(default_factory=list)
    faults: list[Fault] = field(default_factory=list)
    files: int = 0
    ports: list[int] = field(default_factory=list)
    listeners: list[dict[str, Any]] = field(default_factory=list)

    def all_items(self) -> Iterable[Item]:
        for site in self.sites:
            yield from site.items
        yield from self.items


def counted(items: Iterable[Item]) -> dict[str, int]:
    found = Counter(item.outcome for item in items)
    return {name: found[name] for name in OUTCOMES}


def to_json(report: Report) -> dict[str, object]:
    return asdict(report)


def from_json(data: dict[str, Any]) -> Report:
    """Return the Report for a dict from `to_json`."""
    sites = [
        FoundSite(
            site["name"],
            site["definition"],
            [Item(**item) for item in site["items"]],
            [Part(**part) for part in site["parts"]],
            [CertificateFiles(**files) for files in site["certificates"]],
            site["folders"],
            site["problems"],
            site.get("enabled", True),
        )
        for site in data["sites"]
    ]
    items, faults = [Item(**item) for item in data["items"]], [Fault(**fault) for fault in data["faults"]]
    listeners = data.get("listeners", [])
    return Report(data["engine"], sites, items, faults, data["files"], data["ports"], listeners)


def shown(node: Node) -> str:
    """Return a directive as one line of a report, at most 198 characters."""
    text = " ".join((node.name, *node.args))
    return (text[:197] + "…") if len(text) > 198 else text
