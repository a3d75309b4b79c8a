"""Rows of a large installation: hosts, sites, locations, deployments, and audit entries, with tags and all states.

A site in a hundred fails its health check, one was edited on its host, one has a changed draft, and one host in a
hundred is not reachable; the other sites respond. A site in ten has a certificate, and a host in ten a benchmark.
"""

from __future__ import annotations

import datetime as dt
from typing import Any

TEAMS = ("admin", "operator", "viewer")
COPIED = (
    *("hosts.Host", "hosts.WebServer", "websites.Certificate", "websites.Site", "websites.ServerBlock"),
    *("websites.Listen", "websites.ServerName", "websites.Location", "deployments.Revision", "deployments.Deployment"),
    *("deployments.DeploymentItem", "deployments.Step", "deployments.SiteState", "deployments.Drift"),
    *("benchmarks.Run", "benchmarks.RunTarget", "audit.AuditEntry"),
)
STEP = 1_000_000  # between the keys of copies
USERS = (("admin", "admin"), ("operator", "operator"), ("member", "operator"), ("viewer", "viewer"))


def users() -> dict[str, Any]:
    """Make an administrator, an operator whose team has half of the sites, and an operator and a viewer of a team with
    20 in 20,000 sites.
    """
    from panel.accounts.models import Team, User

    teams = {name: Team.objects.get_or_create(name=f"Team of the {name}", slug=f"of-{name}")[0] for name in TEAMS}
    found = {}
    for name, role in USERS:
        user, is_new = User.objects.get_or_create(username=name, defaults={"role": role})
        if is_new:
            user.set_password("correct horse battery staple")
            user.save()
        user.teams.set([teams["viewer" if name == "member" else name]])
        found[name] = user
    return found


