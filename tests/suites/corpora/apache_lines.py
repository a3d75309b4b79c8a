"""Lines of published sites beside the lines that Apache gets for them: `python -m tests.suites.corpora --apache`.

Each site is stored in a database in memory as an import would store it, and rendered for Apache. Only lines with a
directive or with the beginning or end of a section count. Raw directives of nginx are not rendered for Apache.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction

from panel.core.errors import ApplicationError
from panel.imports.report import FoundSite, Part
from panel.rendering import render
from panel.rendering.errors import NotExpressible
from panel.rendering.spec import SiteSpec, TlsFiles, WebServerSpec
from panel.websites import freeze, presets
from panel.websites.services import site_define
from tests.suites.attack.paths.accepted_definitions import database
from tests.suites.conformance.generator import generate
from tests.suites.conformance.world import World
from tests.suites.corpora.measure import ROOTS, files_of, sites_of
from tests.suites.corpora.pins import Corpus
from tests.support.cast import Cast, cast

APACHE = WebServerSpec("apache", "sites", "/etc/apache2", "/var/log", "2.4.71", site_roots=ROOTS)
NGINX = replace(APACHE, engine="nginx", config_root="/etc/nginx", version="1.22.1")
GENERATED, CHANCE = 400, 77123
HEAD = ("corpus", "sites", "refused", "with rewrites", "general", "lines before", "lines after")
# The comment above general rules, with one reason for each location or for the server block.
_GENERAL = re.compile(r"# Paddock writes several rules for each rewrite of (.*)")
_REASON = re.compile(r", because (.*?)(?=; location |$)")
_ANSWERS = presets.Answers("/srv/www/shop", "unix:/run/php/php8.2-fpm.sock", "127.0.0.1:3000", "https://b.example/")


@dataclass
class Lines:
    """Counts of a corpus. `general`: names of sites with the rules for paths that choose their location again."""

    sites: int = 0
    refused: list[str] = field(default_factory=list)
    rewriting: int = 0
    general: list[str] = field(default_factory=list)
    before: int = 0
    after: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, other: Lines) -> None:
        self.sites += other.sites
        self.refused += other.refused
        self.rewriting += other.rewriting
        self.general += other.general
        self.before += other.before
        self.after += other.after
        self.reasons += other.reasons

    def row(self, name: str) -> tuple[str, ...]:
        counts = (self.sites, len(self.refused), self.rewriting, len(self.general), self.before, self.after)
        return (name, *map(str, counts))


INTRODUCTION = """\
# Lines of sites on Apache

`python -m tests.suites.corpora --apache --write` imports every site of the pinned corpora into a database in memory,
renders it for Apache and writes this page. A line counts if it has a directive, or the beginning or end of a section;
comments and empty lines do not count. *Before* is the published file; for presets and generated sites, it is the same
site rendered for nginx. *After* is the file for Apache. *General* counts the sites with a location or server block that
needs the general rules, which request a rewritten path internally. A comment above these rules gives the reason.

An imported Apache site also gets lines that its own file leaves to the web server's main files: the settings of its
folders, and the headers with which it responds as on the other web servers. Raw directives of nginx are not rendered
for Apache.
"""


def page(corpora: Iterable[tuple[str, Corpus, Path]]) -> str:
    """Table of the corpora, presets and generated sites, then the reasons for general rules, and refused sites."""
    with database():
        who = cast()
        who.host.site_roots = [root for root in ROOTS if root != "/etc"]
        who.host.save()
        found = {name: lines_of(corpus, root, who) for name, corpus, root in corpora}
        presets_ = lines_of_presets(who)
    generated, total = lines_of_generated(), Lines()
    for lines in found.values():
        total.add(lines)
    rows = [HEAD, ("---", *("---:" for _ in HEAD[1:])), *(lines.row(name) for name, lines in found.items())]
    others = {"presets": presets_, f"{GENERATED} generated sites, chance {CHANCE}": generated}
    rows += [total.row("all corpora"), *(lines.row(name) for name, lines in others.items())]
    parts = [INTRODUCTION, "\n".join("| " + " | ".join(row) + " |" for row in rows), ""]
    parts += ["## Reasons for general rules in the generated sites", "", "| reason | times |", "| --- | ---: |"]
    parts += [f"| {reason} | {times} |" for reason, times in generated.reasons.most_common()]
    parts += ["", "## Sites with general rules in the corpora and presets", ""]
    parts += [f"- {line}" for line in total.general + presets_.general] or ["None."]
    parts += ["", "## Refused sites", "", *(f"- {line}" for line in total.refused)]
    return "\n".join(parts) + "\n"


def lines_of(corpus: Corpus, root: Path, who: Cast) -> Lines:
    """Counts of the corpus's sites. `who` has a host whose folder for sites is `/`."""
    found = Lines()
    for engine, path in files_of(corpus, root):
        for site in sites_of(engine, path, inside=corpus.inside):
            label = f"{path.relative_to(root)}: {site.name}"
            try:
                found.add(_counted(label, _frozen(_storable(site), site, who), _source_lines(site.parts)))
            except (ValidationError, ApplicationError, NotExpressible) as error:
                found.add(Lines(1, [f"{label}: {error}"]))
    return found


