"""nginx.conf managed by the panel or left to the distribution, on a real nginx in both layouts."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.core.exceptions import PermissionDenied

from panel.core.claims import Attempt
from panel.core.errors import ApplicationError
from panel.deployments.drift import services as drift
from panel.deployments.execution import services as execution
from panel.deployments.main_file.services import KEPT, main_plan
from panel.deployments.models import Deployment, DeploymentStatus, WebServerState
from panel.deployments.planning import services
from panel.hosts.models import Engine, Layout, WebServer
from tests.api.caller import caller_of
from tests.deployments.real_host import Machine
from tests.support.cast import signed_in
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port

# As a distribution's: a value of its own, a log format and a map that its sites may use, a server of its own.
OWN = """\
    keepalive_timeout 7;
    log_format own '$remote_addr "$request"';
    map $uri $kind { default plain; ~\\.php$ script; }
    server { listen 127.0.0.1:%d; return 200 "the distribution's"; }
}
"""


@pytest.fixture
def nginx(server_root: Path) -> Iterator[NginxInstance]:
    """In a folder of its own, as /etc/nginx is: the agent's does not lie below it."""
    with NginxInstance(server_root / "nginx") as server:
        yield server


@pytest.fixture(params=[Layout.SITES, Layout.CONF_D])
def web_server(request: pytest.FixtureRequest, machine: Machine, nginx: NginxInstance) -> WebServer:
    """A server with a site on it, and a main file that says more than a minimum."""
    text = nginx.main_config.read_text().rstrip().removesuffix("}")
    nginx.main_config.write_text(text + OWN % free_port())
    nginx.reload()
    found = machine.web_server(nginx, Engine.NGINX, request.param)
    machine.deploy(machine.site("shop", found))
    return found


def run(machine: Machine, plan: Deployment, *, accept_drift: bool = False) -> Deployment:
    """As Machine.run, by an administrator."""
    services.deployment_confirm(actor=machine.people.admin, deployment=plan, accept_drift=accept_drift)
    assert execution.deployment_execute(plan.uuid) == Attempt.DONE
    plan.refresh_from_db()
    assert plan.status == DeploymentStatus.SUCCEEDED, plan.error
    return plan


def test_main_file_is_managed_rewritten_after_drift_and_returned(
    machine: Machine, nginx: NginxInstance, web_server: WebServer
) -> None:
    main, kept = nginx.main_config, Path(f"{nginx.main_config}{KEPT}")
    original, admin = main.read_text(), machine.people.admin
    plan = main_plan(actor=admin, web_server=web_server, managed=True)
    assert main.read_text() == original, "a plan changes nothing"
    assert "Paddock replaces keepalive_timeout 7 by keepalive_timeout 65s" in [note.text for note in plan.plan.warnings]
    run(machine, plan)
    text = main.read_text()
    assert "managed by Paddock" in text
    for line in ("worker_connections 4096;", "server_tokens off;", "map $uri $kind {", "log_format own"):
        assert line in text
    assert kept.read_text() == original
    assert machine.answers("shop", "this is shop")
    # Sites come and go without touching it, and it is watched like their files.
    machine.deploy(machine.site("other", web_server))
    assert main.read_text() == text
    assert drift.drift_check(machine.host) == []
    main.write_text(text + "# by hand\n")
    (row,) = drift.drift_check(machine.host)
    assert row.path == str(main)
    page = signed_in(admin).get(f"/deployments/drift/{row.pk}").content.decode()
    assert f"/deployments/servers/{web_server.pk}/main-file" in page
    web_server.workers = 2
    web_server.save()
    again = main_plan(actor=admin, web_server=web_server, managed=True)
    assert again.plan.drifted == [str(main)]
    with pytest.raises(ApplicationError, match="These files were edited on the host"):
        services.deployment_confirm(actor=admin, deployment=again)
    run(machine, again, accept_drift=True)
    assert "worker_processes 2;" in main.read_text() and "by hand" not in main.read_text()
    run(machine, main_plan(actor=admin, web_server=web_server, managed=False))
    assert main.read_text() == original
    assert not kept.exists()
    assert WebServerState.objects.get(web_server=web_server).main_files == []
    assert machine.answers("shop", "this is shop")


def test_main_file_rejected_by_nginx_leaves_original(machine: Machine, nginx: NginxInstance) -> None:
    """The site needs a longer hash bucket than the panel's main file sets."""
    web_server = machine.web_server(nginx, Engine.NGINX, Layout.CONF_D)
    machine.deploy(machine.site("shop", web_server))
    text = nginx.main_config.read_text()
    nginx.main_config.write_text(text.replace("http {", "http {\n    server_names_hash_bucket_size 1024;"))
    (nginx.root / "conf.d" / "long.conf").write_text(
        f"server {{ listen {machine.port}; server_name {'long.' * 40}example; }}\n"
    )
    nginx.reload()
    original = nginx.main_config.read_text()
    plan = main_plan(actor=machine.people.admin, web_server=web_server, managed=True)
    services.deployment_confirm(actor=machine.people.admin, deployment=plan)
    execution.deployment_execute(plan.uuid)
    plan.refresh_from_db()
    assert plan.status == DeploymentStatus.ROLLED_BACK
    assert "server_names_hash_bucket_size" in plan.error
    assert nginx.main_config.read_text() == original
    assert not WebServerState.objects.filter(web_server=web_server).exclude(main_files=[]).exists()


def test_main_file_management_requires_administrator_on_page_and_api(machine: Machine, nginx: NginxInstance) -> None:
    web_server, people = machine.web_server(nginx, Engine.NGINX), machine.people
    with pytest.raises(PermissionDenied):
        main_plan(actor=people.owner, web_server=web_server, managed=True)
    with pytest.raises(ApplicationError, match="is already the original of the distribution"):
        main_plan(actor=people.admin, web_server=web_server, managed=False)
    url = f"/deployments/servers/{web_server.pk}/main-file"
    assert signed_in(people.owner).post(url, {"managed": "on"}).status_code == 403
    client = signed_in(people.admin)
    assert f'action="{url}"' in client.get(f"/hosts/{machine.host.name}/").content.decode()
    shown = client.get(client.post(url, {"managed": "on"})["Location"]).content.decode()
    assert "Deploy the main file" in shown and "nginx.conf.distribution" in shown
    caller = caller_of(people.admin)
    answer = caller.post(f"web-servers/{web_server.pk}/main-file/", {"managed": True})
    assert answer.status_code == 201
    (plan,) = answer.json()["deployments"]
    assert [file["path"] for file in plan["plan"]["files"]] == [
        str(nginx.main_config), f"{nginx.main_config}{KEPT}",
    ]  # fmt: skip
    row = Deployment.objects.get(uuid=plan["uuid"])
    with pytest.raises(PermissionDenied):
        services.deployment_confirm(actor=people.owner, deployment=row)
    run(machine, row)
    assert caller.get(f"web-servers/{web_server.pk}/").json()["main_files"] == [
        str(nginx.main_config), f"{nginx.main_config}{KEPT}",
    ]  # fmt: skip
