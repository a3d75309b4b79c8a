"""Judge whether a site responds worse after a change than before. Compare the observations (probe.py) of one check.

A verdict is one of

    right    as expected
    changed  as expected, and different from before (the description of the response names the difference)
    same     the same problem as before the change
    waits    a problem where nothing was served before: a new site or location whose application is not up yet
    worse    worse than before: the transaction is undone
"""

from __future__ import annotations

from typing import Any, Dict

Seen = Dict[str, Any]


RIGHT, CHANGED, SAME, WAITS, WORSE = "right", "changed", "same", "waits", "worse"
_FINE, _CLIENT_ERROR, _SERVER_ERROR, _SILENT, _CLOSED = range(5)


def judge(check: dict[str, Any], before: Seen | None, after: Seen) -> tuple[str, str]:
    """Return (verdict, description of the response) of a check; `before` and `after` are observations. `before` is None
    if no server handled the request before the change.
    """
    verdict, words = _judged(check, before, after)
    if verdict in (WAITS, WORSE) and not words.endswith("as before"):
        words += _hint(after.get("status", 0))  # no advice about a response that is the same as before
    return verdict, words


def _judged(check: dict[str, Any], before: Seen | None, after: Seen) -> tuple[str, str]:
    rank = _rank(check, after)
    if check.get("stream"):
        return _judged_stream(check, before, after)
    if before is None:
        if rank == _CLOSED or (rank > _FINE and check["required"]):
            return WORSE, _answers(check, after)
        return (RIGHT if rank <= _limit(check) else WAITS), _answers(check, after)
    earlier = _rank(check, before)
    words = _compared(check, before, after)
    if check["exact"]:
        if before["status"] == 404 and _adds_slash(check, after):
            return CHANGED, words  # the folder is missing: the next request is answered with 404 as before
        alike = before["status"] == after["status"] or not before["status"]
        return (RIGHT if alike else WORSE), words
    if check["kind"] == "other" and earlier < _SERVER_ERROR and rank and after["status"] != before["status"]:
        return WORSE, words  # this site was not changed, so even a different error counts as worse
    if rank > earlier:
        return (WAITS if check["new"] and earlier else WORSE), words
    if worse := _other_harm(check, before, after):
        return WORSE, "%s, and %s" % (words, worse)
    if rank > _limit(check):
        return SAME, words
    different = _differences(before, after)
    if different:
        return CHANGED, "%s; %s" % (words, ", ".join(different))
    return (CHANGED if earlier > _limit(check) else RIGHT), words


def _judged_stream(check: dict[str, Any], before: Seen | None, after: Seen) -> tuple[str, str]:
    """Return (verdict, description) about a port of a stream server.

    A connection that is closed at once shows that no server of the upstream accepts connections.
    """
    words = _of_stream(check, after)
    if not after.get("connected"):
        same = before is not None and not before.get("connected")
        return (SAME, "%s, as before" % words) if same else (WORSE, words)
    wrong = _wrong_certificate(check, before or {}, after)
    if wrong:
        return WORSE, wrong
    if not after.get("closed"):
        return RIGHT, words
    if before is None:
        return (WORSE if check["required"] else WAITS), words
    return (SAME, "%s, as before" % words) if before.get("closed") or not before.get("connected") else (WORSE, words)


def _of_stream(check: dict[str, Any], seen: Seen) -> str:
    if not seen.get("connected"):
        return "does not accept connections (%s)" % (seen.get("error", "") or "no response")
    if check["stream"] == "udp":
        return "has a socket of a program on the host"
    if seen.get("closed"):
        return "closes connections at once (do the servers of the upstream accept connections?)"
    return "accepts connections"


def _limit(check: dict[str, Any]) -> int:
    """Return the worst acceptable rank (see `_rank`) of a check: a health page must respond as expected, other URLs may
    also respond with 4xx.
    """
    return _FINE if check["kind"] == "health" else _CLIENT_ERROR


def _rank(check: dict[str, Any], seen: Seen) -> int:
    """Return the rank of an observation: _FINE (as expected), _CLIENT_ERROR, _SERVER_ERROR, _SILENT, or _CLOSED (no
    connection).
    """
    status = seen["status"]
    if not status:
        return _SILENT if seen.get("connected") else _CLOSED
    if seen.get("to") and leads_to_itself(check, seen["to"]):
        return _SERVER_ERROR
    if check["text"] and not seen.get("found"):
        return max(_CLIENT_ERROR, _of_status(check, status))
    return _of_status(check, status)


