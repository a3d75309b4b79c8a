"""Client certificates from the form and the API to a real nginx and Apache: what is refused, deployed and verified."""

from __future__ import annotations

import datetime as dt
from pathlib import Path
from typing import Any

import pytest
from django.core.exceptions import ValidationError
from django.urls import reverse

from panel.deployments.models import DeploymentStatus
from panel.hosts.models import Engine, WebServer
from panel.websites import services as websites
from panel.websites.models import ServerBlock, Site
from tests.api.caller import caller_of
from tests.deployments.real_host import Machine
from tests.deployments.test_verified import edit, health, run
from tests.support.cast import signed_in
from tests.support.client_certificates import Authority
from tests.support.http_client import ask
from tests.support.waiting import eventually

CLIENTS = Authority("Clients")


@pytest.fixture(params=["nginx", "apache"])
def web_server(request: pytest.FixtureRequest, machine: Machine) -> WebServer:
    return machine.web_server(request.getfixturevalue(request.param), Engine(request.param))


@pytest.fixture
def site(machine: Machine, web_server: WebServer) -> Site:
    people = machine.people
    certificate = websites.certificate_self_sign(
        actor=people.owner, team=people.team, name="shop", names=["shop.example"]
    )
    found = machine.site("shop", web_server)
    edit(machine, found, certificate=certificate, listens=[{"port": machine.port, "tls": True}])
    return found


def status(machine: Machine) -> int:
    return ask(machine.port, host="shop.example", tls=True).status


def test_required_certificate_is_deployed_and_its_refusal_is_what_is_verified(machine: Machine, site: Site) -> None:
    assert run(machine, site).status == DeploymentStatus.SUCCEEDED
    assert status(machine) == 200
    edit(machine, site, client_verify="required", client_ca=CLIENTS.pem, client_crl=CLIENTS.crl())
    deployment = run(machine, site)
    assert deployment.status == DeploymentStatus.SUCCEEDED, deployment.error
    assert deployment.is_verified and "400" in health(deployment)["words"]
    assert eventually(lambda: status(machine) == 400)
    edit(machine, site, client_verify="")
    assert run(machine, site).status == DeploymentStatus.SUCCEEDED
    assert eventually(lambda: status(machine) == 200)


def test_deployment_is_undone_when_required_certificate_is_not_enforced(machine: Machine, site: Site) -> None:
    """A raw directive that turns the check off again."""
    assert run(machine, site).status == DeploymentStatus.SUCCEEDED
    edit(machine, site, client_verify="required", client_ca=CLIENTS.pem)
    assert site.web_server is not None
    engine = Engine(site.web_server.engine)
    off = {Engine.NGINX: "ssl_verify_client off;", Engine.APACHE: "RewriteEngine Off"}[engine]
    try:
        websites.snippet_create(actor=machine.people.admin, site=site, engine=engine, text=off, block=site.blocks.get())
    except ValidationError as error:
        assert "ssl_verify_client" in str(error) or "RewriteEngine" in str(error)
        return  # the raw directive is refused, which protects as well
    deployment = run(machine, site)
    assert deployment.status == DeploymentStatus.ROLLED_BACK, deployment.status
    words = {
        Engine.NGINX: '"ssl_verify_client" directive is duplicate',
        Engine.APACHE: "responds with 200 instead of 400",
    }
    assert words[engine] in deployment.error
    assert status(machine) == 200


def test_plain_address_beside_a_required_certificate_blocks_the_plan(machine: Machine, site: Site) -> None:
    listens = [{"port": machine.port, "tls": True}, {"port": machine.port + 1}]
    edit(machine, site, client_verify="required", client_ca=CLIENTS.pem, listens=listens)
    with pytest.raises(ValidationError, match="visitors need no certificate"):
        machine.plan(site)
    edit(machine, site, redirect_to_https=True)
    machine.plan(site)


def test_expired_revocation_list_blocks_the_plan(machine: Machine, site: Site) -> None:
    crl = CLIENTS.crl(ends=dt.timedelta(hours=-1))
    edit(machine, site, client_verify="required", client_ca=CLIENTS.pem, client_crl=crl)
    with pytest.raises(ValidationError, match="would refuse every client"):
        machine.plan(site)


LEAF = "is not a certificate authority"


@pytest.mark.parametrize(
    ("values", "field", "words"),
    [
        ({"client_verify": "required"}, "client_ca", "Paste the certificate of the authority"),
        ({"client_verify": "required", "client_ca": "nonsense"}, "client_ca", "PEM format"),
        ({"client_ca": "leaf"}, "client_ca", LEAF),
        ({"client_ca": CLIENTS.pem + "-----BEGIN PRIVATE KEY-----"}, "client_ca", "Remove the private key"),
        ({"client_ca": CLIENTS.pem, "client_crl": "x"}, "client_crl", "PEM format"),
        ({"client_ca": CLIENTS.pem, "client_crl": Authority("Others").crl()}, "client_crl", "is missing"),
        ({"client_ca": CLIENTS.pem, "client_crl": Authority("Clients").crl()}, "client_crl", "not signed by"),
        ({"client_crl": CLIENTS.crl()}, "client_crl", "Add the certificate of the authority"),
        ({"client_ca": CLIENTS.pem, "client_verify_depth": 11}, "client_verify_depth", "from 0 to 10"),
        ({"client_ca": CLIENTS.pem * 51}, "client_ca", "at most 50"),
        ({"client_ca": "é"}, "client_ca", "ASCII"),
    ],
)
def test_wrong_values_are_refused_by_field_in_form_and_api(
    machine: Machine, nginx: Any, tmp_path: Path, values: dict[str, Any], field: str, words: str
) -> None:
    site = machine.site("shop", machine.web_server(nginx, Engine.NGINX))
    block = site.blocks.get()
    if values.get("client_ca") == "leaf":
        path = CLIENTS.client(tmp_path / "leaf", "Ann").path
        values = {"client_ca": "-----BEGIN CERT" + path.read_text().partition("-----BEGIN CERT")[2]}
    answer = caller_of(machine.people.owner).patch(f"blocks/{block.pk}/", values)
    (error,) = answer.json()["errors"]
    assert answer.status_code == 422 and error["pointer"] == f"/{field}" and words in error["detail"], error
    address = reverse("websites:block", args=[site.name, block.pk])
    page = signed_in(machine.people.owner).post(address, _form(block) | values)
    assert page.status_code == 422 and words in str(page.context["form"].errors[field])
    block.refresh_from_db()
    assert not block.client_ca and not block.client_crl


def _form(block: ServerBlock) -> dict[str, Any]:
    listens = "\n".join(str(listen.port) for listen in block.listens.all())
    names = "\n".join(row.name for row in block.names.all())
    return {
        "listens": listens,
        "names": names,
        "root": block.root,
        "error_log_level": "error",
        "client_verify_depth": 1,
    }
