"""The number of queries of a page or API list does not grow with the rows, for any role."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any
from uuid import uuid4

import pytest
from django.db import connection
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver
from django.utils import timezone

from panel.accounts.models import ApiToken, Role, SavedView, Team
from panel.audit.models import AuditEntry
from panel.benchmarks.models import Run, RunStatus, RunTarget, Scenario, SuiteRun
from panel.comparisons.models import Comparison, Contender
from panel.deployments.models import (
    Blob,
    Deployment,
    DeploymentItem,
    DeploymentStatus,
    Drift,
    PinnedFile,
    Revision,
    SiteState,
    SiteStatus,
)
from panel.deployments.plan import Plan
from panel.hosts.models import Engine, Host, HostJob, HostStatus, WebServer
from panel.imports.models import Import
from panel.reports.document import Document
from panel.reports.models import Occurrence, Schedule, ScheduleSite
from panel.reports.storing import store
from panel.websites import services
from panel.websites.models import Site
from tests.support.cast import Cast, user, web_server
from tests.websites.conftest import shop_definition, signed_in

# What no list is shown on, and what answers every sign-in by sending it elsewhere.
WITHOUT_LISTS = ("healthz", "logout/", "login/", "help/", "api/v1/schema/", "api/v1/docs/")
# Lists whose rows everybody sees who is in the team; their pages must grow, else nothing was measured.
EVERYBODYS = (
    "sites/",
    "hosts/",
    "deployments/",
    "deployments/drift",
    "benchmarks/",
    "benchmarks/scenarios",
    "reports/",
    "reports/schedules",
)


def _patterns(resolver: URLResolver, before: str = "") -> Iterator[str]:
    for item in resolver.url_patterns:
        at = before + str(item.pattern)
        if isinstance(item, URLPattern):
            yield at.replace("^", "").removesuffix("$")
        else:
            yield from _patterns(item, at)


def pages() -> list[str]:
    """Every address without a variable part."""
    found = {at for at in _patterns(get_resolver()) if not set("<(\\?") & set(at)}
    return sorted(at for at in found if not at.startswith(WITHOUT_LISTS))


class Rows:
    """Adds one of everything that a list shows, as often as it is asked to; all of it the team's."""

    def __init__(self, people: Cast) -> None:
        self.people = people
        self.count = 0

    def add(self, count: int) -> None:
        for _ in range(count):
            self.count += 1
            host = Host.objects.create(
                name=f"host-{self.count}", status=HostStatus.UNREACHABLE, site_roots=["/srv/www"]
            )
            server = web_server(host, Engine.NGINX, "")
            site = self._site(server)
            revision = self._deployed(site, server)
            self._measured(site, server, revision)
            self._around(host, server)

    def _site(self, server: WebServer) -> Site:
        people, name = self.people, f"grown-{self.count}"
        certificate = services.certificate_self_sign(actor=people.admin, team=people.team, name=name, names=[name])
        data = shop_definition(people, name=name, web_server=server.pk)
        site = services.site_define(actor=people.admin, data=data)
        block = site.blocks.get()
        type(block).objects.filter(pk=block.pk).update(certificate=certificate)
        services.snippet_create(actor=people.admin, site=site, engine="nginx", text="etag off;", block=block)
        return site

    def _deployed(self, site: Site, server: WebServer) -> Revision:
        revision = Revision.objects.create(
            site=site, number=1, web_server=server, spec={}, files=[], digest=f"{self.count:064}", created_by=None
        )
        deployment: dict[str, Any] = {"host": server.host, "requested_by": self.people.owner}
        plan = Plan(web_servers=[server.pk])
        for status in (DeploymentStatus.FAILED, DeploymentStatus.PLANNED, DeploymentStatus.SUCCEEDED):
            row = Deployment.objects.create(**deployment, status=status, plan=plan)
            DeploymentItem.objects.create(deployment=row, site=site, revision=revision, previous=revision)
        state = {"status": SiteStatus.DRIFTED, "revision": revision, "deployed_at": timezone.now()}
        SiteState.objects.update_or_create(site=site, defaults=state)
        path = f"/etc/nginx/{site.name}.conf"
        Drift.objects.create(site=site, web_server=server, path=path, expected_sha256="0" * 64, found_sha256="1" * 64)
        blob = Blob.objects.create(sha256=f"{self.count:064}", content="# by hand", size=9)
        PinnedFile.objects.create(site=site, web_server=server, path=path, blob=blob, adopted_by=self.people.admin)
        return revision

    def _measured(self, site: Site, server: WebServer, revision: Revision) -> None:
        people = self.people
        scenario = Scenario.objects.create(
            name=f"load-{self.count}", team=people.team, tool="ab", arguments={"requests": 10}, paths=["/"]
        )
        suite = SuiteRun.objects.create(
            suite="small-static-files",
            preset="short",
            host=server.host,
            host_name=server.host.name,
            title="a suite",
            plan=[],
        )
        for about in ({"scenario": scenario}, {"suite_run": suite, "case": 0}):
            run = Run.objects.create(
                title=f"run {self.count}", parameters={"tool": "ab"}, status=RunStatus.FAILED, **about
            )
            served: dict[str, Any] = {"site": site, "web_server": server, "revision": revision, "engine": "nginx"}
            RunTarget.objects.create(run=run, position=0, label=site.name, base_url="http://x", **served)
        self._reported(site, scenario)
        comparison = Comparison.objects.create(site=site, load={}, requested_by=people.owner)
        Contender.objects.create(comparison=comparison, position=0, web_server=server, label="nginx", copy=site)

    def _reported(self, site: Site, scenario: Scenario) -> None:
        people, now = self.people, timezone.now()
        schedule = Schedule.objects.create(
            name=f"grown-{self.count}", cron="0 2 * * *", kind="scenario", scenario=scenario, run_as=people.owner
        )
        ScheduleSite.objects.create(schedule=schedule, position=0, site=site, name=site.name)
        for minutes in range(2):
            due = now - timedelta(minutes=minutes)
            row = Occurrence.objects.create(schedule=schedule, due_at=due, status="finished")
            document = Document(title=schedule.name, made_at="now", outcome="worse", headline="Worse.")
            store(document=document, occurrence=row)

    def _around(self, host: Host, server: WebServer) -> None:
        people, name = self.people, f"grown-{self.count}"
        Import.objects.create(web_server=server, source="host", created_by=people.admin)
        HostJob.objects.create(host=host, kind="check", requested_by=people.owner)
        entry = {"action": "site.update", "object_type": "site", "object_label": name, "after": {}}
        AuditEntry.objects.create(actor=people.owner, actor_label="olaf", **entry)
        team = Team.objects.create(name=name, slug=name)
        user(name, Role.OPERATOR, team, people.team)
        for actor in (people.admin, people.owner, people.viewer):
            prefix = uuid4().hex[:12]
            ApiToken.objects.create(user=actor, name=name, prefix=prefix, digest=prefix, scopes=["read"])
            SavedView.objects.create(user=actor, page=SavedView.Page.SITES, name=name, query="q=grown")


