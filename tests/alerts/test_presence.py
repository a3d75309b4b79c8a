"""One query tells which kinds of alerts exist; the others cost nothing."""

from __future__ import annotations

import datetime as dt

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from panel.alerts.selectors import RECENT, alerts
from panel.core.views.dashboard import dashboard_context
from panel.deployments.models import Deployment, DeploymentItem, DeploymentStatus, SiteState
from panel.hosts.models import Host
from panel.websites.models import Certificate, Site
from tests.support.cast import Cast, cast


@pytest.fixture
def people(db: None) -> Cast:
    found = cast()
    Host.objects.update(status="ready")
    found.nginx.is_running = True
    found.nginx.save()
    type(found.nginx).objects.update(is_running=True)
    return found


def kinds(people: Cast) -> set[str]:
    return {alert.status for alert in alerts(people.owner)}


def test_alerts_of_an_installation_without_any_cost_two_queries(people: Cast) -> None:
    """A source that does not name its rows is asked every time: see `found_in`."""
    with CaptureQueriesContext(connection) as captured:
        assert alerts(people.admin) == []
    words = "\n".join(query["sql"][:150] for query in captured)
    assert len(captured) == 2, f"besides changed drafts and what exists, sources asked:\n{words}"


def test_alert_follows_its_rows_within_the_hour_of_the_query(people: Cast) -> None:
    assert kinds(people) == set()
    Host.objects.filter(pk=people.host.pk).update(is_paused=True)
    assert kinds(people) == {"paused"}
    Host.objects.filter(pk=people.host.pk).update(is_paused=False)
    assert kinds(people) == set()


def test_plan_of_almost_a_week_ago_is_an_alert(people: Cast) -> None:
    site = Site.objects.create(name="shop", team=people.team, web_server=people.nginx)
    row = Deployment.objects.create(host=people.host, status=DeploymentStatus.PLANNED)
    DeploymentItem.objects.create(deployment=row, site=site)
    for minutes, found in ((-1, {"planned"}), (1, set())):
        at = timezone.now() - RECENT - dt.timedelta(minutes=minutes)
        Deployment.objects.filter(pk=row.pk).update(created_at=at)
        assert kinds(people) == found


def test_certificate_is_an_alert_as_soon_as_it_has_expired(people: Cast) -> None:
    site = Site.objects.create(name="shop", team=people.team, web_server=people.nginx)
    now = timezone.now()
    values = {"team": people.team, "source": "uploaded", "names": ["shop.example"], "faults": []}
    certificate = Certificate.objects.create(
        name="shop", not_before=now - dt.timedelta(minutes=2), not_after=now + dt.timedelta(hours=3), **values
    )
    site.blocks.create(certificate=certificate, root="/srv/www/shop")
    assert kinds(people) == set()
    Certificate.objects.update(not_after=now - dt.timedelta(seconds=1))
    assert kinds(people) == {"expired"}


def test_changed_draft_is_an_alert_on_the_dashboard(people: Cast) -> None:
    site = Site.objects.create(name="shop", team=people.team, web_server=people.nginx)
    SiteState.objects.create(site=site, status="live", live_version=site.version, deployed_at=timezone.now())
    for changes, found in ((0, []), (1, ["pending"])):
        Site.objects.filter(pk=site.pk).update(version=site.version + changes)
        shown = dashboard_context(people.owner)["alerts"]
        assert [alert.status for alert in shown] == found  # type: ignore[attr-defined]


def test_figures_of_the_week_count_an_old_plan_that_was_deployed_now(people: Cast) -> None:
    site = Site.objects.create(name="shop", team=people.team, web_server=people.nginx)
    foreign = Site.objects.create(name="foreign", team=people.other_team, web_server=people.nginx)
    now = timezone.now()
    for days, of in ((0, site), (60, site), (0, foreign), (1, site), (30, site)):
        values = {"status": DeploymentStatus.SUCCEEDED, "is_verified": days == 0}
        row = Deployment.objects.create(host=people.host, finished_at=now - dt.timedelta(days=days), **values)
        DeploymentItem.objects.create(deployment=row, site=of)
    for user, deployments, verified in ((people.owner, 2, 1), (people.admin, 3, 2)):
        figures = dashboard_context(user)["figures"]
        assert (figures["deployments"], figures["verified"]) == (deployments, verified)  # type: ignore[index]
