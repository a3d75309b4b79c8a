"""Charts of a host's resources over time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from django.utils.translation import gettext as _

from panel.core.charts import ON_TOP, WIDTH, Chart, Spec, Table, date_axis, nominal
from panel.hosts.models import HostReading

MOST_ROWS = 48  # of a table


def charts(rows: Sequence[HostReading]) -> list[Chart]:
    """Return two line charts: first the use of CPU, memory and the fullest disk in percent, then the load. Return []
    for fewer than two rows.
    """
    if len(rows) < 2:
        return []
    shares = {
        "cpu": _("CPU, mean over ten minutes"),
        "cpu_most": _("CPU, highest"),
        "memory_most": _("Memory, highest"),
        "disk_most": _("Fullest disk"),
    }
    if any(row.swap_most for row in rows):
        shares["swap_most"] = _("Swap, highest")
    load = {"load_most": _("Load average over one minute, highest")}
    return [
        _chart("shares", _("CPU, memory and disk in use"), "%", rows, shares, 100.0),
        _chart("load", _("Load"), _("runnable processes"), rows, load, 1.0),
    ]


def _chart(
    name: str, title: str, unit: str, rows: Sequence[HostReading], series: dict[str, str], factor: float
) -> Chart:
    values = [
        {"series": label, "at": row.at.isoformat(), "value": round(getattr(row, field) * factor, 3)}
        for row in rows
        for field, label in series.items()
        if getattr(row, field) is not None
    ]
    highest = max((value["value"] for value in values), default=0.0)
    label = _("%(title)s from %(first)s to %(last)s. The highest value is %(highest).1f %(unit)s.") % {
        "title": title,
        "first": f"{rows[0].at:%Y-%m-%d %H:%M}",
        "last": f"{rows[-1].at:%Y-%m-%d %H:%M} UTC",
        "highest": highest,
        "unit": unit,
    }
    return Chart(name, title, label, _spec(rows, list(series.values()), values, unit), _table(rows, series, factor))


def _spec(rows: Sequence[HostReading], names: list[str], values: Sequence[Mapping[str, object]], unit: str) -> Spec:
    scale = {"domain": [0, 100]} if unit == "%" else {"domainMin": 0}
    y = {"field": "value", "type": "quantitative", "scale": scale, "axis": {"title": unit, "tickCount": 5, **ON_TOP}}
    return {
        "width": WIDTH - 40,
        "height": 200,
        "data": {"values": values},
        "mark": {"type": "line", "strokeWidth": 1.5},
        "encoding": {"x": date_axis([row.at for row in rows]), "y": y, **nominal(names)},
    }


def _table(rows: Sequence[HostReading], series: dict[str, str], factor: float) -> Table:
    """Return the values of a chart as a table with at most MOST_ROWS rows, newest first. `series` maps the names of
    fields of a HostReading to column heads.
    """
    newest = list(rows)[-MOST_ROWS:][::-1]
    return Table(
        [_("Time (UTC)"), *series.values()],
        [[f"{row.at:%Y-%m-%d %H:%M}", *(_cell(getattr(row, field), factor) for field in series)] for row in newest],
    )


def _cell(value: float | None, factor: float) -> str:
    return "–" if value is None else f"{value * factor:.1f}"
