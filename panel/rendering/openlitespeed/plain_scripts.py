"""Send scripts as plain files if no location for PHP matches their path.

OpenLiteSpeed runs scripts by suffix in the whole virtual host. A rewrite rule with the flag `T` sets the type of the
requested file instead, and so its handler (HttpReq::setMimeBySuffix in src/http). An error page would be sent with the
type of the requested file, so further rules set the type of each error page. An error page that is a script could be
sent as text, so server blocks with such error pages get no rules, and their scripts run everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace

from panel.rendering import exclusive
from panel.rendering.apache.quoting import rewrite_regex
from panel.rendering.choice import choose
from panel.rendering.errors import NotExpressible
from panel.rendering.exclusive import Condition
from panel.rendering.locations import Locations, Place
from panel.rendering.openlitespeed import methods, scripts
from panel.rendering.spec import Location, ServerBlock
from panel.rendering.tree import Directive, directive


def runs_anyway(block: ServerBlock, source: Location) -> bool:
    """Return whether OpenLiteSpeed runs scripts in a location of plain files, because no rewrite rule can set their
    type.
    """
    if source.handler != "static":
        return False
    changes = [*block.rewrites, *(rule for place in block.locations for rule in place.rewrites)]
    is_captured = bool(source.alias) and source.match in ("~", "~*")
    return is_captured or not scripts.can_be_sent(block) or any(rule.flag == "break" for rule in changes)


def rules(block: ServerBlock, found: Locations, chosen: dict[Place, Condition], root: str) -> list[Directive]:
    """Return rewrite rules that set the MIME type of scripts outside of PHP locations, so that they are sent as files.

    The rules come after those of try_files, so that they do not apply to a request whose fallback is a script that must
    run.
    """
    if not scripts.all_suffixes(block) or not scripts.can_be_sent(block):
        return []
    lines: list[Directive] = []
    for one in methods.by_file(block, chosen, root):
        lines += [
            line for kind, suffixes in scripts.by_type(block) for line in _rule(one.name, one.pattern, kind, suffixes)
        ]
    if lines:
        lines[0] = replace(lines[0], comment="Scripts outside of PHP's locations are files")
        lines += _pages(block)
    return lines


def _pages(block: ServerBlock) -> list[Directive]:
    lines: list[Directive] = []
    for path in dict.fromkeys(page.uri.partition("?")[0] for page in block.error_pages):
        kind = scripts.type_of(path.rpartition("/")[2].rpartition(".")[2])
        pattern = rewrite_regex(f"^{exclusive.quote(path)}$", "/error_pages")
        lines.append(directive("RewriteRule", pattern, "-", f"[T={kind}]"))
    return lines


def fallback(block: ServerBlock, place: Place, found: Locations, lines: Sequence[Directive]) -> list[Directive]:
    """Return the rewrite rules of a location's try_files.

    If the fallback is a script that a location of plain files handles, the last rule also sets its MIME type, so that
    it is sent as a file.
    """
    last = place.location.try_files[-1].partition("?")[0] if place.location.try_files else ""
    path = last.removesuffix("$is_args$args")
    kind = next((kind for kind, suffixes in scripts.by_type(block) if re.search(rf"\.(?i:{suffixes})$", path)), "")
    if not kind or not lines or "$" in path or not path.startswith("/") or not scripts.can_be_sent(block):
        return [*lines]
    try:
        taken = choose(found, path).place
    except NotExpressible:
        return [*lines]
    flags = lines[-1].args[-1]
    if (taken is not None and taken.location.handler != "static") or not flags.startswith("[PT,"):
        return [*lines]
    return [*lines[:-1], replace(lines[-1], args=(*lines[-1].args[:-1], f"[T={kind},{flags[1:]}"))]


def _rule(name: str, pattern: str, kind: str, suffixes: str) -> list[Directive]:
    """Return a rewrite rule that sets the MIME type `kind` for scripts with the given suffixes.

    For the suffix php, the rule matches `/x.php`, and `/x.php/y`, which then gets 404, but no folders with such names.
    """
    script = rf"^(?=(?s:.*)\.(?i:{suffixes})(?:/|$)){pattern[1:]}"
    return [
        directive("RewriteCond", name, "!-d"),
        directive("RewriteCond", name, "!-f", "[OR]"),
        directive("RewriteCond", "$0", rf"\.(?i:{suffixes})$"),
        directive("RewriteRule", rewrite_regex(script, "/locations"), "-", f"[T={kind}]"),
    ]
