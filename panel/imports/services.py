"""Import a live or uploaded configuration, and adopt sites from it.

Administrators only: imports contain files of the whole server, and adopting sites can create raw directives.
"""

from __future__ import annotations

import dataclasses
import json
import posixpath
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, cast

from django.core.exceptions import ValidationError
from django.db import transaction

from panel.accounts.models import Team, User
from panel.accounts.permissions import Action, require
from panel.audit.services import audit_record
from panel.core.errors import ApplicationError
from panel.deployments.models import ReplacedFile, SiteState
from panel.deployments.planning.disabled_files import disabled_records
from panel.deployments.planning.replacing import Original, originals_keep, says_nothing, without
from panel.deployments.planning.selectors import live_states
from panel.hosts.models import Engine, WebServer
from panel.hosts.services import host_update
from panel.hosts.services.web_servers import web_server_update
from panel.hosts.targets import target_for
from panel.imports import certificates, disabled, folders
from panel.imports.mapping import mapped
from panel.imports.mapping.common import free_name
from panel.imports.models import Import, ImportSource
from panel.imports.reading import Fault, Loaded, Loader, SourceFile, apache_variables
from panel.imports.report import FoundSite, Item, Report, from_json, to_json
from panel.imports.sources import HostFiles, UploadedFiles
from panel.remote import pool
from panel.rendering.readers import openlitespeed
from panel.rendering.readers.engines import NGINX_SYNTAX
from panel.rendering.roots import is_below
from panel.websites import web_server_specs
from panel.websites.models import Site
from panel.websites.services import site_define


@dataclass(frozen=True)
class Adopted:
    """Result of adopting: the created sites, and notes for people, for example about certificates."""

    sites: list[Site]
    notes: list[str]


# --- reading ---


def import_read_host(*, actor: User, web_server: WebServer) -> Import:
    """Import the live configuration of a web server with its includes. Nothing changes on the host.

    Raises PermissionDenied, RemoteError.
    """
    require(actor, Action.ADMINISTER)
    paths = web_server.paths
    with pool.session(target_for(web_server.host)) as agent:
        own = (paths["config_root"], paths.get("prefix", ""), paths["main_config"].rpartition("/")[0])
        files = HostFiles(agent, (*own, *web_server.host.site_roots))
        base = _base(web_server)
        variables = _variables(files, web_server)
        loader = Loader(web_server.engine, files.find, base, variables, tuple(files.roots))
        loader.load(paths["main_config"])
        disabled.files_of(loader, paths["config_root"])  # read while the agent is connected
    loader.loaded.faults += [Fault(path, 0, why) for path, why in files.skipped.items()]
    prefix = paths.get("prefix") or paths["config_root"]
    return _keep(actor, web_server, ImportSource.HOST, "", loader, prefix, paths["config_root"])


def _base(web_server: WebServer) -> str:
    """Return the folder of relative includes: the folder of nginx's main file, or another server's root folder."""
    if web_server.engine in NGINX_SYNTAX:
        return str(web_server.paths["main_config"]).rpartition("/")[0]
    return str(web_server.paths.get("prefix") or web_server.paths["config_root"])


def _variables(files: HostFiles, web_server: WebServer) -> dict[str, str]:
    if web_server.engine != "apache":
        return {}
    found = files.find(f"{web_server.paths['main_config'].rpartition('/')[0]}/envvars")
    return apache_variables(found[0].text) if found else {}


def import_read_upload(*, actor: User, web_server: WebServer, filename: str, data: bytes) -> Import:
    """Import an uploaded zip or tar as a configuration of `web_server`.

    Raises ApplicationError, PermissionDenied.
    """
    require(actor, Action.ADMINISTER)
    files = UploadedFiles(web_server.engine, filename, data)
    variables = {"APACHE_LOG_DIR": web_server.paths.get("log_dir", "")}
    whole = Loader(web_server.engine, files.find, files.root, variables)
    if files.main:
        whole.load(files.main)
    else:
        for file in files.all():
            part = Loader(web_server.engine, files.find, files.root, variables).load_file(file)
            whole.loaded.nodes += part.nodes
            whole.loaded.faults += part.faults
            whole.loaded.files |= part.files
    return _keep(actor, web_server, ImportSource.UPLOAD, filename[:200], whole, files.root, files.root)


