"""A live site on each web server of a host, for previews of its drafts."""

from __future__ import annotations

from pathlib import Path

import pytest

from panel.hosts.models import WebServer
from panel.previews.execution import preview_execute
from panel.previews.models import Preview
from panel.previews.services import preview_request
from panel.websites.models import Site
from panel.websites.services import location_create
from tests.deployments.conftest import *  # noqa: F403 - the host's fixtures
from tests.deployments.real_host import Machine


class LiveSite:
    """`shop` is live with a page, an image folder and an access log; its draft is changed by the tests."""

    def __init__(self, machine: Machine, web_server: WebServer) -> None:
        self.machine = machine
        self.site: Site = machine.site("shop", web_server)
        self.folder = machine.root / "www" / "shop"
        (self.folder / "img").mkdir()
        (self.folder / "img" / "logo.txt").write_text("logo")
        (self.folder / "about.html").write_text("about")
        self.block = self.site.blocks.get()
        self.log = Path(web_server.paths["log_dir"]) / "shop.log"
        self.block.access_log = str(self.log)
        self.block.save()
        machine.deploy(self.site)

    def visited(self, *targets: str) -> None:
        """Lines of visitors in the site's access log."""
        with self.log.open("a") as sink:
            for target in targets:
                sink.write(f'192.0.2.1 - - [21/Nov/2026:10:00:00 +0000] "GET {target} HTTP/1.1" 200 5 "-" "x"\n')

    def add(self, pattern: str, handler: str, **values: object) -> None:
        location_create(actor=self.machine.people.owner, block=self.block, pattern=pattern, handler=handler, **values)

    def preview(self) -> Preview:
        """Preview of a new plan of the draft, as it is when it ends."""
        plan = self.machine.plan(self.site)
        preview = preview_request(actor=self.machine.people.owner, deployment=plan)
        preview_execute(preview.uuid)
        return Preview.objects.get(pk=preview.pk)


@pytest.fixture
def live_site(placed: tuple[Machine, WebServer]) -> LiveSite:
    return LiveSite(*placed)
