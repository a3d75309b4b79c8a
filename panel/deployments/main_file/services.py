"""The main file of a distribution's nginx: left alone, or managed by the panel if an administrator chooses so.

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
from panel.deployments.models import Deployment, DeploymentKind, DeploymentStatus, InstallState, OnSuccess
from panel.deployments.plan import FileRecord, Plan, PlanWarning
from panel.deployments.planning.plans import Entry, plan_file, roots_of
from panel.deployments.planning.superseding import main_supersede
from panel.deployments.revisions.rendered import blobs_keep, contents, records_of, sha256_of
from panel.hosts.models import Engine, EngineInstall, HostStatus
from panel.rendering.errors import NotExpressible
from panel.rendering.nginx.managed import Managed, managed
from panel.rendering.spec import RenderedFile
from panel.websites import freeze

KEPT = ".distribution"  # suffix of the original while the panel's file has its name
_UNDER_WAY = (DeploymentStatus.QUEUED, DeploymentStatus.RUNNING)


def main_records(install: EngineInstall) -> dict[str, FileRecord]:
    """The panel's main file and the kept original, by path; empty while the distribution's file is in use."""
    state = InstallState.objects.filter(install=install).first()
    return records_of(state.main_files) if state else {}


def main_plan(*, actor: User, install: EngineInstall, managed: bool) -> Deployment:
    """Plan to manage the main file of `install`, or to restore the original.

    A repeated plan renders the managed file again from the original, for example with another number of workers or over
    an edit on the host. Raises PermissionDenied, ApplicationError, Conflict, RemoteError.
    """
    require(actor, Action.ADMINISTER)
    _refuse(install)
    standing = main_records(install)
    if not managed and not standing:
        raise ApplicationError(f"The main file of {install} already is the distribution's.", field="managed")
    plan = _writing(install, standing) if managed else _handing_back(install, standing)
    with transaction.atomic():
        row = Deployment.objects.create(
            host=install.host,
            kind=DeploymentKind.MAIN,
            batch=uuid4(),
            plan=plan,
            on_success=OnSuccess.MAIN,
            target=install,
            requested_by=actor,
        )
        main_supersede(actor, row)
        after = {"kind": row.kind, "install": str(install), "managed": managed}
        audit_record(actor=actor, action="deployment.plan", target=row, after=after)
    return row


def _refuse(install: EngineInstall) -> None:
    if install.engine != Engine.NGINX or install.manages_main_config:
        raise ApplicationError(
            f"{install} has no main file that Paddock can manage: only nginx from the distribution has one."
        )
    if install.host.status != HostStatus.READY:
        raise ApplicationError(f"Paddock has not read the main file of {install.host}. Check the host first.")
    busy = Deployment.objects.filter(host=install.host, kind=DeploymentKind.MAIN, status__in=_UNDER_WAY)
    if busy.exists():
        raise Conflict(f"Another job is changing a main file on {install.host}. Wait until it ends.")


def _look(install: EngineInstall, expected: dict[str, str]) -> dict[str, host_agent.Found]:
    return host_agent.differing(install.host, expected, roots=roots_of([install]))


def _paths(install: EngineInstall) -> tuple[str, str]:
    path = str(install.paths["main_config"])
    return path, path + KEPT


def _original(install: EngineInstall, standing: dict[str, FileRecord]) -> tuple[str, FileRecord]:
    """The distribution's text and its record, under the file's own name."""
    path, kept = _paths(install)
    if standing:
        record = standing[kept]
        return contents([record.sha256])[record.sha256], FileRecord(path, record.mode, record.sha256)
    found = _look(install, {path: ""}).get(path)
    if found is None or found.sha256 != sha256_of(found.content):
        raise ApplicationError(
            f"{path} is missing, is a symbolic link, or is not UTF-8 text. Paddock can only replace and "
            "restore a regular text file."
        )
    (record,) = blobs_keep({0: [RenderedFile(path, found.content)]})[0]
    return found.content, record


def _rendered(install: EngineInstall, text: str) -> Managed:
    try:
        return managed(text, freeze.install_spec(install), workers=install.workers)
    except NotExpressible as error:
        raise ApplicationError(f"{install.paths['main_config']} {error.message}.") from error


def _writing(install: EngineInstall, standing: dict[str, FileRecord]) -> Plan:
    path, kept = _paths(install)
    text, original = _original(install, standing)
    made = _rendered(install, text)
    files = blobs_keep({0: [RenderedFile(path, made.text), RenderedFile(kept, text)]})[0]
    entries = [
        Entry(path, "", install.pk, standing.get(path, original), files[0]),
        Entry(kept, "", install.pk, standing.get(kept), files[1]),
    ]
    nearest = (
        "To keep your own value, set it in a file in conf.d. Values in the server blocks of sites take precedence."
    )
    warnings = [
        PlanWarning(str(install), f"{path}:{line}", f"{said} is replaced by {ours}") for line, said, ours in made.lost
    ]
    if warnings:
        warnings[-1] = replace(warnings[-1], nearest=nearest)
    return _plan(install, entries, warnings, files)


def _handing_back(install: EngineInstall, standing: dict[str, FileRecord]) -> Plan:
    path, kept = _paths(install)
    _, original = _original(install, standing)
    entries = [
        Entry(path, "", install.pk, standing[path], original),
        Entry(kept, "", install.pk, standing[kept], None),
    ]
    return _plan(install, entries, [], [])


def _plan(
    install: EngineInstall, entries: list[Entry], warnings: list[PlanWarning], main_files: list[FileRecord]
) -> Plan:
    found = _look(install, {entry.path: entry.expect for entry in entries})
    for entry in entries:
        entry.found = found.get(entry.path)
    texts = contents(record.sha256 for entry in entries for record in (entry.old, entry.new) if record)
    return Plan(
        installs=[install.pk],
        files=[plan_file(entry, texts) for entry in entries],
        warnings=warnings,
        drifted=[entry.path for entry in entries if entry.found is not None],
        main_files=main_files,
    )


def main_done(install: EngineInstall, files: list[FileRecord]) -> None:
    """Record the main files that a successful deployment left on the host."""
    InstallState.objects.update_or_create(install=install, defaults={"main_files": [vars(file) for file in files]})
