"""Small values that views hand to the shared components."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal

from django.http import HttpRequest
from django.utils.functional import Promise

Tone = Literal["ok", "warn", "bad", "info", "neutral"]
Text = str | Promise


@dataclass(frozen=True)
class Tab:
    """One tab of a page: a link, so that every tab has an address and works without scripts."""

    label: Text
    url: str
    current: bool = False
    count: int | None = None


@dataclass(frozen=True)
class Crumb:
    label: Text
    url: Text


# Every stored status of the panel: how it looks. The words beside it come from the model's choices.
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
    "key_changed": ("bad", "key"),
    "failed": ("bad", "bad"),
    "expired": ("bad", "bad"),
    "draft": ("neutral", "edit"),
    "disabled": ("neutral", "neutral"),
    "stopped": ("neutral", "stop"),
    "cancelled": ("neutral", "neutral"),
    "skipped": ("neutral", "neutral"),
    "waiting": ("info", "wait"),
    "standing": ("info", "ok"),
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
    """Tone and icon of a status; one that is not listed is shown plainly."""
    return STATUS_LOOKS.get(status, ("neutral", "neutral"))


_UNDO = "undo"


def undo_offer(request: HttpRequest, url: str, fields: dict[str, Any]) -> None:
    """Beside the next messages stands a button that posts `fields` to `url`: what takes back what they tell of."""
    request.session[_UNDO] = {"url": url, "fields": fields}


def undo_offered(request: HttpRequest) -> dict[str, Any] | None:
    """What was offered, once."""
    offered: dict[str, Any] | None = request.session.pop(_UNDO, None)
    return offered
