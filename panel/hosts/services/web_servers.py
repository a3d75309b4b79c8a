"""Services for the web servers on hosts: register, change, adopt and delete them, and record those that checks find."""

from __future__ import annotations

from typing import Any

from django.core.exceptions import ValidationError
from django.db import transaction
from django.db.models import ProtectedError
from django.utils import timezone

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record, snapshot
from panel.core.errors import Conflict
from panel.core.models import version_bump
from panel.hosts.models import Engine, Host, WebServer
from panel.hosts.services.base import store
from panel.remote.client import Message

EDITABLE = frozenset(
    {
        *("label", "version", "modules", "paths", "layout", "control", "unit", "workers", "manages_main_config"),
        *("own_ports", "own_listeners"),
    }
)
FIELDS = EDITABLE | {"engine", "is_running"}


def web_server_create(
    *, actor: User | None, host: Host, engine: str, paths: dict[str, str], **values: Any
) -> WebServer:
    """Register an existing web server. `paths` holds binary, prefix, main_config, config_root, log_dir, pid_file.

    Raises PermissionDenied, ValidationError, ApplicationError.
    """
    web_server = WebServer(host=host)
    store(
        actor=actor,
        instance=web_server,
        action="web_server.create",
        values={"engine": engine, "paths": paths, **values},
        allowed=FIELDS,
    )
    return web_server


def web_server_update(
    *, actor: User | None, web_server: WebServer, expected_version: int | None = None, **values: Any
) -> WebServer:
    """Change the panel's data about a web server; nothing changes on the host."""
    store(
        actor=actor,
        instance=web_server,
        action="web_server.update",
        values=values,
        allowed=EDITABLE if actor is not None else FIELDS,
        expected_version=expected_version,
    )
    return web_server


@transaction.atomic
def web_server_delete(*, actor: User, web_server: WebServer, expected_version: int | None = None) -> None:
    """Remove a web server from the panel; it keeps running on the host. Raises Conflict if it has sites
    or revisions.
    """
    require(actor, Action.ADMINISTER)
    sites = sorted(site.name for site in web_server.sites.all())
    if sites:
        raise Conflict(
            f"{web_server} cannot be deleted because it has sites: {', '.join(sites)}. Move or delete them first."
        )
    version_bump(web_server, expected_version)
    audit_record(actor=actor, action="web_server.delete", target=web_server, before=snapshot(web_server))
    try:
        with transaction.atomic():
            web_server.delete()
    except ProtectedError:
        raise Conflict(
            f"{web_server} cannot be deleted because revisions of former sites use this web server."
        ) from None


@transaction.atomic
def web_servers_found(host: Host, engines: list[Message]) -> list[Message]:
    """Update the web servers of a host from the agent's result; known ones are identified by their main configuration.

    Values that an administrator may have set (label, control, workers) are kept. A known server that the agent did not
    find is kept, because it may have sites. Return the found servers that were not added: private instances, for
    `web_server_adopt`, and unsupported servers with the reason as "fault".
    """
    Host.objects.select_for_update().get(pk=host.pk)  # two concurrent checks would both add rows
    known = {(row.engine, row.paths.get("main_config")): row for row in host.web_servers.all()}
    others = []
    for found in engines:
        row = known.get((found["engine"], found["paths"]["main_config"]))
        if row is not None:
            _refresh(row, found)
        elif found["private"]:
            others.append(found)
        else:
            try:
                _add(None, host, found)
            except ValidationError as error:  # one invalid server must not affect the others
                others.append({**found, "fault": " ".join(error.messages)})
    return others


def web_server_adopt(*, actor: User, host: Host, engine: str, main_config: str) -> WebServer:
    """Add a web server that the last check of the host found but did not add. Raises Conflict if the check found no
    such web server.
    """
    require(actor, Action.ADMINISTER)
    for found in host.facts.get("other_servers", []):
        if (found["engine"], found["paths"]["main_config"]) == (engine, main_config):
            return _adopted(actor, host, found)
    raise Conflict(
        f"The last check of {host.name} found no web server with the main file {main_config}. Check the host again."
    )


@transaction.atomic
def _adopted(actor: User, host: Host, found: Message) -> WebServer:
    host = Host.objects.select_for_update().get(pk=host.pk)
    for row in host.web_servers.filter(engine=found["engine"]):
        if row.paths.get("main_config") == found["paths"]["main_config"]:
            return row  # added concurrently
    web_server = _add(actor, host, found)
    host.facts["other_servers"] = [item for item in host.facts["other_servers"] if item != found]
    host.save(update_fields=["facts"])
    return web_server


def _refresh(row: WebServer, found: Message) -> None:
    changed = {name: found[name] for name in ("version", "modules") if getattr(row, name) != found[name]}
    if changed:
        web_server_update(actor=None, web_server=row, **changed)


def _add(actor: User | None, host: Host, found: Message) -> WebServer:
    label, number = found["label"], 2
    while host.web_servers.filter(engine=found["engine"], label=label).exists():
        label = f"{found['label'][:58]}-{number}"
        number += 1
    web_server = web_server_create(
        actor=actor,
        host=host,
        engine=found["engine"],
        paths=found["paths"],
        label=label,
        version=found["version"],
        modules=found["modules"],
        layout=found["layout"],
        control=found["control"],
        unit=found["unit"],
    )
    running_set(web_server, found["running"])
    return web_server


def running_set(web_server: WebServer, running: bool) -> None:
    """Store whether a web server is running, without an audit entry or a new version: nobody changed a setting."""
    WebServer.objects.filter(pk=web_server.pk).exclude(is_running=running).update(
        is_running=running, running_changed_at=timezone.now()
    )
    web_server.is_running = running


def native_web_server_of(host: Host) -> WebServer | None:
    return host.web_servers.filter(engine=Engine.NATIVE, manages_main_config=True).order_by("pk").first()
