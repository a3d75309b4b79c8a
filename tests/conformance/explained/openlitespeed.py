"""Where OpenLiteSpeed departs from nginx: each row says what the answer is then, made out of nginx's.

Several may hold of one answer; it counts as documented only where they make exactly what was answered.
"""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from dataclasses import dataclass, replace

from panel.rendering import expiry
from panel.rendering.openlitespeed import answers
from tests.conformance.differing import difference, server_page
from tests.conformance.explained.case import Case
from tests.conformance.explained.twins import TAKEN, Twin
from tests.conformance.generator import FILES
from tests.conformance.wire import Answer

NAMES = ("openlitespeed",)
_OWN = b'<html style="height:100%">'  # its own page, as far as pages are compared
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE")
_SITES = ("x-one", "x-two", "x-a", "x-b")
_SENT = (200, 206, 304, 416)


@dataclass(frozen=True)
class Departs:
    """`then`: the answer that it gives where nginx's is `case.nginx`; None where the row does not apply. `shown`: the
    beginning of the computed difference that must be shown for the request's own location."""

    name: str
    text: str
    then: Callable[[Case], Answer | None]
    shown: str = ""
    engines: tuple[str, ...] = NAMES


def explained(case: Case) -> str:
    """The names of the rows that make the answer, or nothing."""
    plain, packed = _unpacked(replace(case, other=server_page(case.other)))
    for twin, answer, get in case.twins or ((Twin(case.request, ()), case.nginx, case.nginx),):
        found = _made(_as_taken(plain, twin, answer, get))
        if found is not None:
            return " and ".join([*packed, *twin.names, *found])
    return ""


def _unpacked(case: Case) -> tuple[Case, list[str]]:
    """The answer without the compression that the site says nothing of."""
    block, answer = case.met.block, case.other
    encoded = answer.headers.get("content-encoding") == "gzip" and "content-encoding" not in case.nginx.headers
    if not encoded or not case.asks("Accept-Encoding") or block is None or block.gzip:
        return case, []
    body = gzip.decompress(answer.body) if answer.body else b""
    return replace(case, other=_with(answer, body=body, content_encoding=None)), [COMPRESSION.name]


def _as_taken(case: Case, twin: Twin, nginx: Answer, get: Answer) -> Case:
    """The other's answer in the words of the request that it is taken for: applications and redirects repeat it."""
    came, is_ = case.request, twin.request
    words = [(came.target, is_.target), (came.host or "", is_.host or "")] if twin.names else []
    body, location = case.other.body, case.other.headers.get("location")
    for old, new in words:
        if old != new:
            body = body.replace(old.encode("latin-1"), new.encode("latin-1"))
            location = location.replace(old, new) if location and not old.startswith("http://") else location
    location = location.replace("#", "%23") if location and "#" in came.target else location
    return replace(case, request=is_, nginx=nginx, get=get, other=_with(case.other, body=body, location=location))


def _made(case: Case) -> list[str] | None:
    found: list[str] = []
    for row in ROWS:
        if not difference(case.nginx, case.other):
            break
        if row.shown and not any(text.startswith(row.shown) for text in case.met.shown):
            continue
        answer = row.then(case)
        if answer is not None and difference(case.nginx, answer):
            found.append(row.name)
            case = replace(case, nginx=answer)
    return None if difference(case.nginx, case.other) else found


def _with(answer: Answer, status: int = 0, body: bytes | None = None, **headers: str | None) -> Answer:
    """The same answer with another status, body, or headers (`_` for `-`; None takes one away)."""
    changed = {name.replace("_", "-"): value for name, value in headers.items()}
    kept = {name: value for name, value in answer.headers.items() if name not in changed}
    more = {name: value for name, value in changed.items() if value is not None}
    return Answer(status or answer.status, kept | more, answer.body if body is None else body)


def _error(case: Case, status: int) -> Answer:
    """The site's page for the status, else the server's own."""
    body = _OWN
    for page in case.met.block.error_pages if case.met.block else ():
        if status in page.codes and case.other.body == FILES.get(page.uri[1:], "").encode():
            body = case.other.body
    ours = case.other.headers
    return _with(
        case.nginx,
        status,
        b"" if case.request.method == "HEAD" else body,
        location=None,
        content_type=ours.get("content-type"),
        content_range=None,
        cache_control=None,
        expires=None,
        x_app=None,
    )


