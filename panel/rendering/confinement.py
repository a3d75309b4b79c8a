"""Prove that paths built by a site's rules stay inside the site's folders.

A server resolves `.` and `..` in a request's path before it chooses a location, so the original path has no `..`
segment. A path that the site builds (a rewrite, an item of try_files, an alias) is assembled later from fixed text,
captures and client input, and no server checks it again. This module decides whether the result can contain a `..`
segment or lack the leading `/`. Engines reject such paths at request time: see `CLIMBS`.

Invariant of the analysis: if no path built by a site has a `..` segment, every capture is part of a path without one.
In case of doubt the result is “may climb”.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from enum import Enum
from functools import lru_cache
from pathlib import PurePosixPath

from panel.rendering import languages, variables
from panel.rendering.errors import NotExpressible
from panel.rendering.languages import Language
from panel.rendering.patterns import capture_languages
from panel.rendering.readers import Unreadable
from panel.rendering.readers.nginx import read
from panel.rendering.rewriting import redirects
from panel.rendering.spec import Location, Rewrite, ServerBlock, SiteSpec

# Pattern that engines use to reject a path: a `..` segment, no leading slash, or a line break, at which `.*` and `$` of
# a later expression would stop.
CLIMBS = r"^[^/]|(?:^|/)\.\.(?:/|$)|\x0a"
LINE_BREAK = r"\x0a"


class Verdict(Enum):
    CONFINED = "confined"
    CONFINED_WITHOUT_LINE_BREAKS = "confined unless the request's path holds a line break"
    MAY_CLIMB = "may climb"


# Variables that hold a path without `..`, text without dots and slashes, or an address; the client controls all others.
_PATHS = frozenset({"uri", "document_root", "request_filename"})
_WORDS = frozenset({"scheme", "https", "server_port", "remote_port", "is_args"})
_ADDRESSES = frozenset({"host", "remote_addr"})  # names and addresses: no slash and no two dots in a row


def is_confined(template: str, *, pattern: str = "") -> bool:
    """Return whether `template` always yields a path that begins with / and has no `..` segment.

    `template` is a value with nginx's variables, up to its query; `pattern` is the regular expression of its captures.
    False if the template cannot be parsed.
    """
    return verdict(template, pattern=pattern) is Verdict.CONFINED


@lru_cache(maxsize=4096)
def verdict(template: str, *, pattern: str = "") -> Verdict:
    """Return the Verdict on the path that a template yields. CONFINED: see is_confined. CONFINED_WITHOUT_LINE_BREAKS:
    the path is confined only if the request's path contains no line break. MAY_CLIMB: in all other cases, also if the
    template cannot be parsed.
    """
    try:
        parts = variables.parse(template, "", captures=variables.captures_of(pattern))
    except NotExpressible:
        return Verdict.MAY_CLIMB
    for line_breaks, found in ((True, Verdict.CONFINED), (False, Verdict.CONFINED_WITHOUT_LINE_BREAKS)):
        captures = capture_languages(pattern, line_breaks=line_breaks) if pattern else {}
        if languages.stays(_language(part, captures, line_breaks) for part in parts):
            return found
    return Verdict.MAY_CLIMB


def _language(part: variables.Part, captures: Mapping[str, Language], line_breaks: bool) -> Language:
    if isinstance(part, str):
        return languages.literal(part)
    if part.name in captures:
        return captures[part.name]
    if part.name in _PATHS:
        return languages.path(line_breaks=line_breaks)
    if part.name in _WORDS:
        return languages.WORD
    return languages.ADDRESS if part.name in _ADDRESSES else languages.ANYTHING


def of_rewrite(item: Rewrite) -> Verdict:
    """Return the verdict on the path that a rewrite builds; CONFINED for a redirect, which builds no path."""
    if redirects(item):
        return Verdict.CONFINED
    return verdict(item.replacement.partition("?")[0], pattern=item.pattern)


def rewrites_may_climb(block: ServerBlock) -> bool:
    """Return whether the web server must check, at request time, that a path built by a rewrite of the server block or
    its locations stays inside the site's folders.
    """
    lists = [block.rewrites, *(made_paths(location) for location in block.locations)]
    return any(of_rewrite(item) is Verdict.MAY_CLIMB for items in lists for item in items)


def of_last_item(item: str) -> str:
    """Return the path part of `item`, the last item of try_files, without its query."""
    path = item.partition("?")[0]
    for tail in ("$is_args$args", "$is_args$query_string", "${is_args}${args}"):
        path = path.removesuffix(tail)
    return path


def steps_up(path: str) -> bool:
    """Return whether the path has a `..` segment in its fixed text; the values of variables are not considered."""
    return ".." in path.partition("?")[0].split("/")


def of_item(location: Location, number: int) -> Verdict:
    """Return the verdict on the item `number` of a location's try_files.

    Captures in the item are those of the location's regular expression, unless a rewrite of the location replaces them.
    """
    path = try_path(location, number)
    if path.startswith("="):
        return Verdict.CONFINED
    own = location.match in ("~", "~*") and not location.rewrites
    return verdict(path, pattern=location.pattern if own else "")


def try_path(location: Location, number: int) -> str:
    item = location.try_files[number]
    return of_last_item(item) if number == len(location.try_files) - 1 else item


def is_loose(location: Location) -> bool:
    """Return whether the location has an alias for a prefix without a final /, such as `/x`. This prefix also matches
    `/x../y`, which can lead outside the alias's folder.
    """
    return bool(location.alias) and location.match in ("", "^~") and not location.pattern.endswith("/")


def refuses_line_breaks(block: ServerBlock) -> bool:
    """Return whether a path of the server block is confined only for requests without line breaks in their path."""
    return Verdict.CONFINED_WITHOUT_LINE_BREAKS in _verdicts(block)


def _verdicts(block: ServerBlock) -> list[Verdict]:
    """Return the verdicts on all paths that the server block builds."""
    found = [of_rewrite(item) for item in block.rewrites]
    for location in (*block.locations, Location("", "/", "static", try_files=block.try_files)):
        found += [of_rewrite(item) for item in made_paths(location)]
        found += [of_item(location, number) for number in range(len(location.try_files))]
    return found


def made_paths(location: Location) -> tuple[Rewrite, ...]:
    """Return the location's rewrites whose result can name a file.

    With `break`, a proxying location builds the path for its upstream, not for a file.
    """
    if location.handler != "proxy":
        return location.rewrites
    return tuple(item for item in location.rewrites if item.flag != "break")


def needs_checks(spec: SiteSpec) -> bool:
    """Return whether the web server must check, at request time, that a path of the site stays inside the site's
    folders. True also for a site that no web server can serve, because `check` refuses one of its paths.
    """
    try:
        check(spec)
    except NotExpressible:
        return True
    return any(
        any(found is not Verdict.CONFINED for found in _verdicts(block)) or any(map(is_loose, block.locations))
        for block in spec.blocks
    )


def check(spec: SiteSpec) -> None:
    """Raise NotExpressible for the first path of the site that no engine can confine to its folder."""
    for number, block in enumerate(spec.blocks):
        at = f"/blocks/{number}"
        faults = [*rewrite_faults(block.rewrites), *_of_error_pages(block)]
        for n, location in enumerate(block.locations):
            found = [*rewrite_faults(location.rewrites), *location_faults(location)]
            faults += [(f"locations/{n}/{field}", message) for field, message in found]
        for field, message in faults:
            raise NotExpressible(f"{at}/{field}", message)


def rewrite_faults(items: tuple[Rewrite, ...]) -> Iterator[tuple[str, str]]:
    for number, item in enumerate(items):
        if not redirects(item) and steps_up(item.replacement):
            yield f"rewrites/{number}/replacement", f"“{item.replacement}” contains ..; enter the path without it"


def _of_error_pages(block: ServerBlock) -> Iterator[tuple[str, str]]:
    for number, page in enumerate(block.error_pages):
        if page.uri.startswith("/") and steps_up(page.uri):
            yield f"error_pages/{number}/uri", f"“{page.uri}” contains ..; enter the path without it"


def location_faults(location: Location) -> Iterator[tuple[str, str]]:
    """Yield (field, message) for each path of the location, except rewrites, that no engine can confine to
    its folder.
    """
    if location.alias and location.match in ("", "^~"):
        yield from _of_alias(location)
    breaks = any(item.flag == "break" for item in location.rewrites)
    for number, item in enumerate(location.try_files):
        if breaks and of_item(location, number) is not Verdict.CONFINED:
            yield (
                f"try_files/{number}",
                (
                    f"a rewrite with the flag break runs before try_files, so “{item}” could contain “..”; use $uri "
                    "instead, or give the rewrite the flag last and move try_files to another location"
                ),
            )


def _of_alias(location: Location) -> Iterator[tuple[str, str]]:
    pattern, alias = location.pattern, location.alias
    if pattern.endswith("/") and not alias.endswith("/"):
        yield (
            "alias",
            f"“{alias}” needs a final / like the location {pattern}; otherwise, {pattern}b is {alias}b",
        )
    elif is_loose(location) and location.try_files:
        yield "alias", f"with try_files, use the location {pattern}/ and the alias {alias.rstrip('/')}/"


def folders(block: ServerBlock) -> tuple[str, ...]:
    """Return the folders of the server block's files, including those of raw directives, without nested ones."""
    found = [block.root, *_raw_folders(block.snippet)]
    for location in block.locations:
        found += [location.root, _alias_folder(location), *_raw_folders(location.snippet)]
    named = sorted({PurePosixPath(folder) for folder in found if folder.startswith("/")})
    return tuple(str(folder) for folder in named if not any(other in folder.parents for other in named))


def _alias_folder(location: Location) -> str:
    """Return the folder of the alias up to its first capture; for an exact location, the folder of its one file."""
    fixed = location.alias.partition("$")[0] if location.match in ("~", "~*") else location.alias
    if location.match in ("", "^~"):
        return fixed
    return fixed[: fixed.rfind("/") + 1]


def _raw_folders(snippet: str) -> list[str]:
    """Return the folders in `root` and `alias` of an administrator's raw directives, at any depth."""
    try:
        left, found = list(read(snippet)), list[str]()
    except Unreadable:
        return []  # reported by the check of raw directives
    while left:
        item = left.pop()
        left += item.body or ()
        if item.name in ("root", "alias") and item.args:
            fixed = item.args[0].partition("$")[0]
            found.append(fixed if fixed == item.args[0] else fixed[: fixed.rfind("/") + 1])
    return found
