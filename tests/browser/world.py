"""A panel after months of use, so that every page has something to show: long names, every status, real figures.

The rows of the security tests' world come first: their keys are the ones that tests/security/addresses.py fills into
the addresses of the URLconf. What has pages beyond those (a run that goes on, a plan that waits) is named in `more`.
"""

from __future__ import annotations

import difflib
from dataclasses import dataclass, replace
from datetime import timedelta
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from django.urls import reverse
from django.utils import timezone

from panel.accounts.models import SavedView, User
from panel.benchmarks import selectors
from panel.benchmarks.choices import Tool
from panel.benchmarks.measured import measured_json
from panel.benchmarks.models import Round, Run, RunTarget, Scenario
from panel.benchmarks.parsers import Output, parse
from panel.benchmarks.summary import summarize
from panel.deployments.models import Deployment, DeploymentItem, Drift, Revision, SiteState, Step
from panel.hosts.models import Connection, Engine, EngineInstall, Host, HostOperation
from panel.reports import making, storing
from panel.reports.models import Occurrence, Schedule
from panel.reports.services import schedule_create
from panel.trials.models import Contender, Trial
from panel.websites import services
from panel.websites.models import Site
from tests.benchmarks.made import recorded
from tests.security import world as owned
from tests.security.world import KEY
from tests.support.cast import install

LONG_HOST = "web-frankfurt-07-production-behind-the-second-load-balancer"
LONG_SITE = "intranet-documentation-and-knowledge-base-of-the-whole-company"
TAGS = ["eu-central", "env:production", "rack-7", "behind-the-second-load-balancer"]
CONF = "/etc/nginx/sites-available/paddock-shop.conf"
OLD = "server {\n    listen 80;\n    server_name shop.example;\n    root /srv/www/shop;\n    gzip on;\n}\n"
NEW = OLD.replace("    gzip on;\n", "    gzip on;\n    gzip_types text/css application/javascript;\n    expires 1h;\n")
DIFF = "".join(difflib.unified_diff(OLD.splitlines(True), NEW.splitlines(True), CONF, CONF))


@dataclass
class Used:
    """`more`: addresses of pages that the URLconf alone does not lead to."""

    admin: User
    owner: User
    more: list[str]


def build() -> Used:
    world = owned.build()
    busy, new = _hosts()
    servers = [
        install(busy, engine, "", version=version, is_running=engine != Engine.OPENLITESPEED)
        for engine, version in (
            (Engine.NGINX, "1.22.1"),
            (Engine.APACHE, "2.4.62"),
            (Engine.NATIVE, "0.9.0"),
            (Engine.OPENLITESPEED, "1.8.2"),
        )
    ]
    sites = _sites(world.owner, servers)
    more = [reverse("hosts:detail", args=[row.name]) for row in (busy, new)]
    more += [reverse("websites:detail", args=[row.name]) for row in sites]
    more += [reverse(f"websites:{name}", args=["shop"]) for name in ("blocks", "upstreams", "tls", "history", "raw")]
    many = f"?site=shop&site={LONG_SITE}&site=draft"
    more += [reverse("websites:bulk_delete") + many, reverse("websites:bulk_move") + many]
    more += [reverse("websites:bulk_tag") + many, reverse("hosts:bulk_tag") + f"?host={LONG_HOST}&host=db-2"]
    more += [reverse("websites:explain", args=["shop"]) + "?url=http://shop.example/api/cart"]
    more += _deployments(world.owner, sites, servers[0])
    more += _drifts(sites[0], servers[0])
    more += _runs(world.owner, sites, servers)
    more += _trials(world.owner, sites[0], servers)
    more += _reports(world.owner, sites)
    more += _views(world.admin)
    more += [reverse("search") + f"?q={words}" for words in ("e", "shop", "nothing-like-it")]
    return Used(world.admin, world.owner, more)


def _views(admin: User) -> list[str]:
    """Lists narrowed to a view, and to what has no name yet."""
    for name, query in (("Live on nginx", "engine=nginx&status=live"), ("Everything that waits", "status=pending")):
        SavedView.objects.create(user=admin, page=SavedView.Page.SITES, name=name, query=query)
    sites = reverse("websites:list")
    return [f"{sites}?status=live&engine=nginx", f"{sites}?q=shop", f"{reverse('audit:list')}?actor=olaf"]


