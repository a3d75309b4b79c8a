"""Typed data of deployment plans, and their conversion from and to JSON.

A plan lists the changes of a deployment on one host. It is computed by `planning`, shown to the admin, and carried out
unchanged after the confirmation. The database and the API hold it as JSON (`plan_to_json`, `plan_from_json`).
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, field, fields
from enum import StrEnum
from typing import Any, TypeVar

# Workers leave plans of a higher format to workers of the release that made them. Raise it with a change that a worker
# of the previous release would carry out wrongly, or not at all (docs/contributing/write-a-migration.md).
PLAN_FORMAT = 2

T = TypeVar("T")


@dataclass(frozen=True)
class FileRecord:
    """One stored file: `sha256` names its blob and is "" for a symbolic link, whose target is `link`."""

    path: str
    mode: int
    sha256: str = ""
    link: str = ""
    secret: bool = False


class FileAction(StrEnum):
    """Action of a plan on one path of the host."""

    PUT = "put"
    LINK = "link"
    REMOVE = "remove"
    KEEP = "keep"


@dataclass(frozen=True)
class PlanSite:
    """One site of a plan.

    `number` is the revision that the plan deploys, None when the plan takes the site off the host; `previous` is the
    live revision. `disabled_after` and `disabled_before` are the revision whose files stay on the host while the site
    is disabled, after and before the deployment. `version` and `server_version` are the versions of the draft and of
    its web server from which the files were rendered; `version` is None for an earlier revision that differs from the
    draft.
    """

    id: int
    name: str
    web_server: str
    number: int | None = None
    previous: int | None = None
    disabled_after: int | None = None
    disabled_before: int | None = None
    version: int | None = None
    server_version: int | None = None

    @property
    def comes_from_elsewhere(self) -> bool:
        """True if the site is not live yet on the host of the plan: a first deployment, or a move from another host."""
        return self.number is not None and self.previous is None


@dataclass
class PlanFile:
    """One path of a plan.

    `site` is the site's name, "" for a file of the web server itself; `web_server` is the web server's id. `expect` is
    the required state on the host before the change: a SHA-256, "link:TARGET", or "" for nothing. `found_sha256` is the
    different state found there, "" if the file is missing, None if the host has the expected state. `keep_owner` marks
    a file that Paddock did not create: its owner stays. `if_absent`: skip the file if the path exists at the time of
    the deployment. `renamed_from` and `renamed_to`: the file's other path; a renamed file shows no diff.
    """

    path: str
    site: str
    web_server: int
    action: FileAction
    mode: int
    sha256: str = ""
    link: str = ""
    secret: bool = False
    keep_owner: bool = False
    if_absent: bool = False
    old_sha256: str = ""
    expect: str = ""
    found_sha256: str | None = None
    diff: str = ""
    renamed_from: str = ""
    renamed_to: str = ""


@dataclass(frozen=True)
class PlanWarning:
    """A note for the admin before confirmation: a setting that a web server cannot express, and the `nearest`
    equivalent; or something that the host lacked when it was asked (`is_observed`), and what to do.

    `where` is the field's path in the site definition, or a file and line. `place` names the same field in words; it is
    None if the warning is not about a field.
    """

    site: str
    where: str
    text: str
    nearest: str = ""
    place: str | None = None
    is_observed: bool = False


@dataclass(frozen=True)
class PlanAddress:
    """One of the most requested paths in a site's access log, requested with the host name `host` before and after the
    deployment.
    """

    site: str
    host: str
    path: str


@dataclass(frozen=True)
class PlanPool:
    """A PHP-FPM pool that a move creates on the host of the plan, before the web server gets the site's files.

    `host` is the host's name, `old_host` the name of the host from which the site moves and which keeps its own pool.
    `site` is the site's name. `owner` and `group` are those of the web server on the host. `version` is the version of
    the old pool's row: a plan made from other settings is outdated. `exists`: the host has the pool from an earlier
    move, so the deployment creates nothing.
    """

    site: str
    name: str
    host: str
    old_host: str
    php_version: str
    account: str
    folder: str
    max_children: int
    memory_mb: int
    upload_mb: int
    owner: str
    group: str
    version: int
    exists: bool = False


@dataclass
class Plan:
    """Changes of one deployment on its host.

    `web_servers` are ids of web servers in the order in which they are reloaded. `drifted` are paths that were edited
    on the host since the last deployment. `unchecked` is the reason why the host's files are unknown, "" if they are
    known. `main_files`: the panel's main file and the kept original after a change of the main file (main_file/).
    `pools`: PHP-FPM pools of sites that move to the host.
    """

    sites: list[PlanSite] = field(default_factory=list)
    web_servers: list[int] = field(default_factory=list)
    files: list[PlanFile] = field(default_factory=list)
    warnings: list[PlanWarning] = field(default_factory=list)
    drifted: list[str] = field(default_factory=list)
    unchecked: str = ""
    main_files: list[FileRecord] = field(default_factory=list)
    busiest: list[PlanAddress] = field(default_factory=list)
    pools: list[PlanPool] = field(default_factory=list)

    @property
    def checked(self) -> bool:
        """True if the current files of the host were read for this plan."""
        return not self.unchecked

    @property
    def new_pools(self) -> list[PlanPool]:
        """PHP-FPM pools that the deployment creates."""
        return [pool for pool in self.pools if not pool.exists]

    @property
    def changed_files(self) -> list[PlanFile]:
        """Files that the deployment writes, links or removes."""
        return [file for file in self.files if file.action != FileAction.KEEP]


def plan_to_json(plan: Plan) -> dict[str, object]:
    """Convert a plan to the JSON of the database and the API."""
    return {**asdict(plan), "checked": plan.checked}


def plan_from_json(data: dict[str, Any]) -> Plan:
    """Parse the JSON of `plan_to_json`. Missing keys get their defaults, and unknown keys are ignored, so that pages
    can show plans of a newer release. Raises TypeError, ValueError or KeyError for anything that is not a plan.
    """
    return Plan(
        sites=[_of(PlanSite, row) for row in data.get("sites", ())],
        web_servers=list(data.get("web_servers", ())),
        files=[_of(PlanFile, {**row, "action": FileAction(row["action"])}) for row in data.get("files", ())],
        warnings=[_of(PlanWarning, row) for row in data.get("warnings", ())],
        drifted=list(data.get("drifted", ())),
        unchecked=str(data.get("unchecked", "")),
        main_files=[_of(FileRecord, row) for row in data.get("main_files", ())],
        busiest=[_of(PlanAddress, row) for row in data.get("busiest", ())],
        pools=[_of(PlanPool, row) for row in data.get("pools", ())],
    )


def _of(kind: type[T], row: dict[str, Any]) -> T:
    names = _NAMES[kind]
    return kind(**row) if row.keys() <= names else kind(**{name: row[name] for name in row.keys() & names})


_NAMES: dict[type, frozenset[str]] = {
    kind: frozenset(item.name for item in fields(kind))
    for kind in (FileRecord, PlanSite, PlanFile, PlanWarning, PlanAddress, PlanPool)
}
