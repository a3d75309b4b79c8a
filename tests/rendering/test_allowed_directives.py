"""The allow-lists of raw directives classify every directive of every web server."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from panel.rendering import snippets
from panel.rendering.policy import Policy
from panel.rendering.snippets import POLICIES
from tests.rendering.cases import WEB_SERVERS
from tests.support.process import tool

ROOT = Path(__file__).resolve().parents[2]
FOLDER = Path(__file__).parent / "directives"
ENGINES = ("nginx", "apache", "openlitespeed")


def cases(verdict: str) -> list[tuple[str, str]]:
    """The snippets of directives/ENGINE.VERDICT.conf, which empty lines separate."""
    files = ((engine, (FOLDER / f"{engine}.{verdict}.conf").read_text(encoding="utf-8")) for engine in ENGINES)
    return [(engine, text) for engine, whole in files for text in whole.rstrip("\n").split("\n\n")]


def listed(engine: str) -> set[str]:
    """The directives of directives/ENGINE.txt: those that nginx's own tests use, the keywords of OpenLiteSpeed."""
    return set((FOLDER / f"{engine}.txt").read_text(encoding="utf-8").split())


def directives_of_gallop() -> set[str]:
    """Of the directive table's source: the first string of each row."""
    found: set[str] = set()
    for path in (ROOT / "native" / "conf" / "src" / "directives").glob("*.rs"):
        tables = re.findall(r"const \w*TABLE: &\[Spec\] = &\[(.*?)\n\];", path.read_text(encoding="utf-8"), re.DOTALL)
        for text in tables:
            found |= set(re.findall(r"^    \w+\(\s*\"([a-z][a-z0-9_]+)\"", text, re.MULTILINE))
    assert len(found) > 200, "the directive table was not found"
    return found


def directives_of_apache(folder: Path) -> set[str]:
    """What the installed httpd lists with all its modules loaded (`apache2 -L`)."""
    modules = Path("/usr/lib/apache2/modules")
    names = sorted(path.stem.removeprefix("mod_") for path in modules.glob("mod_*.so"))
    first = [
        name for name in ("mpm_event", "dav", "watchdog", "proxy", "session", "dbd", "ldap", "cache") if name in names
    ]
    order = first + [name for name in names if name not in first and not name.startswith("mpm_")]
    lines = [f"LoadModule {name}_module {modules}/mod_{name}.so" for name in order]
    config = folder / "all.conf"
    config.write_text("\n".join([f"ServerRoot {folder}", "ServerName x", f"ErrorLog {folder}/e", *lines, ""]))
    argv = [tool("apache2"), "-d", str(folder), "-f", str(config), "-L"]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    found = {name.lower() for name in re.findall(r"^<?([A-Za-z][A-Za-z0-9_]*) \(", done.stdout, re.MULTILINE)}
    assert len(found) > 500, done.stderr
    return found


def unclassified(policy: Policy, names: set[str]) -> list[str]:
    return sorted(name for name in names if name.lower() not in policy.allowed and not policy.reason(name.lower()))


def test_every_nginx_directive_is_classified() -> None:
    assert unclassified(POLICIES["nginx"], listed("nginx")) == []


def test_every_gallop_directive_is_classified() -> None:
    assert unclassified(POLICIES["native"], directives_of_gallop()) == []


def test_every_apache_directive_is_classified(tmp_path: Path) -> None:
    assert unclassified(POLICIES["apache"], directives_of_apache(tmp_path)) == []


def test_every_openlitespeed_keyword_is_classified() -> None:
    assert unclassified(POLICIES["openlitespeed"], listed("openlitespeed")) == []


@pytest.mark.parametrize("engine", POLICIES)
def test_allow_list_rows_have_known_kinds_and_one_verdict(engine: str) -> None:
    policy = POLICIES[engine]
    slots = {slot for rule in policy.allowed.values() for slot in rule.slots}
    unknown = {slot for slot in slots if slot[1:] not in policy.judges and slot.rstrip("?*+") not in policy.kinds}
    assert not unknown
    assert not policy.allowed.keys() & policy.refused.keys()


@pytest.mark.parametrize(("engine", "text"), cases("refused"))
def test_directive_that_leaves_site_is_rejected(engine: str, text: str) -> None:
    problems = snippets.check(text, WEB_SERVERS[engine])
    assert problems and all(problem.line and problem.message for problem in problems)


@pytest.mark.parametrize("text", [text for engine, text in cases("refused") if engine == "nginx"])
def test_gallop_rejects_directives_that_nginx_rejects(text: str) -> None:
    assert snippets.check(text, WEB_SERVERS["native"])


@pytest.mark.parametrize(("engine", "text"), cases("allowed"))
def test_common_directive_is_allowed(engine: str, text: str) -> None:
    assert snippets.check(text, WEB_SERVERS[engine]) == []


def test_unknown_directive_is_rejected_with_alternative() -> None:
    (problem,) = snippets.check("gzip on;\nfrobnicate on;", WEB_SERVERS["nginx"])
    assert str(problem).startswith("line 2, frobnicate: sites cannot contain this directive.")
    assert "server's own configuration" in problem.message
