"""Regular expressions of users: PCRE semantics and bounded cost."""

from __future__ import annotations

import ast
import contextlib
import re
import threading
import time
from pathlib import Path

import pytest

from panel.rendering import pcre
from panel.rendering.errors import NotExpressible
from panel.rendering.lint import pumping

ROOT = Path(__file__).resolve().parents[2]

# Each with a text that takes a backtracking matcher time without end.
EXPONENTIAL = {
    r"^/(a+)+$": "/" + "a" * 4000 + "!",
    r"^/(a*)*$": "/" + "a" * 4000 + "!",
    r"^/(a|a)*$": "/" + "a" * 4000 + "!",
    r"^/(a|aa)+$": "/" + "a" * 4000 + "!",
    r"^/(\w+\s?)*\.html$": "/" + "a" * 4000,
    r"^/(.*a){20}$": "/" + "a" * 4000 + "!",
    r"^/([a-z]+-?)+\d$": "/" + "a" * 4000,
    r"^/(\w+\d+)+$": "/" + "a1" * 2000 + "!",
    r"^/(?:(?:(?:a+)?b?)+c?)+$": "/" + "ab" * 2000 + "!",
    r"^/((a+)\2?)+$": "/" + "a" * 4000 + "!",
    r"^(?=(a+)+$).*b": "a" * 4000 + "!",
    r"(x+x+)+y": "x" * 4000,
    r"^/(a?){60}a{60}$": "/" + "a" * 59,
}


# PCRE2 knows at once that these cannot match.
SEEN_THROUGH = {r"^/(\w+\s?)*\.html$", r"^(?=(a+)+$).*b", r"(x+x+)+y", r"^/(a?){60}a{60}$"}


@pytest.mark.parametrize("pattern", EXPONENTIAL)
def test_runaway_regular_expression_is_stopped(pattern: str) -> None:
    began, stopped = time.thread_time(), False
    try:
        assert pcre.search(pattern, EXPONENTIAL[pattern]) is None
    except pcre.TooSlow as error:
        stopped = "takes too long" in error.message
    assert time.thread_time() - began < 0.5
    assert stopped == (pattern not in SEEN_THROUGH)


def test_many_slow_matches_share_one_time_limit() -> None:
    began = time.thread_time()
    with pcre.budget():
        for number in range(1000):
            try:
                pcre.search(r"^/(a+)+$", "/" + "a" * (40 + number) + "!")
            except pcre.TooSlow:
                continue
    assert time.thread_time() - began < 0.5


def test_match_does_not_block_other_threads() -> None:
    """The library runs without Python's lock, so an expression does not stop the web process."""
    counted: list[int] = []
    done = threading.Event()

    def count() -> None:
        while not done.is_set():
            counted.append(1)

    thread = threading.Thread(target=count)
    thread.start()
    for _ in range(20):
        with pytest.raises(pcre.TooSlow):
            pcre.search(r"^/(a+)+$", "/" + "a" * 40 + "!")
    done.set()
    thread.join()
    assert len(counted) > 1000


@pytest.mark.parametrize(
    ("pattern", "text", "found"),
    [
        (r"^/(?<year>\d{4})/(.*)$", "/2026/x", {"1": "2026", "2": "x", "year": "2026"}),
        (r"^/(?P<year>\d+)", "/7", {"1": "7", "year": "7"}),
        (r"^/(?'year'\d+)", "/7", {"1": "7", "year": "7"}),
        (r"^/(a)?(b)?$", "/b", {"1": "", "2": "b"}),
        (r"^/(?>a+)b", "/aaab", {}),
        (r"^/a++b", "/aaab", {}),
        (r"^/[[:alpha:]]+\K\d", "/abc7", {}),
        (r"^/\Q.+\E$", "/.+", {}),
        (r"^/(?|(a)|(b))$", "/b", {"1": "b"}),
        (r"^/(\((?1)*\))$", "/(()())", {"1": "(()())"}),
        (r"^/.$", "/ä", None),  # two bytes, as in nginx
        (r"^/(..)$", "/ä", {"1": "ä"}),
        (r"^/a$", "/A", None),
        (r"\.php$", "/x.php\n", {}),
    ],
)
def test_regular_expression_follows_pcre(pattern: str, text: str, found: dict[str, str] | None) -> None:
    assert pcre.search(pattern, text) == found