# --- hosts ---


def _public_key() -> str:
    return Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()


def _facts() -> dict[str, Any]:
    other = {"engine": "nginx", "version": "1.22.1", "paths": {"main_config": "/opt/company/nginx/conf/nginx.conf"}}
    return {
        "os": {"name": "Debian GNU/Linux 12 (bookworm)"},
        "kernel": "6.1.0-28-amd64",
        "cpus": 16,
        "cpu_model": "AMD EPYC 7313P 16-Core Processor",
        "memory_bytes": 2**36,
        "python": "3.11.2",
        "tools": {"ab": {"version": "2.3"}, "wrk": {"version": "4.1.0"}},
        "other_servers": [other | {"fault": ""}],
    }


def _hosts() -> tuple[Host, Host]:
    """One that works and one whose key changed."""
    now = timezone.now()
    times = {"facts_at": now, "last_seen_at": now}
    busy = Host.objects.create(
        name=LONG_HOST,
        connection=Connection.LOCAL,
        status="ready",
        site_roots=["/srv/www"],
        facts=_facts(),
        tags=TAGS,
        **times,
    )
    silence = "The host did not answer within 30 s. Check that its sshd runs, then check it again."
    for kind, status, error in (("service", "queued", ""), ("check", "succeeded", ""), ("drift", "failed", silence)):
        params = {"action": "reload"} if kind == "service" else {}
        ended = None if status == "queued" else now
        HostOperation.objects.create(
            host=busy, kind=kind, status=status, error=error, params=params, started_at=ended, finished_at=ended
        )
    new = Host.objects.create(
        name="db-2",
        connection=Connection.SSH,
        address="db-2.example",
        username="admin",
        status="key_changed",
        host_key=_public_key(),
        offered_host_key=_public_key(),
    )
    return busy, new


# --- sites ---


def _locations() -> list[dict[str, Any]]:
    return [
        {"match": "=", "pattern": "/health", "handler": "return", "return_code": 200, "return_value": "ok"},
        {"pattern": "/api/", "handler": "proxy", "upstream": "app", "gzip": "on", "rate_limit_rps": 20},
        {"match": "~", "pattern": r"^/downloads/(?<version>[0-9.]+)/.*\.(zip|tar\.gz)$", "expires": "30d"},
        {"match": "~", "pattern": r"\.php$", "handler": "php", "php_pool": "php"},
    ]


def _sites(owner: User, servers: list[EngineInstall]) -> list[Site]:
    """A shop of many parts, a site with a long name and many domains, and a draft without a server."""
    team = owner.teams.get()
    services.certificate_self_sign(
        actor=owner, team=team, name="shop-example", names=["shop.example", "*.shop.example"], days=20
    )
    backends = [{"address": "127.0.0.1:3000"}, {"address": "backend-2.internal.example:3000", "backup": True}]
    block = {
        "listens": [{"port": 80, "default_server": True}, {"port": 443, "tls": True, "http2": True}],
        "names": ["shop.example", "www.shop.example"],
        "certificate": "shop-example",
        "redirect_to_https": True,
        "hsts_max_age_s": 31_536_000,
        "root": "/srv/www/shop",
        "index": ["index.html"],
        "locations": _locations(),
    }
    shop = {
        "name": "shop",
        "team": team.slug,
        "install": servers[0].pk,
        "tags": ["customer:example", "shop"],
        "notes": "Ask Petra before changing the API.\nOn call: 0800 1234.",
        "upstreams": [{"name": "app", "servers": backends}],
        "php_pools": [
            {"name": "php", "address": "unix:/run/php/php8.2-fpm.sock", "settings": {"memory_limit": "256M"}}
        ],
        "blocks": [block],
    }
    names = [f"{word}.knowledge-base.intranet.company.example" for word in ("docs", "wiki", "search", "api", "status")]
    long = {"listens": [{"port": 8080}], "names": names, "root": "/srv/www/intranet"}
    definitions = (
        shop,
        {"name": LONG_SITE, "team": team.slug, "install": servers[1].pk, "blocks": [long]},
        {"name": "draft", "team": team.slug, "blocks": []},
    )
    return [services.site_define(actor=owner, data=data) for data in definitions]