def _methods(case: Case) -> Answer | None:
    method, location = case.request.method, case.met.location
    if method in ("GET", "HEAD"):
        return None
    if method not in _METHODS:
        return _error(case, 400)
    if location is not None and answers.is_file(location) and case.nginx.status == 200:
        return None if method in ("POST", "OPTIONS") else _error(case, 501)
    if case.nginx.status != 405 or case.get is None:
        return None
    if method == "TRACE" and case.other.status == 200 and case.other.headers.get("x-app"):
        return _with(case.get, body=re.sub(rb"\bGET\b", b"TRACE", case.get.body, count=1))
    given = (*_SENT, 403) if case.other.status == 501 else _SENT  # the folder is there, if nothing that it shows
    if method in ("POST", "OPTIONS") or case.get.status not in given:
        return case.get
    own = _own_headers(case) if method == "TRACE" else {}  # which nginx refuses before it looks at the location
    return _with(_error(case, 501), cache_control=None, **own)


def _folder_without_index(case: Case) -> Answer | None:
    return _error(case, 404) if case.statuses == (403, 404) and _is_folder(case) else None


def _is_folder(case: Case) -> bool:
    return (case.met.path or case.path).endswith("/")


def _later_date(case: Case) -> Answer | None:
    later = any(name == "If-Modified-Since" and " 2100 " in value for name, value in case.request.headers)
    if not later or case.nginx.status not in (200, 206) or "x-app" in case.nginx.headers:
        return None
    return _with(case.nginx, 304, b"", content_type=None, content_range=None)


def _own_ranges(case: Case) -> Answer | None:
    """A fixed answer is a file, which has parts."""
    wanted = dict(case.request.headers).get("Range", "")
    found = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted)
    location = case.met.location
    if found is None or case.nginx.status != 200 or location is None or not answers.is_file(location):
        return None
    whole = location.return_value.encode() if case.request.method == "HEAD" else case.nginx.body
    first, last = int(found[1]), min(int(found[2] or len(whole)), len(whole) - 1)
    if case.other.status == 412:
        return Answer(412)
    if first >= len(whole):
        return _error(case, 416)
    body = b"" if case.request.method == "HEAD" else whole[first : last + 1]
    return _with(case.nginx, 206, body, content_range=f"bytes {first}-{last}/{len(whole)}")


def _unsatisfied_range(case: Case) -> Answer | None:
    """nginx before 1.23 says the site's headers twice."""
    if case.nginx.status != 416:
        return None
    once = {name: value.partition(", ")[0] for name, value in case.nginx.headers.items()}
    return _error(replace(case, nginx=Answer(416, once, case.nginx.body)), 416)


def _range_of_nothing(case: Case) -> Answer | None:
    if case.nginx.status != 416 or case.nginx.headers.get("content-range") != "bytes */0":
        return None
    return _with(case.nginx, 200, b"", content_range=None, content_type=case.other.headers.get("content-type"))


def _port_of_the_host(case: Case) -> Answer | None:
    """The redirect goes to the port that the client named, nginx's to the port that it came to."""
    ours, theirs = (answer.headers.get("location", "") for answer in (case.other, case.nginx))
    encoded = re.sub(r"%3f([^/?]*)/\?\1$", r"/?\1", _encoded(ours))  # the query that was a part of the path, twice
    wanted = re.sub(r"^(http://[^/:]+):\d+", r"\1", theirs)
    same = encoded.removesuffix("?") == wanted.lower().removesuffix("?")
    return _with(case.nginx, location=ours) if ours != theirs and same else None


def _encoded(url: str) -> str:
    return "".join(char if char < "\x80" else f"%{ord(char):02x}" for char in url).lower()


def _folders_redirect(case: Case) -> Answer | None:
    return (
        _headers_of_rules(replace(case, nginx=_no_times(case) or case.nginx)) if case.statuses == (301, 301) else None
    )


