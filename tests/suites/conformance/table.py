"""The table engine x feature as text for people: what is the same everywhere, what differs, what is not offered.

docs/engines.md holds it; `python -m tests.suites.conformance.table` writes it anew, and a test compares.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

from panel.rendering.capabilities import MEMBERS, TABLE, overview
from panel.rendering.spec import ENGINE_NAMES as ENGINES
from tests.suites.conformance.explained import EXPLAINED

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "engines.md"
LABELS = {"nginx": "nginx", "apache": "Apache", "openlitespeed": "OpenLiteSpeed", "native": "gallop"}
WORDS = {"same": "same", "different": "documented difference", "not_offered": "not offered"}
HEAD = """\
# What each engine does with a site

This page is generated from the tables that the editor shows and that `make conformance` checks on the running servers
(`python -m tests.suites.conformance.table` writes it). “Same” means: as nginx does. Where a row says otherwise, the
lists below say in which case, and what is used instead; the editor shows it beside the field before anything is
deployed, and only on sites that it concerns.

"""


def _title(member: str) -> str:
    kind, _, name = member.partition(".")
    words = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", kind).lower()
    name = re.sub(r"_s$", " (seconds)", re.sub(r"_mb$", " (MB)", name))
    return f"{words}: {name.replace('_', ' ')}"


def rows() -> Iterator[tuple[str, dict[str, str]]]:
    """Member by member in the model's order; the parts that are only containers are left out."""
    table = overview()
    for kind, members in MEMBERS.items():
        for name in members:
            member = f"{kind}.{name}"
            if member not in ("SiteSpec.name", "SiteSpec.blocks", "SiteSpec.challenge_folder"):
                yield _title(member), {engine: WORDS[table[member][engine]] for engine in ENGINES}


def markdown() -> str:
    lines = [HEAD, "| | " + " | ".join(LABELS[engine] for engine in ENGINES) + " |", "|---|" + "---|" * len(ENGINES)]
    lines += [f"| {title} | {' | '.join(found[engine] for engine in ENGINES)} |" for title, found in rows()]
    for engine in ENGINES:
        lines += ["", f"## {LABELS[engine]}", ""]
        lines += [f"- **{_title(member)}**: {text}" for member, text in _verdicts(engine)] or ["- nothing"]
    lines += ["", "## Requests", "", "What depends on the request alone, on any site:", ""]
    for item in EXPLAINED:
        if item.text:
            engines = dict.fromkeys("Apache" if name.startswith("apache") else name for name in item.engines)
            lines.append(f"- **{item.name}** ({', '.join(engines)}): {item.text}")
    return "\n".join(lines) + "\n"


def _verdicts(engine: str) -> Iterator[tuple[str, str]]:
    for member, row in TABLE.items():
        for verdict in row.get(engine, ()):
            yield member, f"{verdict.what} ({WORDS[verdict.severity]}). Instead: {verdict.nearest}."


def text() -> str:
    """For a terminal: one line for each row that is not the same everywhere, and the count of the others."""
    found = list(rows())
    unlike = [(title, row) for title, row in found if set(row.values()) != {"same"}]
    lines = [f"{'feature':45} " + " ".join(f"{LABELS[engine]:21}" for engine in ENGINES)]
    lines += [f"{title:45} " + " ".join(f"{row[engine]:21}" for engine in ENGINES) for title, row in unlike]
    return "\n".join([*lines, f"the same on every engine: {len(found) - len(unlike)} other features"])


if __name__ == "__main__":
    DOCUMENT.write_text(markdown())
