"""Evaluation of a host's report on its PHP-FPM pools. Pure functions."""

from __future__ import annotations

import datetime as dt
import hashlib
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from django.utils.translation import gettext as _

from panel.core.ui import Text
from panel.rendering import fpm

# Hosts are asked every 30 seconds; an older report does not count as the current state.
CURRENT = dt.timedelta(minutes=3)
MAX_VALUES = 1000  # of a host's report
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Verdict:
    """State of a pool for display: `status` chooses its color and icon."""

    status: str
    label: Text
    detail: Text = ""


@dataclass(frozen=True)
class Offer:
    """Choices for a new PHP-FPM pool on a host.
    `versions` maps each PHP version to whether its php-fpm runs; `accounts` are the accounts that a pool can run as.
    """

    versions: Mapping[str, bool]
    accounts: tuple[str, ...]


def digest(text: str) -> str:
    """Return the SHA-256 of a file's text in hex, as the agent reports it; "" if `text` is empty."""
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


def offer_of(response: Mapping[str, Any]) -> Offer:
    """Return PHP versions and accounts in the agent's response, limited to values of the expected form, because a
    hostile host can send anything.
    """
    versions = {
        str(item["version"]): item.get("running") is True
        for item in _list(response.get("versions"))
        if isinstance(item, dict) and _fits(fpm.VERSION, item.get("version"))
    }
    accounts = [str(name) for name in _list(response.get("accounts")) if _fits(fpm.ACCOUNT, name)]
    return Offer(versions, tuple(accounts))


def server_of(response: Mapping[str, Any]) -> tuple[str, str]:
    """Return user and group of the web server in the agent's response; ("", "") if it does not run or a name is
    invalid.
    """
    server = response.get("server")
    if not isinstance(server, dict) or not all(_fits(fpm.ACCOUNT, server.get(name)) for name in ("user", "group")):
        return "", ""
    return server["user"], server["group"]


def cleaned(response: Mapping[str, Any], name: str) -> dict[str, object]:
    """Return the agent's report on the pool `name` as {"digest", "listens"}, with only values of the expected form.
    "digest": SHA-256 of the pool's file in hex, "" without a file, "refused" for any other value. "listens": whether a
    process listens on the pool's socket.
    """
    pools = response.get("pools")
    report = pools.get(name) if isinstance(pools, dict) else None
    report = report if isinstance(report, dict) else {}
    found = report.get("digest")
    if not _fits(_DIGEST, found):
        found = "" if found in ("", None) else "refused"
    return {"digest": found, "listens": report.get("listens") is True}


def _list(value: object) -> list[Any]:
    return value[:MAX_VALUES] if isinstance(value, list) else []


def _fits(pattern: re.Pattern[str], value: object) -> bool:
    return isinstance(value, str) and pattern.fullmatch(value) is not None


def is_edited(text: str, seen: Mapping[str, Any], is_current: bool) -> bool:
    """Return whether the host reports that the pool's file was edited or deleted after Paddock wrote `text`."""
    return bool(text and seen) and is_current and seen["digest"] != digest(text)


def verdict(text: str, seen: Mapping[str, Any], is_current: bool, problem: str) -> Verdict:
    """Return the state of a pool for display, from the host's last report. `text` is the pool's file as last written by
    Paddock.
    """
    if not text:
        return Verdict("planned", _("Not on the host"), _("php-fpm does not have this pool yet."))
    if not seen or not is_current:
        return Verdict(
            "unsure", _("Unknown"), problem or _("The host did not report the state of the pool in the last minutes.")
        )
    if not seen["digest"]:
        return Verdict("failed", _("File missing"), _("The pool's file was removed on the host. Apply the pool again."))
    if not seen["listens"]:
        return Verdict("failed", _("Not listening"), _("No process listens on the pool's socket: PHP requests fail."))
    if is_edited(text, seen, is_current):
        return Verdict("drifted", _("File edited"), _("The pool listens, but its file was edited on the host."))
    return Verdict("succeeded", _("Listening"), _("php-fpm listens on the pool's socket."))
