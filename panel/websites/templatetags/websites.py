"""Template tags that describe sites, locations and certificates."""

from __future__ import annotations

import datetime as dt
from typing import Any

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from panel.core.templatetags import ui
from panel.hosts.observing import is_recent
from panel.websites.certificates import expiry_step
from panel.websites.listing import health_of
from panel.websites.listing import site_status as status_of
from panel.websites.models import Certificate, Handler, Location, RawSnippet, ServerBlock, Site, UpstreamProtocol

register = template.Library()
SHOWN_DOMAINS = 2  # in a list, if they fit in this many letters
SHOWN_LETTERS = 48


@register.simple_tag
def site_status(site: Site) -> SafeString:
    value, label = status_of(site)
    return ui.status(value, label or _("Draft"))


@register.simple_tag
def observed(site: Site, observer: str) -> SafeString:
    """Describe, as HTML, the latest observation of a site by `observer`: `health` is its host, `reach` is the panel.

    The text has the time of the last response, and the time since which the site responds or fails.
    """
    state: Any = site.state
    value = health_of(site) if observer == "health" else getattr(state, observer)
    at, since, words = (getattr(state, f"{observer}_{name}") for name in ("at", "since", "words"))
    is_paused = site.web_server is not None and site.web_server.host.is_paused
    is_fresh = value != "answering" or is_recent(at, is_paused=is_paused)
    look, label = {
        "answering": ("ok", _("Responding")) if is_fresh else ("unknown", _("Not observed")),
        "failing": ("failing", _("Failing")),
    }.get(value, ("unknown", _("Not observed")))
    shown = ui.status(look, label)
    times = [(_("last response"), at)] if value != "failing" else []
    times += [(_("since"), since)] if since else []
    told = format_html_join(", ", "{} {}", ((name, ui.ago(when)) for name, when in times if when))
    return format_html('{} <span class="muted">{} {}</span>', shown, told, words)


@register.simple_tag
def site_domains(names: list[str]) -> SafeString:
    """Return, as HTML, the first server names of a site for a list; the other names are in a tooltip."""
    count = len(names[:SHOWN_DOMAINS]) if len(", ".join(names[:SHOWN_DOMAINS])) <= SHOWN_LETTERS else 1
    shown, rest = format_html_join(", ", "{}", ((name,) for name in names[:count])), names[count:]
    if rest:
        return format_html('{} <span class="muted" title="{}">+{}</span>', shown, ", ".join(rest), len(rest))
    return shown or format_html('<span class="muted">{}</span>', _("any name"))


@register.simple_tag
def location_target(location: Location) -> str:
    """Describe in a few words where a location's responses come from: its upstream, PHP pool, redirect, or folder."""
    if location.handler == Handler.PROXY:
        return f"{location.upstream or '?'}{location.proxy_uri}"
    if location.handler == Handler.PHP:
        return str(location.php_pool or "?")
    if location.handler == Handler.RETURN:
        return f"{location.return_code or ''} {location.return_value}".strip()
    if location.handler == Handler.DENY:
        return "403"
    return location.alias or location.root or " ".join(location.try_files)


@register.simple_tag
def location_extras(location: Location) -> SafeString:
    """Return badges, as HTML, for further features that a location uses."""
    words = [
        (_("password"), bool(location.basic_auth_realm)),
        (_("access rules"), bool(location.access_rules)),
        (_("rate limit"), bool(location.rate_limit_rps)),
        (_("headers"), bool(location.headers)),
        (_("expires"), bool(location.expires)),
        ("gRPC", location.upstream_protocol == UpstreamProtocol.GRPC),
        ("uWSGI", location.upstream_protocol == UpstreamProtocol.UWSGI),
        ("WebSocket", location.websocket),
        (_("rewrites"), bool(location.rewrites)),
        (_("cache"), bool(location.cache_times)),
    ]
    return format_html_join(" ", "{}", ((ui.badge(word),) for word, is_set in words if is_set))


@register.simple_tag
def block_snippets(block: ServerBlock) -> list[tuple[RawSnippet, str]]:
    """Return (raw directives, location as text) pairs of a server block; the text is "" for directives of the block
    itself. Makes no query if the snippets are prefetched.
    """
    found = [(snippet, "") for snippet in block.snippets.all()]
    for location in block.locations.all():
        found += [(snippet, str(location)) for snippet in location.snippets.all()]
    return found


@register.simple_tag
def certificate_status(certificate: Certificate, now: dt.datetime) -> SafeString:
    step = expiry_step(certificate.not_before, certificate.not_after, now)
    if certificate.revoked_at is not None:
        return ui.status("refused", _("Revoked"))
    if step == 0:
        return ui.status("expired", _("Expired"))
    if step:
        return ui.status("expiring", _("Expires soon"))
    if certificate.not_before > now:
        return ui.status("queued", _("Not valid yet"))
    return ui.status("valid", _("Valid"))
