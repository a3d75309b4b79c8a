"""Serve an index file that belongs to another location than its folder.

nginx chooses a location again for the index file of a folder; OpenLiteSpeed sends the file with the settings of the
folder's context. So a rule replaces the path of the folder by the path of the file, and the location of the file
applies: its access rules, its headers, its PHP. A folder with access control keeps its path, because after a
replacement no context would check the access rules of the folder.
"""

from __future__ import annotations

from dataclasses import replace

from panel.rendering import handlers, reach
from panel.rendering.apache.quoting import rewrite_regex, target
from panel.rendering.exclusive import Condition
from panel.rendering.locations import Locations, Place
from panel.rendering.openlitespeed import methods, paths
from panel.rendering.spec import ServerBlock
from panel.rendering.tree import Directive, directive

# Other methods are refused by the folder's location, which has no access control. nginx looks for index files
# for these three methods only (ngx_http_index_handler).
_OF_OTHERS = directive("RewriteCond", "%{REQUEST_METHOD}", "^(?:GET|HEAD|POST)$")
_OF_FILES = directive("RewriteCond", "%{REQUEST_METHOD}", "^(?:GET|HEAD)$")


def rules(block: ServerBlock, found: Locations, chosen: dict[Place, Condition], root: str) -> list[Directive]:
    """Return rewrite rules that replace the path of a folder by the path of its index file; they come before other
    rules.
    """
    if paths.refer_back(found.regexes):
        return []
    lines: list[Directive] = []
    for place in reach.by_index(block, found):
        if not keeps_path(block, place):
            lines += _of_folder(block, found, chosen, place, root)
    if lines:
        lines[0] = replace(lines[0], comment="The location of the index file's own path handles it")
    return lines


def keeps_path(block: ServerBlock, place: Place | None) -> bool:
    """Return whether requests for folders of a location keep their path, so that the location's own settings apply to
    index files. The place None stands for paths without a location.
    """
    tries = place.location.try_files if place else block.try_files
    if tries and "$uri/" not in tries:
        return True
    if place is None:
        return False
    source = place.location
    return source.handler != "static" or handlers.asks_access(source) or bool(source.rewrites or source.snippet)


def _of_folder(
    block: ServerBlock, found: Locations, chosen: dict[Place, Condition], place: Place | None, root: str
) -> list[Directive]:
    name = methods.name_of(place, root)
    if not methods.fits(name) or (place is not None and methods.is_captured(place)):
        return []
    is_rest = place is None or paths.is_all(place)
    pattern = methods.outside(block, chosen, [place]) if is_rest else methods.these(chosen, [place])
    folder = rewrite_regex(f"^(?=(?:{paths.letters(block)}*/)*$){pattern[1:]}", "/locations")
    lines: list[Directive] = []
    before: list[Directive] = []  # files that a refused method leaves in place
    for index in reach.index_names(block, place):
        file = f"{name}{target(index)}"
        if not methods.fits(file):
            break
        owners = reach.of_index(found, place, index)
        is_file = all(owner is None or owner.location.handler == "static" for owner in owners)
        asked = _OF_FILES if is_file else _OF_OTHERS
        lines += [*before, asked, directive("RewriteCond", file, "-f")]
        lines.append(directive("RewriteRule", folder, f"$0{target(index)}"))
        before += [directive("RewriteCond", file, "!-f")] if is_file else []
    return lines
