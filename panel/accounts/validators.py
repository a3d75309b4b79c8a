"""Validators of account fields, used by pages, API and commands through the models."""

from __future__ import annotations

import ipaddress
import re
import unicodedata
from typing import Any

from django.core.exceptions import ValidationError
from django.utils.translation import gettext as _

from panel.core.zones import time_zones

_USERNAME = re.compile(r"[A-Za-z0-9](?:[A-Za-z0-9._@+-]*[A-Za-z0-9])?")
SCOPES = ("read", "sites", "deploy", "benchmark", "admin")


def validate_line(value: str) -> None:
    """Validate that a name is one line without control characters, because names appear in logs, mails and headers."""
    for character in value:
        if unicodedata.category(character) in {"Cc", "Zl", "Zp", "Cs"}:
            raise ValidationError(
                _("This value contains a line break or another control character. Enter a single line."),
                code="control_character",
            )


def validate_username(value: str) -> None:
    if not _USERNAME.fullmatch(value):
        raise ValidationError(_("Use letters a-z, digits, and . _ - @ +, for example anna or j.doe."), code="username")


def validate_timezone(value: str) -> None:
    if value not in time_zones():
        raise ValidationError(
            _("%(zone)s is not a time zone. Enter a time zone such as Europe/Vienna or UTC."),
            params={"zone": value},
            code="timezone",
        )


def validate_scopes(value: Any) -> None:
    """Validate a non-empty list of scopes without duplicates."""
    if not isinstance(value, list) or not value:
        raise ValidationError(_("Choose at least one scope: %(all)s.") % {"all": ", ".join(SCOPES)}, code="scopes")
    unknown = [str(item) for item in value if item not in SCOPES]
    if unknown or len(set(value)) != len(value):
        raise ValidationError(
            _("Choose from these scopes, each at most once: %(all)s."), params={"all": ", ".join(SCOPES)}, code="scopes"
        )


def validate_addresses(value: Any) -> None:
    """Validate None, or a list of IP addresses and networks, which may be empty."""
    if value is None:
        return
    if not isinstance(value, list):
        raise ValidationError(
            _("Enter a list of addresses and networks, for example 192.0.2.7 and 10.0.0.0/8."), code="addresses"
        )
    for item in value:
        try:
            if not isinstance(item, str):
                raise ValueError
            ipaddress.ip_network(item)
        except ValueError as error:
            raise ValidationError(
                _(
                    "%(item)s is not an address or network. Enter an address such as 192.0.2.7, or a network "
                    "such as 10.0.0.0/8."
                ),
                params={"item": repr(item)},
                code="addresses",
            ) from error