def test_case_insensitive_match_is_supported() -> None:
    assert pcre.search(r"\.PHP$", "/x.php", nocase=True) == {}


@pytest.mark.parametrize("pattern", ["(", "a{3,1}", "[z-a]", r"(?<1>a)", "(?C256)", "((((" * 200])
def test_invalid_expression_is_rejected_with_pcre_message(pattern: str) -> None:
    with pytest.raises(NotExpressible, match="is not a valid regular expression"):
        pcre.search(pattern, "/")


@pytest.mark.parametrize(
    "pattern", ["(a{1,999}){1,999}", "(((a{1,99}){1,99}){1,99}){1,99}", r"(?R)", r"(*LIMIT_MATCH=4000000000)(a+)+$"]
)
def test_expression_cannot_raise_its_own_limits(pattern: str) -> None:
    began = time.thread_time()
    with contextlib.suppress(NotExpressible):
        pcre.search(pattern, "a" * 2000 + "!")
    assert time.thread_time() - began < 0.5


@pytest.mark.parametrize("pattern", [item for item in EXPONENTIAL if not re.search(r"\(\?=|\\2|\?\)\{", item)])
def test_lint_finds_text_with_slow_match(pattern: str) -> None:
    from panel.rendering.lint.expressions import explodes

    assert explodes(pattern) or pumping.slow_text(pattern), pattern


@pytest.mark.parametrize(
    "pattern",
    [
        r"\.php$",
        r"^/blog/(\d{4})/(\d{2})/(.*)$",
        r"^/([^/]+)/([^/]+)/?$",
        r"\.(?:jpe?g|png|gif|webp|css|js)$",
        r"^(.+\.php)(/.*)?$",
        r"^/(?:en|de|fr)(/.*)?$",
        r"^~?[a-z0-9-]+\.example$",
        r"^/(a|b|c)+/x$",
        r"^/wp-(?:admin|includes)/.*\.php$",
        r"^/index\.php(?:/|$)",
    ],
)
def test_lint_accepts_common_expressions(pattern: str) -> None:
    assert pumping.slow_text(pattern) == ""


# Calls of `re` with an expression that is not written there, and why none of them runs one that a user wrote.
BUILT_HERE = {
    "panel/accounts/services/sessions.py": "from a table above",
    "panel/websites/validators.py": "compiled only, to see whether Python takes it too",
    "panel/rendering/openlitespeed/plain_scripts.py": "suffixes of files, escaped",
    "panel/rendering/openlitespeed/scripts.py": "suffixes of files, escaped",
    "panel/rendering/lint/pumping.py": "parsed only",
    "panel/websites/traffic.py": "a site's name, escaped",
    "panel/rendering/explain.py": "a constant of another module",
    "panel/rendering/kinds.py": "from a table above",
    "panel/rendering/nginx/judges.py": "from a table below",
    "panel/rendering/outcome.py": "a constant of another module",
    "panel/rendering/patterns.py": "one character class, matched with single characters",
}


def test_user_expressions_are_run_by_pcre_module_only() -> None:
    found = set()
    for path in (ROOT / "panel").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if (
                isinstance(node, ast.Call)
                and isinstance(node.func, ast.Attribute)
                and isinstance(node.func.value, ast.Name)
                and node.func.value.id == "re"
                and node.func.attr not in ("escape",)
                and not _is_written_there(node.args[0])
            ):
                found.add(str(path.relative_to(ROOT)))
    assert found <= set(BUILT_HERE), found - set(BUILT_HERE)


def _is_written_there(node: ast.expr) -> bool:
    """A literal, perhaps joined with others or with what `re.escape` made."""
    if isinstance(node, ast.BinOp):
        return _is_written_there(node.left) and _is_written_there(node.right)
    if isinstance(node, ast.JoinedStr):
        return all(isinstance(part, ast.Constant) or _is_written_there(part.value) for part in node.values)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Attribute) and node.func.attr == "escape"
    return isinstance(node, ast.Constant) or (isinstance(node, ast.Name) and node.id.isupper())
