"""No plan, move, rollback or draft reset takes requests or services of another team."""

from __future__ import annotations

import socket
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.db import connection
from django.test.utils import CaptureQueriesContext

from panel.deployments.models import Deployment, Revision
from panel.deployments.planning import services
from panel.deployments.planning.selectors import live_revision
from panel.deployments.rollback.services import draft_restore
from panel.hosts.models import Engine, Host
from panel.websites import services as websites
from panel.websites.models import Allowance, Listen, ServerName, Site
from tests.deployments.real_host import Machine
from tests.deployments.sample_plans import carried_out, live, planned, shop
from tests.support.cast import Cast, everything_listed, web_server
from tests.support.nginx import NginxInstance

ALLOW = "ask an administrator to allow it"
LIST = "ask an administrator to add this service"


def blog(people: Cast, **values: Any) -> Site:
    return shop(people, "blog", actor=people.outsider, team=people.other_team, **values)


def first_revision(site: Site) -> Revision:
    found = live_revision(site)
    assert found is not None
    return found


@pytest.mark.parametrize("taken", ["name", "address", "default"])
def test_plan_is_rejected_when_it_takes_requests_of_another_team(people: Cast, taken: str) -> None:
    """Both rows are older than the rule that rejects overlaps on save."""
    blog(people)
    site = shop(people)
    if taken == "name":
        ServerName.objects.filter(block__site=site).update(name="*.example")
    elif taken == "address":
        Listen.objects.filter(block__site=site).update(address="127.0.0.1")
    else:
        Listen.objects.filter(block__site=site).update(default_server=True)
    with pytest.raises(ValidationError, match=ALLOW):
        planned(people, site)
    assert not Deployment.objects.exists()
    (allowed,) = services.deployment_plan(actor=people.admin, sites=[site])
    services.deployment_confirm(actor=people.admin, deployment=allowed)
    carried_out(allowed)
    websites.block_update(actor=people.owner, block=site.blocks.get(), autoindex=True)
    assert planned(people, site).items.get().revision.number == 2  # type: ignore[union-attr]


def test_operator_can_plan_overlap_saved_by_administrator(people: Cast) -> None:
    blog(people, domains=["*.blog.example"])
    site = shop(people)
    block = site.blocks.get()
    websites.block_update(actor=people.admin, block=block, names=["shop.blog.example"])
    websites.block_update(actor=people.owner, block=block, autoindex=True)
    assert planned(people, site).pk
    Allowance.objects.filter(kind="name").delete()
    with pytest.raises(ValidationError, match=ALLOW):
        planned(people, site)


def test_move_is_rejected_when_it_takes_requests_of_another_team(people: Cast) -> None:
    site = shop(people, domains=["localhost"], address="127.0.0.1")
    live(people, site)
    other = Host.objects.create(name="web-2", connection="local", status="ready", site_roots=["/srv/www"])
    there = web_server(other, Engine.NGINX, "")
    blog(people, web_server=there, domains=["localhost", "blog.example"])
    with pytest.raises(ValidationError) as caught:
        services.site_move(actor=people.owner, site=Site.objects.get(pk=site.pk), web_server=there)
    assert set(caught.value.message_dict) == {"blocks/0/names", "blocks/0/listens"}
    assert all(ALLOW in message for messages in caught.value.message_dict.values() for message in messages)


def test_move_is_rejected_when_it_uses_unlisted_services_of_new_host(people: Cast) -> None:
    site = shop(people, root="", upstream="127.0.0.1:3000")
    live(people, site)
    other = Host.objects.create(name="web-2", connection="local", status="ready", site_roots=["/srv/www"])
    there = web_server(other, Engine.NGINX, "")
    with pytest.raises(ValidationError, match=LIST):
        services.site_move(actor=people.owner, site=Site.objects.get(pk=site.pk), web_server=there)
    everything_listed(other)
    assert services.site_move(actor=people.owner, site=Site.objects.get(pk=site.pk), web_server=there)


def test_rollback_is_rejected_when_name_now_belongs_to_another_team(people: Cast) -> None:
    site = shop(people, root="", upstream="127.0.0.1:3000", domains=["old.example"])
    live(people, site)
    first = first_revision(site)
    websites.block_update(actor=people.owner, block=site.blocks.get(), names=["shop.example"])
    websites.upstream_update(actor=people.owner, upstream=site.upstreams.get(), servers=[{"address": "10.0.0.9:80"}])
    live(people, site)
    blog(people, domains=["old.example"])
    Allowance.objects.all().delete()
    site = Site.objects.get(pk=site.pk)
    with pytest.raises(ValidationError) as caught:
        services.site_rollback(actor=people.owner, site=site, revision=first)
    name, service = caught.value.message_dict["revision"]
    assert "old.example" in name and ALLOW in name and "127.0.0.1:3000" in service and LIST in service
    with pytest.raises(ValidationError, match=ALLOW):
        draft_restore(actor=people.owner, site=site, revision=first)
    services.site_rollback(actor=people.admin, site=site, revision=first)


def test_deployed_service_stays_deployable_after_withdrawal(people: Cast) -> None:
    site = shop(people, root="", upstream="127.0.0.1:3000")
    live(people, site)
    Allowance.objects.all().delete()
    assert planned(people, Site.objects.get(pk=site.pk)).pk


def test_disabled_site_keeps_its_default_server_when_enabled(people: Cast) -> None:
    site = shop(people, port=8081, domains=[])
    live(people, site)
    blog(people, port=8081)
    off = services.site_disable(actor=people.owner, site=site)
    assert off is not None
    services.deployment_confirm(actor=people.owner, deployment=off)
    carried_out(off)
    websites.site_enable(actor=people.owner, site=Site.objects.get(pk=site.pk), enabled=True)
    assert planned(people, Site.objects.get(pk=site.pk)).pk


def test_plan_of_many_sites_resolves_names_together(people: Cast) -> None:
    def queries(sites: list[Site]) -> int:
        with CaptureQueriesContext(connection) as captured:
            services.deployment_plan(actor=people.owner, sites=sites)
        return sum("websites_servername" in row["sql"] and "~" in row["sql"] for row in captured)

    sites = [shop(people, f"s-{number}") for number in range(4)]
    blog(people)
    assert queries(sites[:1]) == queries(sites) == 1


def test_plan_is_rejected_when_name_resolves_to_host(machine: Machine, nginx: NginxInstance) -> None:
    """The host resolves the name; its own name is not among its facts yet."""
    people, name = machine.people, f"{socket.gethostname()}:3000"
    site = machine.site("shop", machine.web_server(nginx, Engine.NGINX), root="", upstream=name)
    Allowance.objects.all().delete()
    with pytest.raises(ValidationError) as caught:
        machine.plan(site)
    (message,) = caught.value.message_dict["upstreams/0/servers"]
    assert name in message and LIST in message
    everything_listed(people.host)
    assert machine.plan(site).pk
    Host.objects.update(status="unreachable", status_detail="web-1 does not answer.")
    with pytest.raises(ValidationError, match=r"Only the host web-1 can tell .* web-1 does not answer\."):
        machine.plan(Site.objects.get(pk=site.pk))
