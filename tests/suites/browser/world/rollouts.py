"""Rollouts of several states, and DNS accounts that were tested."""

from __future__ import annotations

import datetime as dt

from django.urls import reverse
from django.utils import timezone

from panel.accounts.models import User
from panel.certificates.models import DnsAccount
from panel.deployments.models import Deployment
from panel.deployments.windows.services import change_window_set
from panel.hosts.models import Host
from panel.placements.models import PlacedSite, Placement
from panel.previews.models import Preview
from panel.publishing.models import Publication, Release
from panel.rollouts.models import Part, Rollout, Wave
from panel.websites.models import Site

PASSED = [
    {"gate": "deployed", "passed": True, "words": "1 of 1 hosts of the wave are deployed."},
    {"gate": "answers", "passed": True, "words": "12 of 12 sites of the wave respond as expected."},
    {
        "gate": "responses",
        "passed": None,
        "words": "The sites received only 7 requests since the deployment, too few to judge.",
    },
]
FAILED = [
    PASSED[0],
    {
        "gate": "responses",
        "passed": False,
        "words": "shop on web-with-a-long-name-12: 30 of 240 requests since the deployment got a 5xx response "
        "(12.5 %), but only 2 of 10,312 requests before the deployment (0.0 %), and 0.1 % of the requests on hosts "
        "without the new configuration.",
    },
]


def build(owner: User, hosts: list[Host]) -> list[str]:
    """One rollout that waits for approval, and one whose second wave failed; returns their pages."""
    now, found = timezone.now(), []
    for status, undoes, error in (
        ("waiting", False, ""),
        ("failed", True, f"Wave 2 failed. {FAILED[1]['words']} Not undone: {hosts[-1]}: the host does not respond."),
    ):
        deployments = [
            Deployment.objects.create(
                host=host, status="succeeded", requested_by=owner, confirmed_at=now, started_at=now, finished_at=now
            )
            for host in hosts
        ]
        rollout = Rollout.objects.create(
            batch=deployments[0].batch,
            status=status,
            requested_by=owner,
            is_undoing=undoes,
            error=error,
            progress="Wave 1 passed its checks and waits for approval." if not error else "",
            needs_approval=True,
            started_at=now,
        )
        for position, deployment in enumerate(deployments, start=1):
            wave = Wave.objects.create(
                rollout=rollout,
                position=position,
                status="approval" if position == 1 and not undoes else "failed" if position == 2 else "waiting",
                evidence=FAILED if position == 2 and undoes else PASSED if position == 1 else [],
                deployed_at=now if position == 1 else None,
            )
            undo = Deployment.objects.create(host=deployment.host, kind="rollback", status="failed") if undoes else None
            Part.objects.create(wave=wave, deployment=deployment, undo=undo)
        found.append(reverse("rollouts:detail", args=[rollout.uuid]))
    return found


def previews(owner: User, host: Host) -> list[str]:
    """One preview with differences and a site that was not compared, and one that failed; returns their pages."""
    now, found = timezone.now(), []
    changes = [
        {"kind": "status", "name": "", "before": "200", "after": "301"},
        {"kind": "redirect", "name": "", "before": "", "after": "https://shop.example/a-long-address/of-a-page.html"},
        {"kind": "header", "name": "content-security-policy", "before": "", "after": "default-src 'self'; img-src *"},
        {"kind": "location", "name": "", "before": "/", "after": r"~ ^/(catalogue|products)/.+\.html$"},
    ]
    difference = {"method": "GET", "url": "http://shop.example/catalogue/a-long-name-of-a-page.html"}
    compared = {"asked": 412, "logged": 103, "unlisted": 17, "error": "", "notes": ["/var/log/shop.log: not readable"]}
    sites = [
        {"site": "shop", **compared, "differences": [{**difference, "changes": changes}]},
        {
            "site": "blog",
            "asked": 0,
            "logged": 0,
            "differences": [],
            "unlisted": 0,
            "error": "Not deployed.",
            "notes": [],
        },
    ]
    for status, error in (("succeeded", ""), ("failed", f"{host} does not respond.")):
        plan = Deployment.objects.create(host=host, status="planned", requested_by=owner)
        preview = Preview.objects.create(
            deployment=plan,
            status=status,
            error=error,
            sites=[] if error else sites,
            requested_by=owner,
            started_at=now,
            finished_at=now,
        )
        found.append(reverse("previews:detail", args=[preview.uuid]))
        found.append(reverse("deployments:detail", args=[plan.uuid]))
    return found


