"""Links of a site's account cannot make gallop serve files outside the site's folders."""

from __future__ import annotations

from pathlib import Path

import pytest

from panel.rendering.spec import Listen, Location, ServerBlock, SiteSpec
from tests.suites.attack.paths.folders import Folders, laid_out
from tests.suites.attack.paths.site_server import Serving
from tests.suites.conformance.servers import engines
from tests.suites.conformance.wire import Connection, Request
from tests.support.ports import free_port

LINKS = {
    "passwd": "/etc/passwd",
    "theirs": "../beta",
    "up": "..",
    "inside": "files",
    "absolute": "{mine}/files/b.txt",
    "chain": "theirs/secret.txt",
}
REFUSED = ("/passwd", "/theirs/secret.txt", "/theirs/", "/up/beta/secret.txt", "/chain", "/files/up/up/beta/a.txt")


@pytest.fixture
def folders(server_root: Path) -> Folders:
    found = laid_out(server_root / "host")
    for name, target in LINKS.items():
        (found.mine / name).symlink_to(target.format(mine=found.mine))
    (found.mine / "files" / "up").symlink_to("..")
    return found


def test_gallop_rejects_links_out_of_site_folders(server_root: Path, folders: Folders) -> None:
    (gallop,) = [engine for engine in engines() if engine.engine == "native"]
    port = free_port()
    serving = Serving(gallop, server_root, folders, port)
    assert "confine_files" in serving.web_server.modules, "the built gallop is older than the panel; `make native`"
    aliased = Location("", "/media/", "static", alias=f"{folders.mine}/files/", autoindex=True)
    block = ServerBlock((Listen(port),), ("a.test",), root=str(folders.mine), autoindex=True, locations=(aliased,))
    with serving.running([SiteSpec("shop", (block,))]):
        for path in (*REFUSED, "/media/up/passwd", "/media/up/theirs/secret.txt"):
            answer = Connection(port).ask(Request(path))
            assert answer.status == 403 and not folders.canary(answer.body), (path, answer)
        for path in ("/inside/b.txt", "/absolute", "/media/b.txt", "/files/up/files/b.txt"):
            answer = Connection(port).ask(Request(path))
            assert (answer.status, answer.body) == (200, b"own b"), (path, answer)
