"""What OpenLiteSpeed answers to paths and names that it takes otherwise, made of nginx's answer."""

from __future__ import annotations

import re
from dataclasses import replace
from urllib.parse import unquote

from panel.rendering import expiry, handlers
from panel.rendering.choice import choose
from panel.rendering.locations import locations_of
from panel.rendering.openlitespeed import ruled
from panel.rendering.spec import ErrorPage, Location
from tests.suites.conformance.explained.altered_responses import (
    SENT,
    altered,
    encoded,
    error,
    headers_of_rules,
    leads_to,
    own_headers,
    site_headers,
)
from tests.suites.conformance.explained.case import Case
from tests.suites.conformance.generator import FILES
from tests.suites.conformance.wire import Answer


def line_feed(case: Case) -> Answer | None:
    """The rules take it for the exact location's path, which is no file's."""
    block, path = case.met.block, case.met.path
    exact = {place.pattern: place for place in block.locations if place.match == "="} if block else {}
    own = exact.get(path[:-1]) if path.endswith("\n") else None
    never = dict(zip(("expires", "cache_control"), expiry.NEVER, strict=True))
    dated = case.other.headers.get("expires") == expiry.NEVER[0]
    for place in (own, _fallback(case, own) if own else None):
        if place is None or case.other.status not in _own_statuses(place) or dated != _is_past(place):
            continue
        asked = {"www_authenticate": f'Basic realm="{place.basic_auth.realm}"'} if place.basic_auth else {}
        answer = error(case, case.other.status)
        text = ruled.error_text(place).encode() if case.other.body else b""
        return altered(answer, body=text or answer.body, **site_headers(case), **(never if dated else {}), **asked)
    return None


def _is_past(place: Location) -> bool:
    return bool(place.expires) and expiry.parse(place.expires, "/").no_cache


def _fallback(case: Case, place: Location) -> Location | None:
    """The location that answers the last item of its try_files."""
    last = place.try_files[-1].partition("?")[0] if place.try_files else ""
    chosen = choose(locations_of(case.met.block, ""), last).place if case.met.block and last.startswith("/") else None
    return chosen.location if chosen else None


def _own_statuses(place: Location) -> tuple[int, ...]:
    """What the location may answer that has no file."""
    if place.handler == "deny":
        return (403,)
    if place.handler == "return":
        return (place.return_code or 0,)
    return (*((403,) if place.access_rules else ()), *((401,) if place.basic_auth else ()), 404)


def redirect_to_itself(case: Case) -> Answer | None:
    """Its own place has nothing else to answer but the file of that name."""
    leads = re.sub("^http://[^/]+", "", case.nginx.headers.get("location", "")).partition("?")[0]
    if case.nginx.status not in handlers.REDIRECTS or unquote(leads) != case.met.path:
        return None
    if case.other.status == 403:
        return headers_of_rules(replace(case, nginx=error(case, 403)))
    text = FILES.get(leads[1:], "").encode()
    sent = case.other.status in SENT and case.other.body in (text, b"")
    return altered(case.other, **own_headers(case)) if sent and leads[1:] in FILES else None


def path_in_query(case: Case) -> Answer | None:
    """As the visitor wrote it."""
    wrote, path = case.request.target.partition("?")[0].encode("latin-1"), case.path.encode(errors="surrogateescape")
    said = re.sub(re.escape(path), lambda _: wrote, case.nginx.body) if len(path) > 1 else case.nginx.body
    return altered(case.nginx, body=said) if said.replace(b"& ", b" ") == case.other.body else None


def query_of_fallback(case: Case) -> Answer | None:
    """The path ends at its first ?, and the rest is the request's query."""
    location, path = case.met.location, case.met.path
    copies = location is not None and bool(location.try_files) and "$uri" in location.try_files[-1].partition("?")[2]
    if location is None or not copies or not handlers.asks_access(location) or "?" not in path:
        return None
    before, _, after = (part.encode(errors="surrogateescape") for part in path.partition("?"))
    said = case.nginx.body.replace(
        b"=" + path.encode(errors="surrogateescape") + b"&", b"=" + before + b"&" + after.lstrip(b"?")
    )
    return altered(case.nginx, body=said) if said != case.nginx.body else None


def of_no_file(case: Case) -> Answer | None:
    """A % and letters that are no number; where a rule is about to answer it, also %3F."""
    missing = case.other.status == 404 and re.search("%25[g-zG-Z]", case.request.target)
    refused = case.other.status in ((400, 403, 404) if _moved(case) else (403, 404)) and "%3F" in case.request.target
    return altered(error(case, case.other.status), **site_headers(case)) if missing or refused else None


def _moved(case: Case) -> bool:
    """Whether a rewrite gave it another path."""
    return case.met.path != case.path


def final_dots(case: Case) -> Answer | None:
    """`__` stands for the dots, where they are not said again."""
    path, mark, query = case.request.target.partition("?")

    def dotted(text: str) -> str:
        return re.sub(r"/(_{1,2})$", lambda found: "/" + "." * len(found[1]), text)

    leads = any(leads_to(case, f"{name}/{mark}{query}") for name in (path, dotted(path), dotted(case.met.path)))
    if dotted(path) == path or not leads:
        return None
    return altered(error(case, 301), location=case.other.headers["location"], **own_headers(case))


def status_of_resolved(case: Case) -> Answer | None:
    """A rule that answers with a status after another has replaced the path names the new path."""
    path = case.request.target.partition("?")[0]
    led = case.other.headers.get("location", "") if "location" not in case.nginx.headers else ""
    resolved = "#" in path or re.search(r"/\.\.?$", path)
    return altered(case.nginx, location=led) if case.nginx.status >= 400 and led and resolved else None


def refused_climb(case: Case) -> Answer | None:
    """`__` stands for the dots. A rule of sites with an application comes before everything else."""
    block, path = case.met.block, case.request.target.partition("?")[0]
    has_application = block is not None and any(item.handler in ("php", "proxy") for item in block.locations)
    if not has_application or case.other.status != 403 or not re.search("/__$", path):
        return None
    return altered(error(case, 403), **site_headers(case))


def path_as_it_came(case: Case) -> Answer | None:
    ours, theirs = (answer.headers.get("location", "") for answer in (case.other, case.nginx))
    path = (
        case.met.path.encode(errors="surrogateescape").decode("latin-1").partition("\n")[0]
    )  # nginx's header ends there
    before, found, after = theirs.rpartition(path) if path else ("", "", theirs)
    as_it_came = before + (case.request.target.partition("?")[0] if found else "") + after
    return altered(case.nginx, location=ours) if ours and encoded(as_it_came) == encoded(ours) else None


def page_itself(case: Case) -> Answer | None:
    """An error page's path is let pass, whatever follows the %00 that ends it."""
    path, ended, _ = case.request.target.partition("%00")
    pages = case.met.block.error_pages if case.met.block else [ErrorPage((), "/404.html"), ErrorPage((), "/50x.html")]
    is_page = any(path.endswith(page.uri) for page in pages)
    return (
        case.other
        if ended and is_page and case.nginx.status == 400 and case.other.status in (200, 206, 405, 501)
        else None
    )
