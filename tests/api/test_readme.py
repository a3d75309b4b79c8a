"""Each code block of docs/api/README.md, run by bash with a live panel, a real sshd and a real nginx."""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from panel.api.problems import CATALOGUE
from tests.suites.browser.conftest import Panel, panel  # noqa: F401 - the fixture
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.process import tool
from tests.support.sshd import SshServer

DOCS = Path(__file__).resolve().parents[2] / "docs" / "api"


def blocks() -> list[str]:
    return re.findall(r"```bash\n(.*?)```", (DOCS / "README.md").read_text(encoding="utf-8"), re.DOTALL)


@pytest.fixture
def nginx(server_root: Path) -> Iterator[NginxInstance]:
    with NginxInstance(server_root) as server:
        yield server


def test_readme_code_blocks_run(panel: Panel, nginx: NginxInstance) -> None:  # noqa: F811
    tool("jq"), tool("curl")
    folder = nginx.root / "www" / "shop"
    folder.mkdir()
    (folder / "index.html").write_text("this is shop")
    port = free_port()
    with SshServer(nginx.root / "sshd") as sshd:
        env = {
            "PANEL": panel.url,
            "SETUP_FILE": str(panel.home / "secrets" / "setup_link"),
            "HOST_ADDRESS": "127.0.0.1",
            "HOST_PORT": str(sshd.port),
            "HOST_USER": sshd.username,
            "HOST_KEY_FILE": str(sshd.root / "client_key"),
            "SITE_ROOT": str(nginx.root / "www"),
            "SITE_PORT": str(port),
            "NGINX_PREFIX": str(nginx.root),
        }
        script = "set -euo pipefail\n" + "\n".join(
            f'echo "=== block {number}"\n{text}' for number, text in enumerate(blocks())
        )
        done = subprocess.run(
            ["bash", "-c", script],
            env=os.environ | env,
            capture_output=True,
            text=True,
            timeout=240,
            stdin=subprocess.DEVNULL,
        )
        said = done.stdout + done.stderr
        assert done.returncode == 0, f"{said}\n--- the panel said:\n{panel.process.said()[-6000:]}"
        assert f"=== block {len(blocks()) - 1}" in said
        assert "this is shop" in said and "X-Served-By" in said
        # What `follow` printed: check, deployment, change, rollback; what nginx refuses; the benchmark.
        ends = re.findall(r'"status": "(\w+)",\s+"error"', said)
        assert ends[:4] == ["succeeded"] * 4, f"{said}\n--- the panel said:\n{panel.process.said()[-6000:]}"
        assert ends[4:] in (["rolled_back", "finished"], ["rolled_back", "invalid"]), said
        assert '"value"' in said, "a figure of the benchmark"
        assert ask(port, "/", host="shop.example").text.strip() == "this is shop"


def test_error_catalog_lists_every_code(db: None) -> None:
    text = (DOCS / "errors.md").read_text(encoding="utf-8")
    for kind, row in CATALOGUE.items():
        assert f"| `{kind}` | {row.status} | {row.title} | {row.advice} |" in text, kind
