"""A panel after months of use, so that every page has something to show: long names, every status, real figures.

The rows of the security tests' world come first: tests/suites/security/addresses.py fills their keys into the addresses
of the URLconf. What has pages beyond those (a run that goes on, a plan that waits) is named in `more`.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.urls import reverse

from panel.accounts.models import SavedView, User
from panel.certificates.models import DnsAccount
from panel.hosts.models import Engine
from tests.suites.browser.world import benchmarks, comparisons, deployments, hosts, reports, rollouts, sites
from tests.suites.security import world as owned
from tests.support.cast import everything_listed, web_server


@dataclass
class Used:
    """`more`: addresses of pages that the URLconf alone does not lead to."""

    admin: User
    owner: User
    more: list[str]


def build() -> Used:
    world = owned.build()
    busy, new = hosts.build()
    everything_listed(busy)
    servers = [
        web_server(busy, engine, "", version=version, is_running=engine != Engine.OPENLITESPEED)
        for engine, version in (
            (Engine.NGINX, "1.22.1"),
            (Engine.APACHE, "2.4.62"),
            (Engine.NATIVE, "0.9.0"),
            (Engine.OPENLITESPEED, "1.8.2"),
        )
    ]
    rows = sites.build(world.owner, servers)
    more = [reverse("hosts:detail", args=[row.name]) for row in (busy, new)]
    more += [reverse("hosts:resources", args=[busy.name])]
    more += [reverse("websites:detail", args=[row.name]) for row in rows]
    more += [reverse(f"websites:{name}", args=["shop"]) for name in ("blocks", "upstreams", "tls", "history", "raw")]
    many = f"?site=shop&site={sites.LONG_SITE}&site=draft"
    more += [reverse("websites:bulk_delete") + many, reverse("websites:bulk_move") + many]
    more += [reverse("websites:bulk_tag") + many, reverse("hosts:bulk_tag") + f"?host={hosts.LONG_HOST}&host=db-2"]
    more += [reverse("websites:explain", args=["shop"]) + "?url=http://shop.example/api/cart"]
    more += deployments.build(world.owner, rows, servers[0])
    more += rollouts.build(world.owner, [busy, new])
    more += rollouts.windows(world.admin)
    more += rollouts.previews(world.owner, busy)
    more += rollouts.placements(rows, [busy, new])
    more += hosts.virtual_addresses([busy, new])
    more += hosts.fpm_pool(rows[0])
    more += hosts.authorities(busy)
    more += hosts.certificates_on_disk(busy)
    more += rollouts.content(world.owner, rows[0], busy)
    rollouts.dns(DnsAccount.objects.get())
    more += deployments.drifts(rows[0], servers[0])
    more += benchmarks.build(world.owner, rows, servers)
    more += comparisons.build(world.owner, rows[0], servers)
    more += reports.build(world.owner, rows)
    more += _views(world.admin)
    more += [reverse("search") + f"?q={words}" for words in ("e", "shop", "nothing-like-it")]
    return Used(world.admin, world.owner, more)


def _views(admin: User) -> list[str]:
    """Lists narrowed to a view, and to what has no name yet."""
    for name, query in (("Live on nginx", "engine=nginx&status=live"), ("Everything that waits", "status=pending")):
        SavedView.objects.create(user=admin, page=SavedView.Page.SITES, name=name, query=query)
    listed = reverse("websites:list")
    return [f"{listed}?status=live&engine=nginx", f"{listed}?q=shop", f"{reverse('audit:list')}?actor=olaf"]