def _of_status(check: dict[str, Any], status: int) -> int:
    wanted = check["status"]
    if status == wanted or (wanted is None and (status < 400 or status in check["intended"])):
        return _FINE
    return _SERVER_ERROR if status >= 500 else _CLIENT_ERROR


def leads_to_itself(check: dict[str, Any], target: str) -> bool:
    """Return whether `target`, the target of a redirect, is the requested URL itself."""
    scheme = "https" if check["tls"] else "http"
    path = check["path"].partition("?")[0]
    usual = 443 if check["tls"] else 80
    # a target without the port would be another place
    host = check["host"] if check["port"] == usual else "%s:%d" % (check["host"], check["port"])
    return target in (path, "%s://%s%s" % (scheme, host, path))


def _adds_slash(check: dict[str, Any], seen: Seen) -> bool:
    """Return whether the response redirects to the requested URL with a slash added, as web servers do for a folder."""
    path = check["path"].partition("?")[0]
    return bool(seen.get("to")) and leads_to_itself(dict(check, path=path + "/"), seen["to"])


def _other_harm(check: dict[str, Any], before: Seen, after: Seen) -> str:
    """Describe damage that the status code does not show: a wrong certificate, missing HTTP/2, or a redirect to another
    site. "" if there is none.
    """
    wrong = _wrong_certificate(check, before, after)
    if wrong:
        return wrong
    if check["http2"] and before.get("alpn") == "h2" and after.get("alpn") != "h2":
        return "no longer supports HTTP/2"
    away = after.get("to", "")
    if away and not check["intended"] and _leaves(check, away) and not _leaves(check, before.get("to", "")):
        return "redirects to %s, away from the site" % away
    return ""


def _wrong_certificate(check: dict[str, Any], before: Seen, after: Seen) -> str:
    certificate, wanted = after.get("certificate", ""), check["certificate"]
    if wanted and certificate and certificate not in (wanted, before.get("certificate")):
        return "presents neither the deployed certificate nor the previous certificate"
    return ""


def _leaves(check: dict[str, Any], target: str) -> bool:
    if "//" not in target:
        return False
    name = target.partition("//")[2].partition("/")[0].rpartition("@")[2]
    if not name.startswith("["):
        name = name.partition(":")[0]
    return name.lower() not in [known.lower() for known in [check["host"], *check["names"]]]


def _differences(before: Seen, after: Seen) -> list[str]:
    found = []
    if after.get("to", "") != before.get("to", "") and after.get("to"):
        found.append("it redirects to %s" % after["to"])
    if before.get("certificate") and after.get("certificate") != before["certificate"]:
        found.append("another certificate")
    for name in ("protocol", "alpn"):
        if before.get(name) and after.get(name) != before[name]:
            found.append("%s instead of %s" % (after.get(name) or "nothing", before[name]))
    return found


def _compared(check: dict[str, Any], before: Seen, after: Seen) -> str:
    now, then = _answer(check, after), _answer(check, before)
    if now == then:
        return "responds with %s, as before" % now if after["status"] else "does not respond (%s), as before" % now
    if not after["status"]:
        return "does not respond now (%s) and %s before" % (now, _past(before, then))
    return "responds with %s now and %s before" % (now, _past(before, then))


def _past(before: Seen, then: str) -> str:
    return "responded with %s" % then if before["status"] else "did not respond (%s)" % then


def _answers(check: dict[str, Any], seen: Seen) -> str:
    said = _answer(check, seen)
    if not seen["status"]:
        return "does not respond (%s)" % said
    return "responds with %s" % said


def _answer(check: dict[str, Any], seen: Seen) -> str:
    if not seen["status"]:
        return str(seen.get("error", "") or "no response")
    said = "%d" % seen["status"]
    if check["status"] is not None and seen["status"] != check["status"]:
        said += " instead of %d" % check["status"]
    if check["text"] and not seen.get("found"):
        said += " without the expected text"
    if seen.get("to") and leads_to_itself(check, seen["to"]):
        said += " to itself"
    return said


def _hint(status: int) -> str:
    if status == 404:
        return " (is the document root right, and are the site's files in it?)"
    if status == 403:
        return " (is the document root right, and may the web server read it?)"
    if status in (502, 503, 504):
        return " (does the application behind it run?)"
    return ""