def _keep(
    actor: User, web_server: WebServer, source: ImportSource, filename: str, loader: Loader, prefix: str, root: str
) -> Import:
    """Map a configuration to sites, and store the import. `root`: parent of the folders with disabled sites."""
    spec, loaded = web_server_specs.web_server_spec(web_server), loader.loaded
    found = folders.folders_of(loaded.nodes, prefix)
    wide = dataclasses.replace(spec, site_roots=(*spec.site_roots, *found))
    report = mapped(loaded, wide, prefix)
    managed = _managed_files(web_server) if source == ImportSource.HOST else {}
    _set_aside(report, loaded, managed)
    disabled.take(report, loader, wide, root, prefix, {*managed, *_left_by_adopting(web_server)})
    for site in report.sites:
        site.folders = folders.needed(site, found, spec.site_roots)
        site.problems = _problems(actor, web_server, site)
        if source == ImportSource.HOST:
            site.problems += _out_of_reach(web_server, loaded, site)
    parts = {part.file for site in report.sites for part in site.parts}
    if web_server.engine == Engine.OPENLITESPEED and source == ImportSource.HOST:
        parts.add(web_server.paths["main_config"])  # it must include the panel's file from then on
    files = {path: dataclasses.asdict(file) for path, file in loaded.files.items() if path in parts}
    record = Import(web_server=web_server, source=source, filename=filename, created_by=actor)
    record.content = json.dumps({"report": to_json(report), "files": files})
    record.sites_found, record.faults_found = len(report.sites), len(report.faults)
    with transaction.atomic():
        record.save()
        after = {"web_server": str(web_server), "sites": [site.name for site in report.sites], "files": report.files}
        audit_record(actor=actor, action="import.read", target=record, after=after)
    return record


def _managed_files(web_server: WebServer) -> dict[str, str]:
    """Return {path: name of its site} for all files that the panel wrote for a web server."""
    states = live_states([web_server])[web_server.pk]
    found = {file["path"]: state.site.name for state in states if state.revision for file in state.revision.files}
    for state in SiteState.objects.filter(disabled_revision__web_server=web_server).select_related(
        "site", "disabled_revision__web_server"
    ):
        assert state.disabled_revision is not None
        found |= dict.fromkeys(disabled_records(state.disabled_revision), state.site.name)
    return found


def _left_by_adopting(web_server: WebServer) -> list[str]:
    """Return the files behind links that adopted sites replace. They stay on the host, but are not disabled sites."""
    return list(ReplacedFile.objects.filter(web_server=web_server).exclude(link="").values_list("real", flat=True))


def _set_aside(report: Report, loaded: Loaded, managed: Mapping[str, str]) -> None:
    """Replace each site of the report whose files the panel wrote by an item with the outcome `kept`."""
    for site in list(report.sites):
        owners = [managed.get(part.file) or managed.get(loaded.files[part.file].real) for part in site.parts]
        if owners and all(owners):
            report.sites.remove(site)
            part = site.parts[0]
            words = f"Paddock already manages this configuration as the site {owners[0]}"
            report.items.append(Item(part.file, part.first, f"({site.name})", "kept", words))


def _out_of_reach(web_server: WebServer, loaded: Loaded, site: FoundSite) -> list[str]:
    """Return errors if the first deployment would have to change files outside of the configuration folder.

    A link in that folder to a file that defines only this site is allowed: only the link is removed.
    """
    roots = (web_server.paths["config_root"],)
    faults = []
    for path in dict.fromkeys(part.file for part in site.parts):
        file = loaded.files[path]
        if is_below(file.real or path, roots):
            continue
        rest = without(file.text, [dataclasses.asdict(part) for part in site.parts if part.file == path])
        if not (file.link and is_below(path, roots) and says_nothing(rest, web_server.engine)):
            words = f"the site is configured in {file.real or path}. Paddock changes only files below {roots[0]}. "
            faults.append(words + "Move the site to its own file in that folder, then import the configuration again")
    return faults


def _problems(actor: User, web_server: WebServer, site: FoundSite) -> list[str]:
    """Return the errors that prevent storing a site, found by a dry run that is rolled back."""
    team = Team.objects.first()
    if team is None:
        return []
    try:
        with transaction.atomic():
            name = free_name(site.name, Site.objects.values_list("name", flat=True))
            data = {**site.definition, "name": name, "team": team.slug, "web_server": web_server.pk, "enabled": False}
            site_define(actor=actor, data=data)
            transaction.set_rollback(True)
    except ValidationError as error:
        return _words(error)
    except ApplicationError as error:
        return [error.message]
    return []


