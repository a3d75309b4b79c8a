"""Template tags of the shared components; templates/components/README.md has examples."""

from __future__ import annotations

import datetime as dt
import json
import math
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from html import escape
from typing import Any
from urllib.parse import quote

from django import forms, template
from django.core.paginator import Page
from django.forms.boundfield import BoundField
from django.http import HttpRequest
from django.template.context import RequestContext
from django.urls import NoReverseMatch, reverse
from django.utils import formats, timezone
from django.utils.html import conditional_escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from panel.core import diffs, icons
from panel.core.templating import constant
from panel.core.ui import status_look, undo_offered

register = template.Library()

register.simple_tag(constant(icons.icon), name="icon")

NAVIGATION = (
    ("dashboard", gettext_lazy("Dashboard"), "dashboard", "g d"),
    ("websites:list", gettext_lazy("Sites"), "sites", "g s"),
    ("hosts:list", gettext_lazy("Hosts"), "hosts", "g h"),
    ("deployments:list", gettext_lazy("Deployments"), "deployments", "g p"),
    ("benchmarks:list", gettext_lazy("Benchmarks"), "benchmarks", "g b"),
    ("reports:list", gettext_lazy("Reports"), "file", "g r"),
    ("audit:list", gettext_lazy("Audit log"), "audit", "g a"),
    ("accounts:settings", gettext_lazy("Settings"), "settings", ""),
)


@register.simple_tag(takes_context=True)
def navigation(context: RequestContext) -> list[dict[str, object]]:
    """Return the entries of the main navigation; an entry whose URL is a prefix of the current path is current."""
    path = context["request"].path if "request" in context else ""
    entries: list[dict[str, object]] = []
    for name, label, icon, keys in NAVIGATION:
        try:
            url = reverse(name)
        except NoReverseMatch:
            continue
        current = path == url if url == "/" else path.startswith(url)
        entries.append({"url": url, "label": label, "icon": icon, "keys": keys, "current": current})
    return entries


@register.simple_tag(takes_context=True)
def undo(context: RequestContext) -> dict[str, object] | None:
    """Return the undo action that the previous page offers (core.ui.undo_offer): `url` and `fields`, or None."""
    return undo_offered(context["request"])


# --- texts and figures ---


@register.simple_tag
def status(value: str, label: Any = "") -> SafeString:
    """Render a status as icon and text in its color, never by color alone."""
    return _status(str(value), str(label or str(value).replace("_", " ").capitalize()))


# Rows of a list repeat their states and tags. `typed`: a safe text and an equal unsafe text are different keys.
@lru_cache(maxsize=1000, typed=True)
def _status(value: str, words: str) -> SafeString:
    tone, icon = status_look(value)
    return format_html('<span class="status tone-{}">{}<span>{}</span></span>', tone, icons.icon(icon), words)


@register.simple_tag
@constant
def badge(label: Any, tone: str = "neutral") -> SafeString:
    return format_html('<span class="badge tone-{}">{}</span>', tone, label)


@register.simple_tag
def tags(names: Iterable[str], address: str = "") -> SafeString:
    """Render tags as badges. With `address`, the URL of a list, each badge links to this list, filtered by its tag."""
    return _tags(tuple(names), address)


@lru_cache(maxsize=1000, typed=True)
def _tags(names: tuple[str, ...], address: str) -> SafeString:
    badges = format_html_join("", "{}", ((_tag(name, address, _("Tag:")),) for name in names))
    return format_html('<span class="tags">{}</span>', badges) if badges else badges


@lru_cache(maxsize=1000, typed=True)
def _tag(name: str, address: str, label: str) -> SafeString:
    inner = format_html('{}<span class="sr-only">{} </span>{}', icons.icon("tag"), label, name)
    if not address:
        return format_html('<span class="badge tag">{}</span>', inner)
    return format_html('<a class="badge tag" href="{}?tag={}">{}</a>', address, quote(name), inner)


# Days up to a hundred, because certificates of ninety days are counted in days.
_STEPS = ((60, "s"), (3600, "min"), (86400, "h"), (86400 * 100, "d"), (86400 * 730, "mo"), (math.inf, "y"))
_SECONDS = {"s": 1, "min": 60, "h": 3600, "d": 86400, "mo": 86400 * 30.44, "y": 86400 * 365.25}


