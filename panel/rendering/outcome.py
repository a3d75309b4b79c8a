"""Outcome of a request in a location: the files that are tried, the upstream, or the fixed response."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Literal

from panel.rendering import caching, confinement, handlers, variables
from panel.rendering.choice import choose
from panel.rendering.confinement import Verdict
from panel.rendering.locations import Locations, Place
from panel.rendering.spec import ServerBlock, SiteSpec


@dataclass(frozen=True)
class Lead:
    """Internal redirect: a path, and the JSON pointer of the location chosen for it ("" for the server block)."""

    path: str
    location: str  # a JSON pointer
    label: str


def _first(files: tuple[str, ...]) -> str:
    return f"the file {files[0]}, if it exists" if len(files) == 1 else f"the first existing file of {', '.join(files)}"


@dataclass(frozen=True)
class Outcome:
    """Outcome of a request in a location or server block.

    `files` are tried in order; `otherwise` describes the result if none exists. `status` is None if it depends on a
    file or an upstream. `leads` are the internal redirects to locations that can respond in the end: those of index
    files, fallbacks and error pages.
    """

    kind: Literal["files", "php", "proxy", "return", "deny", "error"]
    status: int | None = None
    text: str = ""  # URL, body or target
    files: tuple[str, ...] = ()
    otherwise: str = ""
    notes: tuple[str, ...] = ()
    leads: tuple[Lead, ...] = ()

    def sentence(self) -> str:
        if self.kind == "files" and not self.files:
            return f"no file can have this path: {self.otherwise}"
        if self.kind == "files":
            return f"{_first(self.files)}; otherwise {self.otherwise}"
        if self.kind == "php":
            return f"PHP at {self.text} runs {self.files[0]} if it exists; otherwise {self.otherwise}"
        if self.kind == "proxy":
            return f"the upstream receives {self.text}"
        if self.kind == "return":
            return f"{self.status}{f' {self.text}' if self.text else ''}"
        return "403: the location denies access" if self.kind == "deny" else self.text


def of_block(block: ServerBlock, found: Locations, path: str) -> Outcome:
    """Return the outcome of a request for a path that no location of the server block matches."""
    plain = _files(block.root.rstrip("/") + path, path, block.index)
    return _with_leads(plain, _indexes(found, path, block.index), None)


def with_error_pages(outcome: Outcome, block: ServerBlock, found: Locations) -> Outcome:
    """Return the outcome with notes and internal redirects for the server block's error pages that can replace it.
    Error pages do not replace errors that an upstream sends.
    """
    if outcome.kind == "error":
        return outcome
    which = "an error that the web server itself sends," if outcome.kind == "proxy" else "an error,"
    leads, notes = list(outcome.leads), list(outcome.notes)
    for page in block.error_pages:
        if not page.uri.startswith("/") or (outcome.status is not None and outcome.status not in page.codes):
            continue
        lead = _lead(found, page.uri)
        leads.append(lead)
        codes = ", ".join(str(code) for code in page.codes)
        notes.append(f"{which} {codes}, gets the error page {page.uri}: {lead.label} handles the page")
    return replace(outcome, notes=tuple(notes), leads=tuple(leads))


def of_place(
    spec: SiteSpec, block: ServerBlock, place: Place, found: Locations, path: str, values: dict[str, str]
) -> Outcome:
    source = place.location
    notes = _notes(place)
    if source.handler == "deny":
        return Outcome("deny", status=403)
    if source.handler == "return":
        return Outcome("return", status=source.return_code, text=expand(source.return_value, values))
    if source.handler == "proxy":
        return Outcome("proxy", text=_upstream(spec, place, path), notes=notes)
    if confinement.is_loose(source) and path.removeprefix(place.pattern)[:1] not in ("", "/"):
        note = f"the alias applies only to {place.pattern} and the paths below {place.pattern}/"
        return Outcome("return", status=404, notes=(*notes, note))
    file = _mapped(block, place, path, values)
    if source.handler == "php":
        _, pool = handlers.pool_of(spec, source, place.pointer)
        script = re.sub(r"^(.+?\.php)/.*$", r"\1", file) if source.split_path_info else file
        return Outcome("php", text=pool.address, files=(script,), otherwise="404", notes=notes)
    if source.try_files:
        return _tried(block, place, found, path, values, notes)
    names = source.index or block.index
    plain = replace(_files(file, path, names), notes=notes)
    return _with_leads(plain, _indexes(found, path, names), place)


def expand(text: str, values: dict[str, str]) -> str:
    """Replace variables by their values in `values`; leave unknown variables as written."""
    parts = variables.parse(text, "/", captures=frozenset(values))
    return "".join(part if isinstance(part, str) else values.get(part.name, f"${part.name}") for part in parts)


def _notes(place: Place) -> tuple[str, ...]:
    source = place.location
    notes = [f"{rule.action} {rule.source}" for rule in source.access_rules]
    if notes:
        notes = [f"the web server first checks the access rules: {', '.join(notes)}"]
    if source.basic_auth is not None:
        notes.append(f"the web server asks for a password with the realm “{source.basic_auth.realm}”")
    if caching.caches(source):
        notes.append(caching.sentence(source))
    return tuple(notes)


def _mapped(block: ServerBlock, place: Place, path: str, values: dict[str, str]) -> str:
    source = place.location
    if source.alias and place.is_regex:
        return expand(source.alias, values)
    if source.alias:
        return source.alias + path.removeprefix(place.pattern)
    return (source.root or block.root).rstrip("/") + path


def _lead(found: Locations, path: str) -> Lead:
    place = choose(found, path.partition("?")[0]).place
    return Lead(path, place.pointer if place else "", f"location {place.label}" if place else "the server block")


def _indexes(found: Locations, path: str, names: tuple[str, ...]) -> list[Lead]:
    """Return the internal redirects to a folder's index files; none for a path without a final /."""
    return [_lead(found, path + name) for name in names or ("index.html",)] if path.endswith("/") else []