def _slash_first(case: Case) -> Answer | None:
    path, mark, query = case.request.target.removeprefix(f"http://{case.request.host}").partition("?")
    if case.nginx.status not in (401, 403, 405) or not _leads_to(case, f"{path}/{mark}{query}"):
        return None
    return _with(_error(case, 301), location=case.other.headers["location"])


def _leads_to(case: Case, target: str) -> bool:
    location = _encoded(case.other.headers.get("location", ""))
    return case.other.status == 301 and re.sub(r"^http://[^/]+/+", "/", location) == re.sub("^/+", "/", target).lower()


def _final_dots(case: Case) -> Answer | None:
    """`__` stands for the dots, where they are not said again."""
    path, mark, query = case.request.target.partition("?")
    dotted = re.sub(r"/(_{1,2})$", lambda found: "/" + "." * len(found[1]), path)
    leads = any(_leads_to(case, f"{name}/{mark}{query}") for name in (path, dotted))
    if dotted == path or not leads:
        return None
    return _with(_error(case, 301), location=case.other.headers["location"], **_own_headers(case))


def _of_no_file(case: Case) -> Answer | None:
    """A % and letters that are no number; where a rule is about to answer it, also %3F."""
    missing = case.other.status == 404 and re.search("%25[g-zG-Z]", case.request.target)
    refused = case.other.status in (403, 404) and "%3F" in case.request.target
    return _error(case, case.other.status) if missing or refused else None


def _unresolved(case: Case) -> Answer | None:
    """The fallback instead of what the resolved path leads to."""
    owners = [owner for owner in (case.met.location, case.met.block) if owner]
    tries = any(owner.try_files for owner in owners)
    return case.other if tries and re.search(r"/(\.\.|%2e%2e)/", case.request.target, re.I) else None


def _missing_script(case: Case) -> Answer | None:
    location, pair = case.met.location, case.statuses
    of_php = location is not None and location.handler == "php"
    return _error(case, pair[1]) if of_php and pair in ((401, 404), (403, 404), (404, 403)) else None


def _public(case: Case) -> Answer | None:
    control = case.nginx.headers.get("cache-control", "")
    says = case.other.headers.get("cache-control") == f"public, {control}" and control.startswith("max-age=")
    return _with(case.nginx, cache_control=f"public, {control}") if says else None


def _past(case: Case) -> Answer | None:
    """`no-cache` without a date, with errors too."""
    location = case.met.location
    times = location.expires if location else ""
    if not times or not expiry.parse(times, "/").no_cache:
        return None
    return _with(case.nginx, cache_control="no-cache", expires=None)


def _no_times(case: Case) -> Answer | None:
    return _with(case.nginx, cache_control=None, expires=None) if "cache-control" not in case.other.headers else None


def _realm(case: Case) -> Answer | None:
    places = [place for place in (case.met.location, *case.met.leads) if place and place.basic_auth]
    realm = places[0].basic_auth.realm if places and places[0].basic_auth else ""
    return _with(case.nginx, www_authenticate=f'Basic realm="{realm}"') if realm else None


def _always(case: Case) -> Answer | None:
    if case.nginx.status < 400:
        return None
    return _with(case.nginx, **_own_headers(case))


def _own_headers(case: Case) -> dict[str, str]:
    """Those of the site that it sends."""
    return {name.replace("-", "_"): case.other.headers[name] for name in _SITES if name in case.other.headers}


def _headers_of_rules(case: Case) -> Answer | None:
    """Answers that a rule gives have no headers of locations."""
    missing = {name: None for name in case.nginx.headers if name.startswith("x-") and name not in case.other.headers}
    return Answer(case.nginx.status, {k: v for k, v in case.nginx.headers.items() if k not in missing}, case.nginx.body)


def _told_of_the_visitor(case: Case) -> Answer | None:
    """The same for the application but for what tells of the visitor."""
    ours, theirs = (_untold(answer.body) for answer in (case.other, case.nginx))
    same = case.nginx.headers.get("x-app") == case.other.headers.get("x-app") == "echo" and ours == theirs
    return _with(case.nginx, body=case.other.body) if same else None


