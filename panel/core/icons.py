"""Icons of the panel: stroked paths on a 16 x 16 grid, drawn in the text color."""

from __future__ import annotations

from functools import cache

from django.utils.html import format_html
from django.utils.safestring import SafeString, mark_safe

_PATHS = {
    "dashboard": "M2.5 2.5h4.5v6H2.5zM9 2.5h4.5V6H9zM9 8.5h4.5v5H9zM2.5 11h4.5v2.5H2.5z",
    "sites": "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM2.2 8h11.6M8 2c2 1.8 2.8 3.8 2.8 6S10 12.2 8 14M8 2C6 3.8"
    " 5.2 5.8 5.2 8"
    "S6 12.2 8 14",
    "hosts": "M2.5 3h11v4h-11zM2.5 9h11v4h-11zM5 5h.01M5 11h.01M8.5 5h2.5M8.5 11h2.5",
    "deployments": "M8 13.5v-8M4.8 8.2 8 5l3.2 3.2M2.5 2.5h11",
    "benchmarks": "M2.5 12.5a6 6 0 1 1 11 0M8 9.5l3-3.2M8 9.5h.01",
    "audit": "M4 2.5h8v11H4zM6 5.5h4M6 8h4M6 10.5h2",
    "settings": "M2.5 4.5h6M12 4.5h1.5M2.5 11.5H4M7.5 11.5h6M10.2 2.8v3.4M5.8 9.8v3.4",
    "search": "M7 2.5a4.5 4.5 0 1 0 0 9 4.5 4.5 0 0 0 0-9zM10.3 10.3l3.2 3.2",
    "menu": "M2.5 4.5h11M2.5 8h11M2.5 11.5h11",
    "user": "M8 2.5a2.7 2.7 0 1 0 0 5.4 2.7 2.7 0 0 0 0-5.4zM2.8 13.5c.6-2.4 2.6-3.6 5.2-3.6s4.6 1.2 5.2 3.6",
    "help": "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM6.2 6.3c.1-1 .8-1.6 1.8-1.6s1.8.6 1.8 1.5c0 1.3-1.8 1.4-1.8"
    " 2.8M8 11.2h.01",
    "logout": "M6.5 2.5h-4v11h4M10 5l3 3-3 3M13 8H6",
    "plus": "M8 3v10M3 8h10",
    "check": "M3 8.5 6.5 12 13 4.5",
    "ok": "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM5.3 8.2l1.9 1.9 3.5-3.9",
    "warn": "M8 2.2 14.2 13H1.8zM8 6.5v3M8 11.2h.01",
    "bad": "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM5.9 5.9l4.2 4.2M10.1 5.9l-4.2 4.2",
    "info": "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 7.3v3.5M8 5.2h.01",
    "neutral": "M8 2.5a5.5 5.5 0 1 0 0 11 5.5 5.5 0 0 0 0-11zM5.5 8h5",
    "wait": "M8 2a6 6 0 1 0 0 12A6 6 0 0 0 8 2zM8 4.8V8l2.2 1.4",
    "busy": "M8 2a6 6 0 1 1-5.6 3.8",
    "close": "M4 4l8 8M12 4l-8 8",
    "edit": "M10.5 3 13 5.5 6 12.5l-3 .5.5-3zM9 4.5 11.5 7",
    "trash": "M3 4.5h10M6 4.5v-2h4v2M4.3 4.5l.6 9h6.2l.6-9M6.7 7v4M9.3 7v4",
    "up": "M8 12.5v-9M4.5 7 8 3.5 11.5 7",
    "down": "M8 3.5v9M4.5 9 8 12.5 11.5 9",
    "left": "M10 3.5 5.5 8l4.5 4.5",
    "right": "M6 3.5 10.5 8 6 12.5",
    "copy": "M5.5 5.5h8v8h-8zM3 10.5h-.5v-8h8V3",
    "refresh": "M13 6.5A5.3 5.3 0 0 0 3.4 5.2M3 9.5a5.3 5.3 0 0 0 9.6 1.3M13 2.8v3.7H9.3M3 13.2V9.5h3.7",
    "play": "M5 3.2v9.6L12.5 8z",
    "stop": "M4 4h8v8H4z",
    "pause": "M5.5 3.5v9M10.5 3.5v9",
    "key": "M10.5 2.5a3 3 0 1 0 0 6 3 3 0 0 0 0-6zM8.3 7.7 2.5 13.5M4.5 11.5l1.5 1.5M6.2 9.8l1.2 1.2",
    "lock": "M3.5 7h9v6.5h-9zM5.5 7V5a2.5 2.5 0 0 1 5 0v2",
    "route": "M4 2.5a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3zM12 10.5a1.5 1.5 0 1 0 0 3 1.5 1.5 0 0 0 0-3zM4"
    " 5.5v3a3.5 3.5 0 0 0"
    " 3.5 3.5h3",
    "tag": "M2.5 2.5h5.2l5.8 5.8-5.2 5.2-5.8-5.8zM5.2 5.2h.01",
    "file": "M4 2h5l3 3v9H4zM9 2v3h3",
    "history": "M2.8 5.2A5.8 5.8 0 1 1 2.2 8M2.5 2.5v3h3M8 5v3.2l2 1.3",
    "log": "M2.5 3h11v10h-11zM5 6l2 2-2 2M8.5 10.2H11",
    "download": "M8 2.5v8M4.8 7.3 8 10.5l3.2-3.2M2.5 13.5h11",
    "certificate": "M8 2.5a3.5 3.5 0 1 0 0 7 3.5 3.5 0 0 0 0-7zM5.8 8.8 5 14l3-1.6 3 1.6-.8-5.2",
    "link": "M6.8 9.2a2.5 2.5 0 0 0 3.6 0l2.2-2.2a2.5 2.5 0 0 0-3.6-3.6l-.7.7M9.2 6.8a2.5 2.5 0 0 0-3.6"
    " 0L3.4 9a2.5 2.5 0 0 0"
    " 3.6 3.6l.7-.7",
    "team": "M6 3a2.3 2.3 0 1 0 0 4.6A2.3 2.3 0 0 0 6 3zM1.8 13c.3-2.3 1.9-3.6 4.2-3.6s3.9 1.3 4.2 3.6M10.3"
    " 3.3a2.1 2.1 0 0"
    " 1 0 4M11.7 9.7c1.4.4 2.3 1.5 2.5 3.3",
}


@cache
def icon(name: str) -> SafeString:
    """Return the icon as inline SVG. It is hidden from screen readers, because a text always accompanies it."""
    return format_html(
        '<svg class="icon icon-{}" viewBox="0 0 16 16" width="16" height="16" aria-hidden="true" focusable="false">'
        '<path d="{}"/></svg>',
        name,
        mark_safe(_PATHS[name]),  # noqa: S308 - a constant of this module
    )
