"""The pages of deployments and drift: content, rejections and permissions."""

from __future__ import annotations

import pytest
from asgiref.sync import async_to_sync
from django.test import AsyncClient, Client
from django.urls import reverse

from panel.core import stream
from panel.core.errors import ApplicationError
from panel.deployments.drift import services as drifts
from panel.deployments.models import Deployment, DeploymentStatus, Drift, PinnedFile, SiteState, SiteStatus
from panel.deployments.planning import services
from panel.deployments.revisions.rendered import sha256_of
from panel.hosts.models import Engine, Host, HostJob, HostJobKind, HostStatus
from panel.websites import services as websites
from tests.deployments.sample_plans import carried_out, live, planned, shop
from tests.support.cast import Cast, signed_in, web_server


def url(name: str, *args: object) -> str:
    return reverse(name if name.startswith("job-") else f"deployments:{name}", args=args)


def test_plan_page_shows_files_and_asks_for_confirmation(people: Cast) -> None:
    deployment = planned(people, shop(people))
    page = signed_in(people.owner).get(url("detail", deployment.uuid)).content.decode()
    assert "server_name shop.example;" in page
    assert "/etc/nginx/sites-available/" in page
    assert "web-1 does not answer." in page
    assert url("confirm", deployment.uuid) in page


def test_confirmation_redirects_to_live_page(people: Cast) -> None:
    deployment = planned(people, shop(people))
    answer = signed_in(people.owner).post(url("confirm", deployment.uuid), follow=True)
    assert url("job-events", deployment.uuid) in answer.content.decode()
    deployment.refresh_from_db()
    assert deployment.status == DeploymentStatus.QUEUED


def test_stale_plan_page_says_so_and_stays_open(people: Cast) -> None:
    site = shop(people)
    deployment = planned(people, site)
    websites.block_update(actor=people.owner, block=site.blocks.get(), autoindex=True)
    page = signed_in(people.owner).post(url("confirm", deployment.uuid), follow=True).content.decode()
    assert "This plan is outdated: the draft of shop was changed after the plan was created." in page


def test_deployment_actions_on_get_change_nothing(people: Cast) -> None:
    deployment = planned(people, shop(people))
    client = signed_in(people.owner)
    for name in ("confirm", "cancel"):
        assert client.get(url(name, deployment.uuid)).status_code == 405
    assert client.get(url("plan")).status_code == 405
    assert client.get(url("disable", "shop")).status_code == 405


def test_failed_deployment_page_shows_escaped_server_message(people: Cast) -> None:
    deployment = planned(people, shop(people))
    services.deployment_confirm(actor=people.owner, deployment=deployment)
    carried_out(deployment, outcome="rolled_back", error='nginx: [emerg] unknown directive "<script>"')
    page = signed_in(people.owner).get(url("detail", deployment.uuid)).content.decode()
    assert "nginx: [emerg] unknown directive &quot;&lt;script&gt;&quot;" in page
    assert "nginx -t" in page
    assert "Error message from the web server" in page or "Error message from the web server" in page
    deployment.steps.update(name="probe", status="failed")
    page = signed_in(people.owner).get(url("detail", deployment.uuid)).content.decode()
    assert "A site responds worse than before" in page
    assert "Error message" not in page, "they are the agent's"


def test_failed_deployment_page_links_to_draft_and_new_plan(people: Cast) -> None:
    site = shop(people)
    deployment = planned(people, site)
    services.deployment_confirm(actor=people.owner, deployment=deployment)
    carried_out(deployment, outcome="rolled_back", error="unknown directive")
    page = signed_in(people.owner).get(url("detail", deployment.uuid)).content.decode()
    assert "Plan again" in page
    assert f'href="/sites/{site.name}/blocks/"' in page
    assert "Plan again" not in signed_in(people.viewer).get(url("detail", deployment.uuid)).content.decode()


def test_history_offers_rollback_to_every_earlier_revision(people: Cast) -> None:
    site = shop(people)
    live(people, site)
    websites.block_update(actor=people.owner, block=site.blocks.get(), autoindex=True)
    live(people, site)
    client = signed_in(people.owner)
    page = client.get(reverse("websites:history", args=["shop"])).content.decode()
    assert url("rollback", "shop", 1) in page
    assert url("rollback", "shop", 2) not in page  # it is live
    websites.block_update(actor=people.owner, block=site.blocks.get(), client_max_body_mb=7)
    planned(people, site)
    assert url("rollback", "shop", 3) not in client.get(reverse("websites:history", args=["shop"])).content.decode()
    answer = client.post(url("rollback", "shop", 1), follow=True)
    assert "Roll back" in answer.content.decode()


