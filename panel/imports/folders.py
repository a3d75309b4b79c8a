"""Find folders of imported sites that are not yet below the host's site folders."""

from __future__ import annotations

import json
import posixpath
from collections.abc import Iterable

from panel.hosts.validators import validate_site_roots
from panel.imports.mapping.common import fits
from panel.imports.reading import Node
from panel.imports.report import FoundSite
from panel.rendering.roots import is_below

_WORDS = {"root": 0, "alias": -1, "documentroot": 0, "docroot": 0}
_NEVER = (
    "/etc",
    "/proc",
    "/sys",
    "/dev",
    "/boot",
    "/root",
    "/run",
    "/bin",
    "/sbin",
    "/usr/bin",
    "/usr/sbin",
    "/usr/lib",
)


def folders_of(nodes: Iterable[Node], prefix: str) -> list[str]:
    """Return the folders that document roots and aliases name, except those that cannot be site folders, for example
    paths with variables and folders below /etc.
    """
    found: set[str] = set()
    for top in nodes:
        for node in top.all():
            if node.low in _WORDS and node.args:
                path = posixpath.normpath(posixpath.join(prefix, node.args[_WORDS[node.low]]))
                if not path.startswith("//") and "$" not in path and "%" not in path and not is_below(path, _NEVER):
                    found.add(path)
    return sorted(path for path in found if not fits(validate_site_roots, [path]))


def needed(site: FoundSite, folders: Iterable[str], roots: tuple[str, ...]) -> list[str]:
    """Return those of `folders` that the site's definition names and that are not below `roots`, the host's site
    folders. A folder inside of another one is omitted.
    """
    text = json.dumps(site.definition)
    own = [folder for folder in folders if folder in text and not is_below(folder, roots)]
    return [folder for folder in own if not any(folder != other and is_below(folder, (other,)) for other in own)]