def _untold(body: bytes) -> bytes:
    return re.sub(rb" (?:ip|proto)=\S+", b"", body).lower()


def _own_text(case: Case) -> Answer | None:
    return _error(case, case.nginx.status) if case.nginx.status >= 400 else None


def _own_refusals(case: Case) -> Answer | None:
    """With the location's own headers, which nginx's page has not."""
    if case.nginx.status not in (401, 403):
        return None
    location, kept = case.met.location, case.nginx.headers
    error = _error(case, case.nginx.status)
    own = {header.name.lower(): header.value for header in location.headers} if location else {}
    own |= {"www-authenticate": kept["www-authenticate"]} if "www-authenticate" in kept else {}
    return Answer(error.status, error.headers | own, error.body)


def _runs_a_script(case: Case) -> Answer | None:
    """PHP said it and not nginx: the requests' scripts name themselves in X-App."""
    if ".php" not in case.met.path.lower() and not _is_folder(case):
        files = (case.nginx, case.get or case.nginx)
        if not any(answer.headers.get("content-type") == "application/octet-stream" for answer in files):
            return None  # else it is the script's own text
    if case.other.headers.get("x-app") == "php" and case.nginx.headers.get("x-app") != "echo":
        named = re.search(rb"\bfile=(\S+\.php) ", case.other.body)
        return case.other if named or case.request.method == "HEAD" else None
    return None


def _refuses_scripts(case: Case) -> Answer | None:
    return _error(case, 403) if re.search(r"\.php(/|$)", case.met.path) else None


def _index_here(case: Case) -> Answer | None:
    """An index file of the folder, whoever it belongs to."""
    if not _is_folder(case) or case.other.status not in _SENT:
        return None
    names = ("index.php", "index.html", "b.txt")
    body, head = case.other.body, case.request.method == "HEAD"
    is_one = any(body in FILES[name].encode() for name in FILES if name.rpartition("/")[2] in names) if body else True
    return case.other if head or is_one or b" file=index.php " in body else None


def _open_fallback(case: Case) -> Answer | None:
    """What the fallback answers, whoever may come in."""
    return case.other if case.nginx.status in (401, 403) and case.other.status in _SENT else None


def _serves_files(case: Case) -> Answer | None:
    """A fixed answer that cannot be said: the location serves files."""
    location = case.met.location
    cannot = location is not None and location.handler == "return" and (location.return_code or 0) < 300
    if not cannot or answers.is_file(location) or (case.other.status >= 500 and case.other.status != 501):  # type: ignore[arg-type]
        return None
    return case.other


def _circle(case: Case) -> Answer | None:
    return case.other if case.nginx.status == 500 else None


def _letters(case: Case) -> Answer | None:
    """Of a rewritten path: letters above ASCII, and what else came encoded, reach upstreams as they are."""
    ours, theirs = (answer.body for answer in (case.other, case.nginx))
    decoded = re.sub(rb"%([0-9A-Fa-f]{2})", lambda found: bytes([int(found[1], 16)]), theirs)
    return _with(case.nginx, body=ours) if _untold(ours) == _untold(decoded) else None


def _unsendable(case: Case) -> Answer | None:
    return _error(case, 400) if re.search(r"[\x00-\x20\x7f%?#]", case.met.path) else None


def _kept(case: Case) -> Answer | None:
    """An answer that it has kept, or one made anew where nginx had one."""
    ours, theirs = (
        re.sub(rb" own=(client|-)?(?= |$)|(?<= )http://[^/ ]+", b"", _untold(answer.body))
        for answer in (case.other, case.nginx)
    )
    return _with(case.nginx, body=case.other.body) if ours == theirs else None