def test_rollback_page_offers_draft_reset_when_draft_differs(people: Cast) -> None:
    site = shop(people)
    live(people, site)
    websites.block_update(actor=people.owner, block=site.blocks.get(), autoindex=True)
    live(people, site)
    client = signed_in(people.owner)
    deployment = services.site_rollback(actor=people.owner, site=site, revision=site.revisions.get(number=1))
    services.deployment_confirm(actor=people.owner, deployment=deployment)
    carried_out(deployment)
    page = client.get(url("detail", deployment.uuid)).content.decode()
    assert "The draft of shop is unchanged" in page and "Also restore the draft to #1" in page
    assert "changed since last deployment" in client.get(reverse("websites:detail", args=["shop"])).content.decode()
    client.post(reverse("websites:set_back", args=["shop", 1]))
    assert "Also restore the draft to #1" not in client.get(url("detail", deployment.uuid)).content.decode()


def test_page_of_change_that_was_rolled_back_offers_draft_reset_until_it_is_done(people: Cast) -> None:
    site = shop(people)
    live(people, site)
    websites.block_update(actor=people.owner, block=site.blocks.get(), autoindex=True)
    deployment = planned(people, site)
    services.deployment_confirm(actor=people.owner, deployment=deployment)
    carried_out(deployment, outcome="rolled_back", error="unknown directive")
    client = signed_in(people.owner)
    page = client.get(url("detail", deployment.uuid)).content.decode()
    assert "The draft of shop still has the change that was rolled back." in page
    link = f'href="{reverse("websites:revision", args=["shop", 1])}"'
    assert page.index(link) < page.index('id="job-live"'), "above the steps and checks, which fill more than a window"
    client.post(reverse("websites:set_back", args=["shop", 1]))
    assert (
        "still has the change that was rolled back" not in client.get(url("detail", deployment.uuid)).content.decode()
    )


def test_first_deployment_that_was_rolled_back_offers_no_earlier_draft(people: Cast) -> None:
    deployment = planned(people, shop(people))
    services.deployment_confirm(actor=people.owner, deployment=deployment)
    carried_out(deployment, outcome="rolled_back", error="unknown directive")
    page = signed_in(people.owner).get(url("detail", deployment.uuid)).content.decode()
    assert "still has the change that was rolled back" not in page


def test_rollback_to_draft_content_leaves_nothing_to_deploy(people: Cast) -> None:
    site = shop(people)
    live(people, site)
    block = site.blocks.get()
    websites.block_update(actor=people.owner, block=block, autoindex=True)
    live(people, site)
    block.refresh_from_db()
    websites.block_update(actor=people.owner, block=block, autoindex=False)
    deployment = services.site_rollback(actor=people.owner, site=site, revision=site.revisions.get(number=1))
    services.deployment_confirm(actor=people.owner, deployment=deployment)
    carried_out(deployment)
    client = signed_in(people.owner)
    assert "is unchanged, so its next deployment" not in client.get(url("detail", deployment.uuid)).content.decode()
    assert "changed since last deployment" not in client.get(reverse("websites:detail", args=["shop"])).content.decode()


def test_plan_page_shows_warnings_before_confirm_button(people: Cast) -> None:
    """The button stays at the window's edge, so warnings below the files could be missed."""
    deployment = planned(people, shop(people))
    page = signed_in(people.owner).get(url("detail", deployment.uuid)).content.decode()
    assert page.index('id="findings"') < page.index("server_name shop.example;") < page.index('id="decide"')


def test_move_plan_pages_describe_both_halves(people: Cast) -> None:
    site = shop(people)
    live(people, site)
    (within,) = services.site_move(actor=people.owner, site=site, web_server=people.apache)
    assert within.title == "Move to another web server on web-1"
    other = Host.objects.create(name="web-2", connection="local", status=HostStatus.READY, site_roots=["/srv/www"])
    up, down = services.site_move(actor=people.owner, site=site, web_server=web_server(other, Engine.NGINX, ""))
    client = signed_in(people.owner)
    listed = client.get(url("list")).content.decode()
    assert f'href="{url("detail", up.uuid)}">Move: deploy on web-2</a>' in listed
    assert f'href="{url("detail", down.uuid)}">Move: remove from web-1</a>' in listed
    of_site = client.get(reverse("websites:history", args=["shop"])).content.decode()
    assert "Move: deploy on web-2" in of_site and "Move: remove from web-1" in of_site
    plan = client.get(url("detail", down.uuid)).content.decode()
    assert "<h1>Plan: Move to another web server</h1>" in plan, "both halves are confirmed together"
    services.deployment_confirm(actor=people.owner, deployment=up)
    assert "<h1>Move: deploy on web-2</h1>" in client.get(url("detail", up.uuid)).content.decode()