# --- deployments ---


def _file(path: str, site: str, at: EngineInstall, **values: Any) -> dict[str, Any]:
    base = {"path": path, "site": site, "install": at.pk, "action": "put", "mode": 0o644, "sha256": "a" * 64}
    base |= {"link": "", "secret": False, "old_sha256": "b" * 64, "expect": "b" * 64, "found_sha256": None}
    return base | {"diff": DIFF} | values


def _plan(sites: list[Site], at: EngineInstall, number: int) -> dict[str, Any]:
    lines = [{"id": row.pk, "name": row.name, "install": str(at), "number": number, "previous": None} for row in sites]
    note = {
        "site": "shop",
        "where": "server block 1, location ~ \\.php$",
        "text": "Apache httpd has no separate limit for a burst of requests.",
        "nearest": "Requests beyond the rate are slowed down, not refused.",
    }
    return {
        "sites": lines,
        "installs": [at.pk],
        "files": [_file(CONF, "shop", at, found_sha256="c" * 64), _file("/etc/nginx/paddock/keys", "shop", at)],
        "warnings": [note],
        "drifted": [CONF],
        "checked": False,
        "unchecked": "The host web-7 cannot be reached: connection refused.",
        "after": {},
    }


def _steps(deployment: Deployment, last: str, output: str) -> None:
    now = timezone.now()
    argv = {"test": ["/usr/sbin/nginx", "-t", "-q", "-c", "/etc/nginx/nginx.conf"]}
    for position, name in enumerate(("lock", "check", "journal", "stage", "test")):
        is_last = name == "test"
        Step.objects.create(
            deployment=deployment,
            position=position,
            name=name,
            status=last if is_last else "succeeded",
            argv=argv.get(name, []),
            exit_code=1 if is_last and last == "failed" else None,
            output=output if is_last else "",
            started_at=now,
            finished_at=None if last == "running" and is_last else now,
        )


def _deployments(owner: User, sites: list[Site], at: EngineInstall) -> list[str]:
    now = timezone.now()
    found = []
    revision, _other = (
        Revision.objects.create(site=site, number=1, install=at, spec={}, files=[], digest="e" * 64, created_by=owner)
        for site in sites[:2]
    )
    SiteState.objects.update_or_create(
        site=sites[0], defaults={"status": "drifted", "revision": revision, "deployed_at": now}
    )
    refusal = 'nginx: [emerg] unknown directive "expire" in ' + CONF + ":7\nnginx: configuration file test failed"
    for status, kind, error in (
        ("planned", "deploy", ""),
        ("running", "deploy", ""),
        ("queued", "rollback", ""),
        ("rolled_back", "deploy", refusal),
        ("failed", "disable", "The host web-7 cannot be reached: connection refused."),
    ):
        row = Deployment.objects.create(
            host=at.host,
            status=status,
            kind=kind,
            plan=_plan(sites, at, 2),
            error=error,
            requested_by=owner,
            confirmed_at=None if status == "planned" else now,
            started_at=None if status in ("planned", "queued") else now,
            finished_at=now if error else None,
        )
        for site in sites[:2]:
            DeploymentItem.objects.create(deployment=row, site=site, revision=None, previous=None)
        if status in ("running", "rolled_back"):
            _steps(row, "running" if status == "running" else "failed", error)
        if status == "rolled_back":
            SiteState.objects.filter(site=sites[0]).update(last_failure=row)
        found.append(reverse("deployments:detail", args=[row.uuid]))
    return found


def _drifts(site: Site, at: EngineInstall) -> list[str]:
    found = []
    for path, sha256 in ((CONF, "c" * 64), ("/etc/nginx/conf.d/paddock-limits.conf", "")):
        row = Drift.objects.create(
            site=site, install=at, path=path, expected_sha256="a" * 64, found_sha256=sha256, diff=DIFF
        )
        found.append(reverse("deployments:drift-detail", args=[row.pk]))
    return found


