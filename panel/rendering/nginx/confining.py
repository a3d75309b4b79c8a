"""Render directives that keep paths built by a site inside its folder (see rendering.confinement).

Paths that an analysis proves safe need no check. For the others, nginx checks each request: it assembles the path as
the directive does, and sends 403 if the path contains `..`.
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
    """Return a directive that rejects paths with line breaks; [] if the server block builds no paths from captures that
    need this.

    In a regular expression `.*` and `$` stop at a line break, so a capture that ends at a line break could end in `..`.
    """
    if not confinement.refuses_line_breaks(source):
        return []
    comment = "Captures end at a line break, so no path may hold one"
    return [_refused("$uri", "~", confinement.LINE_BREAK, 400, comment=comment, gap=True)]


def folders(scope: Scope, source: ServerBlock, at: str) -> list[Node]:
    """Return the directive with which gallop opens only files below the server block's folders, even through symbolic
    links.

    [] for nginx, and for versions of gallop without this directive.
    """
    found = confinement.folders(source) if scope.dialect.confine_files else ()
    return [directive("confine_files", *(no_variables(folder, f"{at}/root") for folder in found))] if found else []


def before_rewrite(scope: Scope, item: Rewrite, at: str) -> list[Node]:
    """Return directives that check the path built by a rewrite; an empty list if the path cannot leave the site's
    folder.
    """
    if confinement.of_rewrite(item) is not Verdict.MAY_CLIMB:
        return []
    name, known = _variable(scope, "rewrite", at), variables.captures_of(item.pattern)
    made = scope.dollars.complex(item.replacement.partition("?")[0], f"{at}/replacement", known)
    key = bounded(f"~{item.pattern}", f"{at}/pattern")
    scope.maps.append(block("map", "$uri", f"${name}", body=[directive("volatile"), directive(key, made)]))
    return [_stepping_up(scope, name)]


def try_files(scope: Scope, items: tuple[str, ...], at: str, place: Place) -> list[Node]:
    """Return the try_files directive, after a check of each item that can leave the site's folder.

    Such an item is assembled once, so the tested path is the path that is used.
    """
    location, known = place.location, _captures(place.location)
    checks: list[Node] = []
    words = [scope.dollars.complex(item, f"{at}/{number}", known) for number, item in enumerate(items)]
    for number, item in enumerate(items):
        if confinement.of_item(location, number) is not Verdict.MAY_CLIMB:
            continue
        field, name = f"{at}/{number}", _variable(scope, "try", f"{at}/{number}")
        path = confinement.try_path(location, number)
        rest = item[len(path) :]
        if number < len(items) - 1 and path.endswith("/"):  # marks a folder in the directive
            path, rest = path[:-1], "/"
        checks.append(directive("set", f"${name}", scope.dollars.complex(path, field, known)))
        checks.append(_stepping_up(scope, name))
        words[number] = f"${name}{scope.dollars.complex(rest, field, known)}"
    return [*checks, directive("try_files", *words)] if words else []


def of_alias(location: Location) -> list[Node]:
    """Return a directive that restricts an alias of a prefix such as `/x` to `/x` and paths below it: `/xy` gets 404.

    [] for other locations.
    """
    if not confinement.is_loose(location):
        return []
    return [_refused("$uri", "!~", f"^{exclusive.quote(location.pattern)}(?:/|$)", 404)]


def _captures(location: Location) -> frozenset[str]:
    return variables.captures_of(location.pattern) if location.match in ("~", "~*") else frozenset()


def _variable(scope: Scope, kind: str, at: str) -> str:
    numbers = "_".join(part for part in at.split("/") if part.isdigit())
    return scope.variable(f"{kind}_{numbers}")


def _stepping_up(scope: Scope, name: str) -> Directive:
    """Return an `if` that sends 403 if the variable `name` contains a `..` segment.

    The `if` tests a map, because a failing regular expression in `if` would clear the location's captures.
    """
    body = [directive("volatile"), directive("default", 0), directive(f"~{confinement.CLIMBS}", 1)]
    scope.maps.append(block("map", f"${name}", f"${name}_up", body=body))
    return block("if", f"(${name}_up)", body=[directive("return", 403)], gap=False)


def _refused(subject: str, test: str, pattern: str, status: int, *, comment: str = "", gap: bool = False) -> Directive:
    return block("if", f"({subject}", test, f"{pattern})", body=[directive("return", status)], comment=comment, gap=gap)
