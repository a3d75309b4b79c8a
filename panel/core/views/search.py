"""Search over names and contents of objects, and over the panel's own pages."""

from __future__ import annotations

from dataclasses import dataclass
from urllib.parse import urlencode

from django.db.models import Q
from django.urls import reverse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from panel.accounts.models import User
from panel.accounts.permissions import Action, may, teams_read
from panel.benchmarks.selectors import runs_visible
from panel.core.tags import tags_counted
from panel.core.ui import Text
from panel.hosts.selectors import hosts_visible
from panel.websites.part_selectors import (
    blocks_visible,
    php_pools_visible,
    server_names_visible,
    stream_servers_visible,
    upstream_servers_visible,
)
from panel.websites.selectors import certificates_visible, sites_visible

MIN_LENGTH = 2
INDEXED_LENGTH = 3
PER_GROUP = 8


@dataclass(frozen=True)
class Hit:
    label: str
    url: str
    detail: Text = ""


@dataclass(frozen=True)
class Group:
    """Search results of one kind, for example sites; `kind` is the kind's name in the API."""

    kind: str
    label: Text
    icon: str
    hits: list[Hit]


KINDS = ("site", "domain", "host", "tag", "certificate", "backend", "folder", "run")


def search_all(user: User, words: str) -> list[Group]:
    """Search all kinds of objects; return the groups with results, at most PER_GROUP results each.

    Tags and upstream servers (`backend`) need two queries each, every other kind one. [] if `words` is shorter than
    MIN_LENGTH.
    """
    if len(words) < MIN_LENGTH:
        return []
    teams_read(user)
    groups = [
        Group("site", _("Sites"), "sites", _sites(user, words)),
        Group("domain", _("Domains"), "link", _domains(user, words)),
        Group("host", _("Hosts"), "hosts", _hosts(user, words)),
        Group("tag", _("Tags"), "tag", _tags(user, words)),
        Group("certificate", _("Certificates"), "certificate", _certificates(user, words)),
        Group("backend", _("Upstreams"), "route", _backends(user, words)),
        Group("stream", _("Stream servers"), "route", _streams(user, words)),
        Group("folder", _("Folders"), "file", _folders(user, words)),
        Group("run", _("Benchmarks"), "benchmarks", _runs(user, words)),
    ]
    return [group for group in groups if group.hits]


# Pages for actions: title, URL, required permission.
_PAGES: tuple[tuple[Text, str, Action], ...] = (
    (gettext_lazy("New site"), "websites:create", Action.CHANGE),
    (gettext_lazy("Add a host"), "hosts:add", Action.ADMINISTER),
    (gettext_lazy("Certificates"), "websites:certificates", Action.VIEW),
    (gettext_lazy("Deployments"), "deployments:list", Action.VIEW),
    (gettext_lazy("Drift: files edited on hosts"), "deployments:drift", Action.VIEW),
    (gettext_lazy("Start a benchmark"), "benchmarks:run-create", Action.BENCHMARK),
    (gettext_lazy("Benchmark scenarios"), "benchmarks:scenarios", Action.VIEW),
    (gettext_lazy("Benchmark suites"), "benchmarks:suites", Action.VIEW),
    (gettext_lazy("Reports"), "reports:list", Action.VIEW),
    (gettext_lazy("Schedules"), "reports:schedules", Action.VIEW),
    (gettext_lazy("New schedule"), "reports:schedule-new", Action.BENCHMARK),
    (gettext_lazy("Audit log: changes by users and tokens"), "audit:list", Action.VIEW),
    (gettext_lazy("Your account: email, time zone, theme"), "accounts:account", Action.VIEW),
    (gettext_lazy("Change your password"), "accounts:password", Action.VIEW),
    (gettext_lazy("Two-factor authentication (TOTP)"), "accounts:second_factor", Action.VIEW),
    (gettext_lazy("API tokens"), "accounts:tokens", Action.VIEW),
    (gettext_lazy("Users"), "accounts:users", Action.ADMINISTER),
    (gettext_lazy("Teams"), "accounts:teams", Action.ADMINISTER),
    (gettext_lazy("Self-check"), "accounts:self_check", Action.ADMINISTER),
    (gettext_lazy("Help and shortcuts"), "help", Action.VIEW),
)


def search_pages(user: User, words: str) -> list[Group]:
    """Search the titles of the panel's own pages that the user may open; all words must be in the title."""
    parts = words.casefold().split()
    if len(words) < MIN_LENGTH or not parts:
        return []
    found = [
        Hit(str(label), reverse(name))
        for label, name, action in _PAGES
        if all(part in str(label).casefold() for part in parts) and may(user, action)
    ]
    return [Group("page", _("Pages"), "right", found)] if found else []


