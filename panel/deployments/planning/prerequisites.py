"""Folders, files, sockets, services and ports that the sites of a plan need on their host, and warnings about missing
ones. Pure functions: plans.py asks the host.

A folder, socket or service is missing if it does not exist or cannot be used. An empty folder counts as missing. A port
counts as missing if another program already listens on the port.

A missing prerequisite never blocks a plan, because an application may be started, and files may be uploaded, after the
site is deployed.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence, Set
from dataclasses import dataclass, field

from panel.deployments.host_agent import Missing
from panel.deployments.models import Revision
from panel.deployments.plan import PlanWarning
from panel.deployments.planning.changes import Change
from panel.deployments.revisions.rendered import spec_of
from panel.hosts.models import WebServer
from panel.rendering.layout import tls_files
from panel.rendering.spec import SiteSpec
from panel.rendering.streams import used_only_by_udp
from panel.rendering.targets import Target, target_of

MAX_NEEDS = 500  # of each kind, as many as the agent takes


@dataclass(frozen=True)
class SiteNeeds:
    """Prerequisites of one site on its host: absolute paths of `folders`, `files` and `sockets`, `services` as
    "host:port", `ports` as (address, port). `is_new`: the site is not live on the host yet.
    """

    site: str
    server: WebServer
    is_new: bool
    folders: frozenset[str] = field(default_factory=frozenset)
    files: frozenset[str] = field(default_factory=frozenset)
    sockets: frozenset[str] = field(default_factory=frozenset)
    services: frozenset[str] = field(default_factory=frozenset)
    ports: frozenset[tuple[str, int]] = field(default_factory=frozenset)

    def has(self, missing: Missing) -> bool:
        """Return whether the site needs the folder, file, socket, service, or port that is missing."""
        if missing.kind == "port":
            return missing.name in {_socket_name(*port) for port in self.ports}
        named = {"folder": self.folders, "file": self.files, "socket": self.sockets, "service": self.services}
        return missing.name in named.get(missing.kind, ())


def needs_of(changes: Iterable[Change]) -> list[SiteNeeds]:
    """Return the prerequisites of each site that the changes deploy."""
    return [_site_needs(change) for change in changes if change.new]


def ports_of(changes: Iterable[Change]) -> list[tuple[str, int]]:
    """Return the TCP ports, as (address, port), of the sites that the changes deploy; sorted, without duplicates.

    Unlike `needs_of`, this does not read the revisions' lists of files, which a deployment leaves in the database.
    """
    return sorted({port for change in changes if change.new for port in _ports(spec_of(change.new))})


def _site_needs(change: Change) -> SiteNeeds:
    assert change.new is not None
    spec = spec_of(change.new)
    targets = list(_targets(spec))
    return SiteNeeds(
        site=change.site.name,
        server=change.new.web_server,
        is_new=change.old is None,
        folders=frozenset(path for path in _folders(spec) if path.startswith("/") and "$" not in path),
        files=frozenset(_files(change.new)),
        sockets=frozenset(target.path for target in targets if target.path),
        services=frozenset(str(target) for target in targets if not target.path),
        ports=frozenset(_ports(spec)),
    )


def _ports(spec: SiteSpec) -> Iterator[tuple[str, int]]:
    """Yield the TCP ports of a site: of its server blocks and stream servers."""
    yield from ((listen.address, listen.port) for block in spec.blocks for listen in block.listens)
    yield from ((server.address, server.port) for server in spec.stream_servers if server.protocol == "tcp")


def _folders(spec: SiteSpec) -> Iterator[str]:
    """Yield document roots of server blocks and locations, and aliases of locations whose prefix ends in a slash."""
    for block in spec.blocks:
        yield block.root
        for location in block.locations:
            yield location.root
            if location.match in ("", "^~") and location.pattern.endswith("/"):
                yield location.alias


def _files(revision: Revision) -> Iterator[str]:
    """Yield the certificates, keys and CA files of a revision that other programs keep on the host."""
    spec, written = spec_of(revision), {record["path"] for record in revision.files}
    for tls in tls_files(spec):
        yield from (path for path in (tls.certificate_path, tls.key_path) if path not in written)
    yield from (server.upstream_tls_ca for server in spec.stream_servers if server.upstream_tls_ca)


def _targets(spec: SiteSpec) -> Iterator[Target]:
    for upstream in spec.upstreams:
        if used_only_by_udp(spec, upstream):
            continue
        yield from (target_of(server.address) for server in upstream.servers if not server.down)
    yield from (target_of(pool.address) for pool in spec.php_pools)


def as_request(needs: Sequence[SiteNeeds], servers: Iterable[WebServer]) -> dict[str, object] | None:
    """Return the prerequisites, without duplicates, as "needs" of the agent's operation `preflight`.

    `servers` are the web servers of the plan. The agent does not report a port as missing if one of these web servers
    already listens on the port. None if `needs` is empty.
    """
    if not needs:
        return None
    ports = sorted({port for item in needs for port in item.ports})
    return {
        "servers": sorted({pid_file for server in servers if (pid_file := _pid_file(server))}),
        "folders": _with_server((path, item.server) for item in needs for path in sorted(item.folders)),
        "files": sorted({path for item in needs for path in item.files})[:MAX_NEEDS],
        "sockets": _with_server((path, item.server) for item in needs for path in sorted(item.sockets)),
        "services": sorted({name for item in needs for name in item.services})[:MAX_NEEDS],
        "ports": [{"address": address, "port": port} for address, port in ports][:MAX_NEEDS],
    }


def _with_server(rows: Iterable[tuple[str, WebServer]]) -> list[dict[str, str]]:
    unique = dict.fromkeys((path, _pid_file(server)) for path, server in rows)
    return [{"path": path, "server": server} for path, server in unique][:MAX_NEEDS]


def _pid_file(server: WebServer) -> str:
    return str(server.paths.get("pid_file", ""))


def _socket_name(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address or '0.0.0.0'}:{port}"  # noqa: S104 - as /proc has it


def warnings_of(
    needs: Iterable[SiteNeeds], missing: Sequence[Missing], made: Set[tuple[str, str]]
) -> list[PlanWarning]:
    """Return one warning for each site and each prerequisite of the site that is missing on the host.

    `made`: folders that the plan creates with a placeholder page, and sockets of the pools that it creates, as (name of
    the site, path).
    """
    return [
        PlanWarning(item.site, "", *words, is_observed=True)
        for item in needs
        for found in missing
        if item.has(found) and (words := _words(item, found, is_made=(item.site, found.name) in made))
    ]


def _words(needs: SiteNeeds, missing: Missing, *, is_made: bool) -> tuple[str, str] | None:
    """Describe a missing prerequisite as (fact, advice); None for an empty folder of a site that is live already,
    and for the socket of a pool that the plan creates.
    """
    if missing.kind == "folder":
        return _folder_words(needs, missing, is_made=is_made)
    if missing.kind == "file":
        return _file_words(needs, missing)
    if missing.kind == "socket":
        return None if is_made else _socket_words(needs, missing)
    if missing.kind == "service":
        return _service_words(needs, missing)
    return (
        f"Port {missing.name} on {needs.server.host} is in use by {missing.detail}.",
        (
            f"Stop the program, or choose another port. Otherwise {needs.server} cannot open the port, and Paddock "
            "rolls back the deployment."
        ),
    )


def _folder_words(needs: SiteNeeds, missing: Missing, *, is_made: bool) -> tuple[str, str] | None:
    host, path = needs.server.host, missing.name
    if missing.state == "empty":
        text = f"The folder {path} on {host} is empty."
        return (
            (text, "Copy the site's files to the folder. Until then, visitors get an error.") if needs.is_new else None
        )
    if missing.state == "unreadable":
        return (
            f"{needs.server} runs as the account {missing.detail}, which cannot enter the folder {path}.",
            "Give the account permission to read and enter this folder, and to enter all folders above this folder.",
        )
    if missing.state == "missing" and is_made:
        text = f"The folder {path} does not exist. This plan creates it with a placeholder page."
        return text, "Publish the site's content after the deployment."
    fact = "does not exist" if missing.state == "missing" else "is a file"
    return (
        f"The folder {path} {fact} on {host}.",
        "Create the folder and copy the site's files to it, or correct the path in the draft.",
    )


def _file_words(needs: SiteNeeds, missing: Missing) -> tuple[str, str]:
    fact = "does not exist" if missing.state == "missing" else "is not a file"
    return (
        f"The certificate file {missing.name} {fact} on {needs.server.host}.",
        f"Create the file, or choose another one in the draft. Otherwise {needs.server} rejects the configuration, and "
        "Paddock rolls back the deployment.",
    )


def _socket_words(needs: SiteNeeds, missing: Missing) -> tuple[str, str]:
    host, path = needs.server.host, missing.name
    if missing.state == "unreadable":
        return (
            f"{needs.server} runs as the account {missing.detail}, which cannot use the socket {path}.",
            "Give the account permission to write to the socket, for example with listen.owner of the PHP-FPM pool.",
        )
    fact = "does not exist" if missing.state == "missing" else "accepts no connections"
    return (
        f"The socket {path} {fact} on {host}.",
        "Start the application or PHP-FPM pool that listens on the socket, or correct the address in the draft.",
    )


def _service_words(needs: SiteNeeds, missing: Missing) -> tuple[str, str]:
    reasons = {"unknown": "the host cannot resolve the name", "silent": "the connection timed out"}
    reason = reasons.get(missing.state) or missing.detail
    return (
        f"{needs.server.host} cannot connect to {missing.name}: {reason}.",
        "Start the application, or correct the address in the draft. Until then, visitors get an error.",
    )