def test_deployment_pages_are_hidden_from_other_teams(people: Cast) -> None:
    deployment = planned(people, shop(people))
    outsider = signed_in(people.outsider)
    for path in (url("detail", deployment.uuid), url("job-live", deployment.uuid)):
        assert outsider.get(path).status_code == 404
    for path in (url("confirm", deployment.uuid), url("cancel", deployment.uuid), url("disable", "shop")):
        assert outsider.post(path).status_code == 404
    assert "shop" not in outsider.get(url("list")).content.decode()
    viewer = signed_in(people.viewer)
    assert viewer.get(url("detail", deployment.uuid)).status_code == 200
    assert viewer.post(url("confirm", deployment.uuid)).status_code == 403
    for path in (url("detail", deployment.uuid), url("list"), url("drift"), url("job-events", deployment.uuid)):
        assert Client().get(path).status_code == 302


def test_deployment_with_site_of_another_team_is_hidden(people: Cast) -> None:
    theirs = shop(people, "theirs", actor=people.admin, team=people.other_team)
    (deployment,) = services.deployment_plan(actor=people.admin, sites=[shop(people), theirs])
    assert signed_in(people.owner).get(url("detail", deployment.uuid)).status_code == 404
    assert signed_in(people.admin).get(url("detail", deployment.uuid)).status_code == 200


def test_deployment_list_can_be_filtered(people: Cast) -> None:
    planned(people, shop(people))
    client = signed_in(people.owner)
    assert "shop" in client.get(url("list"), {"q": "sho"}).content.decode()
    assert "No deployment matches the filters" in client.get(url("list"), {"q": "zzz"}).content.decode()
    assert "No deployment matches the filters" in client.get(url("list"), {"status": "failed"}).content.decode()


# --- drift ---


def found_drift(people: Cast, content: str = "# by hand\n") -> Drift:
    site = shop(people)
    live(people, site)
    revision = SiteState.objects.get().revision
    assert revision is not None
    record = next(file for file in revision.files if not file["link"])
    row = Drift.objects.create(
        site=site,
        web_server=people.nginx,
        path=record["path"],
        expected_sha256=record["sha256"],
        found_sha256=sha256_of(content) if content else "",
        found=content,
        diff="-server_name\n+# by hand",
    )
    SiteState.objects.update(status=SiteStatus.DRIFTED)
    return row


def test_drift_is_adopted_by_administrators_only(people: Cast) -> None:
    row = found_drift(people)
    page = signed_in(people.owner).get(url("drift-detail", row.pk)).content.decode()
    assert "# by hand" in page and "Plan the overwrite" in page
    page = signed_in(people.viewer).get(url("drift-detail", row.pk)).content.decode()
    assert "# by hand" in page and "Plan the overwrite" not in page
    assert signed_in(people.owner).post(url("drift-adopt", row.pk)).status_code == 403
    assert not PinnedFile.objects.exists()
    answer = signed_in(people.admin).post(url("drift-adopt", row.pk), follow=True)
    assert "until you choose Manage again" in answer.content.decode()
    state = SiteState.objects.get()
    assert state.status == SiteStatus.LIVE
    assert state.revision is not None
    assert state.revision.number == 2
    row.refresh_from_db()
    assert row.resolution == "adopted"


def test_plan_keeps_adopted_text_until_release(people: Cast) -> None:
    row = found_drift(people)
    assert row.site is not None
    drifts.drift_adopt(actor=people.admin, drift=row)
    plan = planned(people, row.site).plan
    assert {file.action for file in plan.files} == {"keep"}
    drifts.pin_release(actor=people.admin, pin=PinnedFile.objects.get())
    plan = planned(people, row.site).plan
    assert "-# by hand" in "".join(file.diff for file in plan.files)


def test_missing_file_cannot_be_adopted(people: Cast) -> None:
    row = found_drift(people, content="")
    with pytest.raises(ApplicationError, match="cannot be adopted"):
        drifts.drift_adopt(actor=people.admin, drift=row)


def test_overwriting_drift_plans_last_deployed_files(people: Cast) -> None:
    row = found_drift(people)
    assert row.site is not None
    websites.block_update(actor=people.owner, block=row.site.blocks.get(), autoindex=True)
    answer = signed_in(people.owner).post(url("overwrite", "shop"), follow=True)
    assert "Overwrite drift" in answer.content.decode()
    deployment = Deployment.objects.order_by("-pk")[0]
    assert deployment.items.get().revision == SiteState.objects.get().revision


