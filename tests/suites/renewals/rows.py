"""Create the panel's rows for a run of renewals: `python -m tests.suites.renewals.rows`, JSON on standard input and
output. `due` as an argument makes every certificate due instead, and `state` prints what became of the orders.
"""

from __future__ import annotations

from typing import Any

from tests.support import panel_rows


def create(given: dict[str, Any]) -> dict[str, Any]:
    from panel.certificates.services import account_create

    admin, team = panel_rows.people()
    authority = {"issuer": "other", "directory_url": given["directory"], "ca_pem": given["ca_pem"]}
    account_create(actor=admin, team=team, name="authority", **authority)
    blocks = {}
    for host in given["hosts"]:
        web_server = panel_rows.web_server_of(host, "nginx", "1.22.1")
        for site in host["sites"]:
            blocks[site["name"]] = _site(admin, team, web_server, host["address"], site)
    return panel_rows.access_of(admin) | {"blocks": blocks}


def _site(admin: Any, team: Any, web_server: Any, address: str, given: dict[str, Any]) -> int:
    """A site with a certificate, which serves challenges; returns the key of its server block."""
    from panel.websites import services
    from panel.websites.models import Site

    site = services.site_create(
        actor=admin,
        team=team,
        name=given["name"],
        domains=[given["domain"]],
        web_server=web_server,
        port=given["http_port"],
        address=address,
        root=given["root"],
    )
    certificate = services.certificate_issue(
        actor=None,
        team=team,
        name=given["name"],
        certificate=None,
        chain=given["certificate"],
        key=given["key"],
    )
    ports = ({"port": given["http_port"]}, {"port": given["https_port"], "tls": True})
    listens = [{"address": address, **port} for port in ports]
    block = site.blocks.get()
    services.block_update(actor=admin, block=block, listens=listens, certificate=certificate)
    Site.objects.filter(pk=site.pk).update(answers_challenges=True)
    return int(block.pk)


def due() -> dict[str, Any]:
    """Make every certificate due now, as if it were the night."""
    from django.utils import timezone

    from panel.certificates.models import AcmeAccount, AutomaticCertificate
    from panel.websites.models import Certificate, Site

    account, now = AcmeAccount.objects.get(), timezone.now()
    for site in Site.objects.exclude(pk__in=AutomaticCertificate.objects.values("site")):
        certificate = Certificate.objects.get(name=site.name)
        AutomaticCertificate.objects.create(site=site, account=account, certificate=certificate, seen_at=now)
    return {"due": AutomaticCertificate.objects.update(next_at=now, ari_at=None)}


def state() -> dict[str, Any]:
    from django.db.models import Count, Max, Min

    from panel.certificates.models import Order
    from panel.deployments.models import Deployment

    orders = Order.objects.all()
    problems = orders.filter(status="failed").values_list("error", flat=True)
    times = orders.aggregate(first=Min("created_at"), last=Max("finished_at"))
    deployments = Deployment.objects.filter(kind="certificate").values_list("host__name")
    return {
        "orders": dict(orders.values_list("status").annotate(Count("pk")).order_by()),
        "seconds": (times["last"] - times["first"]).total_seconds() if times["last"] else None,
        "problems": sorted(set(problems))[:5],
        "open": orders.filter(finished_at=None).count() + _unbegun(),
        "waiting": list(orders.filter(finished_at=None).values_list("step", "progress")[:5]),
        "deployments": dict(deployments.annotate(Count("pk")).order_by()),
    }


def _unbegun() -> int:
    """Certificates that are due and have no order yet."""
    from django.utils import timezone

    from panel.certificates.models import AutomaticCertificate

    return AutomaticCertificate.objects.filter(next_at__lte=timezone.now()).count()


if __name__ == "__main__":
    panel_rows.run(create, due=due, state=state)