def _span(seconds: float) -> str:
    unit = next(unit for limit, unit in _STEPS if seconds < limit)
    count = int(seconds // _SECONDS[unit])
    words = {
        "s": ngettext("%d second", "%d seconds", count),
        "min": ngettext("%d minute", "%d minutes", count),
        "h": ngettext("%d hour", "%d hours", count),
        "d": ngettext("%d day", "%d days", count),
        "mo": ngettext("%d month", "%d months", count),
        "y": ngettext("%d year", "%d years", count),
    }
    return words[unit] % count


def relative_words(value: dt.datetime, now: dt.datetime | None = None) -> str:
    """Return a time relative to now: `3 minutes ago`, `in 5 days`, `just now`."""
    seconds = ((now or timezone.now()) - value).total_seconds()
    if abs(seconds) < 5:
        return _("just now")
    if seconds > 0:
        return _("%(span)s ago") % {"span": _span(seconds)}
    return _("in %(span)s") % {"span": _span(-seconds)}


@register.simple_tag
def ago(value: dt.datetime | None, empty: str = "") -> SafeString | str:
    """Render a relative time; the tooltip has the exact time in the user's time zone."""
    if not value:  # None, or a missing value in a template
        return format_html('<span class="muted">{}</span>', empty or _("never"))
    local = timezone.localtime(value)
    exact, shown = escape(local.strftime("%Y-%m-%d %H:%M:%S %Z")), escape(relative_words(value))
    # not by format_html, which takes as long as all the rest: lists have a time in each row
    html = f'<time datetime="{local.isoformat(timespec="seconds")}" title="{exact}">{shown}</time>'
    return mark_safe(html)  # noqa: S308 - escaped above


@register.simple_tag
def moment(value: dt.datetime | None, empty: str = "") -> SafeString | str:
    """Render an exact time in the user's time zone; the tooltip has the relative time."""
    if not value:
        return format_html('<span class="muted">{}</span>', empty or "–")
    local = timezone.localtime(value)
    return format_html(
        '<time datetime="{}" title="{}">{}</time>',
        local.isoformat(timespec="seconds"),
        relative_words(value),
        local.strftime("%Y-%m-%d %H:%M:%S %Z"),
    )


@register.filter
def number(value: float | None, digits: int = 0) -> str:
    """Format a number, grouped by the user's locale and rounded to `digits` decimal places; Django would truncate."""
    if value is None:
        return "–"
    rounded = round(value, digits) if isinstance(value, int | float) else value
    return formats.number_format(rounded, digits, use_l10n=True, force_grouping=True)


@register.filter
def percent(share: float | None) -> str:
    """Format a share from 0 to 1 as a whole percentage: 0.934 -> 93 %."""
    return "–" if share is None else f"{number(100 * share)} %"


@register.filter
def codes(text: Any) -> SafeString:
    """Escape a text, and render its parts in backticks as code."""
    return mark_safe(re.sub(r"`([^`]+)`", r"<code>\1</code>", conditional_escape(text)))  # noqa: S308


@register.filter
def unlocalized(value: float) -> str:
    """Format a number for a drawing, with a decimal point in every language."""
    return f"{value:g}"


@register.filter
def bytes_iec(value: float | None) -> str:
    """Format bytes with a binary unit: 1536 -> 1.5 KiB."""
    if value is None:
        return "–"
    size, units = float(value), ["B", "KiB", "MiB", "GiB", "TiB", "PiB"]
    while abs(size) >= 1024 and len(units) > 1:
        size /= 1024
        units.pop(0)
    return f"{number(size, 0 if units[0] == 'B' or size >= 100 else 1)} {units[0]}"


@register.filter
def seconds(value: float | dt.timedelta | None) -> str:
    """Format a duration in seconds: 0.0042 -> 4.2 ms, 75 -> 1 min 15 s."""
    if value is None:
        return "–"
    length = value.total_seconds() if isinstance(value, dt.timedelta) else float(value)
    if 0 < length < 0.00005:
        return f"< {number(0.1, 1)} ms"
    if length < 0.99995:  # values that round up to the next unit use that unit
        return f"{number(length * 1000, 1)} ms"
    if length < 59.95:
        return f"{number(length, 1)} s"
    minutes, rest = divmod(round(length), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes} min" if hours else f"{minutes} min {rest} s"


@register.filter
def span(value: int | None) -> str:
    """Format a long duration in seconds in its largest whole unit: 31536000 -> 365 days."""
    if value is None:
        return "–"
    day = _SECONDS["d"]
    return ngettext("%s day", "%s days", value // day) % number(value // day) if value % day == 0 else _span(value)


@register.filter
def took(job: Any) -> str:
    """Format the duration of a job from `started_at` to `finished_at`, or until now if the job is running."""
    if job.started_at is None:
        return "–"
    # the clocks of two machines may differ
    return seconds(max((job.finished_at or timezone.now()) - job.started_at, dt.timedelta(0)))


SHOWN_NAMES = 3


@register.simple_tag
def names_brief(rows: Sequence[Any]) -> SafeString:
    """Render the names of the first SHOWN_NAMES of `rows`; if there are more, add the number of all rows."""
    shown = conditional_escape(", ".join(str(row.name) for row in rows[:SHOWN_NAMES]))
    if len(rows) <= SHOWN_NAMES:
        return shown
    return format_html('{} <span class="muted">{}</span>', shown, _("… %(n)s in total") % {"n": len(rows)})


# --- forms ---


def _without_secrets(form: forms.BaseForm) -> str:
    """Return the value of hx-params for a form's validation: all fields except passwords and keys."""
    secrets = [
        form.add_prefix(name)
        for name, field in form.fields.items()
        if isinstance(field.widget, forms.PasswordInput) or "data-secret" in field.widget.attrs
    ]
    return f"not {','.join(secrets)}" if secrets else "*"


def _control_attrs(bound: BoundField, described_by: list[str], validate: str) -> dict[str, str | bool]:
    attrs: dict[str, str | bool] = {"aria-describedby": " ".join(described_by)}
    if bound.errors:
        attrs["aria-invalid"] = "true"
    if validate:
        attrs |= {
            "hx-post": validate,
            "hx-trigger": "change, input changed delay:350ms",
            "hx-target": f"#{bound.auto_id}-error",
            "hx-swap": "outerHTML",
            "hx-sync": "this:queue last",
            "hx-params": _without_secrets(bound.form),
            "hx-vals": json.dumps({"_field": bound.html_name}),
        }
    return attrs


@register.inclusion_tag("components/field.html")
def field(
    bound: BoundField,
    validate: str = "",
    wide: bool = False,
    hide_label: bool = False,
    needed: bool = False,
    notes: Any = (),
) -> dict[str, object]:
    """Render a labeled form control with its help and errors, connected for screen readers.

    `validate` is a URL that responds with core.forms.field_errors; it is called while the user types. `notes` are lines
    below the field, such as settings that a web server cannot apply. `needed` marks the field as required although the
    form field is optional.
    """
    error_id, help_id = f"{bound.auto_id}-error", f"{bound.auto_id}-help"
    described_by = [help_id] if bound.help_text else []
    widget = bound.field.widget
    return {
        "bound": bound,
        "control": bound.as_widget(attrs=_control_attrs(bound, [*described_by, error_id], validate)),
        "errors": bound.errors,
        "error_id": error_id,
        "help_id": help_id,
        "is_checkbox": isinstance(widget, forms.CheckboxInput),
        "is_group": bool(getattr(widget, "use_fieldset", False)),
        "is_hidden": bound.is_hidden,
        "is_optional": not bound.field.required and not needed and not isinstance(widget, forms.Select),
        "hide_label": hide_label,
        "wide": wide,
        "notes": notes,
    }


# --- lists ---


@register.simple_tag(takes_context=True)
def query(context: RequestContext, **changes: Any) -> str:
    """Return the current query string with `changes`, a value for each parameter; None or "" removes the parameter.

    The parameter `page` is removed unless `changes` has a value for it.
    """
    request: HttpRequest = context["request"]
    params = request.GET.copy()
    for name, value in {"page": None, **changes}.items():
        params.pop(name, None)
        if value not in (None, ""):
            params[name] = str(value)
    return f"?{params.urlencode()}" if params else "?"


@register.inclusion_tag("components/pagination.html", takes_context=True)
def pagination(context: RequestContext, page: Page[Any], target: str = "#list") -> dict[str, object]:
    links = page.paginator.get_elided_page_range(page.number, on_each_side=1, on_ends=1)
    return {"page": page, "links": links, "request": context["request"], "target": target}


@register.inclusion_tag("components/sort_header.html", takes_context=True)
def sort_header(context: RequestContext, label: Any, name: str, numeric: bool = False) -> dict[str, object]:
    """Render a column heading that sorts the list by `name`, a value of the parameter `ordering`."""
    request: HttpRequest = context["request"]
    current = request.GET.get("ordering", "")
    direction = {"": "none", name: "ascending", f"-{name}": "descending"}.get(current, "none")
    follow = f"-{name}" if direction == "ascending" else name
    return {"label": label, "direction": direction, "follow": follow, "numeric": numeric, "request": request}


# --- diffs ---


@register.inclusion_tag("components/diff.html")
def diff(text: str, layout: str = "unified", label: str = "") -> dict[str, object]:
    """Render the unified diff of one file; `layout` is unified or split.

    A split view becomes unified on a narrow screen, and for new or deleted files, which have one empty side.
    """
    lines = diffs.parse_unified(text)
    sides = {line.kind for line in lines} - {"hunk", "note"}
    is_split = layout == "split" and len(sides) > 1
    return {
        "lines": lines,
        "rows": diffs.split_rows(lines) if is_split else [],
        "is_split": is_split,
        "label": label or _("Changes"),
        "added": sum(line.kind == "added" for line in lines),
        "removed": sum(line.kind == "removed" for line in lines),
    }


# --- blocks ---


@register.simple_block_tag
def live(content: str, url: str, active: bool = True, every: str = "1s", id: str = "live") -> SafeString:
    """Render a part of a page. While `active`, the part reloads itself from `url`, whose response replaces the part.

    The page includes the partial template that `url` returns, so both look the same.
    """
    poll = (
        format_html(' hx-get="{}" hx-trigger="every {}" hx-swap="outerHTML" hx-target="this"', url, every)
        if active
        else ""
    )
    return format_html('<div id="{}" class="live" data-live{}>{}</div>', id, poll, content)


@register.simple_block_tag
def card(content: str, title: Any = "", id: str = "", flush: bool = False) -> SafeString:
    """Render a card with a title. With `flush`, the content, usually a table, extends to the edges of the card."""
    head = format_html('<header class="card-head"><h2>{}</h2></header>', title) if title else ""
    ident = format_html(' id="{}"', id) if id else ""
    kind = "card flush" if flush else "card"
    return format_html('<section class="{}"{}>{}<div class="card-body">{}</div></section>', kind, ident, head, content)
