"""From a draft to a responding site through the real agent and a real nginx, and back."""

from __future__ import annotations

from pathlib import Path

import pytest

from panel.core.errors import ApplicationError
from panel.deployments.caches.services import site_cache_empty
from panel.deployments.drift import services as drift
from panel.deployments.models import DeploymentStatus, Drift, SiteState, SiteStatus, Step
from panel.deployments.planning import services
from panel.hosts.execution import host_job_execute
from panel.hosts.models import Engine, HostJobKind, Layout
from panel.hosts.services.jobs import host_job_request
from panel.websites import services as websites
from panel.websites.models import Site
from tests.deployments.real_host import Machine
from tests.deployments.server_traits import Served
from tests.support.nginx import NginxInstance


def config_of(machine: Machine, site: Site) -> Path:
    revision = SiteState.objects.get(site=site).revision
    assert revision is not None
    return Path(next(file["path"] for file in revision.files if file["path"].endswith(".conf") and not file["link"]))


def edit(machine: Machine, site: Site, **values: object) -> None:
    websites.block_update(actor=machine.people.owner, block=site.blocks.get(), **values)  # type: ignore[arg-type]


@pytest.mark.parametrize("layout", [Layout.SITES, Layout.CONF_D])
def test_deployed_site_responds(machine: Machine, nginx: NginxInstance, layout: Layout) -> None:
    site = machine.site("shop", machine.web_server(nginx, Engine.NGINX, layout))
    deployment = machine.deploy(site)
    assert machine.answers("shop", "this is shop")
    assert deployment.plan.checked
    state = SiteState.objects.get()
    assert (state.status, state.revision) == (SiteStatus.LIVE, deployment.items.get().revision)
    names = list(deployment.steps.values_list("name", flat=True))
    assert names.index("test") < names.index("switch") < names.index("reload") < names.index("probe")
    assert set(deployment.steps.values_list("status", flat=True)) == {"succeeded"}
    assert "-t" in Step.objects.get(deployment=deployment, name="test").argv


def test_site_is_deployed_over_ssh(remote: Machine, served: Served) -> None:
    site = remote.site("shop", served.web_server(remote))
    remote.deploy(site)
    assert remote.answers("shop", "this is shop")


def test_deployment_sends_nothing_when_host_key_is_wrong(remote: Machine, nginx: NginxInstance) -> None:
    site = remote.site("shop", remote.web_server(nginx, Engine.NGINX))
    deployment = remote.plan(site)
    remote.host.host_key = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIEYcZLJD2iGwZV3vXbDIhBGGrmvVcZbhDkZ5d2dNZCwQ"
    remote.host.save()
    remote.run(deployment)
    assert deployment.status == DeploymentStatus.FAILED
    assert "The host was not changed." in deployment.error
    assert not list((nginx.root / "sites-available").iterdir())


def test_rejected_configuration_is_rolled_back_with_server_message(machine: Machine, served: Served) -> None:
    web_server = served.web_server(machine)
    site, other = machine.site("shop", web_server), machine.site("other", web_server)
    machine.deploy(site, other)
    before = config_of(machine, site).read_text()
    websites.snippet_create(
        actor=machine.people.admin, site=site, engine=served.engine, text=served.wrong, block=site.blocks.get()
    )
    deployment = machine.run(machine.plan(site))
    assert deployment.status == DeploymentStatus.ROLLED_BACK
    assert served.words in deployment.error
    assert config_of(machine, site).read_text() == before
    assert machine.answers("shop", "this is shop")
    assert machine.answers("other", "this is other")
    state = SiteState.objects.get(site=site)
    assert (state.status, state.last_failure) == (SiteStatus.LIVE, deployment)


def test_site_that_does_not_respond_is_rolled_back(machine: Machine, served: Served) -> None:
    site = machine.site("shop", served.web_server(machine))
    machine.deploy(site)
    upstream = websites.upstream_create(
        actor=machine.people.owner, site=site, name="gone", servers=[{"address": "127.0.0.1:1"}]
    )
    websites.location_create(
        actor=machine.people.owner, block=site.blocks.get(), pattern="/", handler="proxy", upstream=upstream
    )
    deployment = machine.run(machine.plan(site))
    assert deployment.status == DeploymentStatus.ROLLED_BACK
    assert f"responds with {served.away}" in deployment.error
    assert machine.answers("shop", "this is shop")


def test_deploying_same_revision_again_changes_nothing(machine: Machine, served: Served) -> None:
    site = machine.site("shop", served.web_server(machine))
    machine.deploy(site)
    stamp = config_of(machine, site).stat().st_mtime_ns
    again = machine.deploy(site)
    assert {file.action for file in again.plan.files} == {"keep"}
    assert "reload" not in again.steps.values_list("name", flat=True)
    assert config_of(machine, site).stat().st_mtime_ns == stamp


