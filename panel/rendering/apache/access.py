"""Translate nginx's access rules (first match wins) and basic authentication into Apache's directives."""

from __future__ import annotations

from dataclasses import dataclass

from panel.rendering import checks, handlers
from panel.rendering.apache.quoting import expression, plain
from panel.rendering.spec import AccessRule, Location
from panel.rendering.tree import Node, block, directive


@dataclass(frozen=True)
class All:
    """Requirement that grants or denies access to everybody."""

    granted: bool


@dataclass(frozen=True)
class Rule:
    words: tuple[str, ...]


@dataclass(frozen=True)
class Group:
    name: str  # RequireAny or RequireAll
    parts: tuple[Requirement, ...]


Requirement = All | Rule | Group


def require(source: Location, at: str) -> list[Node]:
    """Return the directives for a location's access rules and basic authentication; [] without both.

    Addresses are checked before the password, as in nginx, so a denied address gets 403.
    """
    lines: list[Node] = []
    wanted: list[Requirement] = []
    if source.access_rules:
        wanted.append(_first_match(source.access_rules, f"{at}/access_rules", 0))
    if source.basic_auth is not None:
        field = f"{at}/basic_auth"
        realm = handlers.realm(source.basic_auth.realm, f"{field}/realm")
        # httpd escapes quotes in the header it sends, but not backslashes (RFC 9110 section 5.6.4).
        realm = expression(realm.replace("\\", "\\\\"))
        lines += [directive("AuthType", "Basic"), directive("AuthName", realm), directive("AuthBasicProvider", "file")]
        path = plain(checks.path(source.basic_auth.path, f"{field}/path"), f"{field}/path")
        lines.append(directive("AuthUserFile", path))
        wanted.append(Rule(("valid-user",)))
    if not wanted:
        return lines
    whole = wanted[0] if len(wanted) == 1 else _group("RequireAll", *wanted)
    return [*lines, _print(whole)]


def _first_match(rules: tuple[AccessRule, ...], at: str, number: int) -> Requirement:
    if number == len(rules):
        return All(granted=True)
    rule = rules[number]
    source = checks.source(rule.source, f"{at}/{number}/source")
    if source == "all":
        return All(granted=rule.action == "allow")
    rest = _first_match(rules, at, number + 1)
    if rule.action == "allow":
        return _group("RequireAny", Rule(("ip", source)), rest)
    return _group("RequireAll", Rule(("not", "ip", source)), rest)


def _group(name: str, *parts: Requirement) -> Requirement:
    """Combine requirements to a group of the kind `name` (RequireAny or RequireAll) in its shortest form; return the
    result.

    Requirements that cannot change the result are left out. Nested groups of the same kind are merged into one. If only
    one requirement remains, the result is this requirement without a group.
    """
    deciding = name == "RequireAny"  # the result of the group as soon as one part grants access
    flat: list[Requirement] = []
    for part in parts:
        if isinstance(part, All) and part.granted == deciding:
            return part
        flat += part.parts if isinstance(part, Group) and part.name == name else [part]
    kept: list[Requirement] = [part for part in flat if not isinstance(part, All)]
    if all(isinstance(part, Rule) and part.words[0] == "not" for part in kept):
        kept.insert(0, All(granted=True))  # httpd rejects a group that holds only negations
    return kept[0] if len(kept) == 1 else Group(name, tuple(kept))


def _print(requirement: Requirement) -> Node:
    if isinstance(requirement, All):
        return directive("Require", "all", "granted" if requirement.granted else "denied")
    if isinstance(requirement, Rule):
        return directive("Require", *requirement.words)
    return block(requirement.name, body=[_print(part) for part in requirement.parts], gap=False)
