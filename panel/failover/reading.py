"""State of a virtual address, computed from the reports of its hosts. Pure: no I/O."""

from __future__ import annotations

import datetime as dt
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from django.utils.translation import gettext as _

from panel.core.ui import Text

# Limits of the values in a host's report, and its validity: hosts report every 30 seconds.
MAX_TEXT, MAX_VALUES = 200, 1000  # of a host's report
CURRENT = dt.timedelta(minutes=3)


@dataclass(frozen=True)
class Observation:
    """State of keepalived on one host at the time `at`.

    `digest` is the SHA-256 of keepalived's file on the host, `written` the SHA-256 of the file that Paddock wrote;
    "" for no file. `checks` maps each URL to its problem, "" for none.
    """

    version: str
    is_running: bool
    main: str
    digest: str
    written: str
    addresses: Mapping[str, str] = field(default_factory=dict)
    checks: Mapping[str, str] = field(default_factory=dict)
    neighbours: Mapping[str, str] = field(default_factory=dict)
    at: dt.datetime | None = None

    @property
    def edited(self) -> bool:
        return self.digest != self.written

    def is_current(self, now: dt.datetime) -> bool:
        return self.at is not None and now - self.at < CURRENT


def digest(text: str) -> str:
    """Return the SHA-256 of a file's text, as the agent reports it; "" for no file."""
    return hashlib.sha256(text.encode()).hexdigest() if text else ""


def cleaned(response: Mapping[str, Any], checks: Iterable[str]) -> dict[str, object]:
    """Return the agent's report on keepalived, reduced to values of the expected types and lengths.
    A hostile host can send anything. `checks` are the URLs that the agent had to check; a URL that it does not report
    counts as failed.
    """
    reported = _texts(response.get("checks"))
    return {
        "version": _text(response.get("version")),
        "running": response.get("running") is True,
        "main": _text(response.get("main")),
        "digest": _text(response.get("digest")),
        "addresses": _texts(response.get("addresses")),
        "checks": {url: reported.get(url, "the host did not report the result") for url in checks},
        "neighbours": _texts(response.get("neighbours")),
    }


def _text(value: object) -> str:
    return value[:MAX_TEXT] if isinstance(value, str) else ""


def _texts(value: object) -> dict[str, str]:
    if not isinstance(value, dict):
        return {}
    return {_text(key): _text(text) for key, text in list(value.items())[:MAX_VALUES]}


def observation(seen: Mapping[str, Any], text: str, at: dt.datetime | None = None) -> Observation:
    """Build an Observation from the agent's response; `text` is the file that Paddock wrote to the host."""
    return Observation(
        seen["version"],
        seen["running"],
        seen["main"],
        seen["digest"],
        digest(text),
        seen["addresses"],
        seen["checks"],
        seen["neighbours"],
        at,
    )


@dataclass(frozen=True)
class Verdict:
    """State of a virtual address for display; `status` selects its appearance."""

    status: str
    label: Text
    detail: Text = ""


def verdict(ip: str, check_url: str, hosts: Mapping[str, Observation | None]) -> Verdict:
    """Judge an applied virtual address by the last reports of its hosts: its current host, and its possible next host.

    `hosts` maps names of hosts to their reports; None if the current state of a host is not known.
    """
    holders = [name for name, seen in hosts.items() if seen is not None and ip in seen.addresses]
    unknown = [name for name, seen in hosts.items() if seen is None]
    if len(holders) > 1:
        return Verdict("failed", _("On several hosts"), _("%s have the address at the same time.") % _joined(holders))
    if not holders and unknown:
        return Verdict("unsure", _("Unknown"), _("Paddock has no current reports of the hosts %s.") % _joined(unknown))
    if not holders:
        return Verdict(
            "failed", _("On no host"), _("No host has the address, so visitors cannot reach the sites at this address.")
        )
    on = _("The host %s has the address.") % holders[0]
    standby = [name for name in hosts if name not in holders]
    if unready := [name for name in standby if not _is_ready(hosts[name], check_url)]:
        words = _("These hosts could not take the address over at present: %s.") % _joined(unready)
        return Verdict("unsure", _("Without standby"), f"{on} {words}")
    if edited := [name for name, seen in hosts.items() if seen is not None and seen.edited]:
        words = _("Paddock's keepalived file was edited on %s.") % _joined(edited)
        return Verdict("unsure", _("File edited"), f"{on} {words}")
    words = _("These hosts are ready to take the address over: %s.") % _joined(standby)
    return Verdict("succeeded", _("In use"), f"{on} {words}")


def _is_ready(seen: Observation | None, check_url: str) -> bool:
    return seen is not None and seen.is_running and not seen.checks.get(check_url)


def _joined(names: Sequence[str]) -> str:
    return ", ".join(names)