def _containing(field: str, words: str) -> Q:
    """Return the condition that `field`, which must have lowercase letters only, contains the text `words` in any case.

    Indexes need three letters or more. For fewer letters, the database compares all rows; a comparison that ignores
    case would take several times as long.
    """
    if len(words) < INDEXED_LENGTH:
        return Q(**{f"{field}__contains": words.lower()})
    return Q(**{f"{field}__icontains": words})


def _sites(user: User, words: str) -> list[Hit]:
    rows = sites_visible(user).filter(_containing("name", words))[:PER_GROUP]
    return [Hit(row.name, _site_url(row.name), str(row.web_server or _("no web server yet"))) for row in rows]


def _domains(user: User, words: str) -> list[Hit]:
    rows = server_names_visible(user).filter(name__icontains=words).order_by("name", "pk")[:PER_GROUP]
    return [Hit(row.name, _site_url(row.block.site.name), row.block.site.name) for row in rows]


def _hosts(user: User, words: str) -> list[Hit]:
    rows = hosts_visible(user).filter(Q(name__icontains=words) | Q(address__icontains=words))[:PER_GROUP]
    return [Hit(row.name, reverse("hosts:detail", args=[row.name]), row.address) for row in rows]


def _tags(user: User, words: str) -> list[Hit]:
    """Return the tags that contain the words, each with a link to the list of sites or hosts with this tag."""
    sites = sites_visible(user).filter(_containing("tags", words))
    hosts = hosts_visible(user).filter(_containing("tags", words))
    found: list[tuple[str, Hit]] = []
    for rows, address, count in ((sites, "websites:list", _sites_counted), (hosts, "hosts:list", _hosts_counted)):
        for tag, number in tags_counted(rows).items():
            if words.casefold() in tag:
                found.append((tag, Hit(tag, f"{reverse(address)}?{urlencode({'tag': tag})}", count(number))))
    return [hit for _tag, hit in sorted(found, key=lambda pair: pair[0])[:PER_GROUP]]


def _sites_counted(number: int) -> str:
    return ngettext("%d site", "%d sites", number) % number


def _hosts_counted(number: int) -> str:
    return ngettext("%d host", "%d hosts", number) % number


def _certificates(user: User, words: str) -> list[Hit]:
    rows = certificates_visible(user).filter(name__icontains=words)[:PER_GROUP]
    url = reverse("websites:certificates")
    return [Hit(row.name, f"{url}{row.name}/", ", ".join(row.names[:3])) for row in rows]


def _backends(user: User, words: str) -> list[Hit]:
    """Return upstream servers and PHP pools whose addresses contain the words, with the sites that use them."""
    servers = upstream_servers_visible(user).filter(address__icontains=words).order_by("address", "pk")
    pools = php_pools_visible(user).filter(address__icontains=words).order_by("address", "pk")
    hits = [
        Hit(row.address, _site_url(row.upstream.site.name, "upstreams"), row.upstream.site.name)
        for row in servers[:PER_GROUP]
    ]
    hits += [Hit(row.address, _site_url(row.site.name, "php"), row.site.name) for row in pools[:PER_GROUP]]
    return hits[:PER_GROUP]


def _streams(user: User, words: str) -> list[Hit]:
    """Return stream servers whose names contain the words; if the words are a number, also those with this port."""
    found = Q(name__icontains=words)
    if words.isascii() and words.isdecimal() and len(words) < 6:
        found |= Q(port=int(words))
    rows = stream_servers_visible(user).filter(found).order_by("name", "pk")[:PER_GROUP]
    return [Hit(row.name, _site_url(row.site.name, "streams"), f"{row.site.name}, {row.socket}") for row in rows]


def _folders(user: User, words: str) -> list[Hit]:
    rows = blocks_visible(user).prefetch_related(None).filter(root__icontains=words).order_by("root", "pk")[:PER_GROUP]
    return [Hit(row.root, _site_url(row.site.name, "blocks"), row.site.name) for row in rows]


def _runs(user: User, words: str) -> list[Hit]:
    rows = runs_visible(user).filter(title__icontains=words)[:PER_GROUP]
    return [Hit(row.title, reverse("benchmarks:detail", args=[row.uuid]), row.get_status_display()) for row in rows]


def _site_url(name: str, tab: str = "detail") -> str:
    return reverse(f"websites:{tab}", args=[name])
