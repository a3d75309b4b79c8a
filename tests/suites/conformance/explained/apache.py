"""Where Apache httpd departs from nginx."""

from __future__ import annotations

import re

from tests.suites.conformance.explained.case import Case, Explained, normalised

APACHE = ("apache-event", "apache-prefork")


def _looks_for_methods_first(case: Case) -> bool:
    refused = case.request.method not in ("GET", "HEAD")
    return refused and case.other.status == 405 and case.nginx.status in (301, 401, 403, 404)


def _same_path_otherwise_spelled(case: Case) -> bool:
    ours, theirs = (answer.body.decode("latin-1").split(" ", 2) for answer in (case.other, case.nginx))
    if len(ours) != 3 or len(theirs) != 3 or (ours[0], ours[2]) != (theirs[0], theirs[2]):
        return False
    if not (ours[1].startswith("/") and theirs[1].startswith("/")):
        return False
    return normalised(ours[1]) == normalised(theirs[1])


def _same_but_for_encoded_blanks(case: Case) -> bool:
    """Of a redirect's target, or of what PHP says of its query."""
    ours, theirs = (
        answer.headers["location"].encode("latin-1") if "location" in answer.headers else answer.body
        for answer in (case.other, case.nginx)
    )
    differs = case.statuses[0] == case.statuses[1] and ours != theirs
    return differs and _with_blanks(ours) == theirs


def _with_blanks(text: bytes) -> bytes:
    return re.sub(rb"%(20|23|[01][0-9A-Fa-f])", _decoded, text)


def _decoded(found: re.Match[bytes]) -> bytes:
    return bytes([int(found[1], 16)])


def _same_location(case: Case) -> bool:
    return case.nginx.headers.get("location") == case.other.headers.get("location")


def _adds_slash(case: Case) -> bool:
    ours, theirs = (answer.headers.get("location", "").lower() for answer in (case.other, case.nginx))
    added = theirs.partition("?")[0].endswith("/") and not case.path.endswith("/")
    return case.statuses == (301, 301) and ours == theirs and added


def _empty_query(case: Case) -> bool:
    ours, theirs = (answer.headers.get("location", "").lower() for answer in (case.other, case.nginx))
    return ours != theirs and ours.removesuffix("?") == theirs.removesuffix("?")


def _of_no_request(body: bytes) -> bytes:
    return re.sub(rb" own=(client|-)?(?= |$)", b" own=", _by_one_host(body))


def _by_one_host(body: bytes) -> bytes:
    """What an application says of the host that it was asked as: case and a final dot are no part of nginx's key."""
    return re.sub(rb" host=\S+?(?=\.? )\.?", lambda found: found[0].lower().removesuffix(b"."), body)


def _encoded_for_a_url(target: str) -> str:
    """Quotation marks, backslashes and bytes beyond ASCII as Apache writes them into a redirect."""
    return re.sub(r'["\\]|[^\x00-\x7f]', lambda found: f"%{ord(found[0]):02x}", target).lower()


def _fresh_where_nginx_keeps(case: Case) -> bool:
    """The same answer of an application, but made for this very request: it says the header that this one sent.
    A host's final dot is no part of nginx's key."""
    sent = dict(case.request.headers).get("X-Own", "-").encode()
    ours, theirs = (_of_no_request(item.body) for item in (case.other, case.nginx))
    own = re.search(rb" own=(client|-)?(?= |$)", case.other.body)
    same = case.statuses[0] == case.statuses[1] and ours == theirs and case.nginx.body != case.other.body
    return same and own is not None and (own[1] or b"-") == sent


