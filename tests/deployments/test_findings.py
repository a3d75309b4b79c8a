"""Warnings about nginx are true: each mistake is deployed, reproduced, fixed by its own fix and tried again."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from panel.hosts.models import Engine
from panel.websites import linting
from panel.websites.models import Site
from panel.websites.services import site_define
from tests.deployments.real_host import Machine
from tests.support.http_client import ask
from tests.support.nginx import NginxInstance
from tests.support.ports import free_port
from tests.support.waiting import eventually


def definition(machine: Machine, web_server: int) -> dict[str, Any]:
    www = machine.root / "www"
    locations = [
        {"pattern": "/", "try_files": ["$uri", "=404"]},
        {"pattern": "/files", "alias": f"{www}/files/"},
        {"pattern": "/go/", "handler": "return", "return_code": 302, "return_value": "https://new.example$uri"},
        {"match": "=", "pattern": "/away", "handler": "return", "return_code": 301, "return_value": "https://$host/"},
        {"pattern": "/moved/", "rewrites": [{"pattern": "^", "replacement": "https://new.example$uri", "flag": ""}]},
        {"pattern": "/led/", "rewrites": [{"pattern": "^", "replacement": "https://$host/?", "flag": ""}]},
        {"pattern": "/own/", "snippets": {"nginx": "add_header X-Own yes;"}},
        {"pattern": "/uploads/"},
        {"match": "~", "pattern": r"\.php$", "handler": "php", "php_pool": "php"},
    ]
    block = {
        "listens": [{"port": machine.port, "default_server": True}],
        "names": ["shop.example"],
        "root": f"{www}/shop",
        "index": ["index.html"],
        "headers": [{"name": "X-Frame-Options", "value": "DENY"}],
        "locations": locations,
    }
    pool = {"name": "php", "address": f"127.0.0.1:{free_port()}"}  # nobody listens: 502 says that PHP was asked
    site = {"name": "shop", "team": machine.people.team.slug, "web_server": web_server}
    return site | {"php_pools": [pool], "blocks": [block]}


def tried(machine: Machine) -> dict[str, Any]:
    """What a visitor with bad manners gets, by the finding it shows."""

    def get(path: str, host: str = "shop.example") -> Any:
        return ask(machine.port, path, host=host)

    return {
        "try-files-slash": get("/").status,
        "alias-traversal": get("/files../secret.txt").status,
        "response-splitting": get("/go/%0d%0aX-Injected:%20yes").headers.get("x-injected"),
        "host-redirect": get("/away", host="evil.example").headers["location"],
        "by rewriting": (
            get("/moved/%0d%0aX-Injected:%20yes").headers.get("x-injected"),
            get("/led/x", host="evil.example").headers["location"],
        ),
        "headers-lost": get("/own/page.txt").headers.get("x-frame-options"),
        "php-in-uploads": get("/uploads/x.php").status,
    }


def test_every_warning_is_reproduced_on_nginx_and_solved_by_its_fix(machine: Machine, nginx: NginxInstance) -> None:
    shop = machine.files("shop")
    for path in ("files/in.txt", "shop/own/page.txt", "shop/uploads/x.php", "secret.txt"):
        (machine.root / "www" / path).parent.mkdir(parents=True, exist_ok=True)
        (machine.root / "www" / path).write_text("text")
    (nginx.root / "fastcgi_params").write_text(Path("/etc/nginx/fastcgi_params").read_text())
    nginx.reload()
    web_server = machine.web_server(nginx, Engine.NGINX)
    site = site_define(actor=machine.people.admin, data=definition(machine, web_server.pk))
    machine.deploy(site)
    wrong = {
        "try-files-slash": 404,
        "alias-traversal": 404,  # refused before it is fixed, too
        "response-splitting": "yes",
        "host-redirect": "https://evil.example/",
        "by rewriting": ("yes", "https://evil.example/"),
        "headers-lost": None,
        "php-in-uploads": 502,
    }
    assert eventually(lambda: tried(machine) == wrong), tried(machine)
    assert {item.code for item in linting.site_findings(site)} == set(wrong) - {"by rewriting"}
    machine.deploy(fixed(machine, site))
    right = {
        "try-files-slash": 200,
        "alias-traversal": 404,
        "response-splitting": None,
        "host-redirect": "https://shop.example/",
        "by rewriting": (None, "https://shop.example/"),
        "headers-lost": "DENY",
        "php-in-uploads": 403,
    }
    assert eventually(lambda: tried(machine) == right), tried(machine)
    assert ask(machine.port, "/files/in.txt", host="shop.example").text == "text"
    assert ask(machine.port, "/own/page.txt", host="shop.example").headers["x-own"] == "yes"
    assert shop.exists()


def fixed(machine: Machine, site: Site) -> Site:
    while found := linting.site_findings(site):
        first = found[0]
        site, _finding = linting.finding_fix(actor=machine.people.admin, site=site, code=first.code, where=first.where)
    return site