def fill(numbers: range, *, sites_per_host: int) -> None:
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
    """Ten deployments of each site with their steps, and 50 audit entries of each site, spread over half a year.

    One of each is made here; the database copies it.
    """
    from django.db.models import Max

    from panel.accounts.models import User
    from panel.audit.models import AuditEntry
    from panel.audit.services import audit_record_all
    from panel.deployments.models import Deployment, DeploymentItem, Step

    actors = list(User.objects.order_by("pk"))
    last_entry, last_deployment, last_item = (
        model.objects.aggregate(Max("pk"))["pk__max"] or 0 for model in (AuditEntry, Deployment, DeploymentItem)
    )
    for part in range(0, len(sites), 500):
        chosen = sites[part : part + 500]
        deployments = _deploy(chosen, actors)
        for action in ("deployment.plan", "deployment.confirm"):
            audit_record_all(actor=actors[0], action=action, targets=[(row, None, None) for row in deployments])
        changed = [(site, {"name": "a"}, {"name": "b"}) for site in chosen]
        audit_record_all(actor=actors[part // 500 % len(actors)], action="site.update", targets=changed)
    _copy(AuditEntry, 39, "id > %s AND action = 'site.update'", last_entry)
    _copy(AuditEntry, 4, "id > %s AND action <> 'site.update'", last_entry)
    _copy(Deployment, 9, "id > %s", last_deployment, uuid="gen_random_uuid()", batch="gen_random_uuid()")
    run_sql(
        "INSERT INTO deployments_deploymentitem (deployment_id, site_id, revision_id) SELECT row.id, item.site_id,"
        " item.revision_id FROM deployments_deployment AS row JOIN deployments_deployment AS first"
        " ON first.plan = row.plan JOIN deployments_deploymentitem AS item ON item.deployment_id = first.id"
        " WHERE item.id > %s AND row.id > %s AND row.id <> first.id",
        last_item,
        last_deployment,
    )
    run_sql(
        "INSERT INTO deployments_step (deployment_id, position, name, status, argv, output) SELECT row.id,"
        " position - 1, name, 'succeeded', '[]', '' FROM deployments_deployment AS row, unnest(ARRAY['journal',"
        " 'stage', 'test', 'switch', 'reload', 'probe']) WITH ORDINALITY AS step (name, position) WHERE row.id > %s",
        last_deployment,
    )
    assert Step.objects.count() == Deployment.objects.count() * 6
    _spread()


def _deploy(sites: list[Any], actors: list[Any]) -> list[Any]:
    from panel.deployments.models import Deployment, DeploymentItem, DeploymentStatus, Revision
    from panel.deployments.plan import Plan, PlanSite

    revisions = Revision.objects.bulk_create(
        Revision(site=site, number=1, web_server=site.web_server, spec={}, files=[], digest=f"{site.pk:064}")
        for site in sites
    )
    deployments = Deployment.objects.bulk_create(
        Deployment(
            host=site.web_server.host,
            status=DeploymentStatus.SUCCEEDED,
            is_verified=True,
            requested_by=actors[number % len(actors)],
            plan=Plan(sites=[PlanSite(id=site.pk, name=site.name, web_server="nginx", number=1)]),
        )
        for number, site in enumerate(sites)
    )
    DeploymentItem.objects.bulk_create(
        DeploymentItem(deployment=row, site=site, revision=revision)
        for row, site, revision in zip(deployments, sites, revisions, strict=True)
    )
    return deployments


def _copy(model: Any, times: int, condition: str, *values: Any, **changed: str) -> None:
    """Insert each row that meets the condition this many times more, with the `changed` columns."""
    columns = [field.column for field in model._meta.local_concrete_fields if not field.primary_key]
    chosen = ", ".join(changed.get(name, f'old."{name}"') for name in columns)
    quoted = ", ".join(f'"{name}"' for name in columns)
    table = model._meta.db_table
    run_sql(
        f"INSERT INTO {table} ({quoted}) SELECT {chosen} FROM {table} AS old, generate_series(1, {times})"
        f" WHERE {condition}",
        *values,
    )


def _spread() -> None:
    """Spread deployments and audit entries over the last half year; a deployment in fifty failed."""
    from django.utils import timezone

    now = timezone.now()
    run_sql(
        "UPDATE audit_auditentry SET at = %s - hashint8(id)::bigint %% 7776000 * interval '1 s' - interval '90 d'", now
    )
    run_sql("UPDATE deployments_deployment SET status = CASE id %% 50 WHEN 0 THEN 'failed' ELSE 'succeeded' END")
    _spread_deployments(now)


def _spread_deployments(now: dt.datetime) -> None:
    """Spread deployments over the last half year in the order of their keys, as they are made."""
    run_sql(
        "UPDATE deployments_deployment SET created_at = at, confirmed_at = at, started_at = at, finished_at = at +"
        " interval '3 s' FROM (SELECT id AS own, %s - (1 - row_number() OVER (ORDER BY id) / count(*) OVER ()::float)"
        " * interval '180 d' AS at FROM deployments_deployment) AS times WHERE own = id",
        now,
    )


def run_sql(statement: str, *values: Any) -> None:
    from django.db import connection

    with connection.cursor() as cursor:
        cursor.execute(statement, values)


def vary() -> None:
    """Give the sites and hosts their states, tags, certificates, and benchmarks."""
    from django.utils import timezone

    from panel.benchmarks.models import Run
    from panel.deployments.models import Drift, SiteState
    from panel.hosts.models import Host, WebServer
    from panel.websites.models import Certificate, ServerBlock

    now = timezone.now()
    run_sql(
        "UPDATE deployments_sitestate AS state SET revision_id = revision.id, deployed_at = %s, status = CASE"
        " state.site_id %% 100 WHEN 2 THEN 'drifted' ELSE 'live' END, health = CASE state.site_id %% 100 WHEN 1 THEN"
        " 'failing' ELSE 'answering' END, health_words = 'The site responded with 200.', health_since = %s,"
        " reach = 'answering', live_version = CASE state.site_id %% 100 WHEN 3 THEN 0 ELSE 1 END"
        " FROM deployments_revision AS revision WHERE revision.site_id = state.site_id",
        now - dt.timedelta(days=3),
        now - dt.timedelta(days=2),
    )
    run_sql("UPDATE websites_site SET tags = ',app-' || id %% 20 || ',tier-' || id %% 3 || ','")
    run_sql("UPDATE hosts_host SET tags = ',role=web,zone-' || id %% 4 || ','")
    Host.objects.filter(name__endswith="50").update(status="unreachable", status_detail="No route to host")
    WebServer.objects.update(is_running=True)
    SiteState.objects.update(health_at=now)
    drifted = SiteState.objects.filter(status="drifted").values_list("site", "site__web_server", "site__name")
    Drift.objects.bulk_create(
        Drift(site_id=site, web_server_id=web_server, path=f"/etc/nginx/sites-enabled/{name}", diff="-a\n+b\n")
        for site, web_server, name in drifted
    )
    blocks = list(ServerBlock.objects.filter(site__name__endswith="7").select_related("site").order_by("pk"))
    for number, block in enumerate(blocks):
        block.certificate = Certificate(
            name=block.site.name,
            team_id=block.site.team_id,
            source="uploaded",
            names=[f"{block.site.name}.example"],
            issuer="Example CA",
            fingerprint=f"{number:064}",
            not_before=now,
            not_after=now + dt.timedelta(days=5 + number % 85),
            faults=[],
        )
    Certificate.objects.bulk_create(block.certificate for block in blocks if block.certificate)
    ServerBlock.objects.bulk_update(blocks, ["certificate"], batch_size=2000)
    _benchmarks(Run, now)


def _benchmarks(run: Any, now: dt.datetime) -> None:
    """A benchmark of one site on every tenth host."""
    from panel.benchmarks.models import RunTarget
    from panel.websites.models import Site

    sites = list(Site.objects.filter(name__endswith="0-05"))
    rows = run.objects.bulk_create(run(title=site.name, parameters={}, status="finished") for site in sites)
    RunTarget.objects.bulk_create(
        RunTarget(run=row, site=site, position=0) for row, site in zip(rows, sites, strict=True)
    )


def multiply(times: int) -> None:
    """Copy everything that belongs to hosts, as if there were so many times more of them; faster than `fill`.

    Copies have the keys and names of their originals plus a number: host-0012 becomes host-0112, host-0212, ...
    """
    from django.apps import apps
    from django.utils import timezone

    models = [apps.get_model(name) for name in COPIED]
    for model in models:
        table, meta = model._meta.db_table, model._meta
        fields = meta.local_concrete_fields
        columns = ", ".join(f'"{field.column}"' for field in fields)
        values = ", ".join(_copied(field, models) for field in fields)
        run_sql(f"INSERT INTO {table} ({columns}) SELECT {values} FROM {table}, generate_series(1, {times - 1}) AS k")
        run_sql(f"SELECT setval(pg_get_serial_sequence('{table}', 'id'), (SELECT max(id) FROM {table}))")
    _spread_deployments(timezone.now())


def _copied(field: Any, models: list[Any]) -> str:
    """The value of a column in the k-th copy."""
    column = f'"{field.column}"'
    if field.primary_key or field.related_model in models:
        return f"{column} + k * {STEP}"
    if field.column in ("uuid", "batch"):
        return "gen_random_uuid()"
    if field.column in ("name", "title", "root", "path", "object_label"):
        return f"regexp_replace({column}, '-00', '-0' || k)"
    if field.column == "object_id":
        return f"({column}::bigint + k * {STEP})::text"
    if field.column == "plan":
        named = f"regexp_replace({column}::text, '-00', '-0' || k)::jsonb"
        return f"jsonb_set({named}, '{{sites,0,id}}', to_jsonb(({column} #>> '{{sites,0,id}}')::bigint + k * {STEP}))"
    return f"{column} + k * interval '7 s'" if field.column in ("at", "created_at") else column


def observe() -> None:
    """Record that every site was observed just now: what was observed minutes ago says nothing about the present."""
    from django.utils import timezone

    from panel.deployments.models import SiteState

    SiteState.objects.update(health_at=timezone.now(), reach_at=timezone.now())
    run_sql("VACUUM ANALYZE")