# --- benchmarks ---


def _run(owner: User, scenario: Scenario, sites: list[Site], servers: list[EngineInstall], **values: Any) -> Run:
    now = timezone.now()
    parameters = Run.objects.get(pk=KEY).parameters | {"rounds": 3, "warmup_s": 2}
    run = Run.objects.create(
        scenario=scenario, parameters=parameters, requested_by=owner, started_at=now, finished_at=now, **values
    )
    result = recorded("ab-seconds-new-connections")
    metrics = measured_json(
        parse(Tool.AB, Output(result["stdout"], result["stderr"], 0, result["outputs"], result["latency"])), result
    )
    for position, (site, at) in enumerate(zip(sites[:2], servers, strict=False)):
        target = RunTarget.objects.create(
            run=run,
            position=position,
            site=site,
            install=at,
            revision=site.revisions.get(),
            label=f"{site.name}, {at.get_engine_display()}",
            base_url=f"http://127.0.0.1:80{position}",
            engine=at.engine,
        )
        for number in range(1, 4):
            factor = 1 + 0.1 * position + 0.01 * number
            Round.objects.create(
                target=target,
                number=number,
                argv=result["argv"],
                exit_code=0,
                output=result["stdout"],
                metrics=metrics | {"throughput_rps": metrics["throughput_rps"] * factor},
                samples=result["samples"],
                started_at=now,
                finished_at=now,
            )
    return run


def _runs(owner: User, sites: list[Site], servers: list[EngineInstall]) -> list[str]:
    """One that ended, one that must not be believed, one that goes on; and the first two side by side."""
    scenario = Scenario.objects.get(pk=KEY)
    host = {"kernel": "6.1", "cpus_usable": 16, "memory_bytes": 2**36, "tools": {"ab": {"version": "2.3"}}}
    seen = {
        "label": "shop, nginx",
        "engine": "nginx",
        "version": "1.22.1",
        "revision": 1,
        "host": LONG_HOST,
        "base_url": "http://shop.example",
        "listener": "127.0.0.1:80",
    }
    done = []
    for title, status, reasons in (
        ("The shop on nginx and Apache, after the move", "finished", []),
        ("Too busy", "invalid", ["Another process used 35 % of the CPU.", "2 % of the answers were errors."]),
    ):
        run = _run(owner, scenario, sites, servers, title=title, status=status, reasons=reasons)
        engines = {target.position: target.engine for target in run.targets.all()}
        run.summary = summarize(selectors.measured_rounds(run), engines)
        run.fingerprint = {"hosts": {LONG_HOST: host}, "targets": [seen]}
        run.save()
        done.append(run)
    going = _run(
        owner, scenario, sites, servers, title="Under way", status="running", progress="Round 2 of 3: shop, nginx"
    )
    compared = "&".join(f"run={run.uuid}" for run in done)
    found = [reverse("benchmarks:detail", args=[run.uuid]) for run in (*done, going)]
    return [*found, f"{reverse('benchmarks:compare')}?{compared}"]


# --- reports ---


