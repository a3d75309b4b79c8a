"""Debian's Apache accepts every golden case, in both layouts and with the panel's main file."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from panel.rendering import render, render_main, render_web_server
from panel.rendering.spec import SiteSpec, WebServerSpec
from tests.rendering.cases import CASES
from tests.rendering.servers import relocated, write_certificates, write_files
from tests.support.process import tool


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_apache_accepts_every_golden_site(case: Callable[[], SiteSpec], server_root: Path) -> None:
    binary = tool("apache2", "httpd")
    web_server = WebServerSpec("apache", "sites", f"{server_root}/etc", f"{server_root}/var/log", own_ports=frozenset())
    spec = relocated(case(), server_root)
    for folder in ("etc/sites-enabled", "var/log/sites", "tmp"):
        (server_root / folder).mkdir(parents=True)
    write_files(render_main(web_server, temp_dir=f"{server_root}/tmp"), server_root)
    write_files([*render(spec, web_server), *render_web_server([spec], web_server)], server_root)
    write_certificates(spec)
    for block in spec.blocks:
        for root in [block.root, *(location.root for location in block.locations)]:
            if root:
                Path(root).mkdir(parents=True, exist_ok=True)
    argv = [binary, "-t", "-d", f"{server_root}/etc", "-f", f"{server_root}/etc/httpd.conf"]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert done.stderr.strip() == "Syntax OK"
