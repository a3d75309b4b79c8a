"""What OpenLiteSpeed answers where a documented difference applies, made of nginx's answer; None where none does."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import quote, unquote

from panel.rendering import expiry, handlers
from panel.rendering.openlitespeed import answers, asides, refusals
from tests.suites.conformance.explained.case import Case
from tests.suites.conformance.generator import FILES
from tests.suites.conformance.wire import Answer

_OWN = b'<html style="height:100%">'  # its own page, as far as pages are compared
_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE")
_SITES = ("x-one", "x-two", "x-a", "x-b", "x-place")
_PLAIN = "/!$&'()*+,;=:@~[]|{}^`<>\\"
SENT = (200, 206, 304, 416)


def altered(answer: Answer, status: int = 0, body: bytes | None = None, **headers: str | None) -> Answer:
    """The same answer with another status, body, or headers (`_` for `-`; None takes one away)."""
    changed = {name.replace("_", "-"): value for name, value in headers.items()}
    kept = {name: value for name, value in answer.headers.items() if name not in changed}
    more = {name: value for name, value in changed.items() if value is not None}
    return Answer(status or answer.status, kept | more, answer.body if body is None else body)


def error(case: Case, status: int) -> Answer:
    """The site's page for the status, else the server's own."""
    body = _OWN
    for page in case.met.block.error_pages if case.met.block else ():
        if status in page.codes and case.other.body == FILES.get(page.uri[1:], "").encode():
            body = case.other.body
    ours = case.other.headers
    return altered(
        case.nginx,
        status,
        b"" if case.request.method == "HEAD" else body,
        location=None,
        content_type=ours.get("content-type"),
        content_range=None,
        cache_control=None,
        expires=None,
        x_app=None,
        www_authenticate=case.nginx.headers.get("www-authenticate") if status == 401 else None,
    )


def methods(case: Case) -> Answer | None:
    method, location = case.request.method, case.met.location
    if method in ("GET", "HEAD"):
        return None
    if method not in _METHODS:
        return error(case, 400)
    if location is not None and answers.is_file(location) and case.nginx.status == 200:
        return None if method in ("POST", "OPTIONS") else error(case, 501)
    if case.nginx.status != 405 or case.get is None or _refuses_after_access(case):
        return None
    if case.other.status == 405:
        return headers_of_rules(replace(case, nginx=error(case, 405)))
    given = (*SENT, 403) if case.other.status == 501 else SENT  # the folder is there, if nothing that it shows
    given += (301, 302, 308) if _is_folder(case) and case.other.status == 501 else ()  # nor whose its index file is
    if method in ("POST", "OPTIONS") or case.get.status not in given:
        return case.get
    return altered(error(case, 501), cache_control=None)


def _refuses_after_access(case: Case) -> bool:
    """Whether contexts of the location's own refuse; TRACE is refused elsewhere, and so is a path with final dots."""
    if case.met.location is None or case.met.block is None or case.request.method == "TRACE" or "_" in case.path:
        return False
    return asides.has_own(case.met.location, case.met.block)


def after_a_body(case: Case) -> Answer | None:
    """The body of the request before is longer than the header line that was added to it."""
    if case.before is None or case.other.status != 400:
        return None
    request, met = case.before
    location = met.location
    added = location.request_headers if location and location.handler == "proxy" else ()
    length = sum(len(f"{header.name}: {header.value}\r\n") for header in added)
    return error(case, 400) if added and len(request.body) > length else None


def folder_without_index(case: Case) -> Answer | None:
    location, block = case.met.location, case.met.block
    is_captured = location is not None and bool(location.alias) and location.match in ("~", "~*")
    has_no_rule = is_captured or (block is not None and not refusals.can_be_marked(block))
    is_met = has_no_rule and case.statuses in ((401, 404), (403, 404)) and _is_folder(case)
    return error(case, 404) if is_met else None


def _is_folder(case: Case) -> bool:
    return (case.met.path or case.path).endswith("/")


def later_date(case: Case) -> Answer | None:
    later = any(name == "If-Modified-Since" and " 2100 " in value for name, value in case.request.headers)
    if not later or case.nginx.status not in (200, 206) or case.other.status != 304 or "x-app" in case.nginx.headers:
        return None
    short = {} if "cache-control" in case.other.headers else {"cache_control": None, "expires": None}
    return altered(case.nginx, 304, b"", content_type=None, content_range=None, **short)


