"""Small values that views pass to the shared components, and the undo action in the session."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from django.http import HttpRequest
from django.utils.functional import Promise

Tone = Literal["ok", "warn", "bad", "info", "neutral"]
Text = str | Promise


@dataclass(frozen=True)
class Tab:
    """One tab of a page. It is a link, so that every tab has a URL and works without scripts."""

    label: Text
    url: str
    current: bool = False
    count: int | None = None


@dataclass(frozen=True)
class Crumb:
    label: Text
    url: Text


# Appearance of every stored status. The texts come from the model's choices.
STATUS_LOOKS: dict[str, tuple[Tone, str]] = {
    "ready": ("ok", "ok"),
    "live": ("ok", "ok"),
    "succeeded": ("ok", "ok"),
    "finished": ("ok", "ok"),
    "valid": ("ok", "ok"),
    "new": ("warn", "key"),
    "drifted": ("warn", "warn"),
    "rolled_back": ("warn", "history"),
    "invalid": ("warn", "warn"),
    "expiring": ("warn", "wait"),
    "paused": ("warn", "pause"),
    "review": ("warn", "warn"),
    "pending": ("info", "edit"),
    "planned": ("info", "file"),
    "queued": ("info", "wait"),
    "running": ("info", "busy"),
    "unreachable": ("bad", "bad"),
    "failing": ("bad", "bad"),
    "key_changed": ("bad", "key"),
    "failed": ("bad", "bad"),
    "expired": ("bad", "bad"),
    "draft": ("neutral", "edit"),
    "disabled": ("neutral", "neutral"),
    "stopped": ("neutral", "stop"),
    "resources": ("warn", "warn"),
    "reboot": ("info", "refresh"),
    "cancelled": ("neutral", "neutral"),
    "skipped": ("neutral", "neutral"),
    "waiting": ("info", "wait"),
    "observing": ("info", "busy"),
    "approval": ("warn", "wait"),
    "undone": ("warn", "history"),
    "deployed": ("info", "ok"),
    "refused": ("bad", "bad"),
    "different": ("warn", "warn"),
    "same": ("ok", "ok"),
    "missed": ("bad", "bad"),
    "first": ("info", "info"),
    "worse": ("bad", "bad"),
    "better": ("ok", "ok"),
    "unsure": ("warn", "wait"),
    "no_difference": ("neutral", "neutral"),
}


def status_look(status: str) -> tuple[Tone, str]:
    """Return the tone (color) and the icon of a status; ("neutral", "neutral") for an unknown status."""
    return STATUS_LOOKS.get(status, ("neutral", "neutral"))


_UNDO = "undo"


def undo_offer(request: HttpRequest, url: str, fields: dict[str, object]) -> None:
    """Offer an undo button next to the messages of the next page; it posts `fields` to `url`."""
    request.session[_UNDO] = {"url": url, "fields": fields}


def undo_offered(request: HttpRequest) -> dict[str, object] | None:
    """Return the undo action that `undo_offer` stored, {"url", "fields"}, and remove it from the session; None if
    none is stored.
    """
    offered: dict[str, object] | None = request.session.pop(_UNDO, None)
    return offered
