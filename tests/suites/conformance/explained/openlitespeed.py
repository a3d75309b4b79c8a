"""Where OpenLiteSpeed departs from nginx: each row says what the answer is then, made out of nginx's.

Several may hold of one answer; it counts as documented only where they make exactly what was answered.
"""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass, replace

from tests.suites.conformance.explained import altered_responses, paths, upstreams
from tests.suites.conformance.explained.case import Case
from tests.suites.conformance.explained.equivalent_requests import TAKEN, Twin
from tests.suites.conformance.response_difference import difference, server_page
from tests.suites.conformance.wire import Answer

NAMES = ("openlitespeed",)


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
    for twin, answer, get, met in case.twins or ((Twin(case.request, ()), case.nginx, case.nginx, case.met),):
        found = _made(_as_taken(replace(plain, met=met), twin, answer, get))
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
    return replace(case, other=altered_responses.altered(answer, body=body, content_encoding=None)), [COMPRESSION.name]


def _as_taken(case: Case, twin: Twin, nginx: Answer, get: Answer) -> Case:
    """The other's answer in the words of the request that it is taken for: applications and redirects repeat it."""
    came, is_ = case.request, twin.request
    words = [(came.target, is_.target), (came.host or "", is_.host or "")] if twin.names else []
    body, location = case.other.body, case.other.headers.get("location")
    said = {name: value for name, value in case.other.headers.items() if name.startswith("x-")}
    for old, new in words:
        if old != new:
            said = {name: value.replace(old, new) for name, value in said.items()}
            body = body.replace(old.encode("latin-1"), new.encode("latin-1"))
            location = location.replace(old, new) if location and not old.startswith("http://") else location
    cut = "#" in came.target and "#" not in is_.target
    location = location.replace("#", "%23") if location and cut else location
    other = altered_responses.altered(case.other, body=body, location=location)
    other = replace(other, headers={**other.headers, **said})
    return replace(case, request=is_, nginx=nginx, get=get, other=other)


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


