"""Drop and report Apache's CGI directives, because sites have no CGI; the sections around them are kept."""

from __future__ import annotations

from dataclasses import replace

from panel.imports.reading import Node

_INSTEAD = (
    "run the program as a FastCGI or HTTP service and let a location pass requests to this service, or do not "
    "adopt this virtual host"
)
PATHS = (
    f"Paddock does not import CGI because sites cannot start programs. These paths will respond with 404; {_INSTEAD}"
)
FILES = (
    "Paddock does not import CGI because sites cannot start programs. The web server would send the source of "
    f"scripts in the site's folders to everybody, so move the scripts; {_INSTEAD}"
)
_PATHS = ("scriptalias", "scriptaliasmatch", "virtualscriptalias", "virtualscriptaliasip")
_HANDLERS = ("addhandler", "sethandler")


def why(node: Node) -> str:
    """Return the reason to drop a CGI directive; "" for other directives."""
    if node.low in _PATHS:
        return PATHS
    values = [value.lower() for value in node.args]
    if node.low in _HANDLERS and any(value in ("cgi-script", "application/x-httpd-cgi") for value in values[:1]):
        return FILES
    if node.low == "options" and any(value.lstrip("+") == "execcgi" for value in values):
        return FILES
    return FILES if node.low in ("action", "scriptsock", "scriptlog") else ""


def without(node: Node) -> tuple[Node | None, list[tuple[Node, str]]]:
    """Return (the directive without its CGI parts, [(removed part, reason)]). The first item is None if nothing of the
    directive remains.
    """
    if reason := why(node):
        return _options(node), [(node, reason)]
    if node.body is None:
        return node, []
    kept, lost = [], []
    for item in node.body:
        left, gone = without(item)
        lost += gone
        if left is not None:
            kept.append(left)
    return (replace(node, body=tuple(kept)) if kept or not lost else None), lost


def _options(node: Node) -> Node | None:
    """Return an Options directive without ExecCGI; None for other directives, or if nothing remains. A list without +
    that becomes empty turns into `Options None`.
    """
    if node.low != "options":
        return None
    words = tuple(word for word in node.args if word.lower().lstrip("+") != "execcgi")
    if not words and not node.value.startswith("+"):
        words = ("None",)
    return replace(node, args=words) if words else None
