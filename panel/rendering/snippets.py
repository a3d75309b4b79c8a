"""Raw directives in a server's own words: read by that server's grammar, dangerous ones refused.

Source: the attack classes that panels of this kind met: code loaded into the server, files included from elsewhere,
commands run by a log or a filter, paths outside the folders that a host gives to its sites.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from panel.rendering.apache import policy as apache_policy
from panel.rendering.errors import NotExpressible
from panel.rendering.nginx import policy as nginx_policy
from panel.rendering.openlitespeed import policy as openlitespeed_policy
from panel.rendering.policy import Policy
from panel.rendering.readers import Read, Unreadable
from panel.rendering.roots import is_below
from panel.rendering.spec import InstallSpec

POLICIES: dict[str, Policy] = {
    "nginx": nginx_policy.POLICY,
    "native": nginx_policy.POLICY,
    "apache": apache_policy.POLICY,
    "openlitespeed": openlitespeed_policy.POLICY,
}


@dataclass(frozen=True)
class Problem:
    """What is wrong with a snippet; `line` counts from 1 within it, `directive` may be empty."""

    line: int
    directive: str
    message: str

    def __str__(self) -> str:
        name = f", {self.directive}" if self.directive else ""
        return f"line {self.line}{name}: {self.message}"


def check(text: str, install: InstallSpec) -> list[Problem]:
    """Everything that is wrong with the snippet for this install; empty when it may be used."""
    policy = POLICIES[install.engine]
    text = text.rstrip("\n")  # what is rendered: a backslash before the last newline would join what follows
    for number, line in enumerate(text.split("\n"), 1):
        for character in line:
            if (ord(character) < 32 and character != "\t") or ord(character) == 127:
                return [Problem(number, "", f"holds the control character U+{ord(character):04X}; remove it")]
    try:
        found = policy.read(text)
    except Unreadable as error:
        return [Problem(error.line, "", error.message)]
    return [
        Problem(item.line, item.name, message) for item in _all(found) if (message := _judge(item, policy, install))
    ]


def require(text: str, install: InstallSpec, at: str) -> str:
    """The snippet itself; NotExpressible at `at` when `check` finds something."""
    if problems := check(text, install):
        raise NotExpressible(at, "; ".join(str(problem) for problem in problems))
    return text.strip("\n")


def _all(items: Iterable[Read]) -> Iterator[Read]:
    for item in items:
        yield item
        yield from _all(item.body or ())


def _judge(item: Read, policy: Policy, install: InstallSpec) -> str:
    name = item.name.lower()
    for pattern, reason in policy.refused.items():
        if name == pattern or (pattern.endswith("*") and name.startswith(pattern[:-1])):
            return f"is not allowed in a site: {reason}"
    if message := policy.judge(item):
        return message
    if policy.takes_path(name):
        allowed = (*install.site_roots, install.log_dir)
        if name in policy.passwords:
            allowed += (install.config_root,)
        for value in policy.paths(item):
            if not is_below(value, allowed):
                roots = ", ".join(filter(None, allowed))
                return f"“{value}” is outside the folders of this host's sites ({roots}); use a path below one of them"
    return ""
