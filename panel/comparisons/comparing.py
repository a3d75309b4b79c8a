"""Check that a site's copies give the same responses, before they are measured."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _

from panel.benchmarks.records import Parameters, Response
from panel.benchmarks.runs import comparability, targets
from panel.benchmarks.runs.comparability import NotComparable
from panel.benchmarks.runs.responses import responses_of
from panel.benchmarks.tools.arguments import Arguments
from panel.hosts.targets import target_for
from panel.websites.models import Site

SHOWN = 3  # differences per server that are listed in full


@dataclass(frozen=True)
class Verdict:
    """Result of comparing the responses of a site's copies.
    `differences`: for each copy, its differences from the first copy in words, "" if there are none. `paths`: paths of
    the load that can be requested. `left_out`: for each other path, the reason why it cannot be requested. `dynamic`:
    whether the body of a page changes between requests.
    """

    differences: list[str]
    paths: list[str]
    left_out: list[str]
    dynamic: bool


def compare(copies: Sequence[Site], load: Parameters, *, base_url: str, may_leave_out: bool) -> Verdict:
    """Compare the responses of the copies with those of the first copy, which is on the site's current web server.
    `base_url` is the URL of the original site, used in all requests.

    If a path has no successful response, raise NotComparable, or leave the path out if `may_leave_out`. Also raise
    NotComparable if no path is left, and RemoteError if the host does not respond.
    """
    paths = list(dict.fromkeys(load["paths"]))
    first = _answers(copies[0], paths, load["arguments"], base_url)
    # Requested twice: a request that deletes something succeeds only once.
    again = _answers(copies[0], paths, load["arguments"], base_url)
    left_out = _failing(paths, again) | _failing(paths, first)
    if left_out and not may_leave_out:
        raise NotComparable(next(iter(left_out.values())))
    kept = {path: answer for path, answer in zip(paths, first, strict=True) if path not in left_out}
    if not kept:
        raise NotComparable(_("The live site currently returns no successful response to any of the logged requests."))
    names = list(kept)
    again = [answer for path, answer in zip(paths, again, strict=True) if path in kept]
    dynamic = _changing(kept, again) if not load["arguments"].get("dynamic") else set(kept)
    others = [_answers(copy, names, load["arguments"], base_url) for copy in copies[1:]]
    differences = ["", *(_differences(kept, dict(zip(names, own, strict=True)), dynamic) for own in others)]
    asked = [path for path in load["paths"] if path in kept]
    return Verdict(differences, asked, list(left_out.values()), bool(dynamic))


def _failing(paths: list[str], answers: list[Response]) -> dict[str, str]:
    found = {}
    for path, answer in zip(paths, answers, strict=True):
        try:
            comparability.check_answers([_("The site's current web server")], [path], [[answer]], dynamic=True)
        except NotComparable as error:
            found[path] = error.message
    return found


def _changing(first: dict[str, Response], again: list[Response]) -> set[str]:
    """Return the paths whose body differs between two requests to the same web server. Their bodies cannot be compared.
    `first` maps each path to its first response; `again` has the second responses in the same order.
    """
    pairs = zip(first.items(), again, strict=True)
    return {path for (path, one), two in pairs if one["sha256"] != two.get("sha256")}


def _differences(base: dict[str, Response], own: dict[str, Response], dynamic: set[str]) -> str:
    found = []
    labels = [_("The site's current web server"), _("this web server")]
    for path, answer in own.items():
        try:
            comparability.check_answers(labels, [path], [[base[path]], [answer]], dynamic=path in dynamic)
        except NotComparable as error:
            found.append(error.message)
    if len(found) > SHOWN:
        found[SHOWN:] = [_("%d more paths have different responses.") % (len(found) - SHOWN)]
    return "\n".join(found)


def _answers(site: Site, paths: list[str], arguments: Arguments, base_url: str) -> list[Response]:
    revision = targets.live_revision(site)
    endpoint = targets.endpoint_as(revision, arguments, base_url)
    return responses_of(target_for(revision.web_server.host), endpoint, paths, gzip=bool(arguments.get("gzip")))