def _reports(owner: User, sites: list[Site]) -> list[str]:
    """A schedule with every kind of date, a report of a real run with all there is to say, its deliveries; and a
    schedule of a suite, paused."""
    run = Run.objects.get(status="finished", title__startswith="The shop")
    schedule = schedule_create(
        actor=owner,
        name="Every Monday morning, before anybody is in the office",
        cron="30 2 * * 1",
        kind="scenario",
        scenario=run.scenario,
        timezone="Europe/Vienna",
        recipients=["ops@company.example"],
        webhook_url="https://hooks.company.example/paddock/a/rather/long/path",
        webhook_secret="s" * 20,
        sites=sites[:1],
    )
    now = timezone.now()
    why = "The panel, its scheduler or its worker did not run from 2026-01-05 01:59 UTC to 2026-01-26 07:00 UTC."
    for days, (status, dates, reason) in enumerate(
        (
            ("waiting", 1, "The run of 2026-02-02 01:30 UTC was under way."),
            ("skipped", 1, "The run of 2026-02-02 01:30 UTC was under way still."),
            ("failed", 1, f"The site {LONG_SITE} of this schedule was deleted. Choose other sites."),
            ("missed", 3, why),
        )
    ):
        due = now - timedelta(days=7 * days)
        Occurrence.objects.create(schedule=schedule, due_at=due, status=status, dates=dates, reason=reason)
    row = Occurrence.objects.create(schedule=schedule, due_at=now - timedelta(days=90), status="finished", run=run)
    document = replace(
        making.run_document(run, [f"Missed: 3 dates until 2026-01-26 01:30 UTC. {why}"]),
        outcome="worse",
        headline="A real change since the run of 2026-01-05 01:30 UTC. shop, nginx: throughput is 0.82 times what it "
        "was (0.81 to 0.84, 95 % sure), worse: a real change.",
        changes=["shop, nginx: throughput is 0.82 times what it was.", "shop, Apache httpd: latency, 99 % is worse."],
        around=["The server's version of shop, nginx changed from 1.22.1 to 1.24.0."],
    )
    report = storing.store(run=run, document=document, occurrence=row)
    for delivery, status in zip(storing.deliver(report, schedule), ("failed", "queued"), strict=True):
        words = "No mail server is set: give PADDOCK_SMTP_HOST to the panel's worker."
        log = [{"at": "2026-02-02T01:40:00+00:00", "words": words, "seconds": 0.01}]
        type(delivery).objects.filter(pk=delivery.pk).update(status=status, attempts=1, log=log)
    Schedule.objects.create(
        name="The suite",
        cron="0 3 * * 0",
        kind="suite",
        suite="http3-2019",
        preset="short",
        is_paused=True,
    )
    paths = [reverse("reports:schedule", args=[item.pk]) for item in Schedule.objects.exclude(pk=KEY)]
    paths += [reverse("reports:schedule-edit", args=[schedule.pk]), reverse("reports:schedule-create", args=["suite"])]
    return [*paths, reverse("reports:detail", args=[report.uuid]), f"{reverse('reports:list')}?outcome=better"]


# --- trials ---


def _trial(owner: User, site: Site, servers: list[EngineInstall], run: Run | None, **values: Any) -> Trial:
    load = {**Run.objects.get(pk=KEY).parameters, "name": "Replay of 1,874 requests to the shop"}
    given = {"requested_by": owner, "run": run, "load": load, "is_replay": True, "started_at": timezone.now()}
    trial = Trial.objects.create(site=site, **(given | values))
    different = "Different body: the site's own server sends 12 bytes and this server sends 5 bytes."
    found = (("same", ""), ("same", ""), ("different", different), ("refused", "unknown directive"))
    for position, (at, (status, detail)) in enumerate(zip(servers, found, strict=True)):
        Contender.objects.create(
            trial=trial, position=position, install=at, label=at.get_engine_display(), status=status, detail=detail
        )
    return trial


def _trials(owner: User, site: Site, servers: list[EngineInstall]) -> list[str]:
    """One whose winner has the site now, one whose figures must not be believed, one that measures, one that failed
    and whose host does not answer."""
    now = timezone.now()
    runs = {run.status: run for run in Run.objects.exclude(pk=KEY)}
    switch = Deployment.objects.get(pk=KEY)
    ended = {"status": "succeeded", "outcome": "succeeded", "phase": "clean", "finished_at": now}
    turned = [servers[1], servers[0], *servers[2:]]
    trials = [
        _trial(owner, site, turned, runs["finished"], switch=switch, left_out=["/old: status 404"], **ended),
        _trial(owner, site, servers, runs["invalid"], **ended),
        _trial(owner, site, servers, runs["running"], status="running", phase="measure"),
        _trial(
            owner,
            site,
            servers,
            None,
            status="queued",
            phase="clean",
            outcome="failed",
            stopped_in="measure",
            error=f"{LONG_HOST} does not answer.",
            remains=f"shop-trial4-1 on nginx: {LONG_HOST} does not answer.",
            retry_at=now,
        ),
    ]
    found = [reverse("trials:detail", args=[trial.uuid]) for trial in trials]
    return [*found, reverse("websites:trials", args=[site.name]), reverse("trials:switch", args=[trials[1].uuid, 1])]
