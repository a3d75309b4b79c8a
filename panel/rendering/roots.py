"""Test of paths against the folders of a host's sites."""

from __future__ import annotations

from posixpath import normpath


def is_below(path: str, roots: tuple[str, ...]) -> bool:
    """Return whether the absolute `path` is one of `roots` or inside one, by its text only; the agent
    resolves links.
    """
    if not path.startswith("/") or ".." in path.split("/"):
        return False
    roots = tuple(root for root in roots if root)
    return any(normpath(path) == normpath(root) or normpath(path).startswith(normpath(root) + "/") for root in roots)
