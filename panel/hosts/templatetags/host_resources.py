"""Template tags that describe hosts: their state, and the last reading of their resources."""

from __future__ import annotations

from django import template
from django.utils.safestring import SafeString
from django.utils.translation import gettext as _

from panel.core.templatetags import ui
from panel.core.templatetags.ui import bytes_iec, number
from panel.hosts.models import Host, WebServer
from panel.hosts.observing import host_status as status_of
from panel.hosts.observing import web_server_state as state_of
from panel.hosts.resources.readings import Reading

register = template.Library()


@register.simple_tag
def host_status(host: Host) -> SafeString:
    return ui.status(*status_of(host))


@register.simple_tag
def web_server_state(web_server: WebServer) -> SafeString:
    state = state_of(web_server)
    look, label = {
        "running": ("live", _("Running")),
        "stopped": ("stopped", _("Stopped")),
        "unknown": ("unknown", _("Not observed")),
    }[state]
    return ui.status(look, label)


@register.filter
def memory_words(reading: Reading) -> str:
    """Return the available and the total memory, for example "2 GiB of 8 GiB available"."""
    values = {"free": bytes_iec(reading.memory_available), "total": bytes_iec(reading.memory_total)}
    return _("%(free)s of %(total)s available") % values


@register.filter
def clock_words(reading: Reading) -> str:
    """Describe the difference between the host's clock and the panel's, in whole seconds."""
    distance = round(reading.clock_distance_s)
    if not distance:
        return _("same time as the panel's clock")
    ahead, behind = _("%s s ahead of the panel's clock"), _("%s s behind the panel's clock")
    return (ahead if (reading.clock_offset_s or 0) > 0 else behind) % number(distance)