def placements(sites: list[Site], hosts: list[Host]) -> list[str]:
    """A placement with a host that has a copy and one that lacks it; returns its page and the list."""
    original, copy = sites[:2]
    placement = Placement.objects.create(
        site=original,
        tags=["placed"],
        values={hosts[0].name: {"/blocks/0/listens/0/address": "192.0.2.2", "/blocks/0/root": "/srv/www/shop"}},
    )
    PlacedSite.objects.create(placement=placement, site=copy, site_version=1, placement_version=1)
    for host in hosts:
        Host.objects.filter(pk=host.pk).update(tags=[*host.tags, "placed"])
    return [
        reverse("placements:list"),
        reverse("placements:detail", args=[original.name]),
        reverse("placements:detail", args=[sites[2].name]),
        reverse("websites:detail", args=[copy.name]),
        reverse("deployments:maintenance") + f"?site={copy.name}",
    ]


def content(owner: User, site: Site, host: Host) -> list[str]:
    """Two releases and three publications: live, failed and running; returns their pages."""
    now = timezone.now()
    values = {"size": 1_000_000, "unpacked_size": 4_200_000, "file_count": 1_204, "created_by": owner}
    note = "Visitors could request these files unless a location denies them: .env, backup/dump.sql."
    first = Release.objects.create(
        site=site, number=1, source="archive", origin="shop-of-the-whole-company-2026-11-26.zip", notes=[note], **values
    )
    revision = "main 3f2c8a9d5e7b1c4a6f8e0d2b4c6a8e0f1d3b5a7c"
    second = Release.objects.create(
        site=site, number=2, source="git", origin="https://git.example.com/shop.git", revision=revision, **values
    )
    target = {"site": site.name, "host": host.name, "folder": "/srv/www/shop/public", "words": "", "replaced": "r1"}
    said = "http://shop.example:80/ responds with 404 instead of 200"
    found = [reverse("publishing:content", args=[site.name])]
    for release, status, error, state in (
        (first, "succeeded", "", "published"),
        (second, "failed", f"Nothing was published. {host}: {said}", "failed"),
        (second, "running", "", "prepared"),
    ):
        publication = Publication.objects.create(
            site=site,
            release=release,
            status=status,
            error=error,
            requested_by=owner,
            started_at=now,
            finished_at=None if status == "running" else now,
            targets=[{**target, "state": state, "words": said if error else ""}],
        )
        found.append(reverse("publishing:detail", args=[publication.uuid]))
    return found


def windows(admin: User) -> list[str]:
    """A weekly window and a freeze that is over; returns their pages."""
    night = {"kind": "weekly", "weekdays": [1, 3], "zone": "America/Argentina/ComodRivadavia"}
    night |= {"opens_at": dt.time(22), "closes_at": dt.time(4), "tags": ["prod"]}
    row = change_window_set(actor=admin, name="Nights", **night)
    begins_at = timezone.now() - dt.timedelta(days=30)
    freeze = {"kind": "freeze", "begins_at": begins_at, "ends_at": begins_at + dt.timedelta(days=3)}
    change_window_set(actor=admin, name="A sale with a long name, which nobody should interrupt", **freeze)
    names = ("deployments:windows", "deployments:window-add")
    return [*(reverse(name) for name in names), reverse("deployments:window", args=[row.pk])]


def dns(account: DnsAccount) -> None:
    """A test that failed."""
    account.tested_at, account.tested_zone = timezone.now(), "shop.example"
    account.problem = "ns2.example (192.0.2.53) does not have the record yet"
    account.save()
