"""Map RewriteRule and RewriteCond to rewrites, redirects and try_files of a site.

All rules of a virtual host or .htaccess file are mapped, or none, because their order matters. OpenLiteSpeed's rewrite
rules have the same syntax.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field

from panel.imports.mapping.common import fits
from panel.imports.nodes import Node
from panel.rendering import rewriting
from panel.rendering.spec import Rewrite
from panel.websites import shapes
from panel.websites.definitions import RewriteData

_VARIABLES = {"%{HTTP_HOST}": "$http_host", "%{SERVER_NAME}": "$host", "%{REQUEST_SCHEME}": "$scheme"}
_LAST = {"L", "END", "PT"}
_CODES = {"R": "redirect", "R=302": "redirect", "R=TEMP": "redirect", "R=301": "permanent", "R=PERMANENT": "permanent"}
PLACELESS = "sites do not support this form of rewrite rule"
KEPT_QUERY = "$is_args$args"
# Paths that name the requested file in a file test.
_FILES = ("%{REQUEST_FILENAME}", "%{DOCUMENT_ROOT}%{REQUEST_URI}", "%{DOCUMENT_ROOT}/%{REQUEST_URI}")
_FILES_OF_HOST = (*_FILES[1:], "%{DOCUMENT_ROOT}%{REQUEST_FILENAME}", "%{DOCUMENT_ROOT}/%{REQUEST_FILENAME}")
ANYTHING = ("^", ".", ".*", "^.*$", "(.*)", "^(.*)$", "^(.+)$", "^.+$", "^/(.*)$", "^/.*$", "^/", "/(.*)", "^/?(.*)$")
# `RewriteRule .* - [E=HTTP_AUTHORIZATION:...]`, which passes the Authorization header to programs.
_AUTHORIZATION = re.compile(r"\[E=HTTP_AUTHORIZATION:", re.I)


@dataclass(frozen=True)
class Found:
    """Result of mapping rewrite rules. `why`: the reason if sites cannot express the rules, else "". `note`: a
    difference between the rules and the site, else "".
    """

    rewrites: list[RewriteData] = field(default_factory=list)
    try_files: list[str] = field(default_factory=list)
    why: str = ""
    note: str = ""


@dataclass(frozen=True)
class _Rule:
    """A RewriteRule with its conditions."""

    node: Node
    conditions: tuple[Node, ...]

    @property
    def flags(self) -> set[str]:
        text = self.node.args[2] if len(self.node.args) > 2 else ""
        return {part.strip().upper() for part in text.strip("[]").split(",") if part.strip()}

    @property
    def pattern(self) -> str:
        return self.node.args[0] if self.node.args else ""

    @property
    def target(self) -> str:
        return self.node.args[1] if len(self.node.args) > 1 else ""


def found(own: Sequence[Node], *, hands_back: bool = False, folder: str = "") -> Found:
    """Map the rewrite rules among the directives `own` of a virtual host or .htaccess file.

    `hands_back`: the server chooses the location again for a rewritten path, as with Apache's [PT]. `folder`: the
    folder of a .htaccess file, to which the paths in its rules are relative; "" for a virtual host.
    """
    bases = [node.value for node in own if node.low == "rewritebase"]
    base = f"{bases[-1].rstrip('/')}/" if bases and folder else folder
    others = {node.low for node in own} & {"rewriteoptions", "rewritefile", "rewritemap"}
    rules, dangling = _rules(own)
    if others or dangling:
        return Found(why=PLACELESS)
    note = (
        "PHP receives the Authorization header also without this rule"
        if any(_passes_on(rule) for rule in rules)
        else ""
    )
    rules = [rule for rule in rules if not _passes_on(rule)]
    tries = _front(rules[-1], folder, base, hands_back) if rules else []
    if tries:
        controller = tries[-1].removesuffix(KEPT_QUERY)
        rules = [rule for rule in rules[:-1] if not _is_of(rule, controller)]
    if any(rule.conditions for rule in rules):
        return Found(why="sites do not support conditions of rewrite rules")
    rewrites: list[RewriteData] = []
    for rule in rules:
        item = _rewrite(rule, hands_back or bool(folder), folder, base)
        if item is None:
            return Found(why=PLACELESS)
        if why := fits(shapes.validate_rewrites, [item]) or fits(lambda row: rewriting.check(Rewrite(**row), ""), item):
            return Found(why=why)
        rewrites.append(item)
    return Found(rewrites, tries, note=note)


def _rules(own: Sequence[Node]) -> tuple[list[_Rule], bool]:
    """Return the RewriteRules with their conditions, and whether conditions remain after the last rule."""
    rules: list[_Rule] = []
    conditions: list[Node] = []
    for node in own:
        if node.low == "rewritecond":
            conditions.append(node)
        elif node.low == "rewriterule":
            rules.append(_Rule(node, tuple(conditions)))
            conditions = []
    return rules, bool(conditions)


def is_on(own: Sequence[Node]) -> bool:
    said = [node.value.lower() for node in own if node.low == "rewriteengine"]
    return bool(said) and said[-1] == "on"


def _passes_on(rule: _Rule) -> bool:
    return passes_on(rule.node)


def passes_on(node: Node) -> bool:
    """Return whether a RewriteRule only passes the Authorization header to programs."""
    if node.low != "rewriterule" or len(node.args) != 3 or node.args[1] != "-":
        return False
    return bool(_AUTHORIZATION.match(node.args[2])) and "," not in node.args[2]


def _front(rule: _Rule, folder: str, base: str, hands_back: bool) -> list[str]:
    """Return the try_files equivalent of a rule that sends requests for missing files to one program; [] for other
    rules.
    """
    asked = set()
    for node in rule.conditions:
        subject, test, *flags = (*node.args, "", "")
        named = _FILES if folder or hands_back else _FILES_OF_HOST
        if subject.upper() not in named or test not in ("!-f", "!-d", "!-l") or any(filter(None, flags)):
            return []
        asked.add(test)
    query = rule.target.partition("?")[1:]
    target = rule.target if rule.target.startswith("/") or not folder else f"{base}{rule.target}"
    plain = re.fullmatch(r"/[A-Za-z0-9_./-]+\.[A-Za-z0-9]+", target)
    known = rule.flags <= {"L", "END", "QSA", "PT", "NC"}
    if "!-f" not in asked or rule.pattern not in ANYTHING or not (plain and known) or any(query):
        return []
    return ["$uri", *(["$uri/"] if "!-d" in asked else []), f"{target}{KEPT_QUERY}"]


def _is_of(rule: _Rule, controller: str) -> bool:
    r"""Return whether a rule only exempts the path of the program `controller` from rewriting, such as `RewriteRule
    ^index\.php$ - [L]`. With try_files no such rule is needed.
    """
    bare = re.escape(controller.lstrip("/"))
    return rule.target == "-" and rule.flags <= {"L", "END"} and not rule.conditions and rule.pattern in (
        f"^{bare}$", f"^/{bare}$", f"^/?{bare}$", f"{bare}$",
    )  # fmt: skip


def _rewrite(rule: _Rule, hands_back: bool, folder: str, base: str) -> RewriteData | None:
    """Map one RewriteRule without conditions; None if sites have no equivalent.

    With `hands_back` or the flag PT, Apache chooses the section again for the new path, as a site does. Otherwise,
    Apache uses the new path as a file path, for which sites have no equivalent.
    """
    flags, target = rule.flags, rule.target
    pattern = _whole(rule.pattern, folder)
    kinds = [_CODES[flag] for flag in flags if flag in _CODES]
    rest = flags - set(_CODES) - {*_LAST, "NC", "QSA", "QSD"}
    if rest or len(kinds) > 1 or not flags & _LAST or not pattern or target in ("", "-"):
        return None
    if folder and not target.startswith("/") and "://" not in target and not target.startswith("%{"):
        target = f"{base}{target}"
    if not kinds and (not (hands_back or "PT" in flags) or not target.startswith("/")):
        return None
    for name, ours in _VARIABLES.items():
        target = target.replace(name, ours)
    if re.search(r"[%\\]|\$0|\$\{", target):
        return None
    if "NC" in flags:
        pattern = f"(?i){pattern}"
    drops = "QSD" in flags or ("?" in target and "QSA" not in flags)
    target = target if not drops or target.endswith("?") else f"{target}?"
    return {"pattern": pattern, "replacement": target, "flag": kinds[0] if kinds else "last"}


def _whole(pattern: str, folder: str) -> str:
    """Return a rule's pattern as a regular expression for the whole path; "" if the pattern cannot be converted.
    Patterns in a .htaccess file match the path after its folder.
    """
    if not folder:
        return pattern if pattern.startswith(("^/", "/")) else ""
    prefix = f"^{re.escape(folder)}"
    if pattern in ("(.*)", ".*", "^", "."):
        return prefix + {"(.*)": "(.*)", ".*": "", "^": "", ".": "."}[pattern]
    if not pattern.startswith("^") or "|" in re.sub(r"\([^()]*\)", "", pattern):
        return ""
    return prefix + pattern[1:].removeprefix("/?")


def always_holds(conditions: Sequence[Node], names: set[str], *, is_tls: bool) -> bool:
    """Return whether the conditions of a rewrite rule hold for every request to a virtual host.

    Such conditions compare the host name with the virtual host's names, as certbot's do (`%{SERVER_NAME} =shop.example
    [OR]`), or require a connection without TLS.
    """
    asked: set[str] = set()
    for node in conditions:
        subject, test = (*node.args, "", "")[:2]
        if subject.upper() == "%{HTTPS}" and not is_tls:
            if test.lower() not in ("off", "=off", "!=on", "!on", "!^$", "!^on$", "^off$"):
                return False
        elif subject.upper() == "%{SERVER_PORT}" and not is_tls:
            if test not in ("!443", "!^443$", "!=443"):
                return False
        elif subject.upper() in ("%{SERVER_NAME}", "%{HTTP_HOST}") and test.startswith("="):
            asked.add(test[1:].lower())
        else:
            return False
    return not asked or (bool(names) and asked >= names)
