"""Deployments of every status, and files that were changed by hand."""

from __future__ import annotations

import difflib

from django.urls import reverse
from django.utils import timezone

from panel.accounts.models import User
from panel.deployments.models import Deployment, DeploymentItem, Drift, Revision, SiteState, Step
from panel.deployments.plan import FileAction, Plan, PlanFile, PlanSite, PlanWarning
from panel.hosts.models import WebServer
from panel.rendering.spec import to_json
from panel.websites.freeze import site_spec
from panel.websites.models import Site

CONF = "/etc/nginx/sites-available/paddock-shop.conf"
OLD = "server {\n    listen 80;\n    server_name shop.example;\n    root /srv/www/shop;\n    gzip on;\n}\n"
NEW = OLD.replace("    gzip on;\n", "    gzip on;\n    gzip_types text/css application/javascript;\n    expires 1h;\n")
DIFF = "".join(difflib.unified_diff(OLD.splitlines(True), NEW.splitlines(True), CONF, CONF))


def _file(path: str, site: str, at: WebServer, found_sha256: str | None = None) -> PlanFile:
    return PlanFile(
        path=path,
        site=site,
        web_server=at.pk,
        action=FileAction.PUT,
        mode=0o644,
        sha256="a" * 64,
        old_sha256="b" * 64,
        expect="b" * 64,
        found_sha256=found_sha256,
        diff=DIFF,
    )


def _plan(sites: list[Site], at: WebServer, number: int) -> Plan:
    note = PlanWarning(
        site="shop",
        where="server block 1, location ~ \\.php$",
        text="Apache httpd has no separate limit for a burst of requests.",
        nearest="Requests beyond the rate are slowed down, not refused.",
    )
    return Plan(
        sites=[PlanSite(id=row.pk, name=row.name, web_server=str(at), number=number) for row in sites],
        web_servers=[at.pk],
        files=[_file(CONF, "shop", at, found_sha256="c" * 64), _file("/etc/nginx/paddock/keys", "shop", at)],
        warnings=[note],
        drifted=[CONF],
        unchecked="The host web-7 cannot be reached: connection refused.",
    )


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


def build(owner: User, sites: list[Site], at: WebServer) -> list[str]:
    now = timezone.now()
    found = []
    revision, _other = (
        Revision.objects.create(
            site=site,
            number=1,
            web_server=at,
            spec=to_json(site_spec(site, at)),
            files=[],
            digest="e" * 64,
            created_by=owner,
        )
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


def drifts(site: Site, at: WebServer) -> list[str]:
    found = []
    for path, text in ((CONF, "# by hand\n"), ("/etc/nginx/conf.d/paddock-limits.conf", "")):
        digests = {"expected_sha256": "a" * 64, "found_sha256": "c" * 64 if text else ""}
        row = Drift.objects.create(site=site, web_server=at, path=path, diff=DIFF, found=text, **digests)
        found.append(reverse("deployments:drift-detail", args=[row.pk]))
    return found
