"""The results of a whole run as docs/results/conformance.md; every figure and table is computed."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from pathlib import Path

from panel.rendering.spec import ENGINE_NAMES as ENGINES
from tests.suites.conformance import table
from tests.suites.conformance.progress import Progress
from tests.suites.conformance.servers import OPENLITESPEED

DOCUMENT = Path(__file__).resolve().parents[3] / "docs" / "results" / "conformance.md"
KEPT = "## OpenLiteSpeed"
HEAD = """\
# One definition, the same responses

`make conformance` deploys the same sites to every web server of this host and sends the same requests to each of them
over raw sockets. It compares status, body and the headers that a site controls with the responses of nginx. In the same
run, the results of “Which location?” are compared with the running web servers. A difference counts as documented only
if a row of the tables in [engines.md](../engines.md) names it. This run:

    {command}

    {line}

| part | responses compared | documented differences | differences |
|---|---:|---:|---:|
"""


def line(versions: Mapping[str, str], progress: Progress) -> str:
    """The closing line: engines, requests compared, differences."""
    found = progress.whole()
    names = ", ".join(f"{name} {version}" for name, version in versions.items())
    return f"{names}: {found.compared} requests compared, {len(found.unexplained)} differences"


def write(versions: Mapping[str, str], numbers: tuple[int, int, int, int], progress: Progress) -> None:
    DOCUMENT.write_text(markdown(versions, numbers, progress))


def markdown(versions: Mapping[str, str], numbers: tuple[int, int, int, int], progress: Progress) -> str:
    sites, requests, explained, chance = numbers
    command = f"python -m tests.suites.conformance --sites {sites} --requests {requests}"
    command += f" --explained {explained} --chance {chance}"
    lines = [HEAD.format(command=command, line=line(versions, progress)).rstrip("\n")]
    labels = {
        "fixed": "fixed cases, every web server",
        "generated": f"{sites} generated sites x {requests} requests, each web server compared with nginx",
        "explained": f"“Which location?”, {explained} requests of each site, every web server",
    }
    for prefix, label in labels.items():
        part = progress.whole(f"{prefix}:")
        lines.append(f"| {label} | {part.compared} | {part.known.total()} | {len(part.unexplained)} |")
    system = platform.freedesktop_os_release()["PRETTY_NAME"]
    lines += ["", f"Host: {system}, {os.cpu_count()} CPUs.", "", "Documented differences that the requests met:", ""]
    found = progress.whole().known
    lines += [f"- {name}: {count}" for name, count in sorted(found.items())] or ["- none"]
    lines += [] if OPENLITESPEED.name in versions else _kept_section()
    return "\n".join([*lines, "", "## Feature by feature", "", *_features(), ""])


def _kept_section() -> list[str]:
    """The section about OpenLiteSpeed from the existing document, for a run without OpenLiteSpeed."""
    before = DOCUMENT.read_text() if DOCUMENT.exists() else ""
    _start, found, rest = before.partition(f"\n{KEPT}\n")
    return ["", KEPT, rest.partition("\n## ")[0].rstrip("\n")] if found else []


def _features() -> list[str]:
    """The capability table, engine by engine."""
    lines = ["| | " + " | ".join(table.LABELS[engine] for engine in ENGINES) + " |", "|---|" + "---|" * len(ENGINES)]
    return lines + [f"| {title} | {' | '.join(found[engine] for engine in ENGINES)} |" for title, found in table.rows()]