def asked(client: Client, at: str) -> tuple[int, int, int]:
    """Status, number of queries and size of a page."""
    queries = 0

    def count(execute: Callable[..., Any], *arguments: Any) -> Any:
        nonlocal queries
        queries += 1
        return execute(*arguments)

    with connection.execute_wrapper(count):
        answer = client.get(f"/{at}", {"q": "grown"} if at.endswith("search/") else {})
    return answer.status_code, queries, len(answer.getvalue())


@pytest.mark.one_database("the number of queries is the same on each; test_every_url requests the pages on both")
def test_query_count_does_not_grow_with_rows(people: Cast) -> None:
    clients = {role: signed_in(getattr(people, role)) for role in ("admin", "owner", "viewer")}
    rows = Rows(people)
    rows.add(2)
    for at in pages():  # what is worked out once and kept is no part of it
        asked(clients["admin"], at)
    before = {(role, at): asked(client, at) for role, client in clients.items() for at in pages()}
    rows.add(4)
    grown = {}
    for (role, at), (status, queries, size) in before.items():
        now = asked(clients[role], at)
        assert now[0] == status, (role, at)
        if now[1] > queries:
            grown[role, at] = f"{queries} -> {now[1]}"
        assert at not in EVERYBODYS or now[2] > size, f"{at} does not show {role} what was added"
    assert not grown