def own_ranges(case: Case) -> Answer | None:
    """A fixed answer is a file, which has parts."""
    wanted = dict(case.request.headers).get("Range", "")
    found = re.fullmatch(r"bytes=(\d+)-(\d*)", wanted)
    places = (case.met.location, *case.met.leads)  # an index file leads to the location of its own path
    location = next((place for place in places if place and answers.is_file(place)), None)
    if found is None or case.nginx.status != 200 or location is None:
        return None
    whole = location.return_value.encode() if case.request.method == "HEAD" else case.nginx.body
    first, last = int(found[1]), min(int(found[2] or len(whole)), len(whole) - 1)
    if first >= len(whole):
        return error(case, 416)
    body = b"" if case.request.method == "HEAD" else whole[first : last + 1]
    return altered(case.nginx, 206, body, content_range=f"bytes {first}-{last}/{len(whole)}")


def unsatisfied_range(case: Case) -> Answer | None:
    """nginx before 1.23 says the site's headers twice."""
    if case.nginx.status != 416:
        return None
    once = {name: value.partition(", ")[0] for name, value in case.nginx.headers.items()}
    return error(replace(case, nginx=Answer(416, once, case.nginx.body)), 416)


def range_of_nothing(case: Case) -> Answer | None:
    if case.nginx.status != 416 or case.nginx.headers.get("content-range") != "bytes */0":
        return None
    return altered(case.nginx, 200, b"", content_range=None, content_type=case.other.headers.get("content-type"))


def port_of_the_host(case: Case) -> Answer | None:
    """The redirect to a folder's final / goes to the port that the client named; every one drops a lone ?."""
    ours, theirs = (answer.headers.get("location", "") for answer in (case.other, case.nginx))
    where = re.sub(r"%3f([^/?]*)/\?\1$", r"/?\1", encoded(ours))  # the query that was a part of the path, twice
    wanted = {re.sub(r"^(http://[^/:]+):\d+", r"\1", theirs), theirs}
    if re.search(r"^http://[^/]+:\d+/", theirs) and not re.search(r"^http://[^/]+:\d+/", ours) and _is_plain(case):
        return None
    same = where.removesuffix("?") in {url.lower().removesuffix("?") for url in wanted}
    return altered(case.nginx, location=ours) if ours != theirs and same else None


def _is_plain(case: Case) -> bool:
    """Whether a rule can write the path into a redirect: the block has one port, and nobody encodes the path."""
    block = case.met.block
    one_port = block is not None and len({listen.port for listen in block.listens}) == 1
    return one_port and case.nginx.status == 301 and re.fullmatch(r"[A-Za-z0-9._~/-]+", case.path) is not None


def encoded(url: str) -> str:
    return "".join(char if char < "\x80" else f"%{ord(char):02x}" for char in url).lower()


def folders_redirect(case: Case) -> Answer | None:
    return headers_of_rules(replace(case, nginx=no_times(case) or case.nginx)) if case.statuses == (301, 301) else None


def slash_first(case: Case) -> Answer | None:
    """Only where the site's rewrites replace paths, and the path holds letters that are encoded."""
    path, mark, query = case.request.target.removeprefix(f"http://{case.request.host}").partition("?")
    names = (path, case.met.path, quote(case.met.path, safe=_PLAIN, errors="surrogateescape"))
    leads = any(leads_to(case, f"{name}/{mark}{query}") for name in names)
    if case.nginx.status not in (401, 403, 405) or not leads or re.fullmatch(r"[A-Za-z0-9._~/-]+", case.path):
        return None
    return altered(error(case, 301), location=case.other.headers["location"], **own_headers(case))


def leads_to(case: Case, target: str) -> bool:
    location = encoded(case.other.headers.get("location", ""))
    return case.other.status == 301 and re.sub(r"^http://[^/]+/+", "/", location) == re.sub("^/+", "/", target).lower()


def missing_script(case: Case) -> Answer | None:
    location, pair = case.met.location, case.statuses
    of_php = location is not None and location.handler == "php"
    if pair == (404, 404) and case.other.body == b"File not found.\n":  # php-fpm's own
        return case.other
    return error(case, pair[1]) if of_php and pair in ((401, 404), (403, 404), (404, 403)) else None


