"""Global search: sites, domains, hosts and certificates whose names hold the words."""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse
from django.utils.translation import gettext as _

from panel.accounts.models import User
from panel.accounts.permissions import visible
from panel.core.ui import Text
from panel.hosts.models import Host
from panel.websites.models import Certificate, ServerName, Site

MIN_LENGTH = 2
PER_GROUP = 8


@dataclass(frozen=True)
class Hit:
    label: str
    url: str
    detail: Text = ""


@dataclass(frozen=True)
class Group:
    label: Text
    icon: str
    hits: list[Hit]


def search_all(user: User, words: str) -> list[Group]:
    """Four queries at most, each of PER_GROUP rows; groups without a hit are left away."""
    if len(words) < MIN_LENGTH:
        return []
    groups = [
        Group(_("Sites"), "sites", _sites(user, words)),
        Group(_("Domains"), "link", _domains(user, words)),
        Group(_("Hosts"), "hosts", _hosts(words)),
        Group(_("Certificates"), "certificate", _certificates(user, words)),
    ]
    return [group for group in groups if group.hits]


def _sites(user: User, words: str) -> list[Hit]:
    rows = visible(Site.objects.filter(name__icontains=words), user).select_related("install__host")[:PER_GROUP]
    return [Hit(row.name, _site_url(row.name), str(row.install or _("no server yet"))) for row in rows]


def _domains(user: User, words: str) -> list[Hit]:
    names = ServerName.objects.filter(name__icontains=words).select_related("block__site").order_by("name", "pk")
    rows = visible(names, user, team_path="block__site__team")[:PER_GROUP]
    return [Hit(row.name, _site_url(row.block.site.name), row.block.site.name) for row in rows]


def _hosts(words: str) -> list[Hit]:
    found = Host.objects.filter(name__icontains=words) | Host.objects.filter(address__icontains=words)
    rows = found[:PER_GROUP]  # hosts belong to no team: whoever is signed in may see them
    return [Hit(row.name, reverse("hosts:detail", args=[row.name]), row.address) for row in rows]


def _certificates(user: User, words: str) -> list[Hit]:
    rows = visible(Certificate.objects.filter(name__icontains=words), user)[:PER_GROUP]
    url = reverse("websites:certificates")
    return [Hit(row.name, f"{url}{row.name}/", ", ".join(row.names[:3])) for row in rows]


def _site_url(name: str) -> str:
    return reverse("websites:detail", args=[name])
