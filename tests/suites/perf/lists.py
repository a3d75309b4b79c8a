"""List pages with 1,000 hosts, 20,000 sites, 100,000 locations, 200,000 deployments, and a million audit entries.

Each page is requested on PostgreSQL by an administrator, by an operator whose team has half of the sites, and by a
viewer whose team has 20 of them. The same pages are requested first with a tenth of everything: the number of queries
must not grow (that is asserted, the times are only printed).
"""

from __future__ import annotations

import os
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
    "/deployments/?page=1000",
    "/deployments/?q=site-0012",
    "/audit/",
    "/audit/?page=1000",
    "/audit/?q=site-0012",
    "/certificates/calendar",
    "/search/?q=site-0012",
    "/api/v1/hosts/?limit=50",
    "/api/v1/sites/?limit=50",
    "/api/v1/locations/?limit=50",
    "/api/v1/deployments/?limit=50",
    "/api/v1/audit/?limit=50",
)
ROUNDS = 20


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
        clients = _clients()
        _fill(range(100), sites_per_host=20)
        small = {(name, page): _measure(clients[name], page, rounds=1)[1] for name in clients for page in PAGES}
        _fill(range(100, 1000), sites_per_host=20)
        print(f"{'page':<32}" + "".join(f"{name + ' p95 ms':>18}{'queries':>9}" for name in clients))
        for page in PAGES:
            cells = ""
            for name, client in clients.items():
                milliseconds, queries = _measure(client, page, rounds=ROUNDS)
                cells += f"{milliseconds:>18.1f}{queries:>9}"
                assert queries <= small[name, page], f"{page} asks more questions of a larger database"
            print(f"{page:<32}{cells}", flush=True)
        from django.db import connection

        connection.close()
        connection.close_pool()


def _clients() -> dict[str, Any]:
    """One signed-in client for each kind of user."""
    from django.conf import settings
    from django.test import Client

    from panel.accounts.models import Role, Team, User

    settings.ALLOWED_HOSTS = ["testserver"]
    clients = {}
    for name, role in (("admin", Role.ADMIN), ("operator", Role.OPERATOR), ("viewer", Role.VIEWER)):
        user = User.objects.create_user(name, "correct horse battery staple", role=role)
        user.teams.add(Team.objects.create(name=f"Team of the {name}", slug=f"of-{name}"))
        clients[name] = Client()
        clients[name].force_login(user, backend="django.contrib.auth.backends.ModelBackend")
    return clients


def _measure(client: Any, page: str, *, rounds: int) -> tuple[float, int]:
    """The 95th percentile of the milliseconds, and the number of queries, of one page."""
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
    return sorted(times)[-1 - len(times) // 20], len(asked)


def _fill(numbers: range, *, sites_per_host: int) -> None:
    from panel.accounts.models import Team
    from panel.deployments.models import SiteState
    from panel.hosts.models import Engine, Host, HostStatus, Layout, WebServer
    from panel.websites.models import Listen, Location, ServerBlock, ServerName, Site

    teams = {team.slug: team for team in Team.objects.all()}
    hosts = Host.objects.bulk_create(
        Host(name=f"host-{n:04}", address=f"10.0.{n // 250}.{n % 250}", status=HostStatus.READY, site_roots=["/srv"])
        for n in numbers
    )
    web_servers = WebServer.objects.bulk_create(
        WebServer(host=host, engine=Engine.NGINX, layout=Layout.SITES, version="1.22.1", paths={}) for host in hosts
    )
    sites = Site.objects.bulk_create(
        Site(name=f"site-{n:04}-{k:02}", team=teams[_owner(n, k)], web_server=web_server)
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
    _fill_history(sites)


def _owner(host: int, number: int) -> str:
    """The team of a site: the operator's has half of all sites, the viewer's 20."""
    if host % 100 == 7 and number in (3, 4):
        return "of-viewer"
    return "of-operator" if number % 2 else "of-admin"


def _fill_history(sites: list[Any]) -> None:
    """Ten deployments of each site with their steps, and 50 audit entries of each site, spread over half a year."""
    from django.db.models import Max
    from django.utils import timezone

    from panel.accounts.models import User
    from panel.audit.models import AuditEntry
    from panel.audit.services import audit_record_all
    from panel.deployments.models import Deployment, DeploymentItem, DeploymentStatus, Revision, Step, StepStatus
    from panel.deployments.plan import Plan, PlanSite

    users = list(User.objects.all())
    before = AuditEntry.objects.aggregate(Max("pk"))["pk__max"] or 0
    for part in range(0, len(sites), 500):
        chosen = sites[part : part + 500]
        revisions = Revision.objects.bulk_create(
            Revision(site=site, number=1, web_server=site.web_server, spec={}, files=[], digest=f"{site.pk:064}")
            for site in chosen
        )
        deployments = Deployment.objects.bulk_create(
            Deployment(
                host_id=site.web_server.host_id,
                status=DeploymentStatus.SUCCEEDED,
                is_verified=True,
                requested_by=users[number % 3],
                plan=Plan(sites=[PlanSite(id=site.pk, name=site.name, web_server="nginx", number=1)]),
            )
            for site in chosen
            for number in range(10)
        )
        DeploymentItem.objects.bulk_create(
            DeploymentItem(deployment=row, site=chosen[k // 10], revision=revisions[k // 10])
            for k, row in enumerate(deployments)
        )
        Step.objects.bulk_create(
            Step(deployment=row, position=k, name=name, status=StepStatus.SUCCEEDED)
            for row in deployments
            for k, name in enumerate(("journal", "stage", "test", "switch", "reload", "probe"))
        )
        for action in ("deployment.plan", "deployment.confirm"):
            audit_record_all(actor=users[0], action=action, targets=[(row, None, None) for row in deployments[::2]])
        changed = [(site, {"name": "a"}, {"name": "b"}) for site in chosen]
        audit_record_all(actor=users[part // 500 % 3], action="site.update", targets=changed)
    entry = AuditEntry._meta
    columns = ", ".join(field.column for field in entry.fields if not field.primary_key)
    _run(
        f"INSERT INTO {entry.db_table} ({columns}) SELECT {columns} FROM {entry.db_table} AS old,"
        " generate_series(1, 39) WHERE old.action = 'site.update' AND old.id > %s",
        before,
    )
    now = timezone.now()
    for model, column in ((Deployment, "created_at"), (AuditEntry, "at")):
        table = model._meta.db_table
        _run(f"UPDATE {table} SET {column} = %s - id %% 15552000 * interval '1 second'", now)


def _run(statement: str, *values: Any) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement, values)