EXPLAINED = (
    Explained(
        "fragment",
        APACHE,
        "A request target that holds a # is refused with 400; nginx cuts it there. No browser sends one.",
        lambda case: "#" in case.request.target and case.other.status == 400,
    ),
    Explained(
        "encoded NUL",
        APACHE,
        "A path with %00 is answered with 404, or by a fixed answer of the path; nginx refuses it with 400.",
        lambda case: "%00" in case.request.target and case.nginx.status == 400,
    ),
    Explained(
        "encoded line feed",
        APACHE,
        "In a path with %0A, $ in a location's expression matches at the very end only; on nginx also before a final "
        "line feed.",
        lambda case: "%0A" in case.request.target,
    ),
    Explained(
        "absolute form",
        APACHE,
        "A request target with scheme and host (as sent to forward proxies) wins over the Host header, and PHP sees it "
        "as it came in REQUEST_URI; nginx passes the Host header and takes scheme and host off.",
        lambda case: case.request.target.startswith("http://") and case.statuses == (200, 200),
    ),
    Explained(
        "odd spelling of a path",
        APACHE,
        "Where the path's own spelling (dot segments, needless or missing %XX) does not match the location's "
        "expression, an application behind a proxy gets the path decoded and encoded anew; nginx passes it as it came.",
        _same_path_otherwise_spelled,
    ),
    Explained(
        "ranges of applications",
        APACHE,
        "Where a client asks for a range and the application answers as a whole, the range is cut out of the answer; "
        "nginx passes it whole.",
        lambda case: case.asks("Range") and case.nginx.status == 200 and case.other.status in (206, 416),
    ),
    Explained(
        "range of an empty file",
        APACHE,
        "A range of an empty file is answered with the empty file; nginx answers 416.",
        lambda case: case.asks("Range") and case.statuses == (416, 200) and not case.other.body,
    ),
    Explained(
        "headers of 416",
        (*APACHE, "gallop"),
        "nginx before 1.23 sends the site's headers twice with an answer 416.",
        lambda case: case.statuses == (416, 416),
    ),
    Explained(
        "POST to a folder",
        APACHE,
        "POST to a folder is answered with its index file (nginx: 405), and with 404 where it has none (nginx: 403).",
        lambda case: (
            case.request.method not in ("GET", "HEAD")
            and (case.met.path or case.path).endswith("/")
            and case.statuses in ((405, 200), (405, 206), (403, 404))
        ),
    ),
    Explained(
        "TRACE",
        APACHE,
        "TRACE is refused by files and applications, but a fixed answer is given to it too; nginx always refuses it.",
        lambda case: case.request.method == "TRACE" and case.nginx.status == 405,
    ),
    Explained(
        "methods first",
        APACHE,
        "A method that files do not take is refused with 405 before the file is looked for; nginx may say 404, 403, "
        "401 or 301 where there is no file.",
        _looks_for_methods_first,
    ),
    Explained(
        "headers of a folder's redirect",
        APACHE,
        "The redirect that adds a final / has no Cache-Control from “expires epoch”, “max” or a negative time; where "
        "an application's location asks for it, it has the headers of the location that the path without it belongs "
        "to.",
        _adds_slash,
    ),
    Explained(
        "empty query",
        APACHE,
        "A lone ? at the end is kept where a folder's redirect drops it on nginx, and dropped from other redirects.",
        _empty_query,
    ),
    Explained(
        "characters that no URL may hold in a redirect",
        APACHE,
        "A quotation mark, a backslash or a byte beyond ASCII that a redirect takes over from the path is encoded "
        "(%22, %5C, %FF); nginx sends it as it is.",
        lambda case: (
            case.statuses in ((301, 301), (302, 302))
            and _encoded_for_a_url(case.nginx.headers.get("location", ""))
            == case.other.headers.get("location", "").lower()
        ),
    ),
    Explained(
        "final &",
        APACHE,
        "An empty $args after & in a fallback leaves no & behind; on nginx it does.",
        lambda case: (
            case.statuses == (200, 200)
            and _with_blanks(case.nginx.body.replace(b"& ", b" ")) == _with_blanks(case.other.body)
        ),
    ),
    Explained(
        "refused index file",
        APACHE,
        "",
        lambda case: case.met.path.endswith("/") and case.nginx.status in (401, 403),
        shown="if this location denies a folder's index file",
    ),
    Explained(
        "empty response",
        APACHE,
        "",
        lambda case: case.nginx.status == case.other.status and not case.nginx.body and case.other.body == b" ",
        shown="Apache cannot send an empty body with this status",
    ),
    Explained(
        "decoded path in a query",
        APACHE,
        "",
        _same_but_for_encoded_blanks,
        shown="Apache encodes spaces, control characters, and #",
    ),
    Explained(
        "answers that are not kept",
        APACHE,
        "",
        _fresh_where_nginx_keeps,
        shown="Apache does not cache paths with % escapes, or",
    ),
    Explained(
        "answers that were dropped",
        APACHE,
        "",
        lambda case: case.statuses == (200, 200) and _by_one_host(case.nginx.body) == _by_one_host(case.other.body),
        shown="Apache does not pass the visitor's",
    ),
    Explained(
        "query encoded twice",
        APACHE,
        "",
        lambda case: (
            case.statuses in ((301, 301), (302, 302))
            and case.other.headers.get("location", "").replace("%25", "%") == case.nginx.headers.get("location")
        ),
        shown="when a redirect adds its own query",
    ),
    Explained(
        "headers of a redirect by rewriting",
        APACHE,
        "",
        lambda case: case.statuses in ((301, 301), (302, 302)) and _same_location(case),
        shown="when a rewrite of the server block redirects, Apache",
    ),
    Explained(
        "? in a path that is rewritten",
        APACHE,
        "",
        lambda case: "%3F" in case.request.target and case.other.status == 403,
        shown="Apache responds with 403 when it rewrites a",
    ),
    Explained(
        "fallback before access",
        APACHE,
        "",
        lambda case: case.nginx.status in (401, 403),
        shown="Apache applies the fallback of try_files before",
    ),
)