COMPRESSION = Departs(
    "compression by default",
    "Where a site says nothing of compression, files and answers are compressed for those who take it; nginx does not.",
    lambda case: None,  # taken off before anything is compared
)
ROWS = (
    Departs(
        "methods of files",
        "Files are sent for POST and OPTIONS as for GET; other methods are answered with 501 where there is a file, "
        "else as GET is, and with 400 where they are unknown. TRACE reaches applications. nginx answers all with 405.",
        _methods,
    ),
    Departs(
        "fixed answers that are files", "", _serves_files, "OpenLiteSpeed's fixed answers of status 2xx are files: only"
    ),
    Departs("fixed answer as a file", "", _own_ranges, "OpenLiteSpeed's fixed answers are files"),
    Departs(
        "range of an empty file",
        "A range of an empty file is answered with the empty file; nginx answers 416.",
        _range_of_nothing,
    ),
    Departs(
        "headers of 416",
        "416 has no Content-Range; nginx before 1.23 sends the site's headers twice with it.",
        _unsatisfied_range,
    ),
    Departs("folder", "", _final_dots),
    Departs("no file", "", _of_no_file),
    Departs(
        "encoded line feed",
        "In a path with %0A, $ in a location's expression matches at the very end only; on nginx also before a final "
        "line feed.",
        lambda case: case.other if "%0A" in case.request.target else None,
    ),
    Departs(
        "dots of a fallback",
        "A path with .. in it is looked for as it came before a fallback is chosen: where the folder before the dots "
        "is not there, the fallback answers. nginx resolves it first.",
        _unresolved,
    ),
    Departs(
        "missing script",
        "Whether a script is there is asked before who may come in, so that it is 404 where nginx answers 401 or 403; "
        "below a file it is 403.",
        _missing_script,
    ),
    Departs(
        "folder's redirect before access",
        "",
        _slash_first,
        "OpenLiteSpeed redirects to a folder's final / before it asks",
    ),
    Departs("fallback before access", "", _open_fallback, "OpenLiteSpeed chooses the fallback before"),
    Departs(
        "folder without an index file",
        "A folder that has no index file is answered with 404; nginx answers 403.",
        _folder_without_index,
    ),
    Departs(
        "later If-Modified-Since",
        "If-Modified-Since with a date after the file's is answered with 304; nginx answers it to that very date.",
        _later_date,
    ),
    Departs(
        "port of a redirect",
        "A redirect to a path names the port of the Host header, and letters above ASCII and a lone ? stand in it as "
        "they came; nginx's names the port that the request came to.",
        _port_of_the_host,
    ),
    Departs("own text of errors", "", _own_text, "OpenLiteSpeed answers errors with its own text"),
    Departs("pages of refusals", "", _own_refusals, "OpenLiteSpeed would answer some refused requests twice"),
    Departs("headers of fixed answers", "", _headers_of_rules, "OpenLiteSpeed gives such"),
    Departs("folder's redirect", "", _folders_redirect, "OpenLiteSpeed redirects to the final / before it looks"),
    Departs("rewrites in a circle", "", _circle, "rewrites that lead in a circle"),
    Departs("times of fixed answers", "", _no_times, "OpenLiteSpeed gives times only to files"),
    Departs("public", "", _public, "OpenLiteSpeed says public"),
    Departs("times in the past", "", _past, "OpenLiteSpeed has no times in the past"),
    Departs("realm with other answers", "", _realm, "OpenLiteSpeed names the realm"),
    Departs("headers of errors", "", _always, "OpenLiteSpeed sends it with errors"),
    Departs(
        "headers for an upstream", "", _told_of_the_visitor, "OpenLiteSpeed chooses the headers that tell an upstream"
    ),
    Departs("rewritten paths for an upstream", "", _letters, "OpenLiteSpeed sends a rewritten path"),
    Departs("rewritten paths that are refused", "", _unsendable, "OpenLiteSpeed sends a rewritten path"),
    Departs("answers that are kept", "", _kept, "OpenLiteSpeed's cache module"),
    Departs("scripts that are refused", "", _refuses_scripts, "PHP runs by its suffix anywhere"),
    Departs(
        "scripts by their suffix",
        "Where a server block runs PHP, a file that ends in .php runs for every path, what follows its name included; "
        "nginx takes it for a file where no location for PHP matches.",
        _runs_a_script,
    ),
    Departs("index file of another location", "", _index_here, "OpenLiteSpeed gives a folder's index file"),
)
EXPLAINED = (*TAKEN, COMPRESSION, *ROWS)