def _with_leads(outcome: Outcome, leads: list[Lead], place: Place | None) -> Outcome:
    """Return the outcome, with the internal redirects in `leads` that lead to a location other than `place`."""
    others = [lead for lead in leads if lead.location != (place.pointer if place else "")]
    notes = [f"the web server requests {lead.path} internally: {lead.label} handles it" for lead in others]
    return replace(outcome, notes=(*outcome.notes, *notes), leads=(*outcome.leads, *others))


def _files(file: str, path: str, index: tuple[str, ...]) -> Outcome:
    if path.endswith("/"):
        return Outcome("files", files=tuple(file + name for name in index or ("index.html",)), otherwise="403")
    return Outcome("files", files=(file,), otherwise="404; for a folder, a redirect to its path with a final /")


def _tried(
    block: ServerBlock, place: Place, found: Locations, path: str, values: dict[str, str], notes: tuple[str, ...]
) -> Outcome:
    *items, last = place.location.try_files
    loose = [
        confinement.try_path(place.location, number)
        for number in range(len(items) + 1)
        if confinement.of_item(place.location, number) is Verdict.MAY_CLIMB
    ]
    if any(re.search(confinement.CLIMBS, expand(item, values)) for item in loose):
        return Outcome("return", status=403, notes=(*notes, "an item of try_files would leave the site's folders"))
    names = place.location.index or block.index or ("index.html",)
    files: list[str] = []
    for item in items:
        file = _mapped(block, place, re.sub("//+", "/", expand(item, values)), values)
        if item.endswith("/") and path.endswith("/"):
            files += [file + name for name in names]
        elif item.endswith("/") or not file.endswith("/"):  # a folder is not a file
            files.append(file)
    leads = _indexes(found, path, names) if "$uri/" in items else []
    if last.startswith("="):
        tried = Outcome("files", files=tuple(files), otherwise=last[1:], notes=notes)
        return _with_leads(tried, leads, place)
    target = expand(last, values)
    lead = _lead(found, target)
    tried = Outcome("files", files=tuple(files), otherwise=f"{target}, which {lead.label} handles", notes=notes)
    tried = _with_leads(tried, leads, place)
    return replace(tried, leads=(*tried.leads, lead))


def _upstream(spec: SiteSpec, place: Place, path: str) -> str:
    source = place.location
    _, upstream = handlers.upstream_of(spec, source, place.pointer)
    rest = source.proxy_uri + path[len(place.pattern) :] if source.proxy_uri else path
    servers = ", ".join(server.address for server in upstream.servers if not server.down)
    how = {"http": "", "grpc": " as a gRPC call", "uwsgi": " by the uwsgi protocol"}[source.upstream_protocol]
    return f"{rest} at {upstream.name} ({servers}){how}"
