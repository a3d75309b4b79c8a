"""Template tags that choose the appearance of a report's outcome."""

from __future__ import annotations

from django import template

from panel.core.ui import status_look

register = template.Library()


@register.simple_tag
def tone_of(outcome: str) -> str:
    return status_look(outcome)[0]
