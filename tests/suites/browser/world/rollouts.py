"""Rollouts of several states, and DNS accounts that were tested."""

from __future__ import annotations

from django.urls import reverse
from django.utils import timezone

from panel.accounts.models import User
from panel.certificates.models import DnsAccount
from panel.deployments.models import Deployment
from panel.hosts.models import Host
from panel.rollouts.models import Part, Rollout, Wave

PASSED = [
    {"gate": "deployed", "passed": True, "words": "1 of 1 hosts deployed."},
    {"gate": "answers", "passed": True, "words": "12 of 12 sites respond as expected."},
    {"gate": "responses", "passed": None, "words": "Only 7 requests since the deployment, too few to judge."},
]
FAILED = [
    PASSED[0],
    {
        "gate": "responses",
        "passed": False,
        "words": "shop on web-with-a-long-name-12: 30 of 240 requests since the deployment had a 5xx response "
        "(12.5 %), before it 2 of 10,312 (0.0 %), and 0.1 % on hosts that are not changed yet.",
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


def dns(account: DnsAccount) -> None:
    """A test that failed."""
    account.tested_at, account.tested_zone = timezone.now(), "shop.example"
    account.problem = "ns2.example (192.0.2.53) does not have the record yet"
    account.save()
