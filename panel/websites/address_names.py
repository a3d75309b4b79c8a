"""IP addresses as server names: IPv6 in brackets, as browsers write them in the Host header."""

from __future__ import annotations

import ipaddress

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from panel.rendering.names import is_ipv6


def is_ipv4(value: str) -> bool:
    try:
        ipaddress.IPv4Address(value)
    except ValueError:
        return False
    return True


def address_name_normalized(value: str) -> str:
    """Return an IPv6 address in brackets in canonical form: `[2001:DB8:0::1]` -> `[2001:db8::1]`.

    Raises ValidationError for any other value.
    """
    if not is_ipv6(value):
        raise ValidationError(
            _("%(name)s is not an IPv6 address in brackets, for example [2001:db8::1]."),
            params={"name": value},
            code="domain",
        )
    return f"[{ipaddress.IPv6Address(value[1:-1]).compressed}]"