def public(case: Case) -> Answer | None:
    control = case.nginx.headers.get("cache-control", "")
    says = case.other.headers.get("cache-control") == f"public, {control}" and control.startswith("max-age=")
    return altered(case.nginx, cache_control=f"public, {control}") if says else None


def past(case: Case) -> Answer | None:
    """With errors too."""
    never, control = expiry.NEVER
    times = [place.expires for place in (case.met.location, *case.met.leads) if place and place.expires]
    said = case.other.headers.get("expires"), case.other.headers.get("cache-control")
    if said != expiry.NEVER or not any(expiry.parse(item, "/").no_cache for item in times):
        return None
    location, block = case.met.location, case.met.block
    answers_apart = location is not None and block is not None and asides.has_own(location, block)
    if answers_apart and case.nginx.status in (404, 405):
        return None
    return altered(case.nginx, cache_control=control, expires=never)


def no_date(case: Case) -> Answer | None:
    """The time of a fixed answer by its age alone."""
    return altered(case.nginx, expires=None) if "expires" not in case.other.headers else None


def no_times(case: Case) -> Answer | None:
    return altered(case.nginx, cache_control=None, expires=None) if "cache-control" not in case.other.headers else None


def realm(case: Case) -> Answer | None:
    places = [place for place in (case.met.location, *case.met.leads) if place and place.basic_auth]
    realm = places[0].basic_auth.realm if places and places[0].basic_auth else ""
    return altered(case.nginx, www_authenticate=f'Basic realm="{realm}"') if realm else None


def always(case: Case) -> Answer | None:
    if case.nginx.status < 400:
        return None
    return altered(case.nginx, **own_headers(case))


def own_headers(case: Case) -> dict[str, str]:
    """Those of the site that it sends."""
    return {name.replace("-", "_"): case.other.headers[name] for name in _SITES if name in case.other.headers}


def site_headers(case: Case) -> dict[str, str | None]:
    """Those of another location: what it sends of the site's, and none of nginx's."""
    return {**dict.fromkeys(name.replace("-", "_") for name in _SITES), **own_headers(case)}


def headers_of_rules(case: Case) -> Answer | None:
    """Answers that a rule gives have no headers of locations."""
    missing = {name: None for name in case.nginx.headers if name.startswith("x-") and name not in case.other.headers}
    found = Answer(
        case.nginx.status, {k: v for k, v in case.nginx.headers.items() if k not in missing}, case.nginx.body
    )
    where = case.other.headers.get("location", "")  # of a path that was rewritten
    moved = (
        "location" not in found.headers
        and case.met.path != case.path
        and unquote(where.partition("?")[0]).endswith(case.met.path)
    )
    return altered(found, location=where) if where and moved else found


def own_text(case: Case) -> Answer | None:
    """The site's page is answered with the headers of its own location."""
    if case.nginx.status < 400:
        return None
    refusal = error(case, case.nginx.status)
    is_page = case.request.method == "HEAD" or (case.other.body and refusal.body == case.other.body)
    return altered(refusal, **site_headers(case)) if is_page else refusal


def own_refusals(case: Case) -> Answer | None:
    """With the location's own headers, which nginx's page has not."""
    if case.nginx.status not in (401, 403):
        return None
    kept, refusal = case.nginx.headers, error(case, case.nginx.status)
    places = [place for place in (case.met.location, *case.met.leads) if place]
    names = {header.name.lower() for place in places for header in place.headers}
    own = {name: value for name, value in case.other.headers.items() if name in names}
    own |= {"www-authenticate": kept["www-authenticate"]} if "www-authenticate" in kept else {}
    return Answer(refusal.status, refusal.headers | own, refusal.body)


def runs_a_script(case: Case) -> Answer | None:
    """PHP said it and not nginx: the requests' scripts name themselves in X-App."""
    if ".php" not in case.met.path.lower() and not _is_folder(case):
        files = (case.nginx, case.get or case.nginx)
        if not any(answer.headers.get("content-type") == "application/octet-stream" for answer in files):
            return None  # else it is the script's own text
    if case.other.headers.get("x-app") == "php" and case.nginx.headers.get("x-app") != "echo":
        named = re.search(rb"\bfile=(\S+\.php) ", case.other.body)
        return case.other if named or case.request.method == "HEAD" else None
    return None


