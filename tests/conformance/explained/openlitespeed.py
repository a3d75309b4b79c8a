"""Where OpenLiteSpeed departs from nginx."""

from __future__ import annotations

import re

from tests.conformance.explained.case import Case, Explained

OPENLITESPEED = ("openlitespeed",)


def _port_of_the_host(case: Case) -> bool:
    """The redirect goes to the port that the client named, nginx's to the port that it came to."""
    ours, theirs = (answer.headers.get("location", "") for answer in (case.other, case.nginx))
    return ours != theirs and ours.lower() == re.sub(r"^(http://[^/:]+):\d+", r"\1", theirs).lower()


def _same_but_for_the_visitor(case: Case) -> bool:
    """What reached an application, without what tells of the visitor."""
    ours, theirs = (re.sub(rb" (?:ip|proto)=\S+", b"", answer.body) for answer in (case.other, case.nginx))
    return case.nginx.status == case.other.status and ours == theirs


def _is_a_file(case: Case) -> bool:
    """A fixed answer that is given as a file is: no other methods, but ranges and conditions."""
    if case.request.method not in ("GET", "HEAD") or case.asks("Range"):
        return True
    return case.nginx.status == case.other.status and case.nginx.body == case.other.body


EXPLAINED = (
    Explained(
        "folder without an index file",
        OPENLITESPEED,
        "A folder that has no index file is answered with 404; nginx answers 403.",
        lambda case: case.path.endswith("/") and case.statuses == (403, 404),
    ),
    Explained(
        "final dot",
        OPENLITESPEED,
        "A Host that ends in a dot is a name of its own; nginx takes no notice of the dot.",
        lambda case: (case.request.host or "").partition(":")[0].endswith("."),
    ),
    Explained(
        "methods of files",
        OPENLITESPEED,
        "Files are sent for POST and OPTIONS as for GET, and other methods are answered with 501, or with 400 where "
        "they are unknown; nginx answers 405.",
        lambda case: case.request.method not in ("GET", "HEAD") and case.other.status in (200, 206, 400, 404, 501, 405),
    ),
    Explained(
        "Cache-Control of error pages",
        OPENLITESPEED,
        "The server's own error pages are sent with Cache-Control: private, no-cache, max-age=0.",
        lambda case: (
            case.nginx.status == case.other.status >= 400
            and case.other.headers.get("cache-control") == "private, no-cache, max-age=0"
            and (not case.other.body or b'<html style="height:100%">' in case.other.body)
        ),
    ),
    Explained(
        "later If-Modified-Since",
        OPENLITESPEED,
        "If-Modified-Since with a date after the file's is answered with 304; nginx answers it to that very date.",
        lambda case: case.asks("If-Modified-Since") and case.statuses == (200, 304),
    ),
    Explained(
        "final dot segment",
        OPENLITESPEED,
        "A path that ends in /.. or /. without a final / is not resolved, and answered with 404.",
        lambda case: case.request.target.partition("?")[0].endswith(("/..", "/.")) and case.other.status == 404,
    ),
    Explained(
        "port of a redirect",
        OPENLITESPEED,
        "A redirect to a path names the port of the Host header; nginx's names the port that the request came to.",
        _port_of_the_host,
    ),
    Explained(
        "malformed path",
        OPENLITESPEED,
        "A path with a wrong %XX, %00 or more .. than folders is looked for as it is; nginx refuses it with 400.",
        lambda case: case.nginx.status == 400,
    ),
    Explained(
        "absolute form",
        OPENLITESPEED,
        "A request target with scheme and host (as sent to forward proxies) reaches an application as it came; nginx "
        "takes scheme and host off.",
        lambda case: case.request.target.startswith("http://") and case.statuses == (200, 200),
    ),
    Explained(
        "headers for an upstream",
        OPENLITESPEED,
        "",
        _same_but_for_the_visitor,
        shown="OpenLiteSpeed chooses the headers that tell an upstream",
    ),
    Explained(
        "fixed answer as a file",
        OPENLITESPEED,
        "",
        _is_a_file,
        shown="OpenLiteSpeed's fixed answers are files",
    ),
)