def test_rollback_restores_previous_files(machine: Machine, served: Served) -> None:
    site = machine.site("shop", served.web_server(machine))
    first = machine.deploy(site).items.get().revision
    assert first is not None
    edit(machine, site, root=str(machine.files("new-shop")))
    machine.deploy(site)
    assert machine.answers("shop", "this is new-shop")
    machine.run(services.site_rollback(actor=machine.people.owner, site=site, revision=first))
    assert machine.answers("shop", "this is shop")
    assert SiteState.objects.get().revision == first


def test_sites_of_one_web_server_deploy_in_one_transaction(machine: Machine, served: Served) -> None:
    web_server = served.web_server(machine)
    sites = [machine.site(f"shop-{index}", web_server) for index in range(5)]
    deployment = machine.deploy(*sites)
    names = list(deployment.steps.values_list("name", flat=True))
    assert names.count("reload") + names.count("start") == 1
    for site in sites:
        assert machine.answers(site.name, f"this is {site.name}")


def test_invalid_site_stops_whole_transaction(machine: Machine, served: Served) -> None:
    web_server = served.web_server(machine)
    good, bad = machine.site("good", web_server), machine.site("bad", web_server)
    websites.snippet_create(
        actor=machine.people.admin, site=bad, engine=served.engine, text=served.wrong, block=bad.blocks.get()
    )
    deployment = machine.run(machine.plan(good, bad))
    assert deployment.status == DeploymentStatus.ROLLED_BACK
    assert not served.in_service()
    assert not SiteState.objects.filter(status=SiteStatus.LIVE).exists()


def test_disabled_site_stops_responding_until_enabled(machine: Machine, served: Served) -> None:
    web_server = served.web_server(machine)
    site, other = machine.site("shop", web_server), machine.site("other", web_server)
    machine.deploy(site, other)
    deployment = services.site_disable(actor=machine.people.owner, site=site)
    assert deployment is not None
    machine.run(deployment)
    assert not any("shop" in path for path in served.in_service())
    assert machine.answers("shop", "this is other")  # nginx's own choice for a name that nobody has
    site.refresh_from_db()
    websites.site_enable(actor=machine.people.owner, site=site, enabled=True)
    machine.deploy(site)
    assert machine.answers("shop", "this is shop")


def test_deleted_site_leaves_no_files_or_rows(machine: Machine, served: Served) -> None:
    """Upstreams and PHP pools are deleted too, although locations protect them while the site exists."""
    owner = machine.people.owner
    site = machine.site("shop", served.web_server(machine))
    websites.php_pool_create(actor=owner, site=site, name="php", address="unix:/run/none.sock")
    upstream = websites.upstream_create(actor=owner, site=site, name="app", servers=[{"address": "127.0.0.1:1"}])
    websites.location_create(actor=owner, block=site.blocks.get(), pattern="/app/", handler="proxy", upstream=upstream)
    machine.deploy(site)
    deployment = services.site_delete(actor=machine.people.owner, site=site)
    assert deployment is not None
    machine.run(deployment)
    assert not Site.objects.exists()
    assert not served.leftovers("shop")


def test_site_with_self_signed_certificate_responds_over_tls(machine: Machine, served: Served) -> None:
    people = machine.people
    certificate = websites.certificate_self_sign(
        actor=people.owner, team=people.team, name="shop", names=["shop.example"]
    )
    site = machine.site("shop", served.web_server(machine), certificate=certificate)
    machine.deploy(site)
    (key,) = served.server.root.rglob("shop.key")
    assert key.stat().st_mode & 0o777 == 0o600
    from tests.support.http_client import ask

    assert ask(machine.port, host="shop.example", tls=True).text == "this is shop"


# --- drift ---


def test_manual_edit_is_shown_and_overwritten_only_on_request(machine: Machine, served: Served) -> None:
    site = machine.site("shop", served.web_server(machine))
    machine.deploy(site)
    path = config_of(machine, site)
    path.write_text(path.read_text() + "# by hand\n")
    edit(machine, site, autoindex=True)
    deployment = machine.plan(site)
    assert deployment.plan.drifted == [str(path)]
    (file,) = [file for file in deployment.plan.files if file.path == str(path)]
    assert "-# by hand" in file.diff
    with pytest.raises(ApplicationError, match=str(path)) as caught:
        services.deployment_confirm(actor=machine.people.owner, deployment=deployment)
    assert caught.value.code == "drift"
    assert "# by hand" in path.read_text()
    machine.run(deployment, accept_drift=True)
    assert deployment.status == DeploymentStatus.SUCCEEDED
    assert "# by hand" not in path.read_text()


def test_manual_edit_after_plan_stops_deployment(machine: Machine, served: Served) -> None:
    site = machine.site("shop", served.web_server(machine))
    machine.deploy(site)
    path = config_of(machine, site)
    edit(machine, site, autoindex=True)
    deployment = machine.plan(site)
    path.write_text(path.read_text() + "# by hand\n")
    machine.run(deployment)
    assert deployment.status == DeploymentStatus.FAILED
    assert str(path) in deployment.error
    assert "# by hand" in path.read_text()
    assert machine.answers("shop", "this is shop")


