"""Comparisons of a site on every server."""

from __future__ import annotations

from typing import Any

from django.urls import reverse
from django.utils import timezone

from panel.accounts.models import User
from panel.benchmarks.models import Run
from panel.comparisons.models import Comparison, Contender
from panel.deployments.models import Deployment
from panel.hosts.models import WebServer
from panel.websites.models import Site
from tests.suites.browser.world.hosts import LONG_HOST
from tests.suites.security.world import KEY


def _comparison(owner: User, site: Site, servers: list[WebServer], run: Run | None, **values: Any) -> Comparison:
    load = {**Run.objects.get(pk=KEY).parameters, "name": "Replay of 1,874 requests to the shop"}
    given = {"requested_by": owner, "run": run, "load": load, "is_replay": True, "started_at": timezone.now()}
    comparison = Comparison.objects.create(site=site, **(given | values))
    different = "The body differs: The site's current web server sends 12 bytes and this web server sends 5 bytes."
    found = (("same", ""), ("same", ""), ("different", different), ("refused", "unknown directive"))
    for position, (at, (status, detail)) in enumerate(zip(servers, found, strict=True)):
        Contender.objects.create(
            comparison=comparison,
            position=position,
            web_server=at,
            label=at.get_engine_display(),
            status=status,
            detail=detail,
        )
    return comparison


def build(owner: User, site: Site, servers: list[WebServer]) -> list[str]:
    """One whose winner has the site now, one whose figures must not be believed, one that measures, one that failed
    and whose host does not answer."""
    now = timezone.now()
    runs = {run.status: run for run in Run.objects.exclude(pk=KEY)}
    switch = Deployment.objects.get(pk=KEY)
    ended = {"status": "succeeded", "outcome": "succeeded", "phase": "clean", "finished_at": now}
    turned = [servers[1], servers[0], *servers[2:]]
    comparisons = [
        _comparison(owner, site, turned, runs["finished"], switch=switch, left_out=["/old: status 404"], **ended),
        _comparison(owner, site, servers, runs["invalid"], **ended),
        _comparison(owner, site, servers, runs["running"], status="running", phase="measure"),
        _comparison(
            owner,
            site,
            servers,
            None,
            status="queued",
            phase="clean",
            outcome="failed",
            stopped_in="measure",
            error=f"{LONG_HOST} does not answer.",
            remains=f"shop-copy4-1 on nginx: {LONG_HOST} does not answer.",
            retry_at=now,
        ),
    ]
    found = [reverse("comparisons:detail", args=[comparison.uuid]) for comparison in comparisons]
    return [
        *found,
        reverse("websites:comparisons", args=[site.name]),
        reverse("comparisons:switch", args=[comparisons[1].uuid, 1]),
    ]
