"""Selectors for imports and the sites found in them. Administrators only: an import is a whole configuration."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db.models import QuerySet

from panel.accounts.models import User
from panel.accounts.permissions import Action, may
from panel.imports.models import Import
from panel.imports.report import FoundSite, Item, Outcome, Report, counted
from panel.websites.models import Site


def imports_visible(user: User) -> QuerySet[Import]:
    """Return all imports, newest first, without loading their content, for administrators; none for other users."""
    rows = Import.objects.select_related("web_server__host", "created_by").defer("content")
    return rows if may(user, Action.ADMINISTER) else rows.none()


_ORDER: tuple[Outcome, ...] = ("refused", "changed", "snippet", "mapped", "kept")


@dataclass(frozen=True)
class Row:
    """A site found in an import, for lists. `site`: the site created from it, None before; `counts`: numbers of
    directives by outcome.
    """

    found: FoundSite
    counts: Mapping[str, int]
    places: tuple[str, ...]
    site: Site | None

    @property
    def domains(self) -> list[str]:
        """Domain names of the site, without duplicates: HTTP and HTTPS blocks share them."""
        return list(dict.fromkeys(name for block in self.found.definition["blocks"] for name in block["names"]))

    @property
    def listens(self) -> list[str]:
        found = [listen for block in self.found.definition["blocks"] for listen in block["listens"]]
        return list(dict.fromkeys(_listen_words(listen) for listen in found))

    @property
    def items(self) -> list[Item]:
        """Directives of the site, those that need attention first. Directives with the same outcome keep the order of
        the files.
        """
        return sorted(self.found.items, key=lambda item: _ORDER.index(item.outcome))

    @property
    def losses(self) -> list[str]:
        """Directives that adopting would drop, each as "site: directive"."""
        return [f"{self.found.name}: {item.text}" for item in self.found.refused]

    @property
    def is_open(self) -> bool:
        """True if the site can be adopted."""
        return self.site is None and not self.found.problems


def _listen_words(listen: Mapping[str, object]) -> str:
    address = str(listen.get("address") or "")
    where = f"[{address}]:" if ":" in address else f"{address}:" if address else ""
    return f"{where}{listen['port']}{' TLS' if listen.get('tls') else ''}"


def rows_of(record: Import, report: Report) -> list[Row]:
    sites = Site.objects.in_bulk(list(record.adopted.values()))
    return [_row(found, sites.get(record.adopted.get(found.name, 0))) for found in report.sites]


def _row(found: FoundSite, site: Site | None) -> Row:
    places = tuple(dict.fromkeys(f"{part.file}:{part.first}" for part in found.parts))
    return Row(found, found.counts(), places, site)


def mapped_share(counts: Mapping[str, int]) -> float | None:
    """Return the percentage of mapped or changed directives among all directives that belong to sites; None if no
    directive belongs to a site.
    """
    total = sum(counts[name] for name in ("mapped", "changed", "snippet", "refused"))
    return 100 * (counts["mapped"] + counts["changed"]) / total if total else None


def totals(report: Report) -> dict[str, int]:
    return counted(report.all_items())
