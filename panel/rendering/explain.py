"""Explain which location handles a URL, and why. All engines are rendered to follow nginx's rules.

The functions access no database and no host.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Literal

from panel.rendering import challenges, confinement, maintenance, names
from panel.rendering.choice import Choice
from panel.rendering.locations import Place, locations_of
from panel.rendering.normalise import BadPath, normalise, split_target
from panel.rendering.outcome import Outcome, of_block, of_place, with_error_pages
from panel.rendering.pcre import budget
from panel.rendering.rewriting import ROUNDS, Moved, rewritten
from panel.rendering.spec import Listen, Maintenance, ServerBlock, SiteSpec

StepName = Literal[
    "listener", "server", "path", "client_certificate", "maintenance", "rewrite", "location", "answer", "raw"
]


@dataclass(frozen=True)
class Request:
    """Request of a client. `path` may include a query. `address`: the server's address to which the client connects, ""
    if the explanation is for any address.
    """

    scheme: Literal["http", "https"]
    host: str
    port: int
    path: str = "/"
    address: str = ""


@dataclass(frozen=True)
class Step:
    """One decision of the explanation: a sentence with its result, and the reasons in order."""

    name: StepName
    text: str
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True)
class Explanation:
    """Explanation of the way in which a server handles a request.

    `block` and `location` are JSON pointers into the spec of `site`, "" if none was chosen. `path`: the path after all
    rewrites, for which the location was chosen.
    """

    steps: tuple[Step, ...]
    outcome: Outcome
    site: str = ""
    block: str = ""
    location: str = ""
    path: str = ""


@dataclass(frozen=True)
class _Host:
    """Server block of a site, with its listen for the address and port of the explained request."""

    spec: SiteSpec
    number: int
    listen: Listen

    @property
    def block(self) -> ServerBlock:
        return self.spec.blocks[self.number]

    @property
    def pointer(self) -> str:
        return f"/blocks/{self.number}"

    @property
    def label(self) -> str:
        names_ = " ".join(self.block.names) or "without a name"
        return f"server block {self.number + 1} of {self.spec.name} ({names_})"


def explain(specs: Sequence[SiteSpec], request: Request) -> Explanation:
    """Explain how a server with the sites `specs` handles `request`.

    Raises NotExpressible for regular expressions that cannot be evaluated or take too long.
    """
    with budget():
        return _explained([challenges.served(spec) for spec in specs], request)


def _explained(specs: Sequence[SiteSpec], request: Request) -> Explanation:
    hosts, listener = _listener(specs, request)
    if not hosts:
        return Explanation((listener,), Outcome("error", text=listener.text))
    if hosts[0].listen.tls != (request.scheme == "https"):
        return _wrong_scheme(hosts[0], listener)
    host, server = _server(hosts, request)
    target, query = split_target(request.path)
    try:
        path = normalise(target)
    except BadPath as error:
        step = Step("path", f"400: {error}")
        return Explanation((listener, server, step), Outcome("return", status=400), host.spec.name, host.pointer)
    if "\n" in path and confinement.refuses_line_breaks(host.block):
        step = Step("path", "400: the path contains a line break, where captures of the rewrites would end")
        return Explanation((listener, server, step), Outcome("return", status=400), host.spec.name, host.pointer)
    changed = "unchanged" if path == target else f"“{target}” decoded, with dot segments and double slashes resolved"
    steps = [listener, server, Step("path", f"{path}", (changed,))]
    steps += _client_certificates(host)
    if host.spec.challenge_folder and path.startswith(challenges.PREFIX):  # before redirects and rewrites
        blocks = tuple(replace(block, rewrites=(), redirect_to_https=False) for block in host.spec.blocks)
        host = replace(host, spec=replace(host.spec, blocks=blocks))
    if host.block.redirect_to_https and not host.listen.tls:
        return _to_https(host, request, steps)
    if host.spec.maintenance and not path.startswith(challenges.PREFIX):
        return _in_maintenance(host, host.spec.maintenance, steps)
    return _location(host, path, query, request, steps)


def _client_certificates(host: _Host) -> list[Step]:
    source = host.block.client_certificates
    if source is None or not host.listen.tls:
        return []
    if source.required:
        return [Step("client_certificate", "required: requests without a valid client certificate get status 400")]
    return [Step("client_certificate", "optional: the web server refuses requests with an invalid client certificate")]


def _in_maintenance(host: _Host, settings: Maintenance, steps: list[Step]) -> Explanation:
    reasons = (f"visitors from {', '.join(settings.allowed)} see the site",) if settings.allowed else ()
    step = Step("maintenance", f"{maintenance.STATUS} because the site is in maintenance", reasons)
    outcome = Outcome("return", status=maintenance.STATUS, text=settings.text)
    return Explanation((*steps, step), outcome, host.spec.name, host.pointer)


def _listener(specs: Sequence[SiteSpec], request: Request) -> tuple[list[_Host], Step]:
    """Return the server blocks on the socket that accepts the connection, and the step that explains the choice. A
    socket on the exact address takes precedence over the socket on all addresses.
    """
    found: dict[str, list[_Host]] = {}
    for spec in sorted(specs, key=lambda item: item.name):
        for number, block in enumerate(spec.blocks):
            for listen in block.listens:
                if listen.port == request.port:
                    found.setdefault(listen.address, []).append(_Host(spec, number, listen))
    every = "::" if _is_v6(request.address) else ""
    for address in (request.address, every):
        if address in found and (address or not request.address or address == every):
            where = f"{address or 'every IPv4 address'}, port {request.port}"
            return found[address], Step("listener", f"{_blocks_listen(len(found[address]))} on {where}")
    return [], Step(
        "listener",
        f"no server block listens on port {request.port} of this address, so the host refuses the connection",
    )


def _blocks_listen(count: int) -> str:
    return "1 server block listens" if count == 1 else f"{count} server blocks listen"


def _is_v6(address: str) -> bool:
    return bool(address) and ipaddress.ip_address(address).version == 6


def _wrong_scheme(host: _Host, listener: Step) -> Explanation:
    if host.listen.tls:
        text = "400: the client sends plain HTTP to a TLS port"
        return Explanation((listener, Step("server", text)), Outcome("return", status=400, text=text), host.spec.name)
    text = "the TLS handshake fails: this port uses plain HTTP"
    return Explanation((listener, Step("server", text)), Outcome("error", text=text), host.spec.name)


_FITS: dict[names.Kind, str] = {
    "exact": "matches the host exactly",
    "dot": "matches the host or its subdomains",
    "leading": "is the longest matching *. wildcard",
    "trailing": "is the longest matching .* wildcard",
    "regex": "is the first matching regular expression",
}


def _server(hosts: list[_Host], request: Request) -> tuple[_Host, Step]:
    host = host_of(request.host)
    pairs = [(number, name) for number, item in enumerate(hosts) for name in item.block.names]
    if found := names.best(host, pairs):
        chosen = hosts[found[0]]
        return chosen, Step("server", f"{chosen.label} answers", (f"{found[1]} {_FITS[names.kind(found[1])]}, {host}",))
    chosen = next((item for item in hosts if item.listen.default_server), hosts[0])
    why = (
        "this server block is the default server"
        if chosen.listen.default_server
        else "this server block is the first, and no server block is the default server"
    )
    return chosen, Step("server", f"{chosen.label} answers", (f"no server name matches {host or 'an empty host'}", why))


def host_of(value: str) -> str:
    """Return the Host header for comparison with server names: lower case, without port and final dot."""
    bare = value.lower()
    if bare.startswith("["):
        return bare.split("]")[0] + "]"
    return bare.partition(":")[0].removesuffix(".")


def _to_https(host: _Host, request: Request, steps: list[Step]) -> Explanation:
    secure = [listen for listen in host.block.listens if listen.tls]
    port = secure[0].port if secure else 443
    url = f"https://{host_of(request.host)}{'' if port == 443 else f':{port}'}{request.path}"
    step = Step("answer", f"301 to {url}", ("the server block redirects HTTP to HTTPS",))
    outcome = Outcome("return", status=301, text=url)
    return Explanation((*steps, step), outcome, host.spec.name, host.pointer)


def _location(host: _Host, path: str, query: str, request: Request, steps: list[Step]) -> Explanation:
    found = locations_of(host.block, host.pointer)
    known = {
        "request_uri": request.path, "host": host_of(request.host), "http_host": request.host,
        "scheme": request.scheme, "https": "on" if request.scheme == "https" else "",
        "server_port": str(request.port), "server_name": next(iter(host.block.names), ""),
    }  # fmt: skip
    moved = rewritten(host.block, found, path, query, known)
    if moved.steps:
        steps = [*steps, Step("rewrite", _moved(moved), moved.steps)]
    if moved.status:
        pointer = moved.place.pointer if moved.place else ""
        outcome = Outcome("error" if moved.status == 500 else "return", status=moved.status, text=moved.path)
        step = Step("answer", f"{moved.status} {moved.path}".strip())
        return Explanation((*steps, step), outcome, host.spec.name, host.pointer, pointer)
    if moved.steps and confinement.rewrites_may_climb(host.block) and re.search(confinement.CLIMBS, moved.path):
        step = Step("answer", f"403 because {moved.path} leaves the site's folders")
        return Explanation((*steps, step), Outcome("return", status=403), host.spec.name, host.pointer)
    path, query, choice = moved.path, moved.query, moved.choice
    chosen = choice.place
    steps = [*steps, Step("location", _chosen(choice, chosen), choice.reasons)]
    if choice.slash:
        outcome = Outcome("return", status=301, text=f"{path}/" + (f"?{query}" if query else ""))
    elif chosen is None:
        outcome = of_block(host.block, found, path)
    else:
        variables = known | {"uri": path, "args": query, "query_string": query, "is_args": "?" if query else ""}
        plain = replace(chosen, location=replace(chosen.location, proxy_uri="")) if moved.stays else chosen
        outcome = of_place(host.spec, host.block, plain, found, path, variables | choice.captures)
    outcome = with_error_pages(outcome, host.block, found)
    pointer = chosen.pointer if chosen else ""
    step = Step("answer", outcome.sentence(), outcome.notes)
    return Explanation((*steps, step), outcome, host.spec.name, host.pointer, pointer, path)


def _moved(moved: Moved) -> str:
    if moved.status == 500:
        return f"500 because the locations' rewrites exceeded {ROUNDS} rounds"
    if moved.status:
        return f"a redirect to {moved.path}"
    return f"{moved.path} with the query {moved.query}" if moved.query else moved.path


def _chosen(choice: Choice, place: Place | None) -> str:
    if choice.slash:
        return "the web server adds the final / to the path"
    return f"location {place.label} handles the request" if place else "no location matches"
