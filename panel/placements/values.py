"""Values of a site that differ on one host, by JSON pointer (RFC 6901) into the site's definition. Pure: no I/O."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from copy import deepcopy
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

Values = Mapping[str, Mapping[str, Any]]
MOST = 5000
# Fields of a definition that name the copy itself, or decide who owns it.
_FIXED = ("name", "team", "web_server", "enabled")
_LINE = re.compile(r"(?P<host>\S+)\s+(?P<pointer>/\S*)\s*=\s*(?P<value>.*)\Z")


def check_values(values: Any) -> None:
    """Raise ValidationError unless `values` is {host: {JSON pointer: value}}.
    Pointers to the fields in _FIXED, which all copies share, are rejected too.
    """
    if not isinstance(values, dict) or not all(isinstance(own, dict) for own in values.values()):
        example = '{"web-2": {"/blocks/0/listens/0/address": "192.0.2.2"}}'
        raise ValidationError({"values": _("Enter values by host and place, for example %s.") % example})
    if sum(map(len, values.values())) > MOST:
        raise ValidationError({"values": _("Enter at most %d values.") % MOST})
    for own in values.values():
        for pointer in own:
            parts = pointer.split("/")
            if parts[0] or len(parts) < 2:
                raise ValidationError({"values": _("“%s” is not a JSON pointer such as /blocks/0/root.") % pointer})
            if parts[1] in _FIXED:
                raise ValidationError(
                    {"values": _("The value of “%s” must be the same for every copy. Remove this line.") % pointer}
                )


def with_values(definition: Mapping[str, Any], values: Mapping[str, Any]) -> dict[str, object]:
    """Return a copy of a site's definition in which `values`, {JSON pointer: value}, replace the original values.
    Raises ValidationError for a pointer to a missing field.
    """
    changed: dict[str, object] = deepcopy(dict(definition))
    for pointer, value in values.items():
        *path, last = pointer.split("/")[1:]
        owner: Any = changed
        try:
            for part in path:
                owner = owner[int(part)] if isinstance(owner, list) else owner[part]
            key = int(last) if isinstance(owner, list) else last
            owner[key]  # the place must exist
            owner[key] = value
        except (KeyError, IndexError, ValueError, TypeError):
            raise ValidationError(
                {
                    "values": _("The site's definition has no place %s. Enter a JSON pointer such as /blocks/0/root.")
                    % pointer
                }
            ) from None
    return changed


def to_text(values: Values) -> str:
    """Format values as lines: `web-2 /blocks/0/listens/0/address = 192.0.2.2`."""
    lines = [
        f"{host} {pointer} = {value if isinstance(value, str) and _is_plain(value) else json.dumps(value)}"
        for host, own in sorted(values.items())
        for pointer, value in sorted(own.items())
    ]
    return "\n".join(lines)


def from_text(text: str) -> dict[str, dict[str, object]]:
    """Parse lines as `to_text` formats them; a value that is not JSON is a string."""
    found: dict[str, dict[str, object]] = {}
    for line in filter(None, map(str.strip, text.replace("\r\n", "\n").split("\n"))):
        parts = _LINE.match(line)
        if parts is None:
            raise ValidationError(
                _("“%s” is not valid. Enter a line such as web-2 /blocks/0/root = /srv/www/shop.") % line
            )
        found.setdefault(parts["host"], {})[parts["pointer"]] = _value(parts["value"])
    return found


def _value(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _is_plain(text: str) -> bool:
    """Return whether the text can be written without JSON quotes, because `from_text` reads it back unchanged."""
    return text == text.strip() and text.isprintable() and _value(text) == text
