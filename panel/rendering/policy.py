"""Allow-lists of raw directives, and the check of one directive against an allow-list.

A policy is data: a table of allowed directives with their contexts and argument kinds, and a table of refused ones with
the reason. A directive in neither table is refused too (docs/decisions/0413).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from panel.rendering.readers import Read
from panel.rendering.spec import WebServerSpec

UNKNOWN = (
    "sites cannot contain this directive. Use the site's settings. Somebody with a shell on the host can add other "
    "directives to the web server's own configuration"
)


@dataclass(frozen=True)
class Named:
    """File or folder of the host (`what` is "path"), or another server ("target"), named by raw directives."""

    what: str
    value: str


@dataclass(frozen=True)
class Where:
    """Context of a raw directive.

    `place` is "server", "location" or "" for either; `parents` are the raw blocks around it, outermost first; `names`
    are the environment variables that the snippet itself sets.
    """

    web_server: WebServerSpec
    directive: str = ""
    noted: list[Named] | None = field(default=None, compare=False)  # kinds append the resources that they find
    place: str = ""
    parents: tuple[str, ...] = ()
    names: frozenset[str] = frozenset()

    def note(self, what: str, value: str) -> None:
        if self.noted is not None:
            self.noted.append(Named(what, value))


# Functions return the problem or "". A kind checks one argument; a judge checks all arguments of a directive.
Kind = Callable[[str, Where], str]
Judge = Callable[[tuple[str, ...], Where], str]


@dataclass(frozen=True)
class Rule:
    """Rule for one allowed directive.

    `contexts`: letters of the allowed surrounding blocks, as returned by `Policy.context`. `slots`: names of kinds, one
    for each argument; `kind?` is optional, `kind*` and `kind+` repeat. A single slot `@name` stands for the function of
    `Policy.judges` that checks all arguments together. `is_block`: the directive must have a body.
    """

    contexts: str
    slots: tuple[str, ...]
    is_block: bool = False


@dataclass(frozen=True)
class Policy:
    """Allow-list of an engine's raw directives.

    `refused` maps directive names in lower case (a trailing * means any suffix) to reasons. `context` returns a letter
    for the block around a directive, or "" if unknown. `own` maps blocks whose body contains other lines than
    directives, such as rewrite rules, to the kind that checks each line.
    """

    read: Callable[[str], tuple[Read, ...]]
    allowed: Mapping[str, Rule]
    refused: Mapping[str, str]
    kinds: Mapping[str, Kind]
    judges: Mapping[str, Judge]
    context: Callable[[Where], str]
    own: Mapping[str, str] = field(default_factory=dict)
    names: Callable[[tuple[Read, ...]], frozenset[str]] = lambda _items: frozenset()
    every: Callable[[str], str] = lambda _value: ""  # checks every argument

    def problem(self, item: Read, where: Where) -> str:
        """Return an error message unless the directive is allowed. The body of a block is not checked."""
        name = key(item)
        rule = self.allowed.get(name)
        if rule is None:
            reason = self.reason(name)
            return f"sites cannot contain this directive: {reason}" if reason else UNKNOWN
        if rule.is_block != (item.body is not None):
            return (
                "this directive needs a block { … } or a section" if rule.is_block else "this directive takes no block"
            )
        context = self.context(where)
        if context and context not in rule.contexts:
            return "this directive is not allowed in this part of a site's configuration"
        return self._arguments(item.args, rule, where)

    def reason(self, name: str) -> str:
        """Return the reason why sites must not contain the directive `name`; "" if no row of `refused` names it."""
        if name in self.allowed:
            return ""
        if name in self.refused:
            return self.refused[name]
        found = (reason for row, reason in self.refused.items() if row.endswith("*") and name.startswith(row[:-1]))
        return next(found, "")

    def _arguments(self, args: tuple[str, ...], rule: Rule, where: Where) -> str:
        if message := next(filter(None, map(self.every, args)), ""):
            return message
        if rule.slots[:1] and rule.slots[0].startswith("@"):
            return self.judges[rule.slots[0][1:]](args, where)
        kinds = list(_fitted(rule.slots, len(args)))
        if len(kinds) != len(args):
            return f"the directive has {len(args)} arguments, but needs: {' '.join(rule.slots) or 'none'}"
        # evaluate all, because kinds record resources
        found = [self.kinds[kind](value, where) for kind, value in zip(kinds, args, strict=True)]
        return next(filter(None, found), "")


def key(item: Read) -> str:
    """Return the directive's name in lower case."""
    return item.name.lower()


def _fitted(slots: tuple[str, ...], count: int) -> Iterator[str]:
    """Yield the kind of each of `count` arguments. If the slots do not allow this number, more or fewer kinds are
    yielded.
    """
    needed = sum(slot[-1] not in "?*" for slot in slots)
    spare = count - needed
    for slot in slots:
        if slot[-1] == "?":
            if spare > 0:
                spare -= 1
                yield slot[:-1]
        elif slot[-1] in "*+":
            yield from [slot[:-1]] * (max(spare, 0) + (slot[-1] == "+"))
            spare = 0
        else:
            yield slot


def table(text: str) -> dict[str, Rule]:
    """Parse an allow-list of lines `names contexts kinds…`; return the rules by directive name.

    Names are separated by commas, `a_{b,c}_d` stands for two names, and a name that ends in `{}` is a block. Lines that
    begin with # are headings.
    """
    found: dict[str, Rule] = {}
    for line in text.split("\n"):
        if not line.strip() or line.startswith("#"):
            continue
        names, contexts, *slots = line.split()
        for name in _expanded(names):
            bare = name.removesuffix("{}").lower()
            if bare in found:
                raise ValueError(f"two rows for {bare}")
            found[bare] = Rule(contexts, tuple(slots), name.endswith("{}"))
    return found


def reasons(rows: Mapping[str, str]) -> dict[str, str]:
    """Convert a dict of reason -> directive names, separated by spaces, to a dict of name in lower case -> reason."""
    return {name.lower(): reason for reason, names in rows.items() for name in _expanded(",".join(names.split()))}


def _expanded(names: str) -> Iterator[str]:
    for name in re.split(r",(?![^{]*\})", names):
        if found := re.search(r"\{([^{}]+)\}", name):
            for choice in found[1].split(","):
                yield from _expanded(name[: found.start()] + choice + name[found.end() :])
        elif name:
            yield name
