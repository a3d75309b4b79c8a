"""Manage the main file (nginx.conf) of a distribution's nginx, if an administrator chooses so, or restore the original.

The original is kept next to the panel's file and is restored byte for byte when management ends. Both changes are
ordinary plans: tested before the switch, journaled, and rolled back if a site stops responding.
"""

from __future__ import annotations

from dataclasses import replace
from uuid import uuid4

from django.db import transaction

from panel.accounts.models import User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record
from panel.core.errors import ApplicationError, Conflict
from panel.deployments import host_agent
from panel.deployments.models import Deployment, DeploymentKind, DeploymentStatus, OnSuccess, WebServerState
from panel.deployments.plan import FileRecord, Plan, PlanWarning
from panel.deployments.planning.entries import Entry, plan_file
from panel.deployments.planning.plans import roots_of
from panel.deployments.planning.superseding import main_supersede
from panel.deployments.revisions.rendered import blobs_keep, contents, records_of, sha256_of
from panel.hosts.models import Engine, HostStatus, WebServer
from panel.rendering.errors import NotExpressible
from panel.rendering.nginx.managed import Managed, managed
from panel.rendering.spec import RenderedFile
from panel.websites import web_server_specs

KEPT = ".distribution"  # suffix of the original while the panel's file has its name
_UNDER_WAY = (DeploymentStatus.QUEUED, DeploymentStatus.RUNNING)


def main_records(web_server: WebServer) -> dict[str, FileRecord]:
    """Return {path: record} of the panel's main file and the kept original; {} if the distribution's file is used."""
    state = WebServerState.objects.filter(web_server=web_server).first()
    return records_of(state.main_files) if state else {}


def main_plan(*, actor: User, web_server: WebServer, managed: bool) -> Deployment:
    """Plan to manage the main file of `web_server`, or to restore the original.

    If the main file is managed already, the plan renders it from the original again, for example with another number of
    workers, or to overwrite an edit on the host. Raises PermissionDenied, ApplicationError, Conflict, RemoteError.
    """
    require(actor, Action.ADMINISTER)
    _refuse(web_server)
    deployed = main_records(web_server)
    if not managed and not deployed:
        raise ApplicationError(
            f"The main file of {web_server} is already the original of the distribution.", field="managed"
        )
    plan = _writing(web_server, deployed) if managed else _handing_back(web_server, deployed)
    with transaction.atomic():
        row = Deployment.objects.create(
            host=web_server.host,
            kind=DeploymentKind.MAIN,
            batch=uuid4(),
            plan=plan,
            on_success=OnSuccess.MAIN,
            target=web_server,
            requested_by=actor,
        )
        main_supersede(actor, row)
        after = {"kind": row.kind, "web_server": str(web_server), "managed": managed}
        audit_record(actor=actor, action="deployment.plan", target=row, after=after)
    return row


def _refuse(web_server: WebServer) -> None:
    if web_server.engine != Engine.NGINX or web_server.manages_main_config:
        raise ApplicationError(
            f"{web_server} has no main file that Paddock can manage. Paddock manages only the main file of the "
            "distribution's nginx."
        )
    if web_server.host.status != HostStatus.READY:
        raise ApplicationError(f"Paddock has not read the main file of {web_server.host}. Check the host first.")
    busy = Deployment.objects.filter(host=web_server.host, kind=DeploymentKind.MAIN, status__in=_UNDER_WAY)
    if busy.exists():
        raise Conflict(f"Another job is changing a main file on {web_server.host}. Wait until it ends.")


def _look(web_server: WebServer, expected: dict[str, str]) -> dict[str, host_agent.Found]:
    return host_agent.differing(web_server.host, expected, roots=roots_of([web_server]))


def _paths(web_server: WebServer) -> tuple[str, str]:
    path = str(web_server.paths["main_config"])
    return path, path + KEPT


def _original(web_server: WebServer, deployed: dict[str, FileRecord]) -> tuple[str, FileRecord]:
    """Return the text and record of the distribution's original main file, even after the panel's file has replaced
    it.
    """
    path, kept = _paths(web_server)
    if deployed:
        record = deployed[kept]
        return contents([record.sha256])[record.sha256], FileRecord(path, record.mode, record.sha256)
    found = _look(web_server, {path: ""}).get(path)
    if found is None or found.sha256 != sha256_of(found.content):
        raise ApplicationError(
            f"{path} is missing, is a symbolic link, or is not UTF-8 text. Paddock can only replace and "
            "restore a regular text file."
        )
    (record,) = blobs_keep({0: [RenderedFile(path, found.content)]})[0]
    return found.content, record


def _rendered(web_server: WebServer, text: str) -> Managed:
    try:
        return managed(text, web_server_specs.web_server_spec(web_server), workers=web_server.workers)
    except NotExpressible as error:
        raise ApplicationError(f"{web_server.paths['main_config']}: {error.message}.") from error


def _writing(web_server: WebServer, deployed: dict[str, FileRecord]) -> Plan:
    path, kept = _paths(web_server)
    text, original = _original(web_server, deployed)
    made = _rendered(web_server, text)
    files = blobs_keep({0: [RenderedFile(path, made.text), RenderedFile(kept, text)]})[0]
    entries = [
        Entry(path, "", web_server.pk, deployed.get(path, original), files[0]),
        Entry(kept, "", web_server.pk, deployed.get(kept), files[1]),
    ]
    nearest = (
        "To keep your value, write the directive to a file in conf.d. Values in the server blocks of sites take "
        "precedence."
    )
    warnings = [
        PlanWarning(str(web_server), f"{path}:{line}", f"Paddock replaces {said} by {ours}")
        for line, said, ours in made.lost
    ]
    if warnings:
        warnings[-1] = replace(warnings[-1], nearest=nearest)
    return _plan(web_server, entries, warnings, files)


def _handing_back(web_server: WebServer, deployed: dict[str, FileRecord]) -> Plan:
    path, kept = _paths(web_server)
    _, original = _original(web_server, deployed)
    entries = [
        Entry(path, "", web_server.pk, deployed[path], original),
        Entry(kept, "", web_server.pk, deployed[kept], None),
    ]
    return _plan(web_server, entries, [], [])


def _plan(
    web_server: WebServer, entries: list[Entry], warnings: list[PlanWarning], main_files: list[FileRecord]
) -> Plan:
    found = _look(web_server, {entry.path: entry.expect for entry in entries})
    for entry in entries:
        entry.found = found.get(entry.path)
    texts = contents(record.sha256 for entry in entries for record in (entry.old, entry.new) if record)
    return Plan(
        web_servers=[web_server.pk],
        files=[plan_file(entry, texts) for entry in entries],
        warnings=warnings,
        drifted=[entry.path for entry in entries if entry.found is not None],
        main_files=main_files,
    )


def main_done(web_server: WebServer, files: list[FileRecord]) -> None:
    """Store the records of the main files that a successful deployment left on the host. `files` is empty if the
    deployment restored the distribution's file.
    """
    WebServerState.objects.update_or_create(
        web_server=web_server, defaults={"main_files": [vars(file) for file in files]}
    )