def _words(error: ValidationError) -> list[str]:
    if not hasattr(error, "error_dict"):
        return list(error.messages)
    return [f"{place}: {' '.join(texts)}" for place, texts in error.message_dict.items()]


def report_of(record: Import) -> Report:
    """Return the Report of an import, parsed once per object because it never changes."""
    found = record.__dict__.get("_report")
    if found is None:
        found = record.__dict__["_report"] = from_json(json.loads(record.content)["report"])
    return cast(Report, found)


def files_of(record: Import) -> dict[str, SourceFile]:
    """Return the files that define the found sites, as they were read, by path."""
    return {path: SourceFile(**item) for path, item in json.loads(record.content)["files"].items()}


# --- adopting ---


def import_adopt(
    *,
    actor: User,
    record: Import,
    names: Sequence[str],
    team: Team,
    accept_refused: bool = False,
    add_folders: bool = False,
) -> Adopted:
    """Create drafts of the sites `names` found in an import. Nothing changes on the host before their first deployment,
    which removes their lines from the original files.

    `accept_refused`: drop directives that sites cannot have, not even as raw ones. `add_folders`: add the sites'
    document roots to the host's site folders. Raises ApplicationError, ValidationError, PermissionDenied.
    """
    require(actor, Action.ADMINISTER)
    report = report_of(record)
    chosen = _chosen(record, report, names)
    _refuse_losses(chosen, accept_refused)
    _refuse_folders(chosen, add_folders)
    bundles, notes = certificates.read(record, chosen)
    with transaction.atomic():
        wanted = _add_folders(actor, record, chosen)
        sites, more = _drafts(actor, record, chosen, team, bundles)
        if record.source == ImportSource.HOST:
            _keep_originals(actor, record, report, sites)
        record.adopted = {**record.adopted, **{name: site.pk for name, site in sites.items()}}
        record.save(update_fields=["adopted", "updated_at"])
        after = {"sites": {name: site.name for name, site in sites.items()}, "folders": wanted}
        audit_record(actor=actor, action="import.adopt", target=record, after=after)
    return Adopted(list(sites.values()), [*notes, *more])


def _add_folders(actor: User, record: Import, chosen: Sequence[FoundSite]) -> list[str]:
    """Add the folders of the sites `chosen` to the host's site folders; return the folders that were missing."""
    host = record.web_server.host
    wanted = sorted({folder for site in chosen for folder in site.folders} - set(host.site_roots))
    if wanted:
        host_update(actor=actor, host=host, site_roots=[*host.site_roots, *wanted])
    return wanted


def _drafts(
    actor: User, record: Import, chosen: Sequence[FoundSite], team: Team, bundles: certificates.Bundles
) -> tuple[dict[str, Site], list[str]]:
    """Create a draft for each site of `chosen`. Return {name in the report: site}, and notes about certificates."""
    sites, notes = dict[str, Site](), list[str]()
    for found in chosen:
        stored, more = certificates.keep(actor, team, record.web_server.host, found, bundles)
        notes += more
        sites[found.name] = _define(actor, record, found, team, stored)
    return sites, notes


def _keep_originals(actor: User, record: Import, report: Report, sites: dict[str, Site]) -> None:
    """Record the original files that adopted sites will change, and ports or listeners that the server's files open."""
    own = _own_sockets(record.web_server, report)
    if any(getattr(record.web_server, name) != value for name, value in own.items()):
        web_server_update(actor=actor, web_server=record.web_server, **own)
    originals_keep(record.web_server, _originals(record, report, sites))


def _own_sockets(web_server: WebServer, report: Report) -> dict[str, Any]:
    """Return the web server's field with the ports (Apache) or listeners (OpenLiteSpeed) that its own files open."""
    if web_server.engine == Engine.APACHE:
        return {"own_ports": report.ports}
    return {"own_listeners": report.listeners} if web_server.engine == Engine.OPENLITESPEED else {}


def _chosen(record: Import, report: Report, names: Sequence[str]) -> list[FoundSite]:
    known = {site.name: site for site in report.sites}
    unknown = [name for name in names if name not in known]
    if unknown or not names:
        words = f"This import has no site {', '.join(unknown)}." if unknown else "Choose at least one site."
        raise ApplicationError(f"{words} Nothing was adopted.", field="sites")
    standing = set(Site.objects.filter(pk__in=record.adopted.values()).values_list("pk", flat=True))
    again = [name for name in names if record.adopted.get(name) in standing]
    if again:
        raise ApplicationError(f"Already adopted: {', '.join(again)}. Nothing was changed.", field="sites")
    chosen = [known[name] for name in dict.fromkeys(names)]
    for site in chosen:
        if site.problems:
            raise ApplicationError(f"{site.name} cannot be adopted: {'; '.join(site.problems)}", field="sites")
    return chosen


