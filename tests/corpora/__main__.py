"""`make corpora`: every file parses or is refused with its file and line; the share of directives that map."""

from __future__ import annotations

import os
import sys
import tempfile
from pathlib import Path

import django

from tests.corpora.fetch import fetched
from tests.corpora.measure import Figures, measured
from tests.corpora.pins import CORPORA

HEAD = ("corpus", "files", "read", "refused", "sites", "directives", "mapped", "nearly", "raw", "lost", "in the model")


def _row(name: str, figures: Figures) -> tuple[str, ...]:
    found = figures.outcomes
    share = "–" if figures.share is None else f"{figures.share:.1f} %"
    counts = [figures.files, figures.read, figures.files - figures.read, figures.sites, sum(found.values())]
    counts += [found[outcome] for outcome in ("mapped", "changed", "snippet", "refused")]
    return (name, *(str(count) for count in counts), share)


def main() -> int:
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "panel.settings")
    django.setup()
    total, crashes = Figures(), []
    rows = [HEAD, ("---", *("---:" for _ in HEAD[1:]))]
    refusals = []
    with tempfile.TemporaryDirectory(prefix="corpora-") as folder:
        for corpus in CORPORA:
            root = fetched(corpus, Path(folder) / corpus.package)
            figures = measured(corpus, root)
            rows.append(_row(f"{corpus.name} {corpus.version}", figures))
            refusals += [
                f"{corpus.name}: {Path(fault.file).relative_to(root)}:{fault.line} {fault.message}"
                for fault in figures.refused
            ]
            crashes += figures.crashes
            total.files += figures.files
            total.read += figures.read
            total.sites += figures.sites
            total.outcomes += figures.outcomes
            total.reasons += figures.reasons
    rows.append(_row("all", total))
    print("\n".join("| " + " | ".join(row) + " |" for row in rows))
    print("\nRefused, with file and line:\n" + "\n".join(f"- {line}" for line in refusals))
    print("\nMost frequent without a place: " + ", ".join(f"{name} {n}" for name, n in total.reasons.most_common(25)))
    for line in crashes:
        print(f"CRASH {line}", file=sys.stderr)
    nowhere = [line for line in refusals if ":0 " in line]
    return 1 if crashes or nowhere else 0


if __name__ == "__main__":
    sys.exit(main())