def refuses_scripts(case: Case) -> Answer | None:
    """By a rule of the virtual host, which has no headers."""
    if not re.search(r"\.php(/|$)", case.met.path):
        return None
    return headers_of_rules(replace(case, nginx=error(case, 403)))


def index_here(case: Case) -> Answer | None:
    """An index file of the folder, whoever it belongs to."""
    if not _is_folder(case) or case.other.status not in SENT:
        return None
    names = ("index.php", "index.html", "b.txt")
    body, head = case.other.body, case.request.method == "HEAD"
    is_one = any(body in FILES[name].encode() for name in FILES if name.rpartition("/")[2] in names) if body else True
    is_one |= case.other.status == 416 and case.asks("Range")
    return case.other if head or is_one or b" file=index.php " in body else None


def open_fallback(case: Case) -> Answer | None:
    """What the fallback answers, whoever may come in."""
    location = case.met.location
    path = location.try_files[-1].partition("?")[0].removeprefix("/") if location and location.try_files else ""
    if case.nginx.status not in (401, 403):
        return None
    if any(place and place.handler == "return" and place.return_code == case.other.status for place in case.met.leads):
        return case.other
    if any(place and handlers.asks_access(place) for place in case.met.leads) and case.other.status in (401, 403):
        return altered(error(case, case.other.status), **site_headers(case))
    if path not in FILES:
        return None
    roots = {place.root.rpartition("/")[2] for place in case.met.leads if place and place.root}
    if case.other.status == 404 and roots and not any(f"{root}/{path}" in FILES for root in roots):
        return altered(error(case, 404), **site_headers(case))
    if case.other.status in (405, 501) and case.request.method not in ("GET", "HEAD"):
        return altered(error(case, case.other.status), **own_headers(case))
    if case.other.status not in SENT:
        return None
    text, body, method = FILES[path].encode(), case.other.body, case.request.method
    own = body in text if case.other.status == 206 else body == text
    said = (f" file={path.rpartition('/')[2]} ".encode() in body, body.startswith(f"{method} /{path}".encode()))
    return case.other if own or any(said) or not body else None


def status_first(case: Case) -> Answer | None:
    location = case.met.location
    last = location.try_files[-1] if location and location.try_files else ""
    return error(case, int(last[1:])) if case.nginx.status in (401, 403) and last == f"={case.other.status}" else None


def serves_files(case: Case) -> Answer | None:
    """A fixed answer that cannot be said: the location serves files."""
    location, path = case.met.location, case.met.path.removeprefix("/")
    cannot = location is not None and location.handler == "return" and (location.return_code or 0) < 300
    if location is None or not cannot or answers.is_file(location):
        return None
    pages = {page.uri[1:] for page in (case.met.block.error_pages if case.met.block else ())}
    folder = f"{path.rstrip('/')}/" if path.rstrip("/") else ""
    texts = [FILES[name].encode() for name in (path, *_indexes(case, path), *pages) if name in FILES]
    is_folder = any(name.startswith(folder) for name in FILES)
    status, body, head = case.other.status, case.other.body, case.request.method == "HEAD"
    if status in (200, 206, 304):
        sent = path in FILES or (is_folder and path == folder)
        return case.other if sent and (head or any(body in text for text in texts) or b" file=" in body) else None
    if status == 301:
        return case.other if is_folder and path != folder else None
    missing = status in (403, 404, 405, 416, 501) and (head or _OWN in body or any(body == text for text in texts))
    return case.other if missing else None


def _indexes(case: Case, path: str) -> list[str]:
    names = (case.met.block.index if case.met.block else ()) or ("index.html",)
    return [f"{path}{name}" for name in names] if not path or path.endswith("/") else []


def final_ampersand(case: Case) -> Answer | None:
    return altered(case.nginx, body=case.nginx.body.replace(b"& ", b" ")) if case.statuses == (200, 200) else None


def circle(case: Case) -> Answer | None:
    return case.other if case.nginx.status == 500 else None


def unsendable(case: Case) -> Answer | None:
    refused = case.other.status == 400 and re.search(r"[\x00-\x20\x7f%?#]", case.met.path)
    return error(case, 400) if refused else None