def _refuse_losses(chosen: Sequence[FoundSite], accept: bool) -> None:
    lost = [f"{item.file}:{item.line} {item.text} ({item.note})" for site in chosen for item in site.refused]
    if lost and not accept:
        raise ApplicationError(
            f"{len(lost)} directives would be lost because sites do not support them: "
            f"{'; '.join(lost[:5])}{'; …' if len(lost) > 5 else ''}. Review these directives, then choose to leave "
            "them out.",
            field="accept_refused",
            code="refused",
        )


def _refuse_folders(chosen: Sequence[FoundSite], add: bool) -> None:
    missing = sorted({folder for site in chosen for folder in site.folders})
    if missing and not add:
        raise ApplicationError(
            f"These folders are not site folders of the host: {', '.join(missing)}. Choose to add these folders, or "
            "add a parent folder on the host's page.",
            field="add_folders",
            code="folders",
        )


def _define(actor: User, record: Import, found: FoundSite, team: Team, certificates_: dict[int, str]) -> Site:
    data: dict[str, Any] = {**found.definition, "team": team.slug, "web_server": record.web_server_id}
    data["name"] = free_name(found.name, _taken(record, found))
    data["enabled"] = found.enabled
    data["blocks"] = [
        {**block, "certificate": certificates_.get(number)} for number, block in enumerate(data["blocks"])
    ]
    return site_define(actor=actor, data=data)


def _taken(record: Import, found: FoundSite) -> set[str]:
    """Return names that an adopted site must not get: those of sites, and of original files that stay in place."""
    names = set(Site.objects.values_list("name", flat=True))
    for path, file in files_of(record).items():
        own = [dataclasses.asdict(part) for part in found.parts if part.file == path]
        if own and not says_nothing(without(file.text, own), record.web_server.engine):
            names.add((file.real or path).rpartition("/")[2].removesuffix(".conf"))
    return names


def _originals(record: Import, report: Report, sites: dict[str, Site]) -> list[Original]:
    """Return the original files with the lines to remove in first deployments. Raises ApplicationError for a file that
    cannot be written back.
    """
    known = {**record.adopted, **{name: site.pk for name, site in sites.items()}}
    users: dict[tuple[str, int, int], list[str]] = {}
    for found in report.sites:
        for part in found.parts:
            users.setdefault((part.file, part.first, part.last), []).append(found.name)
    ids: dict[str, dict[tuple[int, int], list[int]]] = {}
    for (path, first, last), names in users.items():
        # Lines shared by several sites are removed when the last of them was adopted.
        if set(names) & set(sites) and set(names) <= set(known):
            ids.setdefault(path, {})[first, last] = [known[name] for name in names]
    originals = []
    for path, file in files_of(record).items():
        appends = _include(record.web_server, path, file)
        if appends and not ids.get(path):
            ids[path] = {(0, -1): list(known.values())}  # none of its lines are removed
        if path not in ids:
            continue
        if not file.exact:
            words = f"{path} is not valid UTF-8. Save the file as UTF-8, then import the configuration again."
            raise ApplicationError(words)
        parts = tuple((first, last, tuple(pks)) for (first, last), pks in sorted(ids[path].items()))
        originals.append(Original(path, file.text, file.mode, file.real, file.link, parts, appends))
    return originals


def _include(web_server: WebServer, path: str, file: SourceFile) -> str:
    """Return the line with which OpenLiteSpeed's main file includes paddock.conf; "" if the main file has this line."""
    if web_server.engine != Engine.OPENLITESPEED or path != web_server.paths["main_config"]:
        return ""
    folder, own = path.rpartition("/")[0], f"{web_server.paths['config_root']}/paddock.conf"
    included = [node.args[0] for node in openlitespeed.read(file.text) if node.name == "include" and node.args]
    return "" if own in [posixpath.join(folder, value) for value in included] else f"include {own}"


@transaction.atomic
def import_delete(*, actor: User, record: Import) -> None:
    """Delete an import. Adopted sites stay, and so do the records of the lines that they replace."""
    require(actor, Action.ADMINISTER)
    audit_record(actor=actor, action="import.delete", target=record)
    record.delete()
