"""Alerts about the resources of hosts, for example full disks. All users get them, because all users can see hosts."""

from __future__ import annotations

from urllib.parse import quote

from django.urls import reverse
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.alerts.kinds import Alert
from panel.alerts.presence import found_in
from panel.hosts.models import Host
from panel.hosts.resources.selectors import CURRENT, reboots_needed, troubles


@found_in(lambda hour: Host.objects.filter(resources_at__gt=hour.begins - CURRENT).exclude(resources__problems=[]))
def trouble_alerts(user: User, most: int) -> list[Alert]:
    return [
        Alert(
            "resources",
            trouble.label,
            "host",
            trouble.host.name,
            trouble.words,
            # The fragment makes the keys of two problems of one host differ.
            f"{_page(trouble.host)}#{quote(trouble.problem.of or trouble.problem.kind)}",
            trouble.host.resources_at,
        )
        for trouble in troubles(user)[:most]
    ]


@found_in(lambda hour: Host.objects.filter(resources__reboot_needed=True))
def reboot_alerts(user: User, most: int) -> list[Alert]:
    words = _("Updated packages take effect after a reboot")
    return [
        Alert("reboot", _("Reboot needed"), "host", host.name, words, _page(host))
        for host in reboots_needed(user)[:most]
    ]


def _page(host: Host) -> str:
    return reverse("hosts:resources", args=[host.name])
