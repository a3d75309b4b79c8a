"""`make corpora`: every file parses or is refused with its file and line; the share of directives that map.

`python -m tests.suites.corpora --folder apache=PATH` measures the configurations of a local folder, for instance those
of a repository, instead of the pinned ones. With `--apache`: the lines of each site beside those rendered for Apache.
"""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import django

from tests.suites.corpora.fetch import fetched
from tests.suites.corpora.measure import Figures, measured
from tests.suites.corpora.pins import CORPORA, Corpus

ROOT = Path(__file__).resolve().parents[3]
HEAD = (
    "corpus",
    "files",
    "read",
    "refused",
    "sites",
    "directives",
    "mapped",
    "approximated",
    "raw",
    "lost",
    "mapped or approximated",
)


def _row(name: str, figures: Figures) -> tuple[str, ...]:
    found = figures.outcomes
    share = "–" if figures.share is None else f"{figures.share:.1f} %"
    counts = [figures.files, figures.read, figures.files - figures.read, figures.sites, sum(found.values())]
    counts += [found[outcome] for outcome in ("mapped", "changed", "snippet", "refused")]
    return (name, *(str(count) for count in counts), share)


def _pinned() -> Iterator[tuple[str, Corpus, Path]]:
    with tempfile.TemporaryDirectory(prefix="corpora-") as folder:
        for corpus in CORPORA:
            root, version = fetched(corpus, Path(folder) / corpus.package)
            yield f"{corpus.name} {version}", corpus, root


def _local(folders: list[str]) -> Iterator[tuple[str, Corpus, Path]]:
    for given in folders:
        engine, _, path = given.partition("=")
        root = Path(path).resolve()
        yield root.name, Corpus(root.name, root.name, "", "", ((engine, "**/*.conf"), (engine, "**/sites-*/*"))), root


def main(given: list[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.suites.corpora")
    parser.add_argument("--folder", action="append", default=[], help="ENGINE=PATH, instead of what is pinned")
    parser.add_argument("--apache", action="store_true", help="count lines before and after, for Apache")
    parser.add_argument("--write", action="store_true", help="with --apache: docs/results/apache-lines.md")
    options = parser.parse_args(given)
    os.environ.setdefault("DJANGO_SETTINGS_MODULE", "panel.settings")
    django.setup()
    corpora = _local(options.folder) if options.folder else _pinned()
    return _apache_lines(corpora, write=options.write) if options.apache else _mapped(corpora)


def _apache_lines(corpora: Iterator[tuple[str, Corpus, Path]], *, write: bool) -> int:
    from tests.suites.corpora import apache_lines  # its models need Django's setup

    text = apache_lines.page(corpora)
    if write:
        (ROOT / "docs" / "results" / "apache-lines.md").write_text(text)
    print(text)
    return 0


def _mapped(corpora: Iterator[tuple[str, Corpus, Path]]) -> int:
    total, crashes = Figures(), []
    rows = [HEAD, ("---", *("---:" for _ in HEAD[1:]))]
    refusals = []
    for name, corpus, root in corpora:
        figures = measured(corpus, root)
        rows.append(_row(name, figures))
        refusals += [
            f"{corpus.name}: {Path(fault.file).relative_to(root)}:{fault.line} {fault.message}"
            for fault in figures.refused
        ]
        crashes += figures.crashes
        total.add(figures)
    rows.append(_row("all", total))
    print("\n".join("| " + " | ".join(row) + " |" for row in rows))
    print("\nRefused, with file and line:\n" + "\n".join(f"- {line}" for line in refusals))
    print("\nMost frequent without a place: " + ", ".join(f"{name} {n}" for name, n in total.reasons.most_common(25)))
    for line in crashes:
        print(f"CRASH {line}", file=sys.stderr)
    nowhere = [line for line in refusals if ":0 " in line]
    return 1 if crashes or nowhere else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