def lines_of_presets(who: Cast) -> Lines:
    """Counts of the presets of new sites, beside the lines of the same site for nginx."""
    found = Lines()
    for name, preset in presets.PRESETS.items():
        parts = preset.parts(_ANSWERS)
        data = {"name": name, "blocks": [{"names": [f"{name}.example"], "listens": [{"port": 80}], **parts.block}]}
        spec = _frozen(data | {"upstreams": parts.upstreams, "php_pools": parts.php_pools}, None, who)
        found.add(_counted(name, spec, _nginx_lines(spec)))
    return found


def lines_of_generated() -> Lines:
    """Counts of generated sites of the conformance suite, beside the lines of the same site for nginx."""
    found = Lines()
    where = World(80, "/srv/www", "127.0.0.1:3000", "unix:/run/php/php8.2-fpm.sock")
    for number, item in enumerate(generate(where, sites=GENERATED, requests=1, chance=CHANCE)):
        found.add(_counted(f"generated {number}", item.spec, _nginx_lines(item.spec)))
    return found


def _nginx_lines(spec: SiteSpec) -> list[str]:
    return list(_directives(_text(spec, NGINX).splitlines()))


def _counted(label: str, spec: SiteSpec, before: list[str]) -> Lines:
    text = _text(spec, APACHE)
    after = list(_directives(text.splitlines()))
    is_rewriting = any(block.rewrites or any(item.rewrites for item in block.locations) for block in spec.blocks)
    comments = _GENERAL.findall(text)
    general = [f"{label}: {len(before)} lines before, {len(after)} after"] if comments else []
    reasons = Counter(reason for comment in comments for reason in _REASON.findall(comment))
    return Lines(1, [], int(is_rewriting), general, len(before), len(after), reasons)


def _text(spec: SiteSpec, web_server: WebServerSpec) -> str:
    return next(file.text for file in render(spec, web_server) if not file.link_target)


def _source_lines(parts: Iterable[Part]) -> list[str]:
    spans = sorted({(part.file, part.first, part.last) for part in parts})
    files = {name: Path(name).read_bytes().decode("utf-8", "replace").splitlines() for name, _, _ in spans}
    return [line for name, first, last in spans for line in _directives(files[name][first - 1 : last])]


def _directives(lines: Iterable[str]) -> Iterator[str]:
    """Lines without comments and empty ones."""
    return (line for line in lines if line.strip() and not line.lstrip().startswith("#"))


def _storable(site: FoundSite) -> dict[str, Any]:
    """The definition without certificates, whose files are not in the corpus."""
    blocks = [{**block, "certificate": None} for block in site.definition["blocks"]]
    return {**site.definition, "blocks": blocks}


def _frozen(data: dict[str, Any], site: FoundSite | None, who: Cast) -> SiteSpec:
    """The site as it would be deployed; nothing of it stays in the database."""
    with transaction.atomic():
        try:
            row = site_define(actor=who.admin, data={**data, "team": "shop", "web_server": who.apache.pk})
            spec = freeze.site_spec(row, who.apache)
        finally:
            transaction.set_rollback(True)
    files = {item.block: TlsFiles("tls", item.certificate, item.key) for item in site.certificates} if site else {}
    blocks = (replace(block, tls=files.get(number)) for number, block in enumerate(spec.blocks))
    return replace(spec, blocks=tuple(blocks))
