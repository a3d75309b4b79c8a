"""Debian's nginx accepts every golden case, in both layouts and with the panel's main file."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from panel.rendering import render, render_main
from panel.rendering.spec import SiteSpec, WebServerSpec
from tests.rendering.cases import CASES, confined
from tests.rendering.servers import relocated, write_certificates, write_files
from tests.support.process import tool


@pytest.mark.parametrize("layout", ["sites", "conf_d"])
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.__name__)
def test_nginx_accepts_every_golden_site(case: Callable[[], SiteSpec], layout: str, server_root: Path) -> None:
    binary = tool("nginx")
    version = subprocess.run([binary, "-v"], capture_output=True, text=True, check=True).stderr
    found = re.search(r"nginx/([\d.]+)", version)
    assert found
    web_server = WebServerSpec(
        "nginx",
        layout,  # type: ignore[arg-type]
        f"{server_root}/etc",
        f"{server_root}/var/log",
        found[1],
        cache_dir=f"{server_root}/tmp",
    )
    spec = relocated(case(), server_root)
    for folder in ("etc/conf.d", "etc/sites-enabled", "var/log/sites", "tmp"):
        (server_root / folder).mkdir(parents=True)
    write_files(render_main(web_server, temp_dir=f"{server_root}/tmp"), server_root)
    write_files(render(spec, web_server), server_root)
    write_certificates(spec)
    argv = [binary, "-t", "-p", str(server_root), "-c", f"{server_root}/etc/nginx.conf"]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
    assert "[warn]" not in done.stderr, done.stderr


def test_nginx_accepts_variables_of_long_site_name(server_root: Path) -> None:
    """nginx does not start with a variable name of more than 46 characters."""
    web_server = WebServerSpec("nginx", "conf_d", f"{server_root}/etc", f"{server_root}/var/log", "1.22.0")
    spec = replace(relocated(confined(), server_root), name="a" * 63)
    for folder in ("etc/conf.d", "var/log", "tmp"):
        (server_root / folder).mkdir(parents=True)
    write_files([*render_main(web_server, temp_dir=f"{server_root}/tmp"), *render(spec, web_server)], server_root)
    argv = [tool("nginx"), "-t", "-p", str(server_root), "-c", f"{server_root}/etc/nginx.conf"]
    done = subprocess.run(argv, capture_output=True, text=True, stdin=subprocess.DEVNULL)
    assert done.returncode == 0, done.stderr
