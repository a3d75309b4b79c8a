"""List pages with 1,000 hosts, 20,000 sites and 100,000 locations on PostgreSQL: time and number of queries.

The same pages are asked first with a tenth of everything: the number of queries must not grow (that is asserted, the
times are only printed).
"""

from __future__ import annotations

import os
import statistics
import time
from pathlib import Path
from typing import Any

from tests.support.postgres import Postgres

# What is searched for is found in both sizes: an empty page asks less.
PAGES = (
    "/",
    "/hosts/",
    "/hosts/?q=host-00",
    "/sites/",
    "/sites/?q=site-0012",
    "/sites/?page=20",
    "/deployments/",
    "/audit/",
    "/search/?q=site-0012",
    "/api/v1/hosts/?limit=50",
    "/api/v1/sites/?limit=50",
    "/api/v1/locations/?limit=1000",
)
ROUNDS = 7


def main(folder: Path) -> None:
    folder.mkdir(parents=True)
    folder.chmod(0o755)
    with Postgres(folder / "postgres") as postgres:
        os.environ["PADDOCK_DATABASE_URL"] = postgres.url
        import django

        os.environ["DJANGO_SETTINGS_MODULE"] = "panel.settings"
        django.setup()
        from django.core.management import call_command

        call_command("migrate", verbosity=0)
        client = _client()
        _fill(range(100), sites_per_host=20)
        small = {page: _measure(client, page, rounds=1)[1] for page in PAGES}
        _fill(range(100, 1000), sites_per_host=20)
        print(f"{'page':<34}{'ms':>9}{'queries':>9}{'at a tenth':>12}")
        for page in PAGES:
            milliseconds, queries = _measure(client, page, rounds=ROUNDS)
            print(f"{page:<34}{milliseconds:>9.1f}{queries:>9}{small[page]:>12}", flush=True)
            assert queries <= small[page], f"{page} asks more questions of a larger database"
        from django.db import connection

        connection.close()
        connection.close_pool()


def _client() -> Any:
    from django.conf import settings
    from django.test import Client

    from panel.accounts.models import Role, User

    settings.ALLOWED_HOSTS = ["testserver"]
    user = User.objects.create_user("admin", "correct horse battery staple", role=Role.ADMIN)
    client = Client()
    client.force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return client


def _measure(client: Any, page: str, *, rounds: int) -> tuple[float, int]:
    """Median milliseconds and the number of queries of one page."""
    from django.db import connection

    asked = []

    def note(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        asked.append(sql)
        return execute(sql, params, many, context)

    with connection.execute_wrapper(note):
        answer = client.get(page)
    assert answer.status_code == 200, f"{page} answers {answer.status_code}"
    assert asked, f"no query of {page} was seen"
    times = []
    for _ in range(rounds):
        began = time.perf_counter()
        client.get(page)
        times.append((time.perf_counter() - began) * 1000)
    return statistics.median(times), len(asked)


def _fill(numbers: range, *, sites_per_host: int) -> None:
    from panel.accounts.models import Team
    from panel.deployments.models import SiteState
    from panel.hosts.models import Engine, Host, HostStatus, Layout, WebServer
    from panel.websites.models import Listen, Location, ServerBlock, ServerName, Site

    team, _ = Team.objects.get_or_create(name="Everyone", slug="everyone")
    hosts = Host.objects.bulk_create(
        Host(name=f"host-{n:04}", address=f"10.0.{n // 250}.{n % 250}", status=HostStatus.READY, site_roots=["/srv"])
        for n in numbers
    )
    web_servers = WebServer.objects.bulk_create(
        WebServer(host=host, engine=Engine.NGINX, layout=Layout.SITES, version="1.22.1", paths={}) for host in hosts
    )
    sites = Site.objects.bulk_create(
        Site(name=f"site-{n:04}-{k:02}", team=team, web_server=web_server)
        for n, web_server in zip(numbers, web_servers, strict=True)
        for k in range(sites_per_host)
    )
    SiteState.objects.bulk_create(SiteState(site=site) for site in sites)
    blocks = ServerBlock.objects.bulk_create(ServerBlock(site=site, root=f"/srv/{site.name}") for site in sites)
    Listen.objects.bulk_create(Listen(block=block, port=80) for block in blocks)
    ServerName.objects.bulk_create(ServerName(block=block, name=f"{block.site.name}.example") for block in blocks)
    Location.objects.bulk_create(
        (
            Location(block=block, position=k, pattern=pattern)
            for block in blocks
            for k, pattern in enumerate(("/", "/assets/", "/media/", "/downloads/", "/blog/"))
        ),
        batch_size=5000,
    )
