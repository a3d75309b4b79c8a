"""Rows that runs of a whole panel begin with: people, access to the panel, and hosts with a web server."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable
from typing import Any


def people() -> tuple[Any, Any]:
    """An administrator, and a team for the sites."""
    from panel.accounts.models import Role, Team, User

    admin = User.objects.create_user("admin", "correct horse battery staple", role=Role.ADMIN)
    return admin, Team.objects.create(name="Everyone", slug="everyone")


def access_of(admin: Any) -> dict[str, str]:
    """A token and a session cookie of the administrator."""
    from django.conf import settings
    from django.test import Client

    from panel.accounts.models import Scope
    from panel.accounts.services.tokens import token_create

    client = Client()
    client.force_login(admin, backend="django.contrib.auth.backends.ModelBackend")
    cookie = f"{settings.SESSION_COOKIE_NAME}={client.cookies[settings.SESSION_COOKIE_NAME].value}"
    return {"token": token_create(actor=admin, name="run", scopes=list(Scope))[1], "cookie": cookie}


def web_server_of(given: dict[str, Any], engine: str, version: str) -> Any:
    """Create a trusted host on loopback with the given values; return its web server."""
    from panel.hosts.models import Host, HostStatus, Layout, WebServer

    names = ("name", "port", "username", "private_key", "host_key", "site_roots")
    values = {name: given[name] for name in names}
    host = Host.objects.create(connection="ssh", address="127.0.0.1", status=HostStatus.READY, **values)
    return WebServer.objects.create(
        host=host, engine=engine, layout=Layout.CONF_D, version=version, paths=given["paths"]
    )


def run(create: Callable[[Any], Any], **others: Callable[[], Any]) -> None:
    """Print the JSON of `create`, which gets that of standard input, or of the function that the command line names."""
    os.environ["DJANGO_SETTINGS_MODULE"] = "panel.settings"
    import django

    django.setup()
    name = sys.argv[1] if len(sys.argv) > 1 else ""
    json.dump(others[name]() if name else create(json.load(sys.stdin)), sys.stdout)
