"""What an engine lets a site's raw directives do."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from panel.rendering.readers import Read


@dataclass(frozen=True)
class Policy:
    """`refused`: directive names in lower case (a trailing * means any that begin so) and why. `judge` looks at the
    arguments of one directive and says what is wrong, or "". `takes_path` tells which directives name files, `paths`
    which of their arguments do. `passwords`: those whose files are only ever compared with what a visitor types, so
    that they may also lie in the server's own folder, where most people keep them."""

    read: Callable[[str], tuple[Read, ...]]
    refused: Mapping[str, str]
    judge: Callable[[Read], str]
    takes_path: Callable[[str], bool]
    paths: Callable[[Read], tuple[str, ...]]
    passwords: frozenset[str] = frozenset()
