"""SVG charts drawn on the server by Vega-Lite (vl-convert), each with its data as a table.

The SVG has no script, style or foreign content, so it is embedded inline under a strict content security policy. Its
colors are those of the light theme, for printing and exports; static/css/benchmarks.css maps them to the current theme.
Series differ not only by color: lines have different dashes and marks, bars have names.
"""

from __future__ import annotations

import hashlib
import json
import re
import threading
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from types import ModuleType
from typing import Any

from django.core.cache import cache
from django.utils.html import escape
from django.utils.safestring import SafeString, mark_safe

Spec = dict[str, Any]  # a Vega-Lite specification
WIDTH = 640
INK, SOFT, GRID, BAND, BAR = "#1b1f2a", "#535b6b", "#e2e5ea", "#eceffd", "#c5cdf4"
SERIES = ("#3d55d4", "#b3541e", "#1b7340", "#8a2f8f", "#0b7285", "#a61e4d", "#5c6b00", "#5b3b8c")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 3, 2, 3], [12, 4], [4, 4], [1, 3], [10, 2, 2, 2])
SHAPES = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down", "triangle-right", "triangle-left")
_CACHE_S = 24 * 3600
_SHORT = 24  # name length that leaves room for a second name next to it
# vl-convert measures text in Liberation Sans; readers have this font or one with the same widths.
_FONT = "Liberation Sans, Arial, Helvetica, sans-serif"
_CONFIG: Spec = {
    "aria": False,
    "background": None,
    # Space for figures next to an axis, which may be wider in the reader's font than in the measured font. Names have
    # lines of their own (benchmarks/charts/drawings.py) and grow inward.
    "padding": {"left": 24, "right": 24, "top": 5, "bottom": 5},
    "font": _FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": SOFT,
        "titleColor": SOFT,
        "gridColor": GRID,
        "domainColor": GRID,
        "tickColor": GRID,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": "normal",
        "labelLimit": 280,
    },
    "legend": {
        "labelColor": INK,
        "titleColor": SOFT,
        "labelFontSize": 12,
        "symbolSize": 90,
        "labelLimit": 420,
        "columnPadding": 40,
    },
    "header": {
        "labelColor": INK,
        "labelFontSize": 13,
        "labelFontWeight": "bold",
        "labelAnchor": "start",
        "labelLimit": 440,
        "title": None,
    },
    "text": {"color": INK, "fontSize": 12},
}
# The title of a vertical axis is above the axis and grows to the right; next to it, a wide font would need more height.
ON_TOP: Spec = {
    "titleAngle": 0,
    "titleAlign": "left",
    "titleAnchor": "end",
    "titleBaseline": "bottom",
    "titleX": 0,
    "titleY": -8,
}
# vl-convert runs one JavaScript engine, so several threads at once gain nothing.
_drawing = threading.Lock()


@dataclass(frozen=True)
class Table:
    """Data of a chart as a table: head and rows."""

    head: list[str]
    rows: list[list[str]] = field(default_factory=list)


@dataclass(frozen=True)
class Chart:
    """A chart and its data. `label` describes it in one sentence for screen readers."""

    name: str
    title: str
    label: str
    spec: Spec
    table: Table

    @property
    def svg(self) -> SafeString:
        return mark_safe(svg(self.spec, self.label))  # noqa: S308 - made by svg(), which escapes what comes from outside


def svg(spec: Spec, label: str) -> str:
    """Draw a Vega-Lite specification as one <svg> element for a page. The result is cached for a day."""
    key = "chart:" + hashlib.sha256(json.dumps([spec, label], sort_keys=True).encode()).hexdigest()
    found: str | None = cache.get(key)
    if found is None:
        found = _prepared(_draw(spec), label, key[-8:])
        cache.set(key, found, _CACHE_S)
    return found


def _engine() -> ModuleType:
    import vl_convert  # a 90 MB JavaScript engine: loaded only by processes that draw

    return vl_convert


def _draw(spec: Spec) -> str:
    whole = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "config": _CONFIG, **spec}
    with _drawing:
        return str(_engine().vegalite_to_svg(whole, allowed_base_urls=[]))


def png(spec: Spec, scale: float) -> bytes:
    """Draw a Vega-Lite specification as PNG on white, `scale` times 72 dpi, for documents without SVG support."""
    config = {**_CONFIG, "background": "white"}
    whole = {"$schema": "https://vega.github.io/schema/vega-lite/v5.json", "config": config, **spec}
    with _drawing:
        return bytes(_engine().vegalite_to_png(whole, scale=scale, allowed_base_urls=[]))


def _prepared(drawn: str, label: str, ident: str) -> str:
    """Return `drawn`, the SVG of a chart, as one image with `label` for screen readers and ids that are unique on the
    page.

    Raises ValueError if the SVG contains script or style.
    """
    if re.search(r"<(script|style|foreignObject|image)\b|\sstyle=|\son\w+=", drawn):
        raise ValueError("the chart contains code that a strict content security policy blocks")
    drawn = re.sub(r'\s(?:role|aria-[a-z]+)="[^"]*"', "", drawn)
    drawn = re.sub(r'\b(id=")|(url\(#)', lambda match: f"{match[0]}c{ident}-", drawn)
    opening = f'<svg class="chart-svg" role="img" aria-label="{escape(label)}" focusable="false"'
    return re.sub(r'<svg\b(?: class="marks")?', opening, drawn, count=1).replace(' class="marks"', "", 1)


def nominal(names: list[str], title: str | None = None) -> Spec:
    """Return the Vega-Lite encoding of color and dash by series, with one legend."""
    scale = {"domain": names}
    is_short = len(names) <= 2 and all(len(name) <= _SHORT for name in names)
    legend = {"title": title, "orient": "bottom", "direction": "horizontal" if is_short else "vertical"}
    return {
        "color": {
            "field": "series",
            "type": "nominal",
            "scale": {**scale, "range": list(SERIES[: len(names)])},
            "legend": legend,
        },
        "strokeDash": {
            "field": "series",
            "type": "nominal",
            "scale": {**scale, "range": [list(dash) for dash in DASHES[: len(names)]]},
            "legend": legend,
        },
    }


def shapes(names: list[str]) -> Spec:
    scale = {"domain": names, "range": list(SHAPES[: len(names)])}
    return {"field": "series", "type": "nominal", "scale": scale, "legend": None}


def date_axis(times: list[datetime]) -> Spec:
    """Return the Vega-Lite encoding of the field `at` as a time axis in UTC with about five labels.

    Labels are dates; if `times` span at most four days, they are dates with hours and minutes. If `times` has at most
    three different values, only these values have labels.
    """
    is_long = max(times) - min(times) > timedelta(days=4)
    axis: Spec = {"title": "UTC", "tickCount": 5, "format": "%Y-%m-%d" if is_long else "%b %-d, %H:%M"}
    if len(set(times)) <= 3:
        axis["values"] = sorted({round(time.timestamp() * 1000) for time in times})
    return {"field": "at", "type": "temporal", "scale": {"type": "utc"}, "axis": axis}
