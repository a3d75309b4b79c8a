"""Plain fields of server blocks and locations, in the display order of pages and the API.
`BLOCK_SCALARS` and `LOCATION_SCALARS` are the fields that a SiteSpec holds under the same name and with the same value.
freeze.py and definition_from_spec.py copy all of them, so a new plain field needs no code in these modules.
"""

from __future__ import annotations

from types import NoneType, UnionType
from typing import Literal, Union, get_args, get_origin, get_type_hints

from panel.rendering import spec
from panel.websites.definitions import BlockData, LocationData

# Listens, names, snippets and locations are rows of their own, not fields of the model.
BLOCK = tuple(name for name in BlockData.__annotations__ if name not in ("listens", "names", "snippets", "locations"))
# Fields of one server of an upstream.
SERVER = ("address", "weight", "max_fails", "fail_timeout_s", "backup", "down")
LOCATION = tuple(name for name in LocationData.__annotations__ if name != "snippets")


def _is_scalar(hint: object) -> bool:
    if get_origin(hint) in (Union, UnionType):
        return all(_is_scalar(part) for part in get_args(hint))
    return hint in (str, int, bool, NoneType) or get_origin(hint) is Literal


def _scalars(kind: type, names: tuple[str, ...], other: set[str]) -> tuple[str, ...]:
    """Return those of `names` that are plain fields of the dataclass `kind`, except names in `other`.
    `other`: fields whose meaning in `kind` differs.
    """
    hints = get_type_hints(kind)
    return tuple(name for name in names if name not in other and name in hints and _is_scalar(hints[name]))


BLOCK_SCALARS = _scalars(spec.ServerBlock, BLOCK, {"access_log", "error_log"})
LOCATION_SCALARS = _scalars(spec.Location, LOCATION, {"php_pool", "upstream"})
