"""Judge a host's report on its PHP-FPM pools. Pure."""

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

# Hosts are asked every 30 seconds; what is older is not said of the present.
CURRENT = dt.timedelta(minutes=3)
MAX_VALUES = 1000  # of a host's report
_DIGEST = re.compile(r"[0-9a-f]{64}")


@dataclass(frozen=True)
class Verdict:
    """State of a pool: `status` chooses its appearance."""

    status: str
    label: Text
    detail: Text = ""


@dataclass(frozen=True)
class Offer:
    """A host's PHP versions, whether each runs, and its accounts that a pool can run as."""

    versions: Mapping[str, bool]
    accounts: tuple[str, ...]


def digest(text: str) -> str:
    """SHA-256 of a file as the agent reports it, "" for no file."""
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


def offer_of(response: Mapping[str, Any]) -> Offer:
    """The agent's response, with only values of the expected form: a hostile host can send any."""
    versions = {
        str(item["version"]): item.get("running") is True
        for item in _list(response.get("versions"))
        if isinstance(item, dict) and _fits(fpm.VERSION, item.get("version"))
    }
    accounts = [str(name) for name in _list(response.get("accounts")) if _fits(fpm.ACCOUNT, name)]
    return Offer(versions, tuple(accounts))


def server_of(response: Mapping[str, Any]) -> tuple[str, str]:
    """User and group of the web server, "" if it does not run."""
    server = response.get("server")
    if not isinstance(server, dict) or not all(_fits(fpm.ACCOUNT, server.get(name)) for name in ("user", "group")):
        return "", ""
    return server["user"], server["group"]


def cleaned(response: Mapping[str, Any], name: str) -> dict[str, object]:
    """The agent's report of one pool: {"digest", "listens"}."""
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


def verdict(text: str, seen: Mapping[str, Any], is_current: bool, problem: str) -> Verdict:
    """State of a pool whose file Paddock wrote with `text`, from the host's last report."""
    if not text:
        return Verdict("planned", _("Not on the host"), _("php-fpm does not have this pool yet."))
    if not seen or not is_current:
        return Verdict("unsure", _("Unknown"), problem or _("The host did not report the pool in the last minutes."))
    if not seen["digest"]:
        return Verdict("failed", _("File missing"), _("The pool's file was removed on the host. Apply the pool again."))
    if not seen["listens"]:
        return Verdict("failed", _("Not listening"), _("No process listens on the pool's socket: PHP requests fail."))
    if seen["digest"] != digest(text):
        return Verdict("drifted", _("File edited"), _("The pool listens, but its file was edited on the host."))
    return Verdict("succeeded", _("Listening"), _("php-fpm listens on the pool's socket."))
