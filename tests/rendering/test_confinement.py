"""Paths with request data: which of them provably stay below their folder."""

from __future__ import annotations

import random
import re
from itertools import product

import pytest

from panel.rendering import variables
from panel.rendering.confinement import CLIMBS, Verdict, is_confined, verdict

CONFINED, NO_BREAKS, MAY_CLIMB = Verdict.CONFINED, Verdict.CONFINED_WITHOUT_LINE_BREAKS, Verdict.MAY_CLIMB
KNOWN = [
    ("/new/$1", r"^/old/([a-z0-9-]+)$", CONFINED),
    ("/$1.php", r"^/(.*)\.html$", CONFINED),
    ("/$1/$2", r"^/(\w+)/([^/]+)/x", CONFINED),
    ("$uri", "", CONFINED),
    ("$uri/index.html", "", CONFINED),
    ("/cache/$host$uri", "", CONFINED),
    ("/srv/photos/$year-$2", r"^/photos/(?<year>\d{4})/(.+\.jpg)$", CONFINED),
    ("/new/$1", "^/old/(.*)$", NO_BREAKS),
    ("/new/$1", "^/old/(.*)", NO_BREAKS),
    ("/$2/$1", "^/([^/]+)/(.*)$", NO_BREAKS),
    ("/store/$1", "(?i)^/shop/(.+)$", NO_BREAKS),
    ("/$1$2/$3", "^/(.)(.)a/(.*)$", MAY_CLIMB),
    ("/$1", r"^/(.*)\.html$", MAY_CLIMB),
    ("/$1", "^/f(?=x)(.*)$", MAY_CLIMB),
    ("/../$1", "^/(.*)$", MAY_CLIMB),
    ("/.$1.", r"^/(\d*)", MAY_CLIMB),
    ("$uri..", "", MAY_CLIMB),
    ("$1", "^/(.*)$", MAY_CLIMB),
    ("/$1", "", MAY_CLIMB),
    *[(f"/${name}", "", MAY_CLIMB) for name in ("arg_f", "http_x", "cookie_x", "args", "request_uri", "remote_user")],
]


@pytest.mark.parametrize(("template", "pattern", "expected"), KNOWN)
def test_known_template_has_expected_verdict(template: str, pattern: str, expected: Verdict) -> None:
    assert verdict(template, pattern=pattern) is expected
    assert is_confined(template, pattern=pattern) == (expected is CONFINED)


PIECES = [
    "/",
    ".",
    "a",
    "(.)",
    "(.*)",
    "(.+)",
    "([^/]*)",
    "([^/.]+)",
    "(a|\\.)",
    "(?:/(.*))?",
    "(\\.*)",
    "(.*?)",
    "\\W",
]


def _paths() -> list[str]:
    found = ["/" + "".join(letters) for size in range(6) for letters in product("/.a\n", repeat=size)]
    return [path for path in found if ".." not in path.split("/")]


def test_confined_template_never_leaves_folder() -> None:
    """Each path of up to six letters with random expressions, captured by Python's `re`."""
    chance, paths = random.Random(16), _paths()
    proven = {CONFINED: 0, NO_BREAKS: 0}
    for _ in range(900):
        pattern = chance.choice(["^/", "^", ""]) + "".join(chance.choices(PIECES, k=chance.randint(1, 4)))
        pattern += chance.choice(["$", "", "\\Z"])
        count = re.compile(pattern).groups
        parts = [f"${number}" for number in range(1, count + 1)] + ["/", "x", ".", "$uri"]
        template = "/" + "".join(chance.choices(parts, k=chance.randint(1, 4)))
        found = verdict(template, pattern=pattern)
        if found is MAY_CLIMB:
            continue
        proven[found] += 1
        for path in paths:
            if found is NO_BREAKS and "\n" in path:
                continue
            made = _made(template, pattern, path)
            assert made is None or not re.search(CLIMBS.removesuffix(r"|\x0a"), made.replace("\n", "x")), (
                f"{pattern} makes {made!r} of {path!r} by {template}, which is {found}"
            )
    assert min(proven.values()) > 10


def _made(template: str, pattern: str, path: str) -> str | None:
    match = re.search(pattern, path)
    if match is None:
        return None
    values = {str(number): value or "" for number, value in enumerate(match.groups(), 1)} | {"uri": path}
    parts = variables.parse(template, "")
    return "".join(part if isinstance(part, str) else values[part.name] for part in parts)
