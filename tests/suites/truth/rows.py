"""Create the panel's rows for a truth run: `python -m tests.suites.truth.rows`, JSON on standard input and output.

Input: a list of hosts with their connection and sites. Output: a token and a session cookie of an administrator, the
primary keys of the locations at /version, by site, and the certificates in PEM.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

# As a check of the host would find them.
VERSIONS = {"nginx": "1.22.1", "apache": "2.4.65", "native": "0.1.0"}


def create(given: list[dict[str, Any]]) -> dict[str, Any]:
    from django.conf import settings
    from django.test import Client

    from panel.accounts.models import Role, Scope, Team, User
    from panel.accounts.services.tokens import token_create

    admin = User.objects.create_user("admin", "correct horse battery staple", role=Role.ADMIN)
    team = Team.objects.create(name="Everyone", slug="everyone")
    locations: dict[str, int] = {}
    for host in given:
        locations |= _host(admin, team, host)
    client = Client()
    client.force_login(admin, backend="django.contrib.auth.backends.ModelBackend")
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    token = token_create(actor=admin, name="truth", scopes=list(Scope))[1]
    return {"token": token, "cookie": cookie, "locations": locations}


def _host(admin: Any, team: Any, given: dict[str, Any]) -> dict[str, int]:
    from panel.hosts.models import Host, HostStatus, Layout, WebServer

    names = ("name", "port", "username", "private_key", "host_key", "site_roots")
    values = {name: given[name] for name in names}
    host = Host.objects.create(connection="ssh", address="127.0.0.1", status=HostStatus.READY, **values)
    web_server = WebServer.objects.create(
        host=host, engine=given["engine"], layout=Layout.CONF_D, version=VERSIONS[given["engine"]], paths=given["paths"]
    )
    return {site["name"]: _site(admin, team, web_server, site) for site in given["sites"]}


def _site(admin: Any, team: Any, web_server: Any, given: dict[str, Any]) -> int:
    from panel.websites import services

    content = {"upstream": given["upstream"]} if given["kind"] == "app" else {"root": given["root"]}
    site = services.site_create(
        actor=admin,
        team=team,
        name=given["name"],
        domains=[given["domain"]],
        web_server=web_server,
        port=given["port"],
        address="127.0.0.1",
        health_path="/index.html",
        **content,
    )
    block = site.blocks.get()
    if given["kind"] == "tls":
        name, pems = given["name"], (given["certificate"], given["key"])
        certificate = services.certificate_upload(
            actor=admin, team=team, name=name, certificate_pem=pems[0], private_key_pem=pems[1]
        )
        listens = [{"port": given["port"], "address": "127.0.0.1", "tls": True}]
        services.block_update(actor=admin, block=block, listens=listens, certificate=certificate)
    location = services.location_create(
        actor=admin,
        block=block,
        match="=",
        pattern="/version",
        handler="return",
        return_code=200,
        return_value="mark-0",
    )
    return int(location.pk)


def main() -> None:
    os.environ["DJANGO_SETTINGS_MODULE"] = "panel.settings"
    import django

    django.setup()
    json.dump(create(json.load(sys.stdin)), sys.stdout)


if __name__ == "__main__":
    main()