COMPRESSION = Departs(
    "compression by default",
    "Where a site says nothing of compression, files and answers are compressed for those who take it; nginx does not.",
    lambda case: None,  # taken off before anything is compared
)
ROWS = (
    Departs(
        "after a body",
        "Where a location adds request headers, the end of a body that came together with its request is taken for the "
        "connection's next request; what follows is answered with 400.",
        altered_responses.after_a_body,
    ),
    Departs(
        "%00 after a page",
        "An error page's own path with %00 after it is answered with the page; nginx refuses it with 400.",
        paths.page_itself,
    ),
    Departs(
        "methods of files",
        "An unknown method is refused with 400. For error pages, and where raw directives replace rules, files are "
        "sent for POST and OPTIONS as for GET; other methods are answered with 501 where there is a file, else as GET "
        "is. nginx answers all with 405.",
        altered_responses.methods,
    ),
    Departs(
        "fixed answers that are files",
        "",
        altered_responses.serves_files,
        "for a fixed 2xx response with a text, OpenLiteSpeed",
    ),
    Departs("fixed answer as a file", "", altered_responses.own_ranges, "OpenLiteSpeed sends this fixed response as"),
    Departs(
        "range of an empty file",
        "A range of an empty file is answered with the empty file; nginx answers 416.",
        altered_responses.range_of_nothing,
    ),
    Departs(
        "headers of 416",
        "416 has no Content-Range; nginx before 1.23 sends the site's headers twice with it.",
        altered_responses.unsatisfied_range,
    ),
    Departs("folder", "", paths.final_dots),
    Departs(
        "status of a resolved path",
        "Where a path ends in /. or /.. or holds a #, and try_files ends in a status, the response with "
        "that status has a Location header, which clients ignore.",
        paths.status_of_resolved,
    ),
    Departs(
        "final /.. refused",
        "Where a server block has an application, a path that ends in /.. is refused with 403, because applications "
        "can name such paths in X-LiteSpeed-Location.",
        paths.refused_climb,
    ),
    Departs(
        "line feed after an exact path",
        "A path that is an exact location's and %0A is taken by no other location: that one refuses it, or answers it "
        "by its status, or it is looked for as a file.",
        paths.line_feed,
    ),
    Departs(
        "no file",
        "Where a context by expression has files, a path with %3F leads to none and is answered with 404, also where "
        "nginx would ask who may come in; so is one with %25 and letters that are no number where a rule looks for it.",
        paths.of_no_file,
    ),
    Departs("redirect to itself", "", paths.redirect_to_itself, "OpenLiteSpeed does not redirect a path to itself"),
    Departs("path in a query", "", paths.path_in_query, "in the query of a fallback, OpenLiteSpeed's"),
    Departs(
        "? behind access control",
        "Where access control precedes a fallback that copies the path into its query, what follows %3F in the path is "
        "taken for the query of the request; nginx copies it with the path.",
        paths.query_of_fallback,
    ),
    Departs(
        "missing script",
        "Whether a script is there is asked before who may come in, so that it is 404 where nginx answers 401 or 403; "
        "below a file it is 403.",
        altered_responses.missing_script,
    ),
    Departs(
        "folder's redirect before access",
        "",
        altered_responses.slash_first,
        "OpenLiteSpeed redirects requests for folders to the final / before access control",
    ),
    Departs(
        "status before access",
        "",
        altered_responses.status_first,
        "OpenLiteSpeed looks for the files of try_files before",
    ),
    Departs("path of a redirect", "", paths.path_as_it_came, "OpenLiteSpeed's $uri is the original path"),
    Departs(
        "fallback before access",
        "",
        altered_responses.open_fallback,
        "OpenLiteSpeed applies the fallback of try_files before",
    ),
    Departs(
        "folder without an index file",
        "Where raw directives replace rules or contexts, and behind an alias with captures, a folder that has no index "
        "file is answered with 404; nginx answers 403.",
        altered_responses.folder_without_index,
    ),
    Departs(
        "later If-Modified-Since",
        "If-Modified-Since with a date after the file's is answered with 304; nginx answers it to that very date.",
        altered_responses.later_date,
    ),
    Departs(
        "port of a redirect",
        "A redirect to a folder's final / names the port of the Host header, and letters above ASCII stand in it as "
        "they came, where the site's rewrites replace paths and the path holds letters that are encoded, and where a "
        "server block has several unusual ports; nginx's names the port that the request came to. A lone ? is dropped "
        "by other redirects, and kept by nginx.",
        altered_responses.port_of_the_host,
    ),
    Departs("own text of errors", "", altered_responses.own_text, "OpenLiteSpeed cannot send an error with a text"),
    Departs(
        "pages of refusals", "", altered_responses.own_refusals, "OpenLiteSpeed would send some responses with status"
    ),
    Departs(
        "headers of the server block",
        "",
        altered_responses.headers_of_rules,
        "OpenLiteSpeed adds headers only to responses",
    ),
    Departs(
        "headers of fixed answers",
        "",
        altered_responses.headers_of_rules,
        "OpenLiteSpeed adds no headers if a rewrite rule",
    ),
    Departs(
        "folder's redirect",
        "",
        altered_responses.folders_redirect,
        "OpenLiteSpeed redirects requests for folders to the final / before it chooses",
    ),
    Departs(
        "final &",
        "An empty $args after & in a fallback leaves no & behind; on nginx it does.",
        altered_responses.final_ampersand,
    ),
    Departs("rewrites in a circle", "", altered_responses.circle, "OpenLiteSpeed ends a rewrite loop after ten rounds"),
    Departs(
        "times of fixed answers", "", altered_responses.no_times, "OpenLiteSpeed sends expiry times only with files"
    ),
    Departs("public", "", altered_responses.public, "OpenLiteSpeed adds “public” to the Cache-Control"),
    Departs(
        "times without a date", "", altered_responses.no_date, "OpenLiteSpeed sends fixed responses without Expires"
    ),
    Departs("past expiry times", "", altered_responses.past, "OpenLiteSpeed sends an expiry time in the past"),
    Departs("realm with other responses", "", altered_responses.realm, "OpenLiteSpeed sends the realm"),
    Departs("headers of errors", "", altered_responses.always, "OpenLiteSpeed sends a header without “always”"),
    Departs(
        "paths that are made anew",
        "Where an upstream is asked by another path, quotation marks and letters above ASCII are encoded in it, and a "
        "backslash is not; nginx does the reverse. %3F is encoded twice.",
        upstreams.made_anew,
    ),
    Departs("headers that are not added", "", upstreams.unasked, "OpenLiteSpeed adds no request headers if it"),
    Departs(
        "headers for an upstream",
        "",
        upstreams.told_of_the_visitor,
        "OpenLiteSpeed sends a fixed set of X-Forwarded headers",
    ),
    Departs("rewritten paths for an upstream", "", upstreams.letters, "OpenLiteSpeed decodes rewritten paths before"),
    Departs(
        "rewritten paths that are refused",
        "",
        altered_responses.unsendable,
        "OpenLiteSpeed decodes rewritten paths before",
    ),
    Departs("answers that are kept", "", upstreams.kept, "OpenLiteSpeed caches the responses of all sites"),
    Departs(
        "scripts that are refused",
        "",
        altered_responses.refuses_scripts,
        "OpenLiteSpeed runs PHP files on all paths",
    ),
    Departs(
        "scripts by their suffix",
        "A script runs although no location for PHP matches its path: as the index file of a folder whose location "
        "asks who may come in, or whose path no rule may replace; after a rewrite that ends in break; and everywhere "
        "where an error page could be a script. nginx takes it for a file.",
        altered_responses.runs_a_script,
    ),
    Departs(
        "index file of another location",
        "",
        altered_responses.index_here,
        "OpenLiteSpeed serves a folder's index file with",
    ),
)
EXPLAINED = (*TAKEN, COMPRESSION, *ROWS)