def test_drift_is_detected_adopted_and_kept(machine: Machine, served: Served) -> None:
    site = machine.site("shop", served.web_server(machine))
    machine.deploy(site)
    assert drift.drift_check(machine.host) == []
    path = config_of(machine, site)
    path.write_text(path.read_text() + "# X-By hand\n")
    (row,) = drift.drift_check(machine.host)
    assert "+# X-By hand" in row.diff
    assert SiteState.objects.get().status == SiteStatus.DRIFTED
    drift.drift_adopt(actor=machine.people.admin, drift=row)
    assert drift.drift_check(machine.host) == []
    machine.deploy(site)
    assert "X-By" in path.read_text()
    assert SiteState.objects.get().status == SiteStatus.LIVE


def test_drift_check_runs_as_job(machine: Machine, served: Served) -> None:
    site = machine.site("shop", served.web_server(machine))
    machine.deploy(site)
    config_of(machine, site).write_text("# broken")
    job = host_job_request(actor=machine.people.admin, host=machine.host, kind=HostJobKind.DRIFT)
    host_job_execute(job.uuid)
    job.refresh_from_db()
    assert job.result == {"open": 1, "paths": [str(config_of(machine, site))]}


def test_drift_is_overwritten(machine: Machine, served: Served) -> None:
    site = machine.site("shop", served.web_server(machine))
    machine.deploy(site)
    path = config_of(machine, site)
    good = path.read_text()
    path.unlink()
    (row,) = drift.drift_check(machine.host)
    assert row.found_sha256 == ""
    machine.run(drift.drift_overwrite(actor=machine.people.owner, site=site), accept_drift=True)
    assert path.read_text() == good
    assert Drift.objects.get().resolution == "overwritten"


def test_edited_password_file_is_not_adopted(machine: Machine, served: Served) -> None:
    """The agent reports no text of secret files; the reason that users read is that they are secret."""
    site = machine.site("shop", served.web_server(machine))
    websites.location_create(
        actor=machine.people.owner,
        block=site.blocks.get(),
        pattern="/staff/",
        handler="static",
        basic_auth_realm="Staff",
        basic_auth_users={"anna": "$2y$12$" + "a" * 53},
    )
    machine.deploy(site)
    revision = SiteState.objects.get().revision
    assert revision is not None
    path = Path(next(file["path"] for file in revision.files if file["secret"]))
    path.write_text("bert:x\n")
    (row,) = drift.drift_check(machine.host)
    with pytest.raises(ApplicationError, match="contains a private key or passwords") as refused:
        drift.drift_adopt(actor=machine.people.admin, drift=row)
    assert str(path) in refused.value.message


def test_drift_disappears_when_file_is_restored_by_hand(machine: Machine, served: Served) -> None:
    site = machine.site("shop", served.web_server(machine))
    machine.deploy(site)
    path = config_of(machine, site)
    good = path.read_text()
    path.write_text("# broken")
    assert len(drift.drift_check(machine.host)) == 1
    path.write_text(good)
    assert drift.drift_check(machine.host) == []
    assert Drift.objects.get().resolution == "gone"
    assert SiteState.objects.get().status == SiteStatus.LIVE


def test_deployed_site_serves_cached_responses_until_cache_is_cleared(machine: Machine, nginx: NginxInstance) -> None:
    """A site without a cache, or without a host, says so."""
    web_server = machine.web_server(nginx, Engine.NGINX)
    web_server.manages_main_config = True  # what it keeps lies below its own folder then
    web_server.save()
    (Path(web_server.paths["prefix"]) / "temp").mkdir(exist_ok=True)
    back = machine.site("back", web_server)
    machine.deploy(back)
    shop = machine.site("shop", web_server, root="", upstream=f"127.0.0.1:{machine.port}")
    owner = machine.people.owner
    with pytest.raises(ApplicationError, match="is not deployed"):
        site_cache_empty(actor=owner, site=shop)
    with pytest.raises(ApplicationError, match="uses response caching"):
        site_cache_empty(actor=owner, site=back)
    (place,) = shop.blocks.get().locations.all()
    websites.location_update(
        actor=owner,
        location=place,
        cache_times=[{"codes": [200], "seconds": 3600}],
        request_headers=[{"name": "Host", "value": "back.example"}],
    )
    machine.deploy(shop)
    page = machine.root / "www" / "back" / "index.html"
    assert machine.answers("shop", "this is back")
    page.write_text("changed")
    assert machine.answers("back", "changed")
    assert machine.get("shop").text == "this is back"
    assert site_cache_empty(actor=owner, site=shop)["files"] == 1
    assert machine.answers("shop", "changed")