def test_plan_page_lists_other_drift_on_web_server(people: Cast) -> None:
    """The plan ends with a reload, which activates that drift."""
    row = found_drift(people)
    assert row.site is not None
    client = signed_in(people.owner)
    said = "This plan does not change these files, but the"
    other = client.get(url("detail", planned(people, shop(people, "other")).uuid)).content.decode()
    assert said in other and url("drift-detail", row.pk) in other
    own = client.get(url("detail", planned(people, row.site).uuid)).content.decode()
    assert said not in own


def test_rejected_move_names_conflict_and_keeps_selection(people: Cast) -> None:
    site = shop(people)
    live(people, site)
    live(people, shop(people, "other"))
    answer = signed_in(people.owner).post("/sites/shop/server/", {"web_server": people.apache.pk}, follow=True)
    page = answer.content.decode()
    assert "server block 1: *:80 is already used by nginx" in page
    assert f'<option value="{people.apache.pk}" selected>' in page


def test_drift_check_of_host_requires_administrator(people: Cast) -> None:
    assert signed_in(people.owner).post(url("drift-check"), {"host": "web-1"}).status_code == 403
    page = signed_in(people.admin).post(url("drift-check"), {"host": "web-1"}, follow=True).content.decode()
    assert "Queued" in page
    assert url("drift-checks") in page
    assert HostJob.objects.get().kind == HostJobKind.DRIFT


# --- the event stream ---


@pytest.mark.django_db(transaction=True)
def test_event_stream_reports_steps_until_the_end(people: Cast) -> None:
    deployment = planned(people, shop(people))
    services.deployment_confirm(actor=people.owner, deployment=deployment)
    carried_out(deployment)

    async def read() -> tuple[str, str]:
        client = AsyncClient()
        await client.aforce_login(people.owner)
        answer = await client.get(url("job-events", deployment.uuid))
        parts = [part async for part in answer.streaming_content]  # type: ignore[attr-defined]
        return answer["Content-Type"], b"".join(parts).decode()

    kind, text = async_to_sync(read)()
    assert kind == "text/event-stream"
    assert "event: live\n" in text
    assert "data: " in text
    assert "Deployed" in text
    assert text.endswith("event: done\ndata: succeeded\n\n")


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize(
    "headers", [{"origin": "https://evil.example"}, {"sec-fetch-site": "cross-site"}, {"origin": "null"}]
)
def test_event_stream_rejects_cross_origin_pages(people: Cast, headers: dict[str, str]) -> None:
    deployment = planned(people, shop(people))

    async def ask(user: object) -> int:
        client = AsyncClient()
        await client.aforce_login(user)  # type: ignore[arg-type]
        return (await client.get(url("job-events", deployment.uuid), headers=headers)).status_code

    assert async_to_sync(ask)(people.owner) == 403


@pytest.mark.django_db(transaction=True)
def test_event_stream_is_hidden_from_outsiders(people: Cast) -> None:
    deployment = planned(people, shop(people))

    async def ask() -> int:
        client = AsyncClient()
        await client.aforce_login(people.outsider)
        return (await client.get(url("job-events", deployment.uuid))).status_code

    assert async_to_sync(ask)() == 404


def test_event_stream_escapes_line_breaks() -> None:
    assert stream.event("live", "a\n\nevent: x\r\ndata: y") == (
        "event: live\ndata: a\ndata: \ndata: event: x\ndata: data: y\n\n"
    )


def test_move_page_shows_problems_of_target_web_server(people: Cast) -> None:
    site, client = shop(people), signed_in(people.owner)
    live(people, site)
    own = {"main_config": people.nginx.paths["main_config"], "path": "/etc/nginx/sites-enabled/default", "listen": "80"}
    Host.objects.update(facts={"default_servers": [own]})  # Apache has none
    assert "No site is the default server" not in client.get("/sites/shop/").content.decode()
    choice = client.get("/sites/shop/server/").content.decode()
    assert f'<option value="{people.apache.pk}"' in choice
    assert f'<option value="{people.nginx.pk}"' not in choice and "Decide later" not in choice
    plan = client.post("/sites/shop/server/", {"web_server": people.apache.pk}, follow=True).content.decode()
    assert "No site is the default server of port 80." in plan
    assert "/fix/" not in plan, "it is fixed on the server that the site stands on, where it is not there"
