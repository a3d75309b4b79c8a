"""A site moves to another host together with its published files."""

from __future__ import annotations

from pathlib import Path

import pytest
from django.urls import reverse

from panel.core.errors import ApplicationError
from panel.deployments.execution import services as execution
from panel.deployments.models import DeploymentStatus
from panel.deployments.planning import services as planning
from panel.hosts.models import Engine, WebServer
from panel.publishing.models import Publication
from panel.publishing.services import Choices, publication_request
from panel.websites.models import ServerBlock
from tests.publishing.conftest import Published
from tests.support.cast import signed_in
from tests.support.http_client import ask
from tests.support.ports import free_port
from tests.support.waiting import eventually

pytestmark = pytest.mark.parametrize("placed", [Engine.NGINX], indirect=True)


def test_files_are_published_on_the_other_host_before_the_site_moves(
    shop: Published, second: tuple[WebServer, Path]
) -> None:
    there, www = second
    machine, owner = shop.machine, shop.machine.people.owner
    assert shop.publish({"index.html": "the shop"}, keep=["uploads", "data.db"], replace=True).error == ""
    port = free_port()  # both hosts are this machine
    ServerBlock.objects.get(site=shop.site).listens.update(port=port)
    up, down = planning.site_move(actor=owner, site=shop.site, web_server=there)
    page = signed_in(owner).get(reverse("deployments:detail", args=[up.uuid])).content.decode()
    assert "Publish the files of this site on the other host before you deploy the move" in page
    assert "These kept files are not part of the release and stay on " in page and "uploads, data.db" in page
    signed_in(owner).post("/content/site/shop/releases/1/publish", {"web_server": there.pk})
    moved = Publication.objects.get(web_server=there)
    done = shop.run(moved)
    assert done.error == "" and [target["host"] for target in done.targets] == ["web-2"]
    assert (www / "shop" / "index.html").read_text() == "the shop"
    assert shop.get() == "the shop", "it still responds where it is"
    machine.run(up)
    assert up.status == DeploymentStatus.SUCCEEDED, up.error
    execution.deployment_execute(down.uuid)
    assert eventually(lambda: ask(port, host="shop.example").text.strip() == "the shop")


def test_folder_of_another_team_on_the_other_host_is_refused(shop: Published, second: tuple[WebServer, Path]) -> None:
    there, _www = second
    people = shop.machine.people
    shop.publish({"index.html": "the shop"}, replace=True)
    release = Publication.objects.get().release
    assert release is not None
    shop.machine.site("theirs", there, actor=people.admin, team=people.other_team, root=str(shop.folder))
    with pytest.raises(ApplicationError, match="has files of another team"):
        publication_request(actor=people.owner, site=shop.site, source=release, choices=Choices(web_server=there))
