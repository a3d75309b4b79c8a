"""Where OpenLiteSpeed departs from nginx."""

from __future__ import annotations

import gzip
import re

from tests.conformance.explained.case import Case, Explained
from tests.conformance.wire import Answer

OPENLITESPEED = ("openlitespeed",)


def _port_of_the_host(case: Case) -> bool:
    """The redirect goes to the port that the client named, nginx's to the port that it came to."""
    ours, theirs = (answer.headers.get("location", "") for answer in (case.other, case.nginx))
    encoded = "".join(char if char < "\x80" else f"%{ord(char):02X}" for char in ours)
    wanted = re.sub(r"^(http://[^/:]+):\d+", r"\1", theirs)
    return ours != theirs and encoded.lower().removesuffix("?") == wanted.lower().removesuffix("?")


def _same_but_for_the_visitor(case: Case) -> bool:
    """What reached an application, without what tells of the visitor."""
    ours, theirs = (re.sub(rb" (?:ip|proto)=\S+", b"", answer.body).lower() for answer in (case.other, case.nginx))
    return case.nginx.status == case.other.status and ours == theirs


def _runs_a_script(case: Case) -> bool:
    """PHP said it and not nginx: the requests' scripts name themselves in X-App. Of a folder, its index file."""
    own, theirs = (answer.headers.get("x-app", "") == "php" for answer in (case.other, case.nginx))
    target = case.request.target.lower()
    if ".php" in target and case.statuses == (404, 403):
        return True  # refused, where nginx looks for a file
    if ".php/" in target and own:
        return True  # with what follows as PATH_INFO, where nginx's fallback may be another script
    sent = case.nginx.headers.get("content-type") == "application/octet-stream"  # the script's own text
    return (sent or ".php" in target or case.path.endswith("/")) and own and not theirs


def _asks_before_methods(case: Case) -> bool:
    return case.nginx.status == 405 and case.other.status in (301, 401, 403)


def _plain(answer: Answer) -> bytes:
    if answer.headers.get("content-encoding") != "gzip" or not answer.body:
        return answer.body
    return gzip.decompress(answer.body)


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
        "they are unknown, but to those who may not come in with 401 or 403; nginx answers 405.",
        lambda case: (
            case.request.method not in ("GET", "HEAD")
            and (case.other.status in (200, 206, 304, 400, 404, 405, 416, 501) or _asks_before_methods(case))
        ),
    ),
    Explained(
        "Cache-Control of error pages",
        OPENLITESPEED,
        "The server's own error pages are sent with Cache-Control: private, no-cache, max-age=0, and compressed.",
        lambda case: (
            case.nginx.status == case.other.status >= 400
            and case.other.headers.get("cache-control") == "private, no-cache, max-age=0"
            and (not case.other.body or b'<html style="height:100%">' in _plain(case.other))
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
        "A path that ends in /.. or /. without a final / is not resolved, and answered with 404, or led to the folder.",
        lambda case: case.request.target.partition("?")[0].endswith(("/..", "/.")),
    ),
    Explained(
        "port of a redirect",
        OPENLITESPEED,
        "A redirect to a path names the port of the Host header, and letters above ASCII and a lone ? stand in it as "
        "they came; nginx's names the port that the request came to.",
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
        "fragment",
        OPENLITESPEED,
        "A request target that holds a # is looked for with it; nginx cuts it there. No browser sends one.",
        lambda case: "#" in case.request.target,
    ),
    Explained(
        "encoded dots",
        OPENLITESPEED,
        "A path that is spelled with %2E%2E is looked for as it is, so that a fallback answers; nginx resolves it.",
        lambda case: "%2e%2e" in case.request.target.lower(),
    ),
    Explained(
        "dot segment",
        OPENLITESPEED,
        "Conditions of rules see a path's /./ as it came, so another location may hold; nginx takes it out.",
        lambda case: "/./" in case.request.target,
    ),
    Explained(
        "encoded slash",
        OPENLITESPEED,
        "A %2F beside a slash stays one more slash of the path; nginx takes the two for one.",
        lambda case: "/%2F" in case.request.target or "%2F/" in case.request.target,
    ),
    Explained(
        "compression by default",
        OPENLITESPEED,
        "Where a site says nothing of compression, files and answers are compressed; nginx does not.",
        lambda case: (
            case.statuses[0] == case.statuses[1]
            and case.other.headers.get("content-encoding") in ("gzip", "br")
            and "content-encoding" not in case.nginx.headers
        ),
    ),
    Explained(
        "? in a path",
        OPENLITESPEED,
        "Of a path that holds %3F what follows is taken for its query; nginx takes it for a part of the path.",
        lambda case: "%3F" in case.request.target,
    ),
    Explained(
        "scripts by their suffix",
        OPENLITESPEED,
        "Where a server block runs PHP, a file that ends in .php runs for every path, what follows its name included; "
        "nginx takes it for a file where no location for PHP matches.",
        _runs_a_script,
    ),
    Explained(
        "index file of another location",
        OPENLITESPEED,
        "",
        lambda case: case.path.endswith("/"),
        shown="OpenLiteSpeed gives a folder's index file",
    ),
    Explained(
        "folder's redirect before access",
        OPENLITESPEED,
        "",
        lambda case: case.statuses in ((401, 301), (403, 301)),
        shown="OpenLiteSpeed redirects to a folder's final / before it asks",
    ),
    Explained(
        "pages of refusals",
        OPENLITESPEED,
        "",
        lambda case: case.statuses in ((401, 401), (403, 403)),
        shown="OpenLiteSpeed would answer some refused requests twice",
    ),
    Explained(
        "public",
        OPENLITESPEED,
        "",
        lambda case: (
            case.other.headers.get("cache-control", "") == f"public, {case.nginx.headers.get('cache-control', '')}"
            and case.nginx.status == case.other.status
        ),
        shown="OpenLiteSpeed says public",
    ),
    Explained(
        "realm with other answers",
        OPENLITESPEED,
        "",
        lambda case: (
            case.statuses[0] == case.statuses[1]
            and "www-authenticate" in case.other.headers
            and "www-authenticate" not in case.nginx.headers
        ),
        shown="OpenLiteSpeed names the realm",
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
