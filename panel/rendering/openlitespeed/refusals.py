"""Refuse methods (405) with the response headers of the location.

A virtual host's rule that refuses a request sends no headers, because no context is chosen yet
(HttpSession::processVHostRewrite in src/http). So such a rule only marks the request, and a rule of the context refuses
the request. Each context with a regular expression needs this second rule; for all prefix contexts, the rule of the
context `/` suffices. Contexts of upstreams have no rules, so only requests for files are marked.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from panel.rendering.apache.quoting import line as rewrite_line
from panel.rendering.apache.quoting import rewrite_regex
from panel.rendering.exclusive import quote
from panel.rendering.readers import Unreadable
from panel.rendering.readers.openlitespeed import read
from panel.rendering.spec import ServerBlock
from panel.rendering.tree import Directive, Lines, Node, block, directive

MARK = "PADDOCK_REFUSED"
_REFUSED = "[R=405,L]"
REFUSED = (directive("RewriteRule", "^", "-", _REFUSED),)


def with_status(code: int) -> tuple[Directive, ...]:
    """Return the rewrite rule with which a context sends the status `code` for every request."""
    return (directive("RewriteRule", "^", "-", f"[R={code},L]"),)


def says_itself(snippet: str, name: str) -> bool:
    """Return whether raw directives contain the block `name`; False if they cannot be parsed, which another check
    reports.
    """
    try:
        return name in {item.name for item in read(snippet)}
    except Unreadable:
        return False


def are_marked(source: ServerBlock) -> bool:
    """Return whether rules of contexts refuse methods for files, so that the responses have headers. A rule of the
    virtual host then only marks the request.
    """
    has_headers = (
        source.headers or source.hsts_max_age_s is not None or any(place.headers for place in source.locations)
    )
    return bool(has_headers) and can_be_marked(source)


def can_be_marked(source: ServerBlock) -> bool:
    """Return whether rules of contexts can refuse methods for files: some paths are files, and no raw directives
    replace contexts or their rules.
    """
    covered = any(place.match in ("", "^~") and place.pattern == "/" for place in source.locations)
    if covered and not any(place.handler == "static" for place in source.locations):
        return False
    return can_have_contexts(source) and not any(says_itself(place.snippet, "rewrite") for place in source.locations)


def can_have_contexts(source: ServerBlock) -> bool:
    """Return whether no raw directives of the server block replace contexts or rewrite rules."""
    return not any(says_itself(source.snippet, name) for name in ("context", "rewrite"))


def flags(source: ServerBlock) -> str:
    """Return the flags of the virtual host's rewrite rule that refuses a method for files, or that marks the request
    for a rule of its context.
    """
    return f"[E={MARK}:1,L]" if are_marked(source) else _REFUSED


def pages_are_unmarked(source: ServerBlock) -> list[Directive]:
    """Return a rewrite rule that removes the mark for refusal from internal requests for error pages, which the refusal
    itself causes.
    """
    pages = dict.fromkeys(page.uri.partition("?")[0] for page in source.error_pages if page.uri.startswith("/"))
    if not pages or not can_be_marked(source):
        return []
    pattern = rewrite_regex(f"^(?:{'|'.join(map(quote, pages))})$", "/error_pages")
    return [directive("RewriteRule", pattern, "-", f"[E={MARK}:0]")]


def rules(source: ServerBlock, own: Sequence[Directive] = ()) -> list[Node]:
    """Return the rewrite block of a context: a rule that refuses requests marked by the virtual host, if the server
    block needs it, then the rules `own`.
    """
    found: list[Directive] = []
    if are_marked(source):
        found += [directive("RewriteCond", f"%{{ENV:{MARK}}}", "=1"), directive("RewriteRule", "^", "-", _REFUSED)]
    return only([*found, *own])


def only(found: Sequence[Directive]) -> list[Node]:
    """Return a context's rewrite block with the given rules; an empty list without rules."""
    if not found:
        return []
    lines = Lines("rules", tuple(map(rewrite_line, found)))
    return [block("rewrite", body=[directive("enable", 1), lines], gap=False)]


def with_rules(nodes: Sequence[Node], source: ServerBlock) -> list[Node]:
    """Return the contexts `nodes` of a server block; rewrite rules that refuse requests marked by the virtual host are
    added to the context `/`.

    If the rules are needed and the context `/` is missing, the list begins with a new one.
    """
    inside, found = rules(source), list(nodes)
    if not inside:
        return found
    for number, node in enumerate(found):
        if isinstance(node, Directive) and node.name == "context" and node.args == ("/",):
            found[number] = replace(node, body=(*(node.body or ()), *inside))
            return found
    return [block("context", "/", body=[directive("allowBrowse", 1), *inside]), *found]
