"""What nginx and gallop are told so that no path that a site makes leaves its folder (see rendering.confinement).

Only what the analysis cannot prove is checked while serving: a value is put together as the directive after it does,
and refused with 403 where it steps up.
"""

from __future__ import annotations

from panel.rendering import confinement, exclusive, variables
from panel.rendering.confinement import Verdict
from panel.rendering.locations import Place
from panel.rendering.nginx.quoting import bounded, no_variables
from panel.rendering.nginx.scope import Scope
from panel.rendering.spec import Location, Rewrite, ServerBlock
from panel.rendering.tree import Directive, Node, block, directive


def line_breaks(source: ServerBlock) -> list[Node]:
    """`.*` and `$` of an expression end before a line break: what they capture might end in `..`."""
    if not confinement.refuses_line_breaks(source):
        return []
    comment = "Captures end at a line break, so no path may hold one"
    return [_refused("$uri", "~", confinement.LINE_BREAK, 400, comment=comment, gap=True)]


def folders(scope: Scope, source: ServerBlock, at: str) -> list[Node]:
    """gallop opens files beneath the site's own folders only, wherever a link leads."""
    found = confinement.folders(source) if scope.dialect.confine_files else ()
    return [directive("confine_files", *(no_variables(folder, f"{at}/root") for folder in found))] if found else []


def before_rewrite(scope: Scope, item: Rewrite, at: str) -> list[Node]:
    """A check of the path that this rewrite makes."""
    if confinement.of_rewrite(item) is not Verdict.MAY_CLIMB:
        return []
    name, known = _variable(scope, "rewrite", at), variables.captures_of(item.pattern)
    made = scope.dollars.complex(item.replacement.partition("?")[0], f"{at}/replacement", known)
    key = bounded(f"~{item.pattern}", f"{at}/pattern")
    scope.maps.append(block("map", "$uri", f"${name}", body=[directive("volatile"), directive(key, made)]))
    return [_stepping_up(scope, name)]


def try_files(scope: Scope, items: tuple[str, ...], at: str, place: Place) -> list[Node]:
    """The directive, after a check of each item that may step up. Such an item is put together once, so that what is
    tried is what was checked."""
    location, known = place.location, _captures(place.location)
    checks: list[Node] = []
    words = [scope.dollars.complex(item, f"{at}/{number}", known) for number, item in enumerate(items)]
    for number, item in enumerate(items):
        if confinement.of_item(location, number) is not Verdict.MAY_CLIMB:
            continue
        field, name = f"{at}/{number}", _variable(scope, "try", f"{at}/{number}")
        path = confinement.try_path(location, number)
        rest = item[len(path) :]
        if number < len(items) - 1 and path.endswith("/"):  # which says in the directive that it is a folder
            path, rest = path[:-1], "/"
        checks.append(directive("set", f"${name}", scope.dollars.complex(path, field, known)))
        checks.append(_stepping_up(scope, name))
        words[number] = f"${name}{scope.dollars.complex(rest, field, known)}"
    return [*checks, directive("try_files", *words)] if words else []


def of_alias(location: Location) -> list[Node]:
    """Of a location without a final slash: only the path itself and what lies below it."""
    if not confinement.is_loose(location):
        return []
    return [_refused("$uri", "!~", f"^{exclusive.quote(location.pattern)}(?:/|$)", 404)]


def _captures(location: Location) -> frozenset[str]:
    return variables.captures_of(location.pattern) if location.match in ("~", "~*") else frozenset()


def _variable(scope: Scope, kind: str, at: str) -> str:
    numbers = "_".join(part for part in at.split("/") if part.isdigit())
    return scope.variable(f"{kind}_{numbers}")


def _stepping_up(scope: Scope, name: str) -> Directive:
    """By a map: a regular expression in `if` that does not match would empty the location's captures."""
    body = [directive("volatile"), directive("default", 0), directive(f"~{confinement.CLIMBS}", 1)]
    scope.maps.append(block("map", f"${name}", f"${name}_up", body=body))
    return block("if", f"(${name}_up)", body=[directive("return", 403)], gap=False)


def _refused(subject: str, test: str, pattern: str, status: int, *, comment: str = "", gap: bool = False) -> Directive:
    return block("if", f"({subject}", test, f"{pattern})", body=[directive("return", status)], comment=comment, gap=gap)
